"""Simulated data sets with a known bias, so that anyone can try the package and check it against the truth."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mbct.errors import ParameterError
from mbct.validation import FloatArray, at_least


@dataclass(frozen=True)
class BetaSetting:
    """Predictions from Beta(a, b) and labels of probability ``prediction ** power``.

    Parameters
    ----------
    a, b, power : float
        Parameters of the Beta distribution, and the exponent.
    """

    a: float
    b: float
    power: float


BETA_SETTINGS: dict[str, BetaSetting] = {
    "beta-main": BetaSetting(0.2, 0.7, 2.0),
    "beta-second": BetaSetting(0.4, 0.7, 2.0),
    "beta-third": BetaSetting(0.6, 0.7, 3.0),
}
"""The paper's simulations: Section 5.3 and the two of its appendix."""

CLICKS = "clicks"
KINDS = (CLICKS, *BETA_SETTINGS)

MOBILE_BIAS = 1.6
"""True click rate over the prediction on mobile devices."""
DESKTOP_NIGHT_BIAS = 0.7
"""The same on desktops at night."""


@dataclass(frozen=True)
class Simulation:
    """Simulated rows.

    Parameters
    ----------
    columns : dict of str to ndarray
        Columns by name.
    score, label : str
        Names of the columns of predictions and labels.
    truth : ndarray
        Probabilities from which labels were drawn.
    """

    columns: dict[str, npt.NDArray[np.generic]]
    score: str
    label: str
    truth: FloatArray


def simulate(kind: str = CLICKS, n_rows: int = 100_000, *, seed: int = 0) -> Simulation:
    """Simulated rows whose true probabilities are known.

    Parameters
    ----------
    kind : str, default="clicks"
        "clicks", with features, or a setting of :data:`BETA_SETTINGS`, such as "beta-main".
    n_rows : int, default=100000
        Number of rows.
    seed : int, default=0
        The same seed gives the same rows.

    Returns
    -------
    Simulation
        Columns, their roles and the truth.

    >>> simulation = simulate("beta-main", 1000)
    >>> sorted(simulation.columns), bool((simulation.truth == simulation.columns["score"] ** 2).all())
    (['label', 'score'], True)
    """
    at_least(1, n_rows=n_rows)
    if kind not in KINDS:
        raise ParameterError(f"unknown kind of data {kind!r}; there are {', '.join(KINDS)}")
    rng = np.random.default_rng(seed)
    return _clicks(rng, int(n_rows)) if kind == CLICKS else _beta(rng, int(n_rows), BETA_SETTINGS[kind])


def _clicks(rng: np.random.Generator, n_rows: int) -> Simulation:
    """Clicks whose prediction is right by day on desktops, too low on mobiles, too high on desktops at night."""
    device = rng.choice(["mobile", "desktop"], n_rows)
    night = rng.random(n_rows) < 0.4
    site = np.char.add("s", np.minimum(rng.geometric(0.15, n_rows), 30).astype(str))
    age = rng.integers(18, 80, n_rows)
    pctr = rng.beta(1.2, 9.0, n_rows)
    bias = np.where(device == "mobile", MOBILE_BIAS, np.where(night, DESKTOP_NIGHT_BIAS, 1.0))
    truth = np.clip(pctr * bias, 0.0, 1.0)
    click = (rng.random(n_rows) < truth).astype(np.int8)
    columns = {"device": device, "night": night, "site": site, "age": age, "pctr": pctr, "click": click}
    return Simulation(columns, "pctr", "click", truth)


def _beta(rng: np.random.Generator, n_rows: int, setting: BetaSetting) -> Simulation:
    score = rng.beta(setting.a, setting.b, n_rows)
    truth = score**setting.power
    label = (rng.random(n_rows) < truth).astype(np.int8)
    return Simulation({"score": score, "label": label}, "score", "label", truth)
