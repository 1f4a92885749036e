"""Fitting where the rows are: checks, bins and sums in the engine, trees here."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np

from mbct.calibrators.inputs import (
    MOST_ROWS,
    TrainingData,
    dependence,
    describe_unfit,
    feature_names,
    suspicions,
    training_data,
    warn,
)
from mbct.data.blocks import blocks_of_time
from mbct.data.checks import find_dates, find_earlier_runs, identifier_reason
from mbct.data.columns import Columns, read_columns
from mbct.data.rows import distinct_labels, require, require_number, with_binary_label
from mbct.data.sharded_cells import ShardedCells
from mbct.data.source import LazySource, open_source
from mbct.data.strategy import prepare
from mbct.errors import DataError, ParameterError
from mbct.model.bins import FeatureBins
from mbct.model.ensemble import CalibrationEnsemble
from mbct.progress import TYPICAL_ROUNDS, progress
from mbct.training.cells import Cells
from mbct.training.folds import BlockColumns
from mbct.training.paper.losses import CLOSED_FORM
from mbct.training.paper.trainer import PaperOptions
from mbct.training.sharded.trainer import train_shards
from mbct.training.trainer import TrainingConfig, TrainingResult, train_cells, train_in_engine
from mbct.validation import ClassLabels, binary_classes

if TYPE_CHECKING:
    from mbct.calibrators.mbct import MBCTCalibrator


_ROWS = " rows"
_TEXTS_READ = 1_000  # Distinct texts that are tried as dates


EngineFit = tuple[TrainingResult, str, list[str], ClassLabels]
"""What training has found, the prediction's column, the columns beside label, weight and blocks, the classes."""


def fit_source(
    calibrator: "MBCTCalibrator",
    data: Any,
    label: Any,
    weight: Any,
    blocks: BlockColumns,
    *,
    y_prob: Any = None,
    trials: Any = None,
) -> EngineFit:
    """Fit on rows that an engine reads in place, by the names of columns; ``calibrator`` has the other parameters."""
    named = (label, weight, blocks.time, blocks.groups)
    _refuse_arrays(named, y_prob, trials)
    config = calibrator._config(blocks)
    _refuse_by_row(config, calibrator.certify)
    if calibrator.strategy == "sharded":
        _refuse_sharded(calibrator, config, blocks)
    if calibrator.score_column is None:
        raise DataError("which column holds the prediction? pass score_column='name'")
    source = open_source(data)
    if not isinstance(source, LazySource):
        raise TypeError(f"{type(data).__name__} is read in memory")
    roles = [name for name in named if name is not None]
    others = Columns(dict.fromkeys(name for name in source.names if name not in roles), 0)
    score, features = others.name_of(calibrator.score_column), calibrator.features
    require(source, [score, *roles])
    names = feature_names(others, score, features)
    growth = config.preset.growth
    paper = isinstance(growth, PaperOptions)
    unfit = {} if paper else _unfit_columns(source, names)
    names = [name for name in names if features is not None or name not in unfit]
    source, labels = _with_labels(source, label, weight, calibrator.positive)
    with (
        prepare(
            source,
            score_column=score,
            label=label,
            weight=weight,
            features=names,
            categorical=calibrator.categorical,
            options=config.preset.binning,
            strategy=calibrator.strategy,
            level_wise=isinstance(growth, PaperOptions) and growth.loss == CLOSED_FORM and not blocks.given,
            blocks=blocks,
            n_threads=config.n_threads,
        ) as prepared,
        progress("growing calibration trees", about=TYPICAL_ROUNDS) as advance,
    ):
        first = _first_rows(source, (score, *(names if paper else others.names)), score, label, weight, blocks)
        advice = None if paper else dependence(first)
        warn(describe_unfit(unfit, kept=features is not None, advice=advice), stacklevel=3)
        warn(suspicions(first, names, whole=first.columns.n_rows < MOST_ROWS), stacklevel=3)
        del first  # Training needs the memory.
        if isinstance(prepared.rows, Cells):
            result = train_cells(prepared.rows, prepared.bins, config, advance)
        elif isinstance(prepared.rows, ShardedCells):
            result = train_shards(*prepared.rows, prepared.bins, config, advance)
        else:
            result = train_in_engine(prepared.rows, prepared.bins, config, prepared.weight, prepared.positives)
    return result, score, others.names, labels


