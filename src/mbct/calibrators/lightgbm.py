"""Gradient boosting from the base's log-odds with LightGBM: the feature-aware rival."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mbct.calibrators.base import Calibrator
from mbct.calibrators.folds import JoinedRows
from mbct.calibrators.inputs import TrainingData
from mbct.data.columns import Columns, as_floats, factorize, is_number
from mbct.errors import ParameterError
from mbct.lazy import optional
from mbct.model.bins import CategoryBins
from mbct.model.boosted_trees import read_boosted, trees_of_text
from mbct.model.encoding import category_key
from mbct.model.file_check import MOST_FEATURES, read_bins, read_list, read_object, text
from mbct.stats.probabilities import log_loss_of_logodds, logit, sigmoid
from mbct.validation import FloatArray, at_least


@dataclass(frozen=True)
class FeatureEncoding:
    """How columns become LightGBM's matrix: numbers as they are, categories as codes; NaN for what is missing."""

    score: str
    names: tuple[str, ...]
    categories: dict[str, CategoryBins]

    @classmethod
    def of_columns(cls, columns: Columns, score_column: str, categorical: Sequence[str]) -> "FeatureEncoding":
        """Text, booleans and the columns named ``categorical`` are categories, other numbers numbers."""
        columns.require(categorical)
        names = tuple(name for name in columns.names if name != score_column)
        categories = {}
        for name in names:
            if name in categorical or not is_number(columns.by_name[name]):
                values, _ = factorize(columns.by_name[name])
                keys = sorted({key for key in map(category_key, values) if key is not None})
                categories[name] = CategoryBins(name, tuple(keys))
        return cls(score_column, names, categories)

    def matrix(self, columns: Columns, y_prob: FloatArray) -> FloatArray:
        """One row for each row, the log-odds of the score first."""
        columns.require(self.names)
        return np.column_stack([logit(y_prob), *(self._feature(columns.by_name[n], n) for n in self.names)])

    def _feature(self, column: Any, name: str) -> FloatArray:
        if name not in self.categories:
            return as_floats(column)
        bins = self.categories[name]
        values, position = factorize(column)
        codes = bins.encode(values).astype(np.float64)
        codes[codes >= bins.n_values] = np.nan
        return codes[position]


_ROW_LIMITS = {"min_data_in_bin": 3, "min_data_per_group": 100}
"""LightGBM's own defaults for bins of numbers and for groups of categories, in rows."""
_CATEGORY_ROWS = 10  # Rows below which LightGBM leaves a category out of its order, its own default too


