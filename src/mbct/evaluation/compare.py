"""Fit many methods on the same splits and score each on the rows it has not seen."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

from sklearn.base import clone

from mbct.calibrators.base import Calibrator
from mbct.calibrators.inputs import TrainingData, dependence, suspicions, training_data, warn
from mbct.calibrators.registry import available, make
from mbct.data.checks import leaps
from mbct.data.columns import Columns
from mbct.errors import ParameterError
from mbct.evaluation.comparison import Comparison
from mbct.evaluation.held_out import BASE, Fit, compare_held_out, describe_columns, own_blocks
from mbct.evaluation.splits import RowNumbers, SplitRows, make_splits, out_of_order
from mbct.training.folds import BlockColumns, BlockSize
from mbct.validation import FloatArray

Methods = Sequence[str | Calibrator] | Mapping[str, str | Calibrator]


def compare(
    X: Any,
    y: Any,
    *,
    score_column: str | int | None = None,
    methods: Methods | None = None,
    cv: Any = 5,
    time: Any = None,
    groups: Any = None,
    block: BlockSize = "day",
    sample_weight: Any = None,
    y_prob: Any = None,
    positive: Any = None,
    random_state: int = 0,
) -> Comparison:
    """Held-out scores of calibration methods, with paired differences to the base and to the best.

    Log loss keeps predictions 2e-16 from 0 and 1; ECE has 15 uniform-mass bins, MVCE is the closed form with bins of a
    twentieth of a fold.

    Parameters
    ----------
    X, y, sample_weight, y_prob : as in :meth:`mbct.calibrators.Calibrator.fit`
        Labelled rows.
    score_column : str, int or None, default=None
        Column of the prediction; may be left out where ``X`` has one column or ``y_prob`` is given.
    methods : list of str or calibrators, mapping of names to either, or None, default=None
        None takes every registered method that needs no setting (LightGBM if it is installed). The identity, that is
        the base itself, always takes part.
    cv : int, splitter or list of splits, default=5
        Number of folds, any splitter of scikit-learn, or pairs of row numbers to fit on and to hold out. Folds depend
        on what rows hold and on ``random_state``, not on their order.
    time : array, str or None, default=None
        Dates, timestamps or numbers of blocks, or the column that holds them: folds are contiguous stretches of blocks,
        standard errors those of whole blocks, and methods that take blocks are fitted by them. The column is no
        feature. A calibrator that names ``time`` or ``groups`` itself is fitted by these alone; its own ``block``,
        ``gap`` and ``half_life`` always count.
    groups : array, str or None, default=None
        Which rows belong together (a person, a shop), or the column that says so: groups are held out whole, and
        standard errors are those of whole groups. A splitter by groups receives them. With ``time`` too, folds and
        standard errors are those of time, and a group's rows are held out in one fold that is fitted on none of them.
    block : "day", "week", "hour" or int, default="day"
        Length of a block of time, or a number of equal stretches.
    positive : str, number, bool or None, default=None
        The positive class, whose probability the prediction is; None takes the second in sorted order.
    random_state : int, default=0
        Seed of the folds.

    Returns
    -------
    comparison : Comparison
        Methods by rising held-out log loss, what ties with the best and what to take.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(0.05, 0.95, 2000)
    >>> y = rng.uniform(size=2000) < p**2
    >>> compare({"p": p}, y, score_column="p", methods=["platt", "temperature"]).best.name
    'platt'
    """
    calibrators = _chosen(methods)
    blocks = BlockColumns(time, groups, block)
    own = {name: own_blocks(calibrator, blocks) for name, calibrator in calibrators.items()}
    read = partial(training_data, X, y, sample_weight, y_prob, positive=positive)
    data = read(score_column, blocks=blocks)
    rows = SplitRows(
        Columns({**data.columns.by_name, " score": data.y_prob}, len(data.y_prob)),
        *(data.y_true, data.weight, data.block, blocks),
    )
    splits = make_splits(rows, cv, random_state)
    fits = {}
    for name, calibrator in calibrators.items():
        seen = data if own[name] is blocks else read(data.score, blocks=own[name])
        # What is the time or a group of the comparison or of the calibrator itself is no feature of it.
        kept = [column for column in data.columns.names if column in seen.columns]
        fits[name] = _fit(calibrator, replace(seen, columns=seen.columns.only(kept)))
    others = data.columns.without(data.score)
    advice = dependence(data)
    lines = [*describe_columns(others, own, blocks), *out_of_order(cv, splits, rows), *suspicions(data, others.names)]
    warn([*lines, *([] if advice is None else [advice])], stacklevel=2)
    found = compare_held_out(fits, rows, data.y_true, splits)
    base_auc = found[BASE].auc
    suspect = [f"{s.name} (AUC {base_auc:.3f} → {s.auc:.3f})" for s in found.methods if leaps(s.auc, base_auc)]
    if suspect:
        warn([f"suspiciously good, a column may hold the label: {', '.join(suspect)}"], stacklevel=2)
    return found


def default_methods() -> list[str]:
    """Names of the methods that need no setting and whose packages are installed."""
    absent = {"segment"} if find_spec("lightgbm") else {"segment", "lightgbm"}
    return [name for name in available() if name not in absent]


def _chosen(methods: Methods | None) -> dict[str, Calibrator]:
    if isinstance(methods, str):
        raise ParameterError(f"methods must be a list, got the text {methods!r}; write [{methods!r}]")
    named: list[tuple[str, str | Calibrator]]
    if isinstance(methods, Mapping):
        named = list(methods.items())
    else:
        chosen = default_methods() if methods is None else methods
        named = [(m if isinstance(m, str) else getattr(m, "method", repr(m)), m) for m in chosen]
    calibrators: dict[str, Calibrator] = {BASE: make(BASE)}
    for name, method in named:
        if name in calibrators and name != BASE:
            raise ParameterError(f"two methods are called {name!r}: pass a mapping with a name for each")
        if not isinstance(method, str | Calibrator):
            raise ParameterError(f"a method is a name or a calibrator, got {method!r}")
        calibrators[name] = make(method) if isinstance(method, str) else clone(method)
    return calibrators


def _fit(calibrator: Calibrator, data: TrainingData) -> Fit:
    def fit(train: RowNumbers) -> Callable[[RowNumbers], FloatArray]:
        fitted = clone(calibrator).fit_data(data.take(train))
        return lambda rows: fitted.calibrate_columns(data.columns.take(rows), data.y_prob[rows])

    return fit
