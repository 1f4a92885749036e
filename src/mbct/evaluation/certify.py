"""A certificate for a fitted model: what rows that it has not seen guarantee about it."""

from collections.abc import Sequence
from typing import Any, get_args

from mbct.calibrators.certification import HeldOutRows, Segments, certify_rows
from mbct.calibrators.inputs import scores, take_blocks, take_labels
from mbct.calibrators.mbct import MBCTCalibrator
from mbct.data.columns import encode, read_columns
from mbct.data.source import LazySource, is_lazy, open_source
from mbct.errors import ParameterError
from mbct.evaluation.diagnostics.calibrated_rows import check_calibrator
from mbct.evaluation.metrics.rows import segment
from mbct.model.certificate import Certificate, Method
from mbct.training.folds import BlockColumns, BlockSize
from mbct.validation import same_length


def certify(
    model: Any,
    X: Any,
    y: Any,
    *,
    y_prob: Any = None,
    by: str | Sequence[str] = (),
    alpha: float | None = None,
    method: str | None = None,
    time: Any = None,
    groups: Any = None,
    block: BlockSize = "day",
    max_error: float | None = None,
) -> Certificate:
    """Bound |E[Y] − mean calibrated prediction| of every rule, every bin of the partition and every segment.

    Every row counts once. The bounds of each of these groups hold at once with probability 1 − ``alpha``, for rows like
    these; what changes after them is not covered.

    Parameters
    ----------
    model : MBCTCalibrator
        Fitted.
    X : data frame, array, mapping of columns, path, or lazy frame
        Rows that the model was not fitted on, which its fingerprint checks.
    y : array of shape (n_rows,) or str
        Their labels, or the name of the label column.
    y_prob : array of shape (n_rows,) or None, default=None
        The prediction, where it is no column of ``X``.
    by : str or list of str, default=()
        Columns whose values are certified as segments.
    alpha : float or None, default=None
        Level; None takes the model's.
    method : str or None, default=None
        "clopper-pearson" (exact for independent labels, the sharpest), "betting" (exact for rows drawn independently),
        "theorem-1" (the paper's) or "blocks" (approximate, for rows that belong together). None takes "blocks" where
        ``time`` or ``groups`` is given, else "clopper-pearson".
    time, groups : array of shape (n_rows,), str or None, default=None
        Which rows belong together.
    block : {"day", "week", "hour"} or int, default="day"
        Length of a block of time, or a number of equal stretches.
    max_error : float or None, default=None
        Bins of the partition are merged until each is within it; an error where not even all rows are.

    Returns
    -------
    certificate : Certificate
        :meth:`MBCTCalibrator.attach` keeps it with the model.

    Examples
    --------
    >>> import numpy as np
    >>> from mbct import MBCTCalibrator
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(0.1, 0.6, 8000)
    >>> frame = {"p": p, "y": rng.uniform(size=8000) < p}
    >>> model = MBCTCalibrator("p", preset="fast").fit({name: column[:4000] for name, column in frame.items()}, "y")
    >>> certificate = certify(model, {name: column[4000:] for name, column in frame.items()}, "y")
    >>> 0.01 < max(found.bound for found in certificate.group("partition")) < 0.2
    True
    """
    check_calibrator(model)
    if not isinstance(model, MBCTCalibrator):
        raise ParameterError(f"a {model.method!r} calibrator has no bins to certify: fit MBCTCalibrator")
    if model.negative_sampling_rate != 1.0:
        raise ParameterError("a certificate needs all negatives: fit without negative_sampling_rate")
    chosen = method or ("clopper-pearson" if time is None and groups is None else "blocks")
    if chosen not in get_args(Method):
        raise ParameterError(f"method={method!r} must be one of {', '.join(get_args(Method))}")
    level = model.alpha if alpha is None else alpha
    if not 0.0 < level <= 0.5:
        raise ParameterError(f"alpha={level!r} must lie above 0 and at most at 0.5")
    columns, labels, name = take_labels(read_columns(_in_memory(X)), y)
    y_true = model.encode_labels(labels, name)
    same_length(columns.n_rows, y=y_true)
    names = [by] if isinstance(by, str) else list(by)
    columns.require(names)
    segments = [Segments(each.name, each.codes, each.labels) for each in (segment(columns.numpy(n), n) for n in names)]
    columns, blocks = take_blocks(columns, BlockColumns(time, groups, block))
    before = scores(columns, model.score_column_, y_prob)[1]
    codes = encode(columns, model.model_.bins, before)
    rows = HeldOutRows(codes, before, model.calibrate_columns(columns, before), y_true, blocks)
    return certify_rows(
        model.model_,
        rows,
        model.fingerprint_,
        alpha=level,
        method=chosen,  # type: ignore[arg-type]  # one of them, as was checked
        segments=segments,
        max_error=max_error,
    )


def _in_memory(X: Any) -> Any:
    if not is_lazy(X):
        return X
    source = open_source(X)
    return source.engine.collect(source.frame).to_native() if isinstance(source, LazySource) else X