class LightGBMCalibrator(Calibrator):
    """σ(logit(p) + Σ trees), trees by LightGBM on all columns and the score itself.

    The number of trees minimises the log loss on held-out rows; the model is then fitted on all rows. Where no tree
    lowers that loss, or a part would have fewer than two rows of a class, the base is left as it is. Equal rows are
    joined, so a weight of k is k copies, and what LightGBM limits by counts of rows (``min_child_samples``) is scaled
    to the number of joined rows. Where rows seem to be repeated, not met again, duplicates are held out together.

    Parameters
    ----------
    score_column : str, int or None, default=None
        Column of the prediction, by name or number; None where ``X`` is one column or ``y_prob`` is passed to ``fit``.
    categorical : sequence of str or int, default=()
        Columns of numbers to treat as categories; text and booleans always are.
    n_estimators, num_leaves, min_child_samples : int, default=500, 15 and 50
        Most trees, most leaves of a tree (at least 2), and fewest rows of a leaf.
    learning_rate : float, default=0.05
        Share of a leaf's value that is applied.
    early_stopping_rounds : int, default=30
        Rounds without a lower held-out log loss after which no more trees are tried.
    validation_fraction : float, default=0.2
        Share of the rows of each class to hold out, above 0 and at most 0.5.
    random_state : int, default=0
        Seed of the held-out rows and of LightGBM.
    n_jobs : int or None, default=None
        Threads of LightGBM; None uses its default.

    Attributes
    ----------
    features_, trees_ : FeatureEncoding, BoostedTrees
        Columns that the trees look at with the values of the categories, and the trees; none where the base is left.
    """

    method = "lightgbm"
    feature_aware = True
    run_parameters = frozenset({"n_jobs"})

    def __init__(
        self,
        score_column: str | int | None = None,
        *,
        categorical: Sequence[str | int] = (),
        n_estimators: int = 500,
        learning_rate: float = 0.05,
        num_leaves: int = 15,
        min_child_samples: int = 50,
        early_stopping_rounds: int = 30,
        validation_fraction: float = 0.2,
        random_state: int = 0,
        n_jobs: int | None = None,
    ):
        self.score_column = score_column
        self.categorical = categorical
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.num_leaves = num_leaves
        self.min_child_samples = min_child_samples
        self.early_stopping_rounds = early_stopping_rounds
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _fit(self, data: TrainingData) -> None:
        at_least(1, n_estimators=self.n_estimators, early_stopping_rounds=self.early_stopping_rounds)
        at_least(2, num_leaves=self.num_leaves)
        at_least(0, min_child_samples=self.min_child_samples)
        if not 0.0 < self.validation_fraction <= 0.5:
            raise ParameterError(f"validation_fraction must lie between 0 and 0.5, got {self.validation_fraction!r}")
        data = data.counted()
        table = FeatureEncoding.of_columns(
            data.columns, data.score, [data.columns.name_of(c) for c in self.categorical]
        )
        matrix = table.matrix(data.columns, data.y_prob)
        rows = JoinedRows.of_rows(matrix, data.y_true, data.weight, self.random_state)
        n_trees = self._number_of_trees(table, rows)
        text = self._train(table, rows, n_trees).model_to_string(num_iteration=n_trees) if n_trees else ""
        self.features_ = table
        self._keep(trees_of_text(text))

    def _number_of_trees(self, table: FeatureEncoding, rows: JoinedRows) -> int:
        repeated = _rows_counted(rows) < float(np.sum(rows.weight))
        parted = rows.parted_by_group if repeated else rows.parted
        held_out, rest = parted(self.validation_fraction, np.random.default_rng(self.random_state))
        if not (held_out.has_two_of_each_class() and rest.has_two_of_each_class()):
            return 0
        booster = self._train(table, rest, self.n_estimators, held_out)
        base = held_out.matrix[:, 0]
        trees = booster.predict(held_out.matrix, raw_score=True, num_iteration=booster.best_iteration)
        gain = log_loss_of_logodds(base, held_out.label) - log_loss_of_logodds(base + trees, held_out.label)
        return int(booster.best_iteration) if float(np.sum(held_out.weight * gain)) > 0.0 else 0

    def _train(self, table: FeatureEncoding, rows: JoinedRows, n_trees: int, held_out: JoinedRows | None = None) -> Any:
        lightgbm = optional("the method 'lightgbm' needs LightGBM: pip install 'mbct[lightgbm]'", "lightgbm")
        categorical = [1 + i for i, name in enumerate(table.names) if name in table.categories]
        parameters = self._booster_parameters(rows)

        def dataset(part: JoinedRows, reference: Any = None) -> Any:
            return lightgbm.Dataset(
                part.matrix,
                part.label,
                weight=part.weight,
                init_score=np.ascontiguousarray(part.matrix[:, 0]),
                feature_name=[f"f{i}" for i in range(part.matrix.shape[1])],
                categorical_feature=categorical,
                reference=reference,
                params=parameters,
            )

        train = dataset(rows)
        early = [lightgbm.early_stopping(self.early_stopping_rounds, verbose=False)] if held_out is not None else []
        valid = [dataset(held_out, train)] if held_out is not None else []
        return lightgbm.train(parameters, train, n_trees, valid_sets=valid, callbacks=early)

    def _booster_parameters(self, rows: JoinedRows) -> dict[str, Any]:
        # LightGBM counts the joined rows, so what it limits by counts of rows is scaled to their number.
        joined_share = min(len(rows) / _rows_counted(rows), 1.0)
        counts = {"min_data_in_leaf": self.min_child_samples, **_ROW_LIMITS}
        return {
            "objective": "binary",
            "metric": "binary_logloss",
            "boost_from_average": False,
            "learning_rate": self.learning_rate,
            "num_leaves": self.num_leaves,
            **{name: max(1, round(count * joined_share)) for name, count in counts.items()},
            "cat_smooth": _CATEGORY_ROWS * joined_share,
            "seed": self.random_state,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": self.n_jobs or 0,
            "verbosity": -1,
        }

    def _calibrate(self, columns: Columns, y_prob: FloatArray) -> FloatArray:
        matrix = self.features_.matrix(columns, y_prob)
        return sigmoid(logit(y_prob) + self.trees_.predict(matrix)) if len(self.trees_.root) else y_prob

    def _state(self) -> dict[str, Any]:
        table = self.features_
        categories = {name: list(bins.values) for name, bins in table.categories.items()}
        return {"features": list(table.names), "categories": categories, "trees": self._plain_trees}

    def _restore(self, state: dict[str, Any]) -> None:
        read_object(state["categories"], "categories", ())
        bins = [{"kind": "category", "name": n, "type": "string", "values": v} for n, v in state["categories"].items()]
        categories = {one.name: one for one in read_bins(bins, "categories") if isinstance(one, CategoryBins)}
        names = tuple(text(name, "features") for name in read_list(state["features"], "features", MOST_FEATURES))
        self.features_ = FeatureEncoding(self.score_column_, names, categories)
        self._keep(state["trees"])

    def _keep(self, plain_trees: Any) -> None:
        """Trees in our own form; what predicts is what a saved model holds."""
        self._plain_trees = plain_trees
        self.trees_ = read_boosted(plain_trees, 1 + len(self.features_.names))


def _rows_counted(rows: JoinedRows) -> float:
    """How many rows there are: their weight, less duplicates."""
    return float(np.sum(rows.weight)) / max(rows.duplicates(rows.label, rows.matrix[:, 0]).per_row, 1.0)
