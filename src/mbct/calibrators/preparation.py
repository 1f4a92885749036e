"""From checked rows to what the trees of MBCT grow on: features without what is none, bins, and cells."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mbct.calibrators.inputs import TrainingData, describe_unfit, suspicions, unfit_columns, warn
from mbct.data.columns import Columns
from mbct.data.dependence import find_dependence
from mbct.data.memory import Categorical, encode, fit_bins
from mbct.errors import DataError, ParameterError
from mbct.model.bins import FeatureBins
from mbct.training.cells import Cells, Level, build_cells
from mbct.training.paper.trainer import PaperOptions
from mbct.training.trainer import Preset

Features = Sequence[str | int] | None
"""Columns that the trees may split by; None for all but the score."""


def feature_names(columns: Columns, score_column: str, features: Features) -> list[str]:
    """Names of the ``columns`` that trees may split by, all or some but ``score_column``."""
    if features is None:
        return [name for name in columns.names if name != score_column]
    if isinstance(features, str):
        raise ParameterError(f"features={features!r} must be a list of columns, not one name")
    names = [columns.name_of(name) for name in features]
    if len(set(names)) < len(names):
        raise DataError(f"features names a column twice: {names}")
    columns.require(names)
    return [name for name in names if name != score_column]


def refuse_other_roles(features: Features, **roles: Any) -> None:
    """Raise where one of ``features`` is named as the label, the weight, the time or the groups too."""
    for role, name in roles.items():
        if isinstance(name, str) and not isinstance(features, str) and name in (features or ()):
            raise DataError(f"{name!r} cannot be both a feature and {role}={name!r}: leave it out of features")


def prepared_rows(data: TrainingData, features: Features, *, stacklevel: int, as_given: bool = False) -> TrainingData:
    """``data`` without the identifiers and dates that nobody named as ``features``, unless it is taken ``as_given``.

    Warns of these, of rows that seem to belong together and of what looks wrong; ``stacklevel`` counts the callers from
    here to the user's line.
    """
    if not as_given:
        unfit = unfit_columns(data.columns.only(feature_names(data.columns, data.score, features)))
        warn(describe_unfit(unfit, kept=features is not None, advice=dependence(data)), stacklevel + 1)
        data = data if features is not None else replace(data, columns=data.columns.without(*unfit))
    warn(suspicions(data, feature_names(data.columns, data.score, features)), stacklevel + 1)
    return data


def dependence(data: TrainingData) -> str | None:
    """The argument to add where rows of ``data`` seem to belong together and nothing was said of it."""
    if data.blocks is not None and data.blocks.groups is not None:
        return None
    found = find_dependence(data.columns.without(data.score), data.y_true, data.y_prob, data.block)
    return None if found is None else str(found)


def binned_cells(
    data: TrainingData, features: Features, categorical: Categorical, preset: Preset
) -> tuple[FeatureBins, Cells]:
    """Bins of the columns of ``data``, as ``preset`` asks, and the rows joined by their codes."""
    data = data.counted()
    weight = None if np.all(data.weight == 1.0) else data.weight
    names = feature_names(data.columns, data.score, features)
    bins = fit_bins(data.columns, data.score, names, data.y_prob, data.y_true, weight, categorical, preset.binning)
    codes = encode(data.columns, bins, data.y_prob)
    level: Level = "auto" if isinstance(preset.growth, PaperOptions) else "score"
    return bins, build_cells(codes, data.y_prob, data.y_true, weight, bins, level, data.block)
