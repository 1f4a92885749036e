"""SplitMix64 (Steele, Lea & Flood 2014): a random stream of 64-bit words that a kernel can carry in one register."""

import numpy as np

from mbct.jit import kernel

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
