"""The frozen ensemble: bins, trees and the pattern by which their steps move a prediction.

========= ================================ ============================================
pattern   calibrated prediction            a step is
========= ================================ ============================================
linear    clip(p · Π k_b, 0, 1)            the paper's multiplier k_b of the prediction
odds      σ(logit(p) + Σ s_b)              the log of a multiplier of the odds
========= ================================ ============================================
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args

import numpy as np

from mbct.binning.features import FeatureBins
from mbct.boosting.rules import Rule, rules, to_text
from mbct.cells.group import CodeMatrix
from mbct.errors import ModelFileError
from mbct.jit import kernel
from mbct.stats.logodds import logit, sigmoid
from mbct.tree.model import CalibrationTree, stop_of
from mbct.validation import FloatArray

Pattern = Literal["linear", "odds"]


@dataclass(frozen=True, eq=False)
class CalibrationEnsemble:
    """What a fitted MBCT is: plain data, JSON both ways.

    ``score`` names the prediction's column, which is also the first of the ``bins``; ``alpha`` is the level of
    Theorem 1's bound on every bin.
    """

    score: str
    pattern: Pattern
    bins: FeatureBins
    trees: tuple[CalibrationTree, ...]
    alpha: float = 0.05

    @property
    def n_rules(self) -> int:
        """Number of leaves over all trees."""
        return sum(len(tree.leaves) for tree in self.trees)

    def total_step(self, codes: CodeMatrix) -> FloatArray:
        """Product of the multipliers ("linear") or sum of the steps ("odds") of each row."""
        total = np.full(len(codes), 1.0 if self.pattern == "linear" else 0.0)
        for tree in self.trees:
            _accumulate(codes, tree.feature, tree.table_start, tree.table, tree.step, total, self.pattern == "linear")
        return total

    def calibrate_codes(self, codes: CodeMatrix, y_prob: FloatArray) -> FloatArray:
        """Calibrated probabilities of coded rows; without trees the predictions themselves."""
        if not self.trees:
            return y_prob.copy()
        return self.apply_steps(y_prob, self.total_step(codes))

    def apply_steps(self, y_prob: FloatArray, total_step: FloatArray) -> FloatArray:
        """Move predictions by their total step."""
        if self.pattern == "linear":
            return np.clip(y_prob * total_step, 0.0, 1.0)
        return sigmoid(logit(y_prob) + total_step)

    def rules(self) -> Iterator[Rule]:
        """If-then rules of all trees; those of one tree exclude each other and cover every row."""
        return rules(self)

    def to_text(self) -> str:
        """The trees as indented text."""
        return to_text(self)

    def with_trees(self, trees: tuple[CalibrationTree, ...]) -> Self:
        """The same ensemble with other trees."""
        return replace(self, trees=trees)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        n_codes = self.bins.n_codes
        return {
            "score": self.score,
            "pattern": self.pattern,
            "alpha": self.alpha,
            "features": self.bins.to_list(),
            "trees": [tree.to_dict(n_codes) for tree in self.trees],
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """Undo :meth:`to_dict`; damage is named."""
        try:
            bins = FeatureBins.from_list(content["features"])
            trees = tuple(CalibrationTree.from_dict(tree, bins.n_codes) for tree in content["trees"])
            model = cls(content["score"], content["pattern"], bins, trees, float(content["alpha"]))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ModelFileError(f"the model is damaged: {type(error).__name__} {error}") from error
        if model.pattern not in get_args(Pattern):
            raise ModelFileError(f"unknown pattern {model.pattern!r}; this version knows {get_args(Pattern)}")
        if not bins.features or bins.names[0] != model.score:
            raise ModelFileError(f"the first feature must be the score {model.score!r}, got {bins.names[:1]}")
        return model


@kernel
def _accumulate(  # type: ignore[no-untyped-def]
    codes, feature, table_start, table, step, total, product: bool
) -> None:
    for i in range(len(codes)):
        node = stop_of(codes, i, feature, table_start, table)
        if product:
            total[i] *= step[node]
        else:
            total[i] += step[node]
