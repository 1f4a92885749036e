"""Fitting where the rows are: checks, bins and sums in the engine, trees here."""

from typing import TYPE_CHECKING, Any

from mbct.calibrators.inputs import training_data
from mbct.calibrators.suspicions import MOST_ROWS, describe_unfit, suspicions, unfit_in_engine, warn
from mbct.data.blocks import BlockColumns
from mbct.data.columns import Columns
from mbct.data.rows import require
from mbct.data.source import LazySource, open_source
from mbct.data.strategy import prepare
from mbct.errors import DataError, ParameterError
from mbct.model.bins import FeatureBins
from mbct.model.ensemble import CalibrationEnsemble
from mbct.progress import TYPICAL_ROUNDS, progress
from mbct.training.cells import Cells
from mbct.training.paper.losses import CLOSED_FORM
from mbct.training.paper.trainer import PaperOptions
from mbct.training.trainer import TrainingResult, train_cells, train_in_engine

if TYPE_CHECKING:
    from mbct.calibrators.mbct import MBCTCalibrator


def fit_source(
    calibrator: "MBCTCalibrator", data: Any, y: Any, sample_weight: Any, y_prob: Any, blocks: BlockColumns
) -> tuple[TrainingResult, list[str]]:
    """Train with ``calibrator``'s parameters on rows that an engine reads in place; the columns that it may read."""
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
        unfit = unfit_in_engine(source, names)
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
            return train_cells(prepared.rows, prepared.bins, config, advance), columns
        result = train_in_engine(prepared.rows, prepared.bins, config, prepared.weight, prepared.positives)
        return result, columns


def _suspicions(source: LazySource, score: str, label: str, weight: str | None, features: list[str]) -> list[str]:
    """What looks wrong about the first rows, which are brought into memory for it."""
    wanted = [score, label, *features, *([] if weight is None else [weight])]
    first = source.engine.collect(source.frame.select(wanted).head(MOST_ROWS))
    data = training_data(first.to_native(), label, weight, None, score, one_class=True)
    return list(suspicions(data, features, whole=data.columns.n_rows < MOST_ROWS))


def check_cells(calibrator: "MBCTCalibrator", cells: Cells, bins: FeatureBins) -> None:
    """Raise unless ``calibrator`` can be fitted on cells that were aggregated before."""
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
