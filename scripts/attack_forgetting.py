"""Millions of scores expire at once: forgetting them is linear, a few in each request, also in a restart."""

import random
import time
from pathlib import Path

import numpy as np

from builders import random_model, random_rows
from mbct.serving.batch import BatchScorer
from mbct.serving.feedback import FeedbackLoop
from mbct.serving.options import FeedbackOptions

_BATCH = 10_000


def attack_forgetting(folder: Path, n: int, draw: random.Random) -> tuple[str, int]:  # noqa: ARG001 - one shape
    """Forget n scores and n/4, in memory and from a journal; a fault is a score left or time out of proportion."""
    lines, faults = [], 0
    for kind, where in (("in memory", None), ("by a restart", folder)):
        few, many = (_forgotten(None if where is None else where / str(k), k) for k in (n // 4, n))
        faults += few[1] + many[1] + (many[0] / few[0] > 8.0)
        lines.append(f"{kind} {n // 4:,} in {few[0]:.1f} s and {n:,} in {many[0]:.1f} s (longest call {many[2]:.2f} s)")
    return "expired scores forgotten " + ", ".join(lines), faults


def _forgotten(folder: Path | None, n: int) -> tuple[float, int, float]:
    """Processor seconds to forget, scores left, and the longest call."""
    model = random_model(1, n_trees=1)
    columns = random_rows(3, model, _BATCH)
    scored = BatchScorer(model).score_columns([columns[name] for name in model.bins.names])
    now = [1.7e9]
    options = FeedbackOptions(folder=folder, remembered=2 * n, remember_seconds=3600.0, fsync="never")
    loop = FeedbackLoop(options, clock=lambda: now[0])
    for first in range(0, n, _BATCH):
        loop.remember(model.bins, [str(i) for i in range(first, first + _BATCH)], scored)
    now[0] += 3601.0
    began = time.process_time()
    if folder is not None:
        loop.close()
        loop = FeedbackLoop(options, clock=lambda: now[0])
    calls = [0.0]
    while loop.waiting and len(calls) < n:
        before = time.process_time()
        loop.join([("never scored", 1)])
        calls.append(time.process_time() - before)
    took = time.process_time() - began
    loop.close()
    return took, loop.waiting, float(np.max(calls))
