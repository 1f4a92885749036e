"""What metrics return: a float that knows its interval and p-value, and frozen tables that print."""

import math
from dataclasses import dataclass
from typing import Any, Self

from mbct.errors import DataError
from mbct.lazy import optional
from mbct.notebook import html_table
from mbct.stats.expected_error import in_sigmas
from mbct.text import table_lines


@dataclass(frozen=True)
class Table:
    """Named columns in order; ``table[name]`` is the tuple of a column's values."""

    columns: tuple[tuple[str, tuple[Any, ...]], ...]
    """Name and values of each column."""

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [name for name, _ in self.columns]

    def __len__(self) -> int:
        return len(self.columns[0][1]) if self.columns else 0

    def __getitem__(self, name: str) -> tuple[Any, ...]:
        for known, values in self.columns:
            if known == name:
                return values
        raise DataError(f"the table has no column {name!r}; it has {', '.join(self.names)}")

    def to_dict(self) -> dict[str, list[Any]]:
        """Columns as plain lists; infinity and not-a-number become None, so that it is valid JSON."""
        return {
            name: [None if isinstance(value, float) and not math.isfinite(value) else value for value in values]
            for name, values in self.columns
        }

    def texts(self) -> list[tuple[str, ...]]:
        """The rows as texts."""
        return list(zip(*(map(cell_text, values) for _, values in self.columns), strict=True))

    def to_pandas(self) -> Any:
        """A pandas data frame."""
        return optional("a data frame needs pandas: pip install pandas", "pandas").DataFrame(dict(self.columns))

    def _repr_html_(self) -> str:
        return html_table("", self.names, self.texts())

    def __str__(self) -> str:
        left = [name for name, values in self.columns if all(isinstance(value, str) for value in values)]
        return "\n".join(table_lines(self.names, self.texts(), left))


def cell_text(value: Any) -> str:
    """A value of a table as text: five digits, a dash where there is none.

    >>> cell_text(0.123456), cell_text(1234.0), cell_text(None), cell_text("a")
    ('0.12346', '1,234', '–', 'a')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) >= 10 else f"{value:.5g}"
    return str(value)


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
        interval = "" if self.interval is None else str(self.interval)
        chance = "" if self.p_value is None else f"p = {self.p_value:.3g} if {self.null}"
        return [text for text in (self._details(), interval, chance) if text]

    def _details(self) -> str:
        """What this kind of value has beside it, in words."""
        return ""

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

    def _details(self) -> str:
        return f"{self.n_bins} bins"


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

    def _details(self) -> str:
        bins = "" if self.n_bins is None else f" of {self.n_bins} bins"
        views = f"{self.n_views} {self.views} view{'' if self.n_views == 1 else 's'}{bins}"
        if self.method == "closed-form":
            views = f"all shuffles, {self.n_bins} bins, closed form"
        return f"± {self.standard_error:.2g} over {views}"


@dataclass(frozen=True, eq=False, repr=False)
class ScoreEstimate(Estimate):
    """A proper score = miscalibration − discrimination + uncertainty."""

    miscalibration: float = 0.0
    """What isotonic recalibration would gain."""
    discrimination: float = 0.0
    """What the recalibrated predictions gain over the label rate."""
    uncertainty: float = 0.0
    """Score of always predicting the label rate."""

    def _details(self) -> str:
        return (
            f"miscalibration {self.miscalibration:.5g} − discrimination {self.discrimination:.5g} "
            f"+ uncertainty {self.uncertainty:.5g}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class ScaledEstimate(Estimate):
    """ECCE and its scale."""

    sigma: float = 0.0
    """Standard deviation σ of the mean residual where the predictions are right."""

    @property
    def scaled(self) -> float:
        """Value / σ: around 1.6 by chance alone, 2.5 once in twenty times."""
        return in_sigmas(self.value, self.sigma)

    def _details(self) -> str:
        return f"{self.scaled:.3g} σ"


@dataclass(frozen=True, eq=False, repr=False)
class RelativeEstimate(Estimate):
    """A relative error over values or blocks, some of which have no positive."""

    all_values: float = 0.0
    """The error with the values that have no positive, each taken to have one."""
    unseen_share: float = 0.0
    """Share of the rows whose value has no positive."""

    def _details(self) -> str:
        return f"{self.all_values:.6g} with the {self.unseen_share:.2%} of rows without a positive"


@dataclass(frozen=True, eq=False, repr=False)
class BlockEstimate(Estimate):
    """Cal-N and its blocks."""

    n_blocks: int = 0
    """Number of blocks."""
    left_out: int = 0
    """Blocks left out for want of a positive."""

    def _details(self) -> str:
        return f"{self.n_blocks} blocks, {self.left_out} left out without a positive"
