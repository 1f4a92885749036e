"""Where tables go: Parquet or CSV by the file's ending, atomically, or standard output; batch by batch."""

import csv
import gzip
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from io import StringIO
from pathlib import Path
from typing import Any, BinaryIO, Self, cast

from mbct.errors import ParameterError
from mbct.files import open_atomically

STANDARD_OUTPUT = "-"
FORMATS = ("csv", "parquet")
_NEEDS_QUOTES = r'^$|[",\r\n]'
"""Texts that CSV would read as something else without quotes: with its own signs, or empty, which means missing."""


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
    chosen = form or form_of(target)
    if target == STANDARD_OUTPUT and chosen == "parquet" and _on_terminal():
        raise ParameterError("Parquet is no text for a terminal: redirect it to a file, or take --format csv")
    n_rows, writer = 0, None
    with _sink(target) as sink, ExitStack() as open_writer:
        for table in tables:
            writer = writer or open_writer.enter_context(_writer(sink, table.schema, chosen))
            writer.write_table(table)
            n_rows += table.num_rows
    return n_rows


def _on_terminal() -> bool:
    # While a bar is shown, rich before 15 puts an object before the stream that never says it is a terminal.
    try:
        return os.isatty(sys.stdout.fileno())
    except OSError:
        return False


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


def form_of(target: str) -> str:
    """The format that the ending of a file's name asks for."""
    if target == STANDARD_OUTPUT:
        return "csv"
    ending = Path(target.removesuffix(".gz")).suffix.lower()
    forms = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet"}
    if ending not in forms:
        raise ParameterError(f"cannot tell the format of {target}: name it .parquet or .csv, or pass --format")
    return forms[ending]


def _writer(sink: BinaryIO, schema: Any, form: str) -> Any:
    if form == "csv":
        return _CSVWriter(sink, schema.names)
    from pyarrow import parquet

    return parquet.ParquetWriter(sink, schema, compression="zstd")


class _CSVWriter:
    """CSV with quotes only where they are needed, so that the columns of a file pass through it unchanged."""

    def __init__(self, sink: BinaryIO, names: Sequence[str]):
        header = StringIO(newline="")
        csv.writer(header, lineterminator="\n").writerow(names)
        sink.write(header.getvalue().encode())
        self._sink = sink

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Whoever opened the sink closes it."""

    def write_table(self, table: Any) -> None:
        """Write the rows of ``table``."""
        import pyarrow as pa
        from pyarrow import compute

        cells = []
        for column in table.columns:
            text = column.cast(pa.string())
            if text.type == column.type:
                inside = compute.replace_substring(text, '"', '""')
                needed = compute.match_substring_regex(text, _NEEDS_QUOTES)
                text = compute.if_else(needed, compute.binary_join_element_wise('"', inside, '"', ""), text)
            cells.append(text)
        lines = compute.binary_join_element_wise(*cells, ",", null_handling="replace", null_replacement="")
        for chunk in compute.binary_join_element_wise(lines, "\n", "").chunks:
            n_bytes = compute.sum(compute.binary_length(chunk)).as_py()
            self._sink.write(memoryview(chunk.buffers()[2])[:n_bytes])
