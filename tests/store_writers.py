"""What the processes of the crash tests run, and the cells they write; each batch is the same whoever writes it."""

import os
import signal
import time
from pathlib import Path

import numpy as np

from mbct.model.bins import CategoryBins, FeatureBins, NumberBins
from mbct.store import CellStore
from mbct.training.cells import Cells, build_cells

BINS = FeatureBins((NumberBins("p", (0.2, 0.5)), CategoryBins("site", ("a", "b", "c"))))


def batch_of(number: int, n_rows: int = 40, bins: FeatureBins = BINS) -> Cells:
    """Cells of batch ``number``: always the same."""
    rng = np.random.default_rng(number)
    codes = np.column_stack([rng.integers(0, n, n_rows) for n in bins.n_codes]).astype(bins.code_type)
    y_prob = rng.random(n_rows)
    return build_cells(codes, y_prob, (rng.random(n_rows) < y_prob).astype(float), None, bins, "cell")


def day_of(number: int) -> str:
    """Batches are spread over three days."""
    return f"2024-05-0{1 + number % 3}"


def append_batches(folder: Path, numbers: list[int], acknowledged: int) -> None:
    """Append batches; the number of each one that is safe is written to the pipe ``acknowledged``."""
    store = CellStore(folder)
    for number in numbers:
        store.append(batch_of(number), BINS, day=day_of(number), batch=str(number))
        os.write(acknowledged, b"%d\n" % number)


def replace_batch(folder: Path, number: int, content: int) -> None:
    """Exchange batch ``number`` for the cells of batch ``content``."""
    store = CellStore(folder)
    store.append(batch_of(content), BINS, day=day_of(number), batch=str(number), replace=True)


def compact_for_ever(folder: Path, grace_seconds: float) -> None:
    """Join batches again and again."""
    while True:
        CellStore(folder).compact(grace_seconds=grace_seconds)


def killed_at(step: int) -> None:
    """Die by SIGKILL at the ``step``-th time that the store touches a file."""
    from mbct.store import storage

    seen = 0

    def dying(function):
        def wrapped(*args, **kwargs):
            nonlocal seen
            seen += 1
            if seen == step:
                os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(60)
            return function(*args, **kwargs)

        return wrapped

    for name in ("link", "fsync", "fdopen"):
        setattr(storage.os, name, dying(getattr(os, name)))
    for name in ("replace", "unlink", "chmod", "read_bytes", "mkdir"):
        setattr(storage.Path, name, dying(getattr(storage.Path, name)))
