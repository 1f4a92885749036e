"""What a metric returns: a float that also knows its interval, its p-value and how both were found."""

from dataclasses import dataclass
from typing import Any, Self

from mbct.stats.cumulative_error import in_sigmas


@dataclass(frozen=True)
class Interval:
    """A confidence interval for the quantity that the metric estimates.

    The basic bootstrap: replicates of a calibration error overshoot the estimate as the estimate overshoots the truth,
    so the interval reaches from 2·value − upper quantile to 2·value − lower quantile. It may lie wholly below the value
    where noise makes most of it.

    Attributes
    ----------
    lower, upper : float
        Its ends.
    confidence : float
        Its level.
    n_bootstrap : int
        Number of resamples behind it.
    """

    lower: float
    upper: float
    confidence: float
    n_bootstrap: int

    def __str__(self) -> str:
        return f"{self.confidence:.0%} interval {self.lower:.5g} to {self.upper:.5g}, {self.n_bootstrap} resamples"


@dataclass(frozen=True, eq=False, repr=False)
class Estimate(float):
    """The value of a metric; compares, adds and formats as a float."""

    value: float
    """The value."""
    interval: Interval | None = None
    """Bootstrap interval, where ``confidence`` was given."""
    p_value: float | None = None
    """Probability of a value at least as extreme by chance, where it was computed."""
    null: str | None = None
    """What the p-value supposes."""

    def __new__(cls, value: float, *_: Any, **__: Any) -> Self:
        """A float of ``value``; the dataclass adds the rest."""
        return super().__new__(cls, value)

    def notes(self) -> list[str]:
        """Everything beside the value, in words."""
        texts = [str(self.interval)] if self.interval is not None else []
        if self.p_value is not None:
            texts.append(f"p = {self.p_value:.3g} if {self.null}")
        return texts

    def __str__(self) -> str:
        texts = "; ".join(self.notes())
        return f"{self.value:.6g}" + (f" ({texts})" if texts else "")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"


@dataclass(frozen=True, eq=False, repr=False)
class BinnedEstimate(Estimate):
    """An error over bins."""

    n_bins: int = 0
    """How many there were."""

    def notes(self) -> list[str]:
        """Everything beside the value, in words."""
        return [f"{self.n_bins} bins", *super().notes()]


@dataclass(frozen=True, eq=False, repr=False)
class MultiViewEstimate(Estimate):
    """MVCE and the views it was taken over."""

    standard_error: float = 0.0
    """What the choice of views leaves uncertain; 0 where nothing is random."""
    views: str = "shuffle"
    """``shuffle``, ``sorted`` or ``features``."""
    method: str = "monte-carlo"
    """``monte-carlo`` or ``closed-form``."""
    n_views: int = 0
    """Number of views; 0 for the closed form."""
    n_bins: int | None = None
    """Bins in each view; None where views differ."""

    def notes(self) -> list[str]:
        """Everything beside the value, in words."""
        return [f"± {self.standard_error:.2g} over {self._views()}", *super().notes()]

    def _views(self) -> str:
        if self.method == "closed-form":
            return f"all shuffles, {self.n_bins} bins, closed form"
        bins = "" if self.n_bins is None else f" of {self.n_bins} bins"
        return f"{self.n_views} {self.views} view{'' if self.n_views == 1 else 's'}{bins}"


@dataclass(frozen=True, eq=False, repr=False)
class BrierEstimate(Estimate):
    """Brier score = miscalibration − discrimination + uncertainty."""

    miscalibration: float = 0.0
    """What isotonic recalibration would gain."""
    discrimination: float = 0.0
    """What the recalibrated predictions gain over the label rate."""
    uncertainty: float = 0.0
    """Score of always predicting the label rate."""

    def notes(self) -> list[str]:
        """Everything beside the value, in words."""
        parts = (
            f"miscalibration {self.miscalibration:.5g} − discrimination {self.discrimination:.5g} "
            f"+ uncertainty {self.uncertainty:.5g}"
        )
        return [parts, *super().notes()]


@dataclass(frozen=True, eq=False, repr=False)
class ScaledEstimate(Estimate):
    """ECCE and its scale."""

    sigma: float = 0.0
    """Standard deviation σ of the mean residual where the predictions are right."""

    @property
    def scaled(self) -> float:
        """Value / σ: around 1.6 by chance alone, 2.5 once in twenty times."""
        return in_sigmas(self.value, self.sigma)

    def notes(self) -> list[str]:
        """Everything beside the value, in words."""
        return [f"{self.scaled:.3g} σ", *super().notes()]


@dataclass(frozen=True, eq=False, repr=False)
class RelativeEstimate(Estimate):
    """A relative error over values or blocks, some of which have no positive."""

    all_values: float = 0.0
    """The error with the values that have no positive, each taken to have one."""
    unseen_share: float = 0.0
    """Share of the rows whose value has no positive."""

    def notes(self) -> list[str]:
        """Everything beside the value, in words."""
        return [f"{self.all_values:.6g} with the {self.unseen_share:.2%} of rows without a positive", *super().notes()]


@dataclass(frozen=True, eq=False, repr=False)
class BlockEstimate(Estimate):
    """Cal-N and its blocks."""

    n_blocks: int = 0
    """Number of blocks."""
    left_out: int = 0
    """Blocks left out for want of a positive."""

    def notes(self) -> list[str]:
        """Everything beside the value, in words."""
        return [f"{self.n_blocks} blocks, {self.left_out} left out without a positive", *super().notes()]
