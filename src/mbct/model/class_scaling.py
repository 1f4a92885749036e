"""The frozen scaling of many classes: what an export needs of matrix scaling and Dirichlet calibration."""

from dataclasses import dataclass

from mbct.validation import FloatArray


@dataclass(frozen=True, eq=False)
class ClassScaling:
    """softmax(W·x + b), x = ln((1 − u)·softmax(a·ln p) + u/K), p one score for each class, held at or above 1e-9."""

    scores: tuple[str, ...]
    """Columns of the scores."""
    classes: tuple[str, ...]
    """Class of each, as text."""
    inverse_temperature: float
    """a."""
    uniform: float
    """u."""
    weights: FloatArray
    """W, of shape (K, K)."""
    intercept: FloatArray
    """b, of shape (K,)."""
