"""MBCT for many classes: K scores in, K calibrated probabilities out that sum to one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt

from mbct.calibrators.folds import JoinedRows
from mbct.calibrators.inputs import (
    TrainingData,
    describe_time_features,
    describe_unfit,
    feature_names,
    unfit_columns,
    warn,
)
from mbct.calibrators.mbct import MBCTCalibrator
from mbct.calibrators.multiclass.scores import ClassRows, ManyScores
from mbct.data.columns import Categorical, Columns, encode, fit_bins
from mbct.errors import ParameterError
from mbct.model.bins import CodeMatrix, FeatureBins, code_offsets
from mbct.model.class_model import ClassModel, ClassScaling
from mbct.model.ensemble import CalibrationEnsemble, sum_trees
from mbct.model.file_check import MOST_FEATURES, fault, read_bins, read_list, read_object, read_trees, text
from mbct.progress import TYPICAL_ROUNDS, progress
from mbct.stats.probabilities import log_scores, logit, scaled_to_one, softmax
from mbct.training.binned_rows import BinnedRows, Duplicates
from mbct.training.binning import BinningOptions, distinct_numbers, fit_score_bins
from mbct.training.boosting import BoostingOptions
from mbct.training.evidence import identifying_time
from mbct.training.folds import BlockColumns, BlockSize, CellParts, row_blocks, split_into_folds
from mbct.training.joint import boost_joint
from mbct.training.trainer import preset
from mbct.validation import ClassLabels, FloatArray, thread_count

Coupling = Literal["joint", "one-vs-rest"]


class MulticlassCalibrator(ManyScores):
    """Multiple boosting calibration trees for many classes, validated on held-out rows.

    Parameters
    ----------
    score_column : str, int, sequence of them or None, default=None
        Columns of the K scores, in the order of ``classes``; None takes all columns, or the K of ``y_prob``.
    features : sequence of str or int, or None, default=None
        Columns that the trees may split by beside the scores; None takes all others.
    coupling : {"joint", "one-vs-rest"}, default="joint"
        "joint" grows the trees of all classes together under one softmax; "one-vs-rest" fits an
        :class:`~mbct.calibrators.mbct.MBCTCalibrator` to each class and scales their results to sum to one.
    classes : sequence or None, default=None
        Labels in the order of the score columns; None sorts them.
    time, groups : str or None, default=None
        Columns of dates or numbers of blocks, and of groups: rows of one block are held out together, folds of time are
        contiguous, and the correction must be significant over blocks. For coupling "one-vs-rest" as for "joint".
    block, gap, half_life : as in :class:`~mbct.calibrators.mbct.MBCTCalibrator`
        Size of the blocks of time, the gap beside held-out ones, and how fast old ones lose weight.
    categorical, max_trees, learning_rate, n_folds, random_state, n_threads : as there
        Columns taken for categories, limits of growth, seed and threads.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The classes, in the order of the columns of ``predict_proba``.
    bins_, trees_ : FeatureBins, tuple of tuples of CalibrationTree
        Bins of scores and features, and the trees of each class (coupling "joint").
    each_ : tuple of MBCTCalibrator
        The calibrator of each class (coupling "one-vs-rest").
    excluded_features_ : list of str
        Columns left out because their values identify the time (coupling "joint").
    """

    method: ClassVar[str] = "mbct-multiclass"
    feature_aware: ClassVar[bool] = True
    run_parameters: ClassVar[frozenset[str]] = frozenset({"n_threads"})

    def __init__(
        self,
        score_column: str | int | Sequence[str | int] | None = None,
        features: Sequence[str | int] | None = None,
        coupling: Coupling = "joint",
        *,
        classes: Sequence[Any] | None = None,
        time: str | None = None,
        groups: str | None = None,
        block: BlockSize = "day",
        gap: int = 0,
        half_life: float | None = None,
        categorical: Categorical = "auto",
        max_trees: int | None = None,
        learning_rate: float | None = None,
        n_folds: int | None = None,
        random_state: int = 0,
        n_threads: int | None = None,
    ):
        self.score_column = score_column
        self.features = features
        self.coupling = coupling
        self.classes = classes
        self.time = time
        self.groups = groups
        self.block = block
        self.gap = gap
        self.half_life = half_life
        self.categorical = categorical
        self.max_trees = max_trees
        self.learning_rate = learning_rate
        self.n_folds = n_folds
        self.random_state = random_state
        self.n_threads = n_threads

    def _block_columns(self) -> BlockColumns | None:
        blocks = BlockColumns(self.time, self.groups, self.block, self.gap, self.half_life)
        return blocks if blocks.given else None

    def _fit_classes(self, rows: ClassRows, code: npt.NDArray[np.intp], weight: FloatArray) -> None:
        self._check_coupling()
        fit = self._fit_jointly if self.coupling == "joint" else self._fit_each
        fit(rows, code, weight)

    def _check_coupling(self) -> None:
        if self.coupling not in get_args(Coupling):
            raise ParameterError(f"coupling={self.coupling!r} must be 'joint' or 'one-vs-rest'")

    def _fit_each(self, rows: ClassRows, code: npt.NDArray[np.intp], weight: FloatArray) -> None:
        self.each_ = tuple(
            self._one().fit_data(
                TrainingData(
                    rows.columns,
                    _score_name(k),
                    score,
                    (code == k).astype(np.float64),
                    weight,
                    block=rows.block,
                    blocks=rows.blocks,
                )
            )
            for k, score in enumerate(rows.probabilities.T)
        )

    def _fit_jointly(self, rows: ClassRows, code: npt.NDArray[np.intp], weight: FloatArray) -> None:
        given = {"max_trees": self.max_trees, "n_folds": self.n_folds, "rate": self.learning_rate}
        chosen = preset("default", {**given, "seed": self.random_state})
        if not isinstance(chosen.growth, BoostingOptions):
            raise TypeError("the default preset grows cross-fitted trees")
        names = self._feature_names(rows.columns)
        self.bins_ = self._fit_bins(rows, names, code, weight, chosen.binning)
        joint = self._joint_rows(rows, code, weight, chosen.growth)
        excluded = identifying_time(joint, rows.probabilities.shape[1])
        self.excluded_features_ = [self.bins_.names[j] for j in excluded]
        warn(describe_time_features(self.excluded_features_, kept=self.features is not None), stacklevel=4)
        if self.features is None:
            joint = replace(joint, usable=np.setdiff1d(joint.usable, excluded))
        with progress("growing calibration trees", about=TYPICAL_ROUNDS) as advance:
            self.trees_ = boost_joint(joint, chosen.growth, thread_count(self.n_threads), lambda _: advance(1))

    def _feature_names(self, columns: Columns) -> list[str]:
        """Columns that trees may split by: identifiers and dates are none unless they are named."""
        names = feature_names(columns, _score_name(0), self.features)
        unfit = unfit_columns(columns.only(names))
        warn(describe_unfit(unfit, kept=self.features is not None), stacklevel=5)
        return names if self.features is not None else [name for name in names if name not in unfit]

    def _fit_bins(
        self, rows: ClassRows, names: list[str], code: npt.NDArray[np.intp], weight: FloatArray, options: BinningOptions
    ) -> FeatureBins:
        """Bins of the K scores, then of the features."""
        first_score, *other_scores = rows.probabilities.T
        commonest = np.bincount(code, weight).argmax()
        first, *features = fit_bins(
            rows.columns,
            _score_name(0),
            names,
            first_score,
            (code == commonest).astype(np.float64),
            weight,
            self.categorical,
            options,
        )
        others = [
            fit_score_bins(_score_name(k), *distinct_numbers(score, weight), options)
            for k, score in enumerate(other_scores, start=1)
        ]
        return FeatureBins((first, *others, *features))

    def _encode(self, rows: ClassRows) -> CodeMatrix:
        first_score, *other_scores = rows.probabilities.T
        rows.columns.require(self.bins_.names[rows.probabilities.shape[1] :])
        others = {_score_name(k): score for k, score in enumerate(other_scores, start=1)}
        return encode(Columns({**rows.columns.by_name, **others}, rows.columns.n_rows), self.bins_, first_score)

    def _joint_rows(
        self, rows: ClassRows, code: npt.NDArray[np.intp], weight: FloatArray, options: BoostingOptions
    ) -> BinnedRows:
        """Equal rows joined, in an order that their content decides, and split into folds.

        Row by row, or together where equal rows are duplicates.
        """
        codes = self._encode(rows)
        n_features = codes.shape[1]
        # Equal rows of different blocks stay apart.
        own = [] if rows.block is None else [rows.block]
        matrix = np.column_stack([codes, log_scores(rows.probabilities), *own])
        joined = JoinedRows.of_rows(matrix, code.astype(np.float64), weight, options.seed)
        n_scored = n_features + rows.probabilities.shape[1]
        log_score = np.ascontiguousarray(joined.matrix[:, n_features:n_scored])
        duplicates, blocks = _duplicates(joined, log_score), None
        if rows.block is not None and rows.blocks is not None:
            number = joined.matrix[:, n_scored:].astype(np.int32).reshape(-1, *rows.block.shape[1:])
            blocks = row_blocks(number, joined.weight, options.n_folds, options.seed, rows.blocks.options)
            parts = CellParts(np.arange(len(joined)), blocks.fold[blocks.number], joined.weight, np.zeros(len(joined)))
        else:
            parts = _fold_parts(joined, duplicates, options)
        label = np.zeros((len(parts.cell), log_score.shape[1]))
        label[np.arange(len(label)), joined.label[parts.cell].astype(np.intp)] = parts.count
        return BinnedRows(
            np.ascontiguousarray(joined.matrix[parts.cell, :n_features].astype(codes.dtype)),
            log_score[parts.cell],
            parts.count,
            label,
            parts.fold,
            code_offsets(self.bins_.n_codes),
            np.array([feature.ordered for feature in self.bins_], dtype=np.bool_),
            np.arange(n_features),
            atomic=not duplicates.uniform,
            blocks=blocks,
        )

    def _calibrate_classes(self, rows: ClassRows) -> FloatArray:
        if self.coupling == "one-vs-rest":
            scores = rows.probabilities.T
            each = [one.calibrate_columns(rows.columns, score) for one, score in zip(self.each_, scores, strict=True)]
            return scaled_to_one(np.column_stack(each))
        z = log_scores(rows.probabilities)
        if any(self.trees_):
            codes = self._encode(rows)
            for k, trees in enumerate(self.trees_):
                z[:, k] += sum_trees(trees, codes, self.bins_.n_codes)
        return softmax(z)

    def _class_model(self, scores: tuple[str, ...], classes: tuple[str, ...]) -> ClassModel:
        if self.coupling == "one-vs-rest":
            raise ParameterError("a model of coupling='one-vs-rest' is neither exported nor served: fit with 'joint'")
        renamed = (replace(bins, name=name) for bins, name in zip(self.bins_, scores, strict=False))
        bins = FeatureBins((*renamed, *self.bins_.features[len(scores) :]))
        ensembles = tuple(CalibrationEnsemble(scores[0], "odds", bins, trees) for trees in self.trees_)
        return ClassModel(scores, classes, ClassScaling.identity(len(classes)), ensembles)

    def _one(self) -> MBCTCalibrator:
        """The calibrator of one class against the rest, not fitted."""
        return MBCTCalibrator(
            features=self.features,
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
            each = [
                {"score_column": c.score_column_, "columns": c.feature_names_in_.tolist(), **c._state()}
                for c in self.each_
            ]
            return {"classes": classes, "each": each}
        n_codes = self.bins_.n_codes
        trees = [[tree.to_dict(n_codes) for tree in trees] for trees in self.trees_]
        excluded = self.excluded_features_
        return {"classes": classes, "features": self.bins_.to_list(), "trees": trees, "excluded_features": excluded}

    def _restore(self, state: dict[str, Any]) -> None:
        self._check_coupling()
        self.classes_ = self._restored_classes(state)
        n_classes = len(self.classes_)
        if self.coupling == "one-vs-rest":
            each = read_list(read_object(state, "state", ("each",))["each"], "state.each", n_classes, n_classes)
            self.each_ = tuple(self._restored(one, k) for k, one in enumerate(each))
            return
        read_object(state, "state", ("features", "trees"))
        self.bins_ = read_bins(state["features"])
        scores = [_score_name(k) for k in range(n_classes)]
        if list(self.bins_.names[:n_classes]) != scores or not all(f.ordered for f in self.bins_.features[:n_classes]):
            raise fault("features", self.bins_.names[:n_classes], f"bins of numbers for {', '.join(scores)} first")
        excluded = read_list(state.get("excluded_features", []), "state.excluded_features", MOST_FEATURES)
        self.excluded_features_ = [text(name, "state.excluded_features") for name in excluded]
        ensembles = read_list(state["trees"], "state.trees", n_classes, n_classes)
        self.trees_ = tuple(read_trees(trees, self.bins_, "odds") for trees in ensembles)

    def _restored(self, state: Any, k: int) -> MBCTCalibrator:
        fields = read_object(state, f"state.each[{k}]", ("score_column", "columns"))
        if fields["score_column"] != _score_name(k):
            raise fault(f"state.each[{k}].score_column", fields["score_column"], _score_name(k))
        columns = read_list(fields["columns"], f"state.each[{k}].columns", MOST_FEATURES)
        one = self._one()
        one._remember(_score_name(k), [text(name, f"state.each[{k}].columns") for name in columns], ClassLabels())
        one._restore(fields)
        return one


def _duplicates(joined: JoinedRows, log_score: FloatArray) -> Duplicates:
    """By how often the likeliest class is the right one."""
    likeliest = log_score.argmax(axis=1)
    right = (joined.label == likeliest).astype(np.float64)
    return joined.duplicates(right, logit(softmax(log_score).max(axis=1)))


def _fold_parts(joined: JoinedRows, duplicates: Duplicates, options: BoostingOptions) -> CellParts:
    """Folds of rows: one by one, or all that agree in their numbers together where they are duplicates."""
    weight, nothing = joined.weight / duplicates.per_row, np.zeros(len(joined))
    if duplicates.uniform:
        return split_into_folds(weight, nothing, options.n_folds, options.seed)
    total = np.bincount(joined.group, weight).astype(np.float64)
    parts = split_into_folds(total, np.zeros(len(total)), options.n_folds, options.seed, atomic=True)
    return CellParts(np.arange(len(joined)), parts.fold[joined.group], weight, nothing)


def _score_name(k: int) -> str:
    return f"score of class {k}"
