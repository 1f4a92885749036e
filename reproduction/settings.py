"""What one run of the experiments is given."""

from dataclasses import dataclass
from pathlib import Path

QUICK_REPETITIONS, FULL_REPETITIONS = 1, 7
"""As many as fit into five minutes and into an hour on two processors."""


@dataclass(frozen=True)
class Settings:
    """``quick`` shrinks every experiment so that all of them take minutes; ``data`` is the folder of data files.

    ``repetitions`` counts the splits of each data set and the simulated markets; more of them narrow the intervals.
    """

    quick: bool
    seed: int
    data: Path
    repetitions: int
