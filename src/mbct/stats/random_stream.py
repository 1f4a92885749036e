"""SplitMix64 (Steele, Lea & Flood 2014), a random stream that a kernel can carry in one register, and draws from it."""

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel

_TAIL = 0.02425
_CENTRE_TOP = (
    -39.69683028665376,
    220.9460984245205,
    -275.9285104469687,
    138.3577518672690,
    -30.66479806614716,
    2.506628277459239,
)
_CENTRE_LOW = (-54.47609879822406, 161.5858368580409, -155.6989798598866, 66.80131188771972, -13.28068155288572, 1.0)
_TAIL_TOP = (
    -0.007784894002430293,
    -0.3223964580411365,
    -2.400758277161838,
    -2.549732539343734,
    4.374664141464968,
    2.938163982698783,
)
_TAIL_LOW = (0.007784695709041462, 0.3224671290700398, 2.445134137142996, 3.754408661907416, 1.0)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@kernel
def next_state(state: np.uint64) -> np.uint64:
    """The state that follows ``state``."""
    return state + _STEP


@kernel
def mix(state: np.uint64) -> np.uint64:
    """Sixty-four random bits of a state.

    >>> int(mix(next_state(np.uint64(1234567))))
    6457827717110365317
    """
    bits = (state ^ (state >> np.uint64(30))) * _FIRST
    bits = (bits ^ (bits >> np.uint64(27))) * _SECOND
    return bits ^ (bits >> np.uint64(31))


@kernel
def random_bits(seed: np.uint64, i: int, stream: int) -> np.uint64:
    """64 random bits that depend on nothing but the seed, the position and the stream."""
    return mix(mix(seed + np.uint64(i) * np.uint64(0x9E3779B97F4A7C15)) + np.uint64(stream))


@kernel
def _popcount(bits: np.uint64) -> int:
    n = 0
    while bits != np.uint64(0):
        bits &= bits - np.uint64(1)
        n += 1
    return n


@kernel
def half_of(amount: float, seed: np.uint64, i: int, stream: int) -> float:
    """How much of ``amount`` units falls into the first of two random halves.

    Whole units are drawn one by one up to 62 (binomial), beyond that by the normal limit; what is left after the
    whole units goes with the first of them, so that a row of weight 1.5 is not evaluated on half of itself.
    """
    bits = random_bits(seed, i, stream)
    whole = int(amount + 1e-9)
    rest = max(amount - whole, 0.0)
    goes_with = np.uint64(0) if whole else np.uint64(63)
    taken = rest if (bits >> goes_with) & np.uint64(1) else 0.0
    if whole <= 62:
        return taken + _popcount(bits & ((np.uint64(1) << np.uint64(whole)) - np.uint64(1)))
    uniform = (float(bits >> np.uint64(12)) + 0.5) / 2.0**52
    draw = float(np.rint(0.5 * whole + 0.5 * np.sqrt(float(whole)) * _normal_quantile(uniform)))
    return taken + min(max(draw, 0.0), float(whole))


@kernel
def _polynomial(coefficients: tuple[float, ...], x: float) -> float:
    value = 0.0
    for coefficient in coefficients:
        value = value * x + coefficient
    return value


@kernel
def _normal_quantile(u: float) -> float:
    """Standard normal quantile by Acklam's rational approximation (relative error 1e-9)."""
    if u < _TAIL or u > 1.0 - _TAIL:
        q = np.sqrt(-2.0 * np.log(min(u, 1.0 - u)))
        tail = _polynomial(_TAIL_TOP, q) / _polynomial(_TAIL_LOW, q)
        return tail if u < 0.5 else -tail
    q = u - 0.5
    return q * _polynomial(_CENTRE_TOP, q * q) / _polynomial(_CENTRE_LOW, q * q)


@kernel
def split_amount(
    amount: float, n_folds: int, seed: np.uint64, i: int, stream: int, out: npt.NDArray[np.float64]
) -> None:
    """Units of ``amount`` spread over folds: one by one while few, else by halving normal limits (multinomial).

    What is left after the whole units goes with the first of them.
    """
    out[:] = 0.0
    whole = int(amount + 1e-9)
    rest = max(amount - whole, 0.0)
    if rest > 1e-9:
        goes_with = stream + 2 if whole else stream + 1
        out[int(random_bits(seed, i, goes_with) % np.uint64(n_folds))] += rest
    if whole <= 64:
        for unit in range(whole):
            out[int(random_bits(seed, i, stream + 2 + unit) % np.uint64(n_folds))] += 1.0
        return
    left = float(whole)
    for fold in range(n_folds - 1):
        share = 1.0 / (n_folds - fold)
        uniform = (float(random_bits(seed, i, stream + 2 + fold) >> np.uint64(12)) + 0.5) / 2.0**52
        spread = np.sqrt(left * share * (1.0 - share)) * _normal_quantile(uniform)
        draw = min(max(np.rint(left * share + spread), 0.0), left)
        out[fold] += draw
        left -= draw
    out[n_folds - 1] += left
