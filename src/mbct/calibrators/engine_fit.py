"""Fitting where the rows are: checks, bins and sums in the engine, trees here."""

from typing import TYPE_CHECKING, Any

import numpy as np

from mbct.calibrators.inputs import ClassLabels
from mbct.data.columns import Columns
from mbct.data.rows import require
from mbct.data.source import LazySource, open_source
from mbct.data.strategy import Prepared, prepare
from mbct.errors import DataError, ParameterError
from mbct.model.bins import FeatureBins
from mbct.model.ensemble import CalibrationEnsemble
from mbct.progress import progress
from mbct.training.cells import Cells
from mbct.training.paper.histogram import COUNT, LABEL, PRED
from mbct.training.paper.levelwise import LevelSource
from mbct.training.paper.losses import CLOSED_FORM
from mbct.training.paper.trainer import PaperOptions, boost
from mbct.training.presets import preset
from mbct.validation import FloatArray

if TYPE_CHECKING:
    from mbct.calibrators.mbct import MBCTCalibrator


def fit_source(calibrator: "MBCTCalibrator", data: Any, y: Any, sample_weight: Any, y_prob: Any) -> None:
    """Fit ``calibrator`` on rows that an engine reads where they lie."""
    if not isinstance(y, str) or y_prob is not None or not isinstance(sample_weight, str | None):
        raise DataError(
            "rows that stay in their engine need the names of columns: fit(source, 'label'), with "
            "sample_weight='name' and score_column='name' where they apply"
        )
    _refuse_sampled_paper(calibrator)
    if calibrator.score_column is None:
        raise DataError("which column holds the prediction? pass score_column='name'")
    source = open_source(data)
    if not isinstance(source, LazySource):
        raise TypeError(f"{type(data).__name__} is read in memory")
    columns = [name for name in source.names if name not in (y, sample_weight)]
    score = Columns(dict.fromkeys(columns), 0).name_of(calibrator.score_column)
    require(source, [score])
    names = calibrator._feature_names(Columns(dict.fromkeys(columns), 0), score)
    chosen = preset(calibrator.preset, calibrator._overrides())
    closed_form = isinstance(chosen.growth, PaperOptions) and chosen.growth.loss == CLOSED_FORM
    with prepare(
        source,
        score_column=score,
        label=y,
        weight=sample_weight,
        features=names,
        categorical=calibrator.categorical,
        options=chosen.binning,
        strategy=calibrator.strategy,
        level_wise=closed_form,
    ) as prepared:
        _grow(calibrator, prepared, score, columns)


def fit_cells(calibrator: "MBCTCalibrator", cells: Cells, bins: FeatureBins) -> None:
    """Fit ``calibrator`` on cells that were aggregated before."""
    _refuse_sampled_paper(calibrator)
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
    # Cells of one score are told apart by it: their order is that of their content already, wherever they come from.
    ordered = cells if cells.one_score else cells.canonical()
    prepared = Prepared(bins, ordered, float(total.count), float(total.label))
    _grow(calibrator, prepared, bins.names[0], list(bins.names))


def collect_features(data: Any, model: CalibrationEnsemble) -> Any:
    """The columns that ``model`` is coded by, brought into memory in the order of the rows."""
    source = open_source(data)
    if not isinstance(source, LazySource):
        return data
    require(source, model.bins.names)
    return source.engine.collect(source.frame.select(*model.bins.names)).to_native()


def _refuse_sampled_paper(calibrator: "MBCTCalibrator") -> None:
    """The paper's trees weigh each kept negative, and cells do not tell their negatives' predictions apart."""
    if calibrator.preset == "paper" and calibrator.negative_sampling_rate != 1.0:
        raise ParameterError(
            "negative_sampling_rate with preset='paper' needs the rows in memory: read them first, or give negatives "
            f"the weight {1.0 / calibrator.negative_sampling_rate:g} by sample_weight"
        )


def _total(source: LevelSource, n_codes: int) -> FloatArray:
    """Count, label and prediction of all rows: the sums over any one feature's codes."""
    total = source.level_sums([0])[0, :n_codes].sum(axis=0)
    return np.asarray(total[[COUNT, LABEL, PRED]], dtype=np.float64)


def _grow(calibrator: "MBCTCalibrator", prepared: Prepared, score_column: str, columns: list[str]) -> None:
    chosen = preset(calibrator.preset, calibrator._overrides())
    bins, grown_on = prepared.bins, prepared.grown_on
    calibrator.model_ = CalibrationEnsemble(score_column, chosen.link, bins, (), calibrator.alpha)
    if isinstance(grown_on, Cells):
        calibrator._grow(grown_on, chosen.growth)
    elif isinstance(chosen.growth, PaperOptions):
        growth = chosen.growth.growth(prepared.mass, prepared.positives)
        with progress("growing calibration trees in the engine"):
            trees, trace = boost(grown_on, bins.names, chosen.growth, growth)
            calibrator._keep_paper(trees, trace, lambda: _total(grown_on, bins.n_codes[0]))
    else:
        raise TypeError("only the paper's trees grow on rows that stay in the engine")
    calibrator._remember(score_column, columns, ClassLabels())
