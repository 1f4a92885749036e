"""Where tables go: Parquet or CSV by the file's ending, whole or not at all, or standard output."""

import gzip
import sys
from pathlib import Path
from typing import Any

from mbct.errors import ParameterError
from mbct.files import write_atomically

STANDARD_OUTPUT = "-"
FORMATS = ("csv", "parquet")


def write_table(table: Any, target: str, form: str | None = None) -> None:
    """Write an Arrow table to ``target``; ``form`` overrides the ending, ``-`` is CSV on standard output."""
    chosen = form or _form_of(target)
    content = _encoded(table, chosen)
    if target != STANDARD_OUTPUT:
        write_atomically(target, gzip.compress(content, mtime=0) if target.endswith(".gz") else content)
        return
    if chosen == "parquet" and sys.stdout.isatty():
        raise ParameterError("Parquet is no text for a terminal: redirect it to a file, or take --format csv")
    print_bytes(content)


def print_bytes(content: bytes) -> None:
    """All of ``content`` on standard output: an unbuffered stream (PYTHONUNBUFFERED) may take only a part at a time."""
    left = memoryview(content)
    while left:
        left = left[sys.stdout.buffer.write(left) :]
    sys.stdout.buffer.flush()


def _form_of(target: str) -> str:
    if target == STANDARD_OUTPUT:
        return "csv"
    ending = Path(target.removesuffix(".gz")).suffix.lower()
    forms = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet"}
    if ending not in forms:
        raise ParameterError(f"cannot tell the format of {target}: name it .parquet or .csv, or pass --format")
    return forms[ending]


def _encoded(table: Any, form: str) -> bytes:
    import pyarrow as pa
    from pyarrow import csv, parquet

    sink = pa.BufferOutputStream()
    if form == "csv":
        csv.write_csv(table, sink)
    else:
        parquet.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())
