"""What one run of the experiments is given."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """``quick`` shrinks every experiment so that all of them take minutes; ``data`` is the folder of data files."""

    quick: bool
    seed: int
    data: Path

    @property
    def mode(self) -> str:
        """How a reader is told which of the two it was."""
        return "quick" if self.quick else "full"
