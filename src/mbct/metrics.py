"""Calibration metrics and scores: ``metric(y_true, y_prob, *, sample_weight=None, …)``.

Every metric takes numpy, pandas and polars columns and returns a float that also knows its interval
(``confidence=0.95``) and, where chance has a known law, its p-value. Names are loaded on first use.

Rows and the keywords ``**resampling`` mean the same in every metric:

- ``y_true``, ``y_prob`` (arrays): labels (0 or 1) and predicted probabilities of the rows.
- ``sample_weight`` (array, number or None, default None): weights of the rows; None counts each row once.
- ``confidence`` (float or None, default None): level of the bootstrap interval; None computes none.
- ``n_bootstrap`` (int, default 200): number of resamples.
- ``seed`` (int, default 0): seed of everything random.
- ``time`` (array or None, default None): dates, timestamps or numbers of days; whole blocks of it are resampled.
- ``groups`` (array or None, default None): which rows belong together; whole groups are resampled.
- ``block`` (default "day"): blocks of ``time``: "day", "week", "hour" or a number of equal stretches.
- ``n_null`` (int, default 0): number of simulated data sets behind the p-value, 0 for none. ``ecce``,
  ``multicalibration_error`` and ``pcoc`` have a p-value in closed form instead; ``pud`` and the scores have none. With
  ``time`` or ``groups`` only that of ``pcoc`` is known, by the sums of blocks.
"""

from typing import TYPE_CHECKING

from mbct.lazy import lazy_names

if TYPE_CHECKING:
    from mbct.evaluation.metrics.binned import bfgpce as bfgpce
    from mbct.evaluation.metrics.binned import debiased_ece as debiased_ece
    from mbct.evaluation.metrics.binned import ece as ece
    from mbct.evaluation.metrics.binned import ece_sweep as ece_sweep
    from mbct.evaluation.metrics.binned import mce as mce
    from mbct.evaluation.metrics.binned import pce as pce
    from mbct.evaluation.metrics.binned import pud as pud
    from mbct.evaluation.metrics.curve import ici as ici
    from mbct.evaluation.metrics.curve import net_benefit as net_benefit
    from mbct.evaluation.metrics.curve import variational_error as variational_error
    from mbct.evaluation.metrics.evaluation import evaluate as evaluate
    from mbct.evaluation.metrics.fields import cal_n as cal_n
    from mbct.evaluation.metrics.fields import field_ece as field_ece
    from mbct.evaluation.metrics.fields import field_rce as field_rce
    from mbct.evaluation.metrics.fields import multi_field as multi_field
    from mbct.evaluation.metrics.fields import pcoc as pcoc
    from mbct.evaluation.metrics.known_truth import bfgepce as bfgepce
    from mbct.evaluation.metrics.known_truth import epce as epce
    from mbct.evaluation.metrics.known_truth import is_well_calibrated as is_well_calibrated
    from mbct.evaluation.metrics.known_truth import sud as sud
    from mbct.evaluation.metrics.known_truth import tce as tce
    from mbct.evaluation.metrics.many_classes import evaluate_classes as evaluate_classes
    from mbct.evaluation.metrics.multi_view import mvce as mvce
    from mbct.evaluation.metrics.multicalibration import multicalibration_error as multicalibration_error
    from mbct.evaluation.metrics.scores import auc as auc
    from mbct.evaluation.metrics.scores import brier as brier
    from mbct.evaluation.metrics.scores import grouped_auc as grouped_auc
    from mbct.evaluation.metrics.scores import log_loss as log_loss
    from mbct.evaluation.metrics.scores import normalised_entropy as normalised_entropy
    from mbct.evaluation.metrics.unbinned import ecce as ecce
    from mbct.evaluation.metrics.unbinned import smooth_ece as smooth_ece

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    ("mbct.evaluation.metrics.binned", "bfgpce debiased_ece ece ece_sweep mce pce pud"),
    ("mbct.evaluation.metrics.curve", "ici net_benefit variational_error"),
    ("mbct.evaluation.metrics.evaluation", "evaluate"),
    ("mbct.evaluation.metrics.fields", "cal_n field_ece field_rce multi_field pcoc"),
    ("mbct.evaluation.metrics.known_truth", "bfgepce epce is_well_calibrated sud tce"),
    ("mbct.evaluation.metrics.many_classes", "evaluate_classes"),
    ("mbct.evaluation.metrics.multi_view", "mvce"),
    ("mbct.evaluation.metrics.multicalibration", "multicalibration_error"),
    ("mbct.evaluation.metrics.scores", "auc brier grouped_auc log_loss normalised_entropy"),
    ("mbct.evaluation.metrics.unbinned", "ecce smooth_ece"),
)
