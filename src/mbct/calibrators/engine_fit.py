"""Fitting where the rows are: checks, bins and sums in the engine, trees here."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw

from mbct.calibrators.inputs import MOST_ROWS, ClassLabels, describe_unfit, suspicions, training_data, warn
from mbct.data.checks import find_dates, find_earlier_runs, identifier_reason
from mbct.data.columns import Columns, read_columns
from mbct.data.rows import require
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
from mbct.training.trainer import train_cells, train_in_engine

if TYPE_CHECKING:
    from mbct.calibrators.mbct import MBCTCalibrator


_ROWS = " rows"
_TEXTS_READ = 1_000  # Distinct texts that are tried as dates


def fit_source(
    calibrator: "MBCTCalibrator", data: Any, y: Any, sample_weight: Any, y_prob: Any, trials: Any, blocks: BlockColumns
) -> "MBCTCalibrator":
    """Fit ``calibrator`` on rows that an engine reads in place."""
    if trials is not None:
        raise ParameterError("trials are for rows in memory: pass a frame, or a row a class with its weight")
    named = (sample_weight, blocks.time, blocks.groups)
    if not isinstance(y, str) or y_prob is not None or not all(isinstance(name, str | None) for name in named):
        raise DataError(
            "rows that stay in their engine need the names of columns: fit(source, 'label'), with "
            "sample_weight='name', time='name', groups='name' and score_column='name' where they apply"
        )
    refuse_sampled_paper(calibrator)
    refuse_certificate(calibrator)
    if calibrator.score_column is None:
        raise DataError("which column holds the prediction? pass score_column='name'")
    source = open_source(data)
    if not isinstance(source, LazySource):
        raise TypeError(f"{type(data).__name__} is read in memory")
    columns = [name for name in source.names if name not in (y, *named)]
    score = Columns(dict.fromkeys(columns), 0).name_of(calibrator.score_column)
    require(source, [score, *(name for name in named if name is not None)])
    names = calibrator.feature_columns(Columns(dict.fromkeys(columns), 0), score)
    if calibrator.preset != "paper":
        unfit = _unfit_columns(source, names)
        warn(describe_unfit(unfit, kept=calibrator.features is not None), stacklevel=3)
        names = [name for name in names if calibrator.features is not None or name not in unfit]
    config = calibrator.config(blocks)
    growth = config.preset.growth
    closed_form = isinstance(growth, PaperOptions) and growth.loss == CLOSED_FORM and not blocks.given
    with (
        prepare(
            source,
            score_column=score,
            label=y,
            weight=sample_weight,
            features=names,
            categorical=calibrator.categorical,
            options=config.preset.binning,
            strategy=calibrator.strategy,
            level_wise=closed_form,
            blocks=blocks,
        ) as prepared,
        progress("growing calibration trees", about=TYPICAL_ROUNDS) as advance,
    ):
        warn(_suspicions(source, score, y, sample_weight, names), stacklevel=3)
        if isinstance(prepared.rows, Cells):
            result = train_cells(prepared.rows, prepared.bins, config, advance)
        else:
            result = train_in_engine(prepared.rows, prepared.bins, config, prepared.weight, prepared.positives)
    calibrator._keep(result)
    calibrator._remember(score, columns, ClassLabels())
    return calibrator


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
    for name in (*temporal, *(name for name in texts if name not in found)):
        some = source.engine.collect(source.frame.select(name).unique().head(_TEXTS_READ))
        found |= {each.column: each.reason for each in find_dates(read_columns(some.to_native()))}
    return found


def _suspicions(source: LazySource, score: str, label: str, weight: str | None, features: list[str]) -> list[str]:
    """What looks wrong about the first rows, which are brought into memory for it."""
    wanted = [score, label, *features, *([] if weight is None else [weight])]
    first = source.engine.collect(source.frame.select(wanted).head(MOST_ROWS))
    data = training_data(first.to_native(), label, weight, None, score, one_class=True)
    return list(suspicions(data, features, whole=data.columns.n_rows < MOST_ROWS))


def fit_aggregated(calibrator: "MBCTCalibrator", cells: Cells, bins: FeatureBins) -> "MBCTCalibrator":
    """Fit ``calibrator`` on cells that were aggregated before."""
    _check_cells(calibrator, cells, bins)
    # Cells of one score are told apart by it: their order is that of their content already.
    ordered = cells if cells.one_score else cells.canonical()
    with progress("growing calibration trees", about=TYPICAL_ROUNDS) as advance:
        calibrator._keep(train_cells(ordered, bins, calibrator.config(), advance))
    calibrator._remember(bins.names[0], list(bins.names), ClassLabels())
    return calibrator


def _check_cells(calibrator: "MBCTCalibrator", cells: Cells, bins: FeatureBins) -> None:
    refuse_sampled_paper(calibrator)
    refuse_certificate(calibrator)
    if cells.fingerprint != bins.fingerprint:
        raise DataError(f"the cells were coded with bins {cells.fingerprint}, not with {bins.fingerprint}")
    coded = Columns(dict.fromkeys(bins.names), 0)
    if calibrator.score_column is not None and coded.name_of(calibrator.score_column) != bins.names[0]:
        raise DataError(
            f"the cells are those of the prediction {bins.names[0]!r}, not of score_column={calibrator.score_column!r}"
        )
    if calibrator.features is not None and {coded.name_of(n) for n in calibrator.features} != set(bins.names[1:]):
        raise DataError(f"features={calibrator.features!r}, but the cells are coded by {list(bins.names[1:])}")
    total = cells.total
    if total.label <= 0.0 or total.label >= total.count:
        raise DataError("the label is the same in every row: both classes are needed to see a bias")


def collect_features(data: Any, model: CalibrationEnsemble) -> Any:
    """The columns that ``model`` is coded by, brought into memory in the order of the rows."""
    source = open_source(data)
    if not isinstance(source, LazySource):
        return data
    require(source, model.bins.names)
    return source.engine.collect(source.frame.select(*model.bins.names)).to_native()


def refuse_sampled_paper(calibrator: "MBCTCalibrator") -> None:
    """The paper's trees weigh each kept negative, and cells do not tell their negatives' predictions apart."""
    if calibrator.preset == "paper" and calibrator.negative_sampling_rate != 1.0:
        raise ParameterError(
            "negative_sampling_rate with preset='paper' needs the rows in memory: read them first, or give negatives "
            f"the weight {1.0 / calibrator.negative_sampling_rate:g} by sample_weight"
        )


def refuse_certificate(calibrator: "MBCTCalibrator") -> None:
    """Sums of cells cannot be parted into rows to fit on and rows to certify with."""
    if calibrator.certify is not None:
        raise ParameterError(
            f"certify={calibrator.certify!r} needs the rows in memory: read them first, or keep rows apart and certify "
            "the model with them (mbct.certify)"
        )
