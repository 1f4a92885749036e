"""Late labels with a known delay: a week as it is, after waiting, and completed: ``docs/benchmarks/maturity.md``.

Calibrated predictions at a rate of 10 %, labels with an exponential delay of three days on average; a day is replaced
every day for three weeks.
"""

import datetime
import tempfile
from pathlib import Path

import numpy as np

from mbct.data import aggregate, fit_bins
from mbct.store import CellStore
from mbct.store.maturity import complete_shares, matured, store_maturity

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks" / "maturity.md"
DAYS, ROWS, MEAN_DELAY, REPLACED, RUNS = 35, 60_000, 3.0, 21, 3
FIRST = datetime.date(2024, 5, 1)


def day_of(number: int) -> datetime.date:
    """The date of a day of the simulation."""
    return FIRST + datetime.timedelta(days=number)


def simulated(folder: str, seed: int) -> CellStore:
    """A store as it stands on its last day."""
    rng = np.random.default_rng(seed)
    store, bins = CellStore(folder), None
    for number in range(DAYS):
        p = rng.choice([0.05, 0.15], ROWS)
        delay = np.where(rng.random(ROWS) < p, rng.exponential(MEAN_DELAY, ROWS), np.inf)
        for seen in range(number, min(number + REPLACED, DAYS)):
            frame = {"p": p, "y": (delay < seen - number + 1).astype(int)}
            bins = bins or fit_bins(frame, score_column="p", label="y")
            cells = aggregate(frame, bins, label="y")
            store.append(cells, bins, day=day_of(number), batch=f"{number}", replace=True, seen=day_of(seen))
    return store


def main() -> None:
    """Simulate some stores and write the page."""
    rows, curves = [], []
    for seed in range(RUNS):
        with tempfile.TemporaryDirectory() as folder:
            store = simulated(folder, seed)
            shares = complete_shares(store, "auto")
            last = max(day for day, share in shares.items() if share > 0.0)
            week = store.window(7, until=last, by_day=True)
            waited = store.window(7, until=day_of(DAYS - REPLACED), by_day=True)
            windows = (store.window(7), week, waited, matured(week, shares))
            totals = [window.cells.total for window in windows]
            rows.append([float(total.pred / total.label) for total in totals])
            curves.append(store_maturity(store).share(np.arange(REPLACED)))
    known = (1 - np.exp(-np.arange(1, REPLACED + 1) / MEAN_DELAY)) / (1 - np.exp(-REPLACED / MEAN_DELAY))
    off = float(np.abs(np.array(curves) - known).max())
    lines = [[f"{seed}", *(f"{ratio:.3f}" for ratio in row)] for seed, row in enumerate(rows)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    PAGE.write_text(
        f"""# Late labels

Written by `python benchmarks/maturity.py`: {DAYS} days of {ROWS:,} rows at a rate of 10 %, calibrated predictions,
labels with an exponential delay of {MEAN_DELAY:g} days on average, each day replaced every day for three weeks. PCOC,
predicted over observed positives, of one week; 1 is right.

| run | newest week as it is | newest usable week as it is | after waiting | newest usable week, `maturity="auto"` |
|---|---|---|---|---|
{table}

Days with fewer than half of their positives are left out ("usable"). The estimated share by age is at most {off:.3f}
off.
""",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
