"""What one run of the experiments is given."""

from dataclasses import dataclass
from pathlib import Path

QUICK_REPETITIONS, FULL_REPETITIONS = 1, 5


@dataclass(frozen=True)
class Settings:
    """``quick`` shrinks every experiment so that all of them take minutes; ``data`` is the folder of data files.

    ``repetitions`` counts the splits of each data set and the simulated markets; more of them narrow the intervals.
    """

    quick: bool
    seed: int
    data: Path
    repetitions: int

    @property
    def mode(self) -> str:
        """How a reader is told which of the two it was."""
        return "quick" if self.quick else "full"
