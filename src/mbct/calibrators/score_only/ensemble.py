"""An ensemble in the manner of Mix-n-Match: the convex mixture of several methods with the lowest held-out loss."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from mbct.calibrators.registry import calibrator_class
from mbct.calibrators.score_only.counts import ScoreCounts, held_out_folds
from mbct.calibrators.score_only.score_map import ScoreCalibrator, ScoreMap
from mbct.errors import ParameterError
from mbct.model.file_check import numbers, read_list, read_object, text
from mbct.stats.probabilities import EPSILON
from mbct.validation import FloatArray, at_least

MOST_MEMBERS = 1000


@dataclass(frozen=True)
class EnsembleMap(ScoreMap):
    """Σ_m share_m · map_m(p)."""

    expected = "shares from 0 to 1 that sum to 1"
    names: tuple[str, ...]
    shares: tuple[float, ...]
    members: tuple[ScoreMap, ...]

    def is_sound(self) -> bool:
        """Whether the mixture is convex."""
        return min(self.shares, default=-1.0) >= 0.0 and abs(sum(self.shares) - 1.0) < 1e-9

    def __call__(self, y_prob: FloatArray) -> FloatArray:
        """Calibrated probabilities."""
        mixed = np.zeros(len(y_prob))
        for share, member in zip(self.shares, self.members, strict=True):
            mixed += share * member(y_prob)
        return mixed

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, each member by its name."""
        members = [member.to_dict() for member in self.members]
        return {"names": list(self.names), "shares": list(self.shares), "members": members}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "EnsembleMap":
        """Undo :meth:`to_dict`; an error where types, lengths or ranges make no sense."""
        content = read_object(state, "state", ("names", "shares", "members"))
        names = [text(name, "state.names") for name in read_list(content["names"], "state.names", MOST_MEMBERS)]
        shares = numbers(content["shares"], "state.shares", len(names), 0.0, 1.0)
        members = zip(names, read_list(content["members"], "state.members", len(names), len(names)), strict=True)
        maps = tuple(_member_class(name).map_type.from_dict(member) for name, member in members)
        return cls(tuple(names), tuple(shares.tolist()), maps).checked()


class EnsembleCalibrator(ScoreCalibrator):
    """Convex mixture of methods that look at the score alone, after Mix-n-Match (Zhang, Kailkhura and Han 2020).

    The shares minimise the log loss of predictions held out by folds of whole scores (so that a flexible member earns
    no share by memorising), the members are then fitted on all rows. With fewer than ``2·n_folds`` distinct scores, or
    where a fold would leave one class, all members get equal shares.

    Parameters
    ----------
    score_column : str, int or None, default=None
        Column of the prediction, by name or number; None where ``X`` is one column or ``y_prob`` is passed to ``fit``.
    methods : sequence of str, default=("identity", "temperature", "beta", "isotonic")
        Names of the methods to mix, each with its default parameters.
    n_folds : int, default=5
        Folds of held-out scores, at least 2.
    random_state : int, default=0
        Seed of the folds.

    Attributes
    ----------
    map_ : EnsembleMap
        Names, shares and fitted maps of the members.
    """

    method = "ensemble"
    map_type = EnsembleMap
    monotone = True

    def __init__(
        self,
        score_column: str | int | None = None,
        *,
        methods: Sequence[str] = ("identity", "temperature", "beta", "isotonic"),
        n_folds: int = 5,
        random_state: int = 0,
    ):
        self.score_column = score_column
        self.methods = methods
        self.n_folds = n_folds
        self.random_state = random_state

    def fit_map(self, counts: ScoreCounts) -> EnsembleMap:
        """Shares from held-out scores, members from all."""
        at_least(2, n_folds=self.n_folds)
        if isinstance(self.methods, str) or not self.methods:
            raise ParameterError(f"methods must be a list of method names, got {self.methods!r}")
        names = tuple(self.methods)
        members = [_member_class(name)() for name in names]
        held_out = self._held_out(counts, members)
        shares = np.full(len(names), 1.0 / len(names)) if held_out is None else best_shares(held_out, counts)
        return EnsembleMap(names, tuple(shares.tolist()), tuple(member.fit_map(counts) for member in members))

    def _held_out(self, counts: ScoreCounts, members: list[ScoreCalibrator]) -> FloatArray | None:
        folds = held_out_folds(counts, self.n_folds, self.random_state)
        if folds is None:
            return None
        predicted = np.empty((len(members), len(counts)))
        for rest, held_out in folds:
            for m, member in enumerate(members):
                predicted[m, held_out] = member.fit_map(rest)(counts.score[held_out])
        return predicted


def best_shares(predicted: FloatArray, counts: ScoreCounts) -> FloatArray:
    """Shares on the simplex that minimise the log loss of Σ_m share_m·p_m, a convex problem.

    >>> counts = ScoreCounts(np.array([0.2, 0.8]), np.array([20.0, 80.0]), np.array([100.0, 100.0]))
    >>> best_shares(np.array([[0.2, 0.8], [0.5, 0.5]]), counts).round(3).tolist()
    [1.0, 0.0]
    """
    p = np.clip(predicted, EPSILON, 1.0 - EPSILON)
    positive = counts.positive / np.sum(counts.total)
    negative = (counts.total - counts.positive) / np.sum(counts.total)

    def loss_and_gradient(shares: FloatArray) -> tuple[float, FloatArray]:
        mixture = np.clip(np.sum(shares[:, None] * p, axis=0), EPSILON, 1.0 - EPSILON)
        loss = -np.sum(positive * np.log(mixture) + negative * np.log1p(-mixture))
        slope = negative / (1.0 - mixture) - positive / mixture
        return float(loss), np.asarray(np.sum(p * slope, axis=1), dtype=np.float64)

    found = minimize(
        loss_and_gradient,
        np.full(len(p), 1.0 / len(p)),
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(p),
        constraints={"type": "eq", "fun": lambda shares: np.sum(shares) - 1.0, "jac": np.ones_like},
        options={"ftol": 1e-14, "maxiter": 200},
    )
    shares = np.clip(found.x, 0.0, 1.0)
    return np.asarray(shares / shares.sum(), dtype=np.float64)


def _member_class(name: str) -> type[ScoreCalibrator]:
    member = calibrator_class(name)
    if not issubclass(member, ScoreCalibrator) or issubclass(member, EnsembleCalibrator):
        raise ParameterError(f"method {name!r} cannot be in an ensemble: members look at the score alone")
    return member