def _with_labels(source: LazySource, label: str, weight: str | None, positive: Any) -> tuple[LazySource, ClassLabels]:
    """The source with a label of 0 and 1, and the classes that these stand for, as memory would find them."""
    if weight is not None:
        require_number(source, weight, "weight")
    present = np.asarray(distinct_labels(source, label, weight))
    if not len(present):
        return source, ClassLabels()  # Every label is missing, which is said where the rows are checked.
    labels = binary_classes(present, f"label column {label!r}", positive)
    return with_binary_label(source, label, labels.negative_and_positive.tolist()), labels


def _unfit_columns(source: LazySource, names: Sequence[str]) -> dict[str, str]:
    """What is no feature among columns that stay in their engine: a query for the counts, and one for each text."""
    schema = source.frame.collect_schema()
    texts = [name for name in names if schema[name] == nw.String]
    temporal = [name for name in names if isinstance(schema[name], nw.Date | nw.Datetime)]
    counted = [name for name in names if schema[name].is_integer() or name in texts]
    distinct = (nw.col(name).n_unique().alias(name) for name in counted)
    counts = source.engine.collect(source.frame.select(nw.len().alias(_ROWS), *distinct))
    n_rows = int(counts.get_column(_ROWS)[0])
    reasons = {
        name: identifier_reason(int(counts.get_column(name)[0]), n_rows, integer=name not in texts) for name in counted
    }
    found = {each.column: each.reason for each in find_earlier_runs(names)}
    found |= {name: reason for name, reason in reasons.items() if reason is not None}
    for name in (*temporal, *texts):
        frame = source.frame.select(name)
        # The first values of an identifier are distinct enough.
        some = source.engine.collect((frame if name in found else frame.unique()).head(_TEXTS_READ))
        found |= {each.column: each.reason for each in find_dates(read_columns(some.to_native()))}
    return found


def _first_rows(
    source: LazySource, names: Sequence[str], score: str, label: str, weight: str | None, blocks: BlockColumns
) -> TrainingData:
    """The first rows with the columns ``names``, brought into memory to be looked at."""
    time = blocks.time
    wanted = dict.fromkeys(name for name in (*names, label, weight, time) if name is not None)
    first = source.engine.collect(source.frame.select(*wanted).head(MOST_ROWS)).to_native()
    data = training_data(first, label, weight, None, score, one_class=True)
    if time is None:
        return replace(data, blocks=blocks)
    # The first rows of many may be of one day, which is too few for folds and does no harm here.
    day = blocks_of_time(data.columns.column(time), blocks.block)
    block = None if blocks.groups is not None else np.unique(day, return_inverse=True)[1].astype(np.int32)
    return replace(data, columns=data.columns.without(time), block=block, blocks=blocks)


def fit_aggregated(calibrator: "MBCTCalibrator", cells: Cells, bins: FeatureBins) -> EngineFit:
    """Fit on cells that were aggregated before, with the columns that ``calibrator`` names."""
    config = calibrator._config()
    _refuse_by_row(config, calibrator.certify)
    _check_cells(calibrator, cells, bins)
    # Cells of one score are told apart by it: their order is that of their content already.
    ordered = cells if cells.one_score else cells.canonical()
    with progress("growing calibration trees", about=TYPICAL_ROUNDS) as advance:
        result = train_cells(ordered, bins, config, advance)
    return result, bins.names[0], list(bins.names), ClassLabels()


def _check_cells(calibrator: "MBCTCalibrator", cells: Cells, bins: FeatureBins) -> None:
    if calibrator.positive is not None:
        raise ParameterError(
            f"positive={calibrator.positive!r} has no meaning for cells, which hold the sums of labels of 0 and 1: "
            "leave it out, or aggregate rows whose label is 1 for that class"
        )
    if cells.fingerprint != bins.fingerprint:
        raise DataError(f"the cells were coded with bins {cells.fingerprint}, not with {bins.fingerprint}")
    coded = Columns(dict.fromkeys(bins.names), 0)
    if calibrator.score_column is not None and coded.name_of(calibrator.score_column) != bins.names[0]:
        raise DataError(
            f"the cells are those of the prediction {bins.names[0]!r}, not of score_column={calibrator.score_column!r}"
        )
    if calibrator.features is not None and {coded.name_of(n) for n in calibrator.features} != set(bins.names[1:]):
        raise DataError(f"features={calibrator.features!r}, but the cells are coded by {list(bins.names[1:])}")
    _check_blocks(calibrator, cells)
    total = cells.total
    if total.label <= 0.0 or total.label >= total.count:
        raise DataError("the label is the same in every row: both classes are needed to see a bias")


