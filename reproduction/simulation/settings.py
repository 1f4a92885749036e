"""The simulated predictors: how predictions are distributed and how far from the truth they are."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import integrate, special

from reproduction import printed
from reproduction.arrays import FloatArray


@dataclass(frozen=True)
class Simulation:
    """Predictions h ~ Beta(a, b) whose labels have E[Y | h = c] = truth(c)."""

    name: str
    a: float
    b: float
    truth_text: str
    truth: Callable[[FloatArray], FloatArray]
    printed_tce: float | None = None

    @property
    def title(self) -> str:
        """Title of figures and tables."""
        return f"Beta({self.a:g}, {self.b:g}), E[Y|c] = {self.truth_text}"

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """``n`` predictions and labels."""
        y_prob = rng.beta(self.a, self.b, n)
        return y_prob, (rng.random(n) < self.truth(y_prob)).astype(np.float64)

    def expectation(self, function: Callable[[FloatArray], FloatArray]) -> float:
        """E[function(h)] by quadrature, in a variable v that takes away the density's poles.

        c = u^{1/a} rids the one at 0, then 1 − u = v^{1/b} the one at 1.
        """
        beta = special.beta(self.a, self.b)

        def integrand(v: float) -> float:
            u = -np.expm1(np.log(v) / self.b) if v > 0 else 1.0
            c = u ** (1.0 / self.a)
            gap = -np.expm1(np.log1p(-(v ** (1.0 / self.b))) / self.a) if v < 1 else 1.0
            density = (gap / v ** (1.0 / self.b)) ** (self.b - 1.0) if v > 0 else self.a ** (1.0 - self.b)
            return float(function(np.asarray(c)) * density / (self.a * self.b * beta))

        value, _ = integrate.quad(integrand, 0.0, 1.0, epsabs=1e-12, epsrel=1e-12, limit=500)
        return float(value)

    def tce(self, norm: float) -> float:
        """TCE_p = (E|E[Y|X] − f(X)|^p)^{1/p}, equation (tce), without sampling."""
        return float(self.expectation(lambda c: np.abs(self.truth(c) - c) ** norm) ** (1.0 / norm))

    def bias(self) -> float:
        """E[f(X)] − E[Y]: all that a shuffled bin can see of the error."""
        return self.expectation(lambda c: c - self.truth(c))


SIMULATIONS = (
    Simulation("main", 0.2, 0.7, "c²", lambda c: c**2, printed.TCE),
    Simulation("appendix-square", 0.4, 0.7, "c²", lambda c: c**2),
    Simulation("appendix-cube", 0.6, 0.7, "c³", lambda c: c**3),
    Simulation("cancelling", 0.7, 0.7, "3c² − 2c³", lambda c: 3.0 * c**2 - 2.0 * c**3),
)
"""The paper's three, and one of ours whose error changes sign so that over all rows it cancels."""
