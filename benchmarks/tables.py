"""How fast a model of tables predicts in process, beside LightGBM with 500 trees of 31 leaves.

    PYTHONPATH=tests python benchmarks/tables.py [--rows 200000]

Both run on one thread, taking turns; seconds are those of the processor, the best of three. "Coded" begins with codes
(LightGBM: a matrix of numbers), "raw" with a pandas frame whose texts are texts. A single row goes through
``RowScorer``.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from builders import table_model
from exports import raw_rows
from mbct.data.columns import encode, read_columns
from mbct.serving.row import RowScorer

TURNS = 3
TEXT = ("origin", "goal")


def grown(rows: pd.DataFrame, label: np.ndarray) -> Any:
    """LightGBM of 500 trees with 31 leaves."""
    import lightgbm

    settings = {"objective": "binary", "num_leaves": 31, "learning_rate": 0.05, "verbosity": -1, "num_threads": 1}
    data = lightgbm.Dataset(categories(rows), label)
    return lightgbm.train(settings, data, 500)


def categories(rows: pd.DataFrame) -> pd.DataFrame:
    """Text as pandas categories."""
    return rows.astype({name: pd.CategoricalDtype([f"{name}_{i}" for i in range(300)]) for name in TEXT})


def best(work: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Least processor seconds of each piece of work, in turns."""
    seconds = dict.fromkeys(work, np.inf)
    for _ in range(TURNS):
        for name, run in work.items():
            began = time.process_time()
            run()
            seconds[name] = min(seconds[name], time.process_time() - began)
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    n_rows = parser.parse_args().rows
    tables, compact = table_model(1, "odds", 16, 90), table_model(1, "odds", 0, n_binary=8)
    training, rows = raw_rows(tables, 20_000, 2), raw_rows(tables, n_rows, 3)
    label = (np.random.default_rng(0).random(len(training)) < training["score"]).astype(float)
    booster = grown(training, label)
    p = rows["score"].to_numpy()
    codes = encode(read_columns(rows), tables.bins, p)
    coded = categories(rows)
    matrix = coded.assign(**{name: coded[name].cat.codes for name in TEXT}).to_numpy(np.float64)
    few = len(rows) // 10  # LightGBM takes so much longer that a tenth of the rows is enough

    def from_raw() -> np.ndarray:
        return tables.calibrate_codes(encode(read_columns(rows), tables.bins, p), p, n_threads=1)

    for run in (from_raw, lambda: tables.calibrate_codes(codes, p, n_threads=1)):
        run()
    seconds = best(
        {
            "tables, coded": lambda: tables.calibrate_codes(codes, p, n_threads=1),
            "LightGBM, coded": lambda: booster.predict(matrix[:few], num_threads=1, raw_score=True),
            "tables, raw": from_raw,
            "LightGBM, raw": lambda: booster.predict(categories(rows[:few]), num_threads=1, raw_score=True),
        }
    )
    for kind in ("coded", "raw"):
        ours, theirs = seconds[f"tables, {kind}"] / len(rows), seconds[f"LightGBM, {kind}"] / few
        print(f"{kind}: tables {ours * 1e6:.3f} µs a row, LightGBM {theirs * 1e6:.2f} µs, {theirs / ours:.0f} times")
    records = rows.head(5_000).to_dict("records")
    for name, model in (("16 tables", tables), ("compact, 8 × 32", compact)):
        score = RowScorer(model).score_row
        taken = best({name: lambda score=score: [score(record) for record in records]})[name]
        print(f"single row, {name}: {taken / len(records) * 1e6:.2f} µs")


if __name__ == "__main__":
    main()
