"""A frozen table: columns of equal length that print, and turn into a dict or a pandas frame."""

import math
from dataclasses import dataclass
from typing import Any

from mbct.errors import DataError, MissingDependencyError
from mbct.notebook import html_table


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
        return {name: [value if _is_plain(value) else None for value in values] for name, values in self.columns}

    def to_pandas(self) -> Any:
        """A pandas data frame."""
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingDependencyError("a data frame needs pandas: pip install pandas") from error
        return pd.DataFrame(dict(self.columns))

    def _repr_html_(self) -> str:
        rows = zip(*(map(_text, values) for _, values in self.columns), strict=True)
        return html_table("", self.names, rows)

    def __str__(self) -> str:
        cells = [[name, *map(_text, values)] for name, values in self.columns]
        widths = [max(map(len, column)) for column in cells]
        left = [all(isinstance(value, str) for value in values) for _, values in self.columns]
        lines = [
            "  ".join(
                text.ljust(w) if to_left else text.rjust(w) for text, w, to_left in zip(row, widths, left, strict=True)
            )
            for row in zip(*cells, strict=True)
        ]
        return "\n".join(line.rstrip() for line in lines)


def _is_plain(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _text(value: Any) -> str:
    if _is_nan(value):
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) >= 10 else f"{value:.5g}"
    return str(value)
