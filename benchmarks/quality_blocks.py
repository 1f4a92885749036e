"""Held-out quality in time order and by groups: runs the peers and MBCT, keeps losses by block.

Called by ``benchmarks/quality.py --order time`` and ``--order groups``. Results are kept line by line in
``docs/benchmarks/quality-time.jsonl`` and ``quality-groups.jsonl``; what is kept is not computed again unless it is
asked for by name.
"""

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from made_with import commit
from mbct.progress import progress
from quality_data import pairs, splits
from quality_page import kept_results
from quality_peers import SIZES, mbct_sizes, row_losses, run

MAX_SUMS = 200
"""More blocks than these are merged, whole, before their sums are kept; standard errors stay valid."""
Key = tuple[str, str, bool, str]


def key(result: dict[str, Any]) -> Key:
    """What a result is of: data set, base, with or without calendar columns, method."""
    return result["data"], result["base"], result["calendar"], result["method"]


def latest(path: Path) -> dict[Key, dict[str, Any]]:
    """Kept results; of two of one key the later one."""
    return {key(result): result for result in kept_results(path)}


def block_sums(values: np.ndarray, block: np.ndarray) -> np.ndarray:
    """Sums of rows by block, in order of the blocks; many blocks are merged to at most ``MAX_SUMS``."""
    _, position = np.unique(block, return_inverse=True)
    n_blocks = int(position.max()) + 1
    merged = position if n_blocks <= MAX_SUMS else position * MAX_SUMS // n_blocks
    return np.bincount(merged, values)


def measure(pair: tuple[str, str, bool], methods: Iterable[str], order: str, folder: Path) -> Iterable[dict[str, Any]]:
    """Every method on one pair: log loss, sums of loss and numbers of rows by block, AUC, seconds."""
    from sklearn.metrics import roc_auc_score

    name, base, calendar = pair
    split = splits(name, base, calendar, folder)
    y, block = split.eval_label, split.eval_block
    rows = block_sums(np.ones(len(y)), block).astype(int)
    methods = list(methods)
    own = [method for method in methods if method in SIZES]
    ours = mbct_sizes(split, order, 0, own) if own else {}
    for method in methods:
        started = time.perf_counter()
        p, held = ours[method] if method in ours else run(method, split, order)
        seconds = round(time.perf_counter() - started, 2)
        loss = row_losses(p, y)
        yield {
            "data": name,
            "base": base,
            "calendar": calendar,
            "method": method,
            "commit": commit(),
            "log_loss": round(float(loss.mean()), 7),
            "auc": round(float(roc_auc_score(y, p)), 6),
            "seconds": seconds,
            **held,
            "block_loss": block_sums(loss, block).round(3).tolist(),
            # The same for every method of a pair, so the identity alone keeps it.
            **({"block_rows": rows.tolist()} if method == "identity" else {}),
        }


def run_order(
    order: str, folder: Path, path: Path, methods: list[str], again: Iterable[str] = (), names: Iterable[str] = ()
) -> list[dict[str, Any]]:
    """Compute what is missing and the methods in ``again``; the file then has one line for each pair and method."""
    kept = latest(path)
    chosen = [pair for pair in pairs(order) if not names or pair[0] in names]
    with progress(f"quality, {order}", len(chosen)) as advance, path.open("a") as log:
        for pair in chosen:
            missing = [m for m in methods if m in again or (*pair, m) not in kept]
            for result in measure(pair, missing, order, folder) if missing else ():
                log.write(json.dumps(result) + "\n")
                log.flush()
            advance(1)
    place = {pair: i for i, pair in enumerate(pairs(order))}
    results = sorted(latest(path).values(), key=lambda r: place.get(key(r)[:3], len(place)))
    lines = "".join(json.dumps(result) + "\n" for result in results)
    if lines != path.read_text():
        path.write_text(lines)
    return results
