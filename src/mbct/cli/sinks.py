"""Where tables go: Parquet or CSV by the file's ending, atomically, or standard output; batch by batch."""

import gzip
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from mbct.errors import ParameterError
from mbct.files import open_atomically

STANDARD_OUTPUT = "-"
FORMATS = ("csv", "parquet")


class _CompleteWrites:
    """Standard output that takes all it is given: unbuffered (PYTHONUNBUFFERED) it may take a part at a time."""

    closed = False

    def write(self, content: Any) -> int:
        """Write all of ``content``."""
        left = memoryview(content)
        size = left.nbytes
        while left:
            left = left[sys.stdout.buffer.write(left) :]
        return size

    def flush(self) -> None:
        """Hand on what is buffered."""
        sys.stdout.buffer.flush()


def write_tables(tables: Iterable[Any], target: str, form: str | None = None) -> int:
    """Write Arrow tables of one schema, one at a time, to ``target``; the number of their rows.

    ``form`` overrides the ending; ``-`` is CSV on standard output.
    """
    chosen = form or _form_of(target)
    if target == STANDARD_OUTPUT and chosen == "parquet" and sys.stdout.isatty():
        raise ParameterError("Parquet is no text for a terminal: redirect it to a file, or take --format csv")
    n_rows, writer = 0, None
    with _sink(target) as sink, ExitStack() as open_writer:
        for table in tables:
            writer = writer or open_writer.enter_context(_writer(sink, table.schema, chosen))
            writer.write_table(table)
            n_rows += table.num_rows
    return n_rows


def print_bytes(content: bytes) -> None:
    """All of ``content`` on standard output."""
    output = _CompleteWrites()
    output.write(content)
    output.flush()


@contextmanager
def _sink(target: str) -> Iterator[BinaryIO]:
    if target == STANDARD_OUTPUT:
        output = _CompleteWrites()
        yield cast("BinaryIO", output)
        output.flush()
        return
    with open_atomically(target) as handle:
        if not target.endswith(".gz"):
            yield handle
            return
        with gzip.GzipFile(filename="", fileobj=handle, mode="wb", mtime=0) as packed:
            yield cast("BinaryIO", packed)


def _form_of(target: str) -> str:
    if target == STANDARD_OUTPUT:
        return "csv"
    ending = Path(target.removesuffix(".gz")).suffix.lower()
    forms = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet"}
    if ending not in forms:
        raise ParameterError(f"cannot tell the format of {target}: name it .parquet or .csv, or pass --format")
    return forms[ending]


def _writer(sink: BinaryIO, schema: Any, form: str) -> Any:
    from pyarrow import csv, parquet

    return csv.CSVWriter(sink, schema) if form == "csv" else parquet.ParquetWriter(sink, schema, compression="zstd")
