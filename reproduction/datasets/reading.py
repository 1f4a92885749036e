"""Files as polars frames, imported only when data are read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mbct.errors import DataError, MissingDependencyError
from reproduction.datasets.dataset import require_columns


def polars() -> Any:
    """The polars module, or how to get it."""
    try:
        import polars as pl
    except ImportError as error:
        raise MissingDependencyError(
            "the experiments read their data with polars, which is not installed: pip install 'mbct[reproduce]'"
        ) from error
    return pl


def if_there(path: Path) -> Path | None:
    """The path of a file, None where there is none."""
    return path if path.is_file() else None


def header(path: Path) -> list[str]:
    """Column names of a CSV or Parquet file."""
    pl = polars()
    try:
        if path.suffix == ".parquet":
            return list(pl.read_parquet_schema(path))
        return list(pl.read_csv(path, n_rows=0).columns)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{path} cannot be read as {path.suffix.lstrip('.') or 'text'}: {error}") from error


def read(path: Path, columns: Sequence[str]) -> Any:
    """The named columns of a CSV or Parquet file; the file's header is checked first."""
    pl = polars()
    require_columns(header(path), tuple(columns), str(path))
    try:
        if path.suffix == ".parquet":
            return pl.read_parquet(path, columns=list(columns))
        return pl.read_csv(path, columns=list(columns), infer_schema_length=10_000)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
