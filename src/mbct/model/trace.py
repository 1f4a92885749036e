"""What happened while the trees grew: the paper's figure of tree growth is drawn from it."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class _Record:
    """Losses keep nine significant digits, so that the order of summation cannot reach a model's bytes."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, float):
                object.__setattr__(self, name, float(f"{value:.9g}"))


@dataclass(frozen=True)
class SplitRecord(_Record):
    """One split: where, by what, and the losses around it."""

    tree: int
    node: int
    depth: int
    feature: str
    count: float
    n_children: int
    node_loss_before: float
    node_loss_after: float
    ensemble_loss: float


@dataclass(frozen=True)
class RoundRecord(_Record):
    """One boosting round: the loss over all data before and after, and whether the tree was kept."""

    tree: int
    loss_before: float
    loss_after: float
    kept: bool


@dataclass(frozen=True)
class FitTrace:
    """All splits and rounds of a fit, in the order in which they happened."""

    loss: str
    splits: tuple[SplitRecord, ...] = ()
    rounds: tuple[RoundRecord, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "loss": self.loss,
            "splits": [vars(record) for record in self.splits],
            "rounds": [vars(record) for record in self.rounds],
        }
