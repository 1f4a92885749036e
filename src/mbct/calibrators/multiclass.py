"""MBCT for many classes: K scores in, K calibrated probabilities out that sum to one."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from mbct.binning.features import FeatureBins
from mbct.binning.fit import distinct_numbers, fit_score_bins
from mbct.boosting.honest_options import HonestOptions
from mbct.boosting.joint import JointRows, boost_joint, softmax
from mbct.boosting.presets import preset
from mbct.calibrators.inputs import TrainingData
from mbct.calibrators.joined_rows import JoinedRows
from mbct.calibrators.many_scores import ManyScores
from mbct.calibrators.mbct import MBCTCalibrator
from mbct.cells.thin import thin
from mbct.engines.columns import Columns
from mbct.engines.memory import Categorical, encode, fit_bins
from mbct.errors import ParameterError
from mbct.progress import progress
from mbct.stats.logodds import EPSILON
from mbct.stats.sums import Sums
from mbct.tree.model import CalibrationTree
from mbct.validation import FloatArray

Coupling = Literal["joint", "one-vs-rest"]


class MulticlassCalibrator(ManyScores):
    """Multiple boosting calibration trees for many classes, grown honestly with cross-fitted splits.

    Parameters
    ----------
    score : columns of the K scores, in the order of ``classes``; other columns may tell bias patterns apart.
    coupling : "joint" grows the trees of all classes together under one softmax; "one-vs-rest" fits an
        :class:`~mbct.calibrators.mbct.MBCTCalibrator` to each class and scales their results to sum to one.
    features : columns that may tell bias patterns apart; None takes all but the scores.
    classes : labels in the order of the score columns; None sorts them.
    categorical, max_trees, learning_rate, n_folds, random_state, n_threads : as of MBCTCalibrator.

    """

    method: ClassVar[str] = "mbct-multiclass"
    feature_aware: ClassVar[bool] = True
    run_parameters: ClassVar[frozenset[str]] = frozenset({"n_threads"})

    def __init__(
        self,
        score: str | int | Sequence[str | int] | None = None,
        features: Sequence[str | int] | None = None,
        coupling: Coupling = "joint",
        *,
        classes: Sequence[Any] | None = None,
        categorical: Categorical = "auto",
        max_trees: int | None = None,
        learning_rate: float | None = None,
        n_folds: int | None = None,
        random_state: int = 0,
        n_threads: int | None = None,
    ):
        self.score = score
        self.features = features
        self.coupling = coupling
        self.classes = classes
        self.categorical = categorical
        self.max_trees = max_trees
        self.learning_rate = learning_rate
        self.n_folds = n_folds
        self.random_state = random_state
        self.n_threads = n_threads

    def _fit_classes(
        self,
        columns: Columns,
        names: list[str],
        probabilities: FloatArray,
        code: npt.NDArray[np.intp],
        weight: FloatArray,
    ) -> None:
        if self.coupling not in ("joint", "one-vs-rest"):
            raise ParameterError(f"coupling={self.coupling!r} must be 'joint' or 'one-vs-rest'")
        features = self._feature_names(columns, names)
        fit = self._fit_jointly if self.coupling == "joint" else self._fit_each
        fit(columns, features, probabilities, code, weight)

    def _fit_each(
        self,
        columns: Columns,
        features: list[str],
        probabilities: FloatArray,
        code: npt.NDArray[np.intp],
        weight: FloatArray,
    ) -> None:
        self.each_ = tuple(
            self._one(features).fit_data(
                TrainingData(columns, _score_name(k), probabilities[:, k], (code == k).astype(np.float64), weight)
            )
            for k in range(probabilities.shape[1])
        )

    def _fit_jointly(
        self,
        columns: Columns,
        features: list[str],
        probabilities: FloatArray,
        code: npt.NDArray[np.intp],
        weight: FloatArray,
    ) -> None:
        given = {"max_trees": self.max_trees, "n_folds": self.n_folds, "rate": self.learning_rate}
        chosen = preset("default", {**given, "seed": self.random_state})
        if not isinstance(chosen.growth, HonestOptions):
            raise TypeError("the default preset grows honestly")
        first, *others = fit_bins(
            columns,
            _score_name(0),
            features,
            probabilities[:, 0],
            code.astype(np.float64),
            weight,
            self.categorical,
            chosen.binning,
        )
        scores = [
            fit_score_bins(_score_name(k), *distinct_numbers(probabilities[:, k], weight), chosen.binning)
            for k in range(1, probabilities.shape[1])
        ]
        self.bins_ = FeatureBins((first, *scores, *others))
        rows = self._joint_rows(_with_scores(columns, probabilities), probabilities, code, weight, chosen.growth)
        threads = self._one(features)._threads()
        with progress("growing calibration trees") as advance:
            self.trees_ = boost_joint(rows, chosen.growth, threads, lambda _: advance(1))

    def _joint_rows(
        self,
        columns: Columns,
        probabilities: FloatArray,
        code: npt.NDArray[np.intp],
        weight: FloatArray,
        options: HonestOptions,
    ) -> JointRows:
        """Equal rows joined, in an order that their content decides, and spread over folds copy by copy."""
        codes = encode(columns, self.bins_, probabilities[:, 0])
        matrix = np.column_stack([codes, _log_scores(probabilities)])
        joined = JoinedRows.of_rows(matrix, code.astype(np.float64), weight, options.seed)
        half, nothing = np.full(len(joined), 0.5), np.zeros(len(joined))
        spread = thin(Sums.of_rows(half, nothing, joined.weight), options.n_folds, options.seed)
        n_features = codes.shape[1]
        return JointRows(
            np.ascontiguousarray(joined.matrix[spread.cell, :n_features].astype(codes.dtype)),
            np.ascontiguousarray(joined.matrix[spread.cell, n_features:]),
            spread.count,
            joined.label[spread.cell].astype(np.intp),
            spread.fold,
            np.concatenate([[0], np.cumsum(self.bins_.n_codes)]).astype(np.int64),
            np.array([feature.ordered for feature in self.bins_], dtype=np.bool_),
        )

    def _calibrate_classes(self, columns: Columns, probabilities: FloatArray) -> FloatArray:
        if self.coupling == "one-vs-rest":
            each = np.column_stack(
                [c.calibrate_columns(columns, probabilities[:, k]) for k, c in enumerate(self.each_)]
            )
            total = each.sum(axis=1, keepdims=True)
            return np.where(total > 0.0, each / np.where(total > 0.0, total, 1.0), 1.0 / each.shape[1])
        z = _log_scores(probabilities)
        if not any(self.trees_):
            return softmax(z)
        codes = encode(_with_scores(columns, probabilities), self.bins_, probabilities[:, 0])
        for k, trees in enumerate(self.trees_):
            for tree in trees:
                z[:, k] += tree.step[tree.apply(codes)]
        return softmax(z)

    def _feature_names(self, columns: Columns, scores: list[str]) -> list[str]:
        return self._one(self.features)._feature_names(columns.without(*(s for s in scores if s in columns)), "")

    def _one(self, features: Sequence[str | int] | None) -> MBCTCalibrator:
        return MBCTCalibrator(
            features=features,
            categorical=self.categorical,
            max_trees=self.max_trees,
            learning_rate=self.learning_rate,
            n_folds=self.n_folds,
            random_state=self.random_state,
            n_threads=self.n_threads,
        )

    def _state(self) -> dict[str, Any]:
        classes = self.classes_.tolist()
        if self.coupling == "one-vs-rest":
            each = [{"score": c.score_, "columns": c.feature_names_in_.tolist(), **c._state()} for c in self.each_]
            return {"classes": classes, "each": each}
        n_codes = self.bins_.n_codes
        trees = [[tree.to_dict(n_codes) for tree in trees] for trees in self.trees_]
        return {"classes": classes, "features": self.bins_.to_list(), "trees": trees}

    def _restore(self, state: dict[str, Any]) -> None:
        self.classes_ = np.asarray(state["classes"])
        if self.coupling == "one-vs-rest":
            self.each_ = tuple(self._restored(one) for one in state["each"])
            return
        self.bins_ = FeatureBins.from_list(state["features"])
        n_codes = self.bins_.n_codes
        self.trees_ = tuple(tuple(CalibrationTree.from_dict(t, n_codes) for t in trees) for trees in state["trees"])

    def _restored(self, state: dict[str, Any]) -> MBCTCalibrator:
        one = self._one(self.features)
        one._remember(state["score"], state["columns"])
        one._restore(state)
        return one


def _score_name(k: int) -> str:
    return f"score of class {k}"


def _with_scores(columns: Columns, probabilities: FloatArray) -> Columns:
    scores = {_score_name(k): probabilities[:, k] for k in range(1, probabilities.shape[1])}
    return Columns({**columns.by_name, **scores}, columns.n_rows)


def _log_scores(probabilities: FloatArray) -> FloatArray:
    return np.log(np.clip(probabilities, EPSILON, 1.0))
