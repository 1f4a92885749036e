"""Gradient boosting from the base's log-odds with LightGBM: the feature-aware rival."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mbct.binning.features import CategoryBins
from mbct.binning.keys import category_key
from mbct.calibrators.base import Calibrator
from mbct.calibrators.folds import row_keys, stratified_folds
from mbct.calibrators.inputs import TrainingData
from mbct.engines.columns import Columns, column_name
from mbct.engines.factorize import as_floats, factorize, is_number
from mbct.errors import MissingDependencyError, ParameterError
from mbct.stats.logodds import log_loss_of_logodds, logit, sigmoid
from mbct.validation import FloatArray, at_least


@dataclass(frozen=True)
class FeatureTable:
    """How columns become LightGBM's matrix: numbers as they are, categories as codes; NaN for what is missing."""

    score: str
    names: tuple[str, ...]
    categories: dict[str, CategoryBins]

    @classmethod
    def of_columns(cls, columns: Columns, score: str, categorical: Sequence[str]) -> "FeatureTable":
        """Text, booleans and the columns named ``categorical`` are categories, other numbers numbers."""
        columns.require(categorical)
        names = tuple(name for name in columns.names if name != score)
        categories = {}
        for name in names:
            if name in categorical or not is_number(columns.by_name[name]):
                values, _ = factorize(columns.by_name[name])
                keys = sorted({key for key in map(category_key, values) if key is not None})
                categories[name] = CategoryBins(name, tuple(keys))
        return cls(score, names, categories)

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


class LightGBMCalibrator(Calibrator):
    """σ(logit(p) + Σ trees), trees by LightGBM on all columns and the score itself.

    The number of trees minimises the log loss on ``validation_fraction`` of the rows (equal rows on one side, a
    seeded choice); the model is then fitted on all rows. Where no tree lowers that loss, or a part would have
    fewer than two rows of a class, the base is left as it is. LightGBM chooses bins and leaves by rows, so a weight
    of k is close to k copies, not equal.
    """

    method = "lightgbm"
    feature_aware = True
    weights_are_counts = False
    run_parameters = frozenset({"n_jobs"})

    def __init__(
        self,
        score: str | int | None = None,
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
        self.score = score
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
        if not 0.0 < self.validation_fraction <= 0.5:
            raise ParameterError(f"validation_fraction must lie between 0 and 0.5, got {self.validation_fraction!r}")
        table = FeatureTable.of_columns(data.columns, data.score, [column_name(c) for c in self.categorical])
        data = data.counted()
        matrix = table.matrix(data.columns, data.y_prob)
        n_trees = self._number_of_trees(table, matrix, data)
        text = ""
        if n_trees:
            every = np.ones(len(matrix), dtype=bool)
            text = self._train(table, matrix, data, every, n_trees).model_to_string(num_iteration=n_trees)
        self.features_, self.model_text_ = table, text
        self.booster_ = _booster(text)

    def _number_of_trees(self, table: FeatureTable, matrix: FloatArray, data: TrainingData) -> int:
        keys = row_keys(Columns({**data.columns.by_name, " score": data.y_prob}, len(matrix)), self.random_state)
        n_parts = max(2, round(1.0 / self.validation_fraction))
        held_out = stratified_folds(keys, data.y_true, n_parts) == 0
        rest = ~held_out
        for part in (held_out, rest):
            positives = int(np.sum(data.y_true[part]))
            if min(positives, int(part.sum()) - positives) < 2:
                return 0
        booster = self._train(table, matrix, data, rest, self.n_estimators, held_out)
        base = logit(data.y_prob[held_out])
        label, weight = data.y_true[held_out], data.weight[held_out]
        trees = booster.predict(matrix[held_out], raw_score=True, num_iteration=booster.best_iteration)
        gain = log_loss_of_logodds(base, label) - log_loss_of_logodds(base + trees, label)
        return int(booster.best_iteration) if float(np.sum(weight * gain)) > 0.0 else 0

    def _train(
        self,
        table: FeatureTable,
        matrix: FloatArray,
        data: TrainingData,
        rows: np.ndarray[Any, Any],
        n_trees: int,
        held_out: np.ndarray[Any, Any] | None = None,
    ) -> Any:
        lightgbm = _lightgbm()
        categorical = [1 + i for i, name in enumerate(table.names) if name in table.categories]

        def dataset(part: np.ndarray[Any, Any], reference: Any = None) -> Any:
            return lightgbm.Dataset(
                matrix[part],
                data.y_true[part],
                weight=data.weight[part],
                init_score=logit(data.y_prob[part]),
                feature_name=[f"f{i}" for i in range(matrix.shape[1])],
                categorical_feature=categorical,
                reference=reference,
                params={"verbosity": -1},
            )

        train = dataset(rows)
        early = [lightgbm.early_stopping(self.early_stopping_rounds, verbose=False)] if held_out is not None else []
        valid = [dataset(held_out, train)] if held_out is not None else []
        return lightgbm.train(self._booster_parameters(), train, n_trees, valid_sets=valid, callbacks=early)

    def _booster_parameters(self) -> dict[str, Any]:
        return {
            "objective": "binary",
            "metric": "binary_logloss",
            "boost_from_average": False,
            "learning_rate": self.learning_rate,
            "num_leaves": self.num_leaves,
            "min_data_in_leaf": self.min_child_samples,
            "seed": self.random_state,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": self.n_jobs or 0,
            "verbosity": -1,
        }

    def _calibrate(self, columns: Columns, y_prob: FloatArray) -> FloatArray:
        matrix = self.features_.matrix(columns, y_prob)
        if self.booster_ is None:
            return y_prob
        trees = self.booster_.predict(matrix, raw_score=True, num_threads=self.n_jobs or 0)
        return sigmoid(logit(y_prob) + trees)

    def _state(self) -> dict[str, Any]:
        table = self.features_
        categories = {name: list(bins.values) for name, bins in table.categories.items()}
        return {"features": list(table.names), "categories": categories, "model": self.model_text_}

    def _restore(self, state: dict[str, Any]) -> None:
        categories = {name: CategoryBins(name, tuple(values)) for name, values in state["categories"].items()}
        self.features_ = FeatureTable(self.score_, tuple(state["features"]), categories)
        self.model_text_ = state["model"]
        self.booster_ = _booster(self.model_text_)


def _lightgbm() -> Any:
    try:
        import lightgbm
    except ImportError as error:
        raise MissingDependencyError("the method 'lightgbm' needs LightGBM: pip install 'mbct[lightgbm]'") from error
    return lightgbm


def _booster(text: str) -> Any:
    """The model that a text holds; every prediction comes from the text, so that a saved model cannot differ."""
    return _lightgbm().Booster(model_str=text) if text else None