def _check_blocks(calibrator: "MBCTCalibrator", cells: Cells) -> None:
    """Cells are told apart by day or not at all: what else the parameters ask for cannot be read from them."""
    if cells.block is None and calibrator.time is not None:
        raise DataError(
            f"time={calibrator.time!r} asks for whole blocks of time, and these cells have none: take a window of a "
            "store by day (by_day=True), or leave time out to train as if rows were independent"
        )
    if calibrator.groups is not None:
        raise DataError(f"groups={calibrator.groups!r} cannot be read from cells: fit on the rows, or leave it out")
    if cells.block is not None and calibrator.block != "day":
        raise DataError(
            f"block={calibrator.block!r}, but the blocks of these cells are days: leave it out, or fit on rows"
        )
    if cells.block is not None and len(cells) and np.all(cells.block == cells.block[0]):
        raise DataError(
            "the cells are those of one day, and whole days are to be held out: take more days, or add them up "
            "(by_day=False) to train as if rows were independent"
        )


def collect_features(data: Any, model: CalibrationEnsemble) -> Any:
    """The columns that ``model`` is coded by, brought into memory in the order of the rows."""
    source = open_source(data)
    if not isinstance(source, LazySource):
        return data
    require(source, model.bins.names)
    return source.engine.collect(source.frame.select(*model.bins.names)).to_native()


def _refuse_arrays(named: tuple[Any, ...], y_prob: Any, trials: Any) -> None:
    """Raise where ``fit`` was given more than names of columns, the label's first."""
    if trials is not None:
        raise ParameterError("trials are for rows in memory: pass a frame, or a row a class with its weight")
    if named[0] is None or y_prob is not None or not all(isinstance(name, str | None) for name in named):
        raise DataError(
            "rows that stay in their engine need the names of columns: fit(source, 'label'), with "
            "sample_weight='name', time='name', groups='name' and score_column='name' where they apply"
        )


def _refuse_by_row(config: TrainingConfig, certify: float | None) -> None:
    """Raise where the fit needs to look at single rows in memory.

    The paper's trees weigh each kept negative, and cells do not tell their negatives' predictions apart; nor can sums
    be parted into rows to fit on and rows to certify with.
    """
    rate = config.constraints.negative_sampling_rate
    if isinstance(config.preset.growth, PaperOptions) and rate != 1.0:
        raise ParameterError(
            "negative_sampling_rate with preset='paper' needs the rows in memory: read them first, or give negatives "
            f"the weight {1.0 / rate:g} by sample_weight"
        )
    if certify is not None:
        raise ParameterError(
            f"certify={certify!r} needs the rows in memory: read them first, or keep rows apart and certify "
            "the model with them (mbct.certify)"
        )


def _refuse_sharded(calibrator: "MBCTCalibrator", config: TrainingConfig, blocks: BlockColumns) -> None:
    """Raise where the fit needs more than sums over shards."""
    limits, growth = config.constraints, config.preset.growth
    if isinstance(growth, PaperOptions) or growth.distilled:
        remedy = "take preset='fast', whose trees are not distilled, or leave strategy out to grow on a sample"
        raise ParameterError(f"strategy='sharded' does not grow preset={calibrator.preset!r}: {remedy}")
    if limits.model_size not in ("auto", "full") or limits.max_rules is not None:
        raise ParameterError(
            "strategy='sharded' gives the full ensemble: leave model_size and max_rules out, or leave strategy out"
        )
    if limits.rank_preservation != "free":
        raise ParameterError(
            f"rank_preservation={limits.rank_preservation!r} needs the cells in memory: leave strategy='sharded' out"
        )
    if blocks.time is not None and blocks.groups is not None:
        raise ParameterError("strategy='sharded' takes time or groups, not both: leave one of them out")
