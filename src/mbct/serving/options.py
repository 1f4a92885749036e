"""What a user may set of the service: its limits, its secrets, its feedback loop."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from mbct.errors import ParameterError

FsyncPolicy = Literal["always", "interval", "never"]


@dataclass(frozen=True)
class Limits:
    """How much one client may ask for."""

    body_bytes: int = 8 * 2**20
    rows: int = 10_000
    """Rows of one request."""
    text_length: int = 1_000
    """Characters of one category value."""
    body_seconds: float = 10.0
    """Time to receive a request's body."""
    header_seconds: float = 10.0
    """Time to receive a request's headers."""
    header_bytes: int = 64 * 2**10
    keep_alive_seconds: int = 30
    drain_seconds: int = 20
    """Time for requests under way when the service is asked to stop."""
    connections: int = 1_000
    unseen_labels: int = 50
    """Features with a metric of their own for unseen values; the others share one."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ParameterError(f"limit {name}={value!r} must be above 0")


@dataclass(frozen=True)
class FeedbackOptions:
    """The feedback loop: outcomes joined with recent scores.

    ``segment`` names a feature: live metrics and alarms are kept for each of its first ``segments`` values.
    """

    folder: Path | None = None
    """Where scores and outcomes are journalled, so that a crash loses none; None keeps them in memory alone."""
    remembered: int = 200_000
    """Scores that wait for their outcome."""
    remember_seconds: float = 86_400.0
    flush_seconds: float = 60.0
    """How often the outcomes' cells are handed to the sink."""
    segment: str | None = None
    segments: int = 20
    alarm_level: float = 0.01
    """Chance that a calibrated service ever raises an alarm, over all segments together."""
    tolerance: float = 0.02
    """Relative deviation of the odds that raises no alarm."""
    online: bool = False
    """Recalibrate between retrains: intercept, slope and offsets of segments from the outcomes."""
    max_shift: float = 0.7
    """The most that the online layer may move log-odds; 0.7 doubles or halves the odds."""
    calibeating: bool = False
    """Let the online layer also correct ranges of probability."""
    fsync: FsyncPolicy = "interval"
    """When the journal reaches the disk itself: before each answer ("always"), once a second ("interval"), or when
    the system sees fit ("never"). A killed process loses nothing with any of them; a loss of power may."""

    def __post_init__(self) -> None:
        for name in ("remembered", "remember_seconds", "flush_seconds", "segments"):
            if not getattr(self, name) > 0:
                raise ParameterError(f"{name}={getattr(self, name)!r} must be above 0")
        if self.fsync not in get_args(FsyncPolicy):
            raise ParameterError(f"fsync={self.fsync!r} must be one of {', '.join(get_args(FsyncPolicy))}")


@dataclass(frozen=True)
class ServiceOptions:
    """Everything but the model: where to listen, whom to trust, how much to take.

    Parameters
    ----------
    host : str, default="127.0.0.1"
        Address to listen on.
    port : int, default=8080
        Port to listen on.
    token : str or None, default=None
        Bearer token, 16 characters or more, that every request but health, page and schema must carry.
    poll_seconds : float, default=1.0
        How often the model's source is looked at, if nothing tells of a change before.
    workers : int, default=1
        Processes that share the port. Outcomes need one: only the process that gave a score can join it.
    allow_other_columns : bool, default=False
        Swap in a model even if it needs columns that the one in service does not have.
    limits : Limits, default=Limits()
        How much one client may ask for.
    feedback : FeedbackOptions, default=FeedbackOptions()
        How outcomes are joined with recent scores.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    token: str | None = field(default=None, repr=False)
    poll_seconds: float = 1.0
    workers: int = 1
    allow_other_columns: bool = False
    limits: Limits = field(default_factory=Limits)
    feedback: FeedbackOptions = field(default_factory=FeedbackOptions)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise ParameterError(f"port={self.port!r} must be between 0 and 65535")
        if self.token is not None and len(self.token) < 16:
            raise ParameterError("the bearer token has fewer than 16 characters: anyone could guess it")
        if not self.poll_seconds > 0:
            raise ParameterError(f"poll_seconds={self.poll_seconds!r} must be above 0")
        if self.workers < 1:
            raise ParameterError(f"workers={self.workers!r} must be at least 1")
        if self.workers > 1 and self.feedback.online:
            raise ParameterError(
                f"the online layer needs one process, not workers={self.workers}: others see no outcome"
            )
        if self.workers > 1 and self.feedback.folder is not None:
            raise ParameterError(
                f"a journal needs one process, not workers={self.workers}: an outcome must reach the process that "
                "gave the score; run one service for each journal and balance by the id"
            )
