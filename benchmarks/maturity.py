"""Late labels with a known delay: a week as it is, after waiting, and completed: ``docs/benchmarks/maturity.md``.

Predictions at a rate of 10 %, calibrated or off, labels with an exponential delay of three days on average; a day is
replaced every day for three weeks.
"""

import datetime
import tempfile
from pathlib import Path

import numpy as np

from made_with import write_page
from mbct.data import aggregate, fit_bins
from mbct.store import CellStore
from mbct.store.maturity import complete_shares, matured, store_maturity

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks" / "maturity.md"
DAYS, ROWS, MEAN_DELAY, REPLACED = 35, 60_000, 3.0, 21
BIASES = (1.0, 1.0, 0.6, 1.6)
"""What the odds of each run are, times the predicted ones."""
USABLE = "newest usable week"
HEAD = (
    "bias",
    "newest week as it is",
    f"{USABLE} as it is",
    "after waiting",
    f'{USABLE}, `maturity="auto"`',
    "its truth",
)
FIRST = datetime.date(2024, 5, 1)


def day_of(number: int) -> datetime.date:
    """The date of a day of the simulation."""
    return FIRST + datetime.timedelta(days=number)


def simulated(folder: str, seed: int, bias: float) -> tuple[CellStore, dict[str, float]]:
    """A store as it stands on its last day, and the positives that each day will have."""
    rng = np.random.default_rng(seed)
    store, bins, in_the_end = CellStore(folder), None, {}
    for number in range(DAYS):
        p = rng.choice([0.05, 0.15], ROWS)
        positive = rng.random(ROWS) < bias * p / (1.0 - p + bias * p)
        in_the_end[day_of(number).isoformat()] = float(positive.sum())
        delay = np.where(positive, rng.exponential(MEAN_DELAY, ROWS), np.inf)
        for seen in range(number, min(number + REPLACED, DAYS)):
            frame = {"p": p, "y": (delay < seen - number + 1).astype(int)}
            bins = bins or fit_bins(frame, score_column="p", label="y")
            cells = aggregate(frame, bins, label="y")
            store.append(cells, bins, day=day_of(number), batch=f"{number}", replace=True, seen=day_of(seen))
    return store, in_the_end


def main() -> None:
    """Simulate some stores and write the page."""
    rows, curves = [], []
    for seed, bias in enumerate(BIASES):
        with tempfile.TemporaryDirectory() as folder:
            store, in_the_end = simulated(folder, seed, bias)
            shares = complete_shares(store, "auto")
            last = max(day for day, share in shares.items() if share > 0.0)
            week = store.window(7, until=last, by_day=True)
            waited = store.window(7, until=day_of(DAYS - REPLACED), by_day=True)
            windows = (store.window(7), week, waited, matured(week, shares))
            found = [float(window.cells.total.pred / window.cells.total.label) for window in windows]
            truth = float(week.cells.total.pred) / sum(in_the_end[day] for day in {b.day for b in week.batches})
            rows.append([*found, truth])
            curves.append(store_maturity(store).share(np.arange(REPLACED)))
    known = (1 - np.exp(-np.arange(1, REPLACED + 1) / MEAN_DELAY)) / (1 - np.exp(-REPLACED / MEAN_DELAY))
    off = float(np.abs(np.array(curves) - known).max())
    lines = [[f"{bias:g}", *(f"{ratio:.3f}" for ratio in row)] for bias, row in zip(BIASES, rows, strict=True)]
    worst = max(abs(row[-2] / row[-1] - 1.0) for row in rows)
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    write_page(
        PAGE,
        f"""# Late labels

Written by `python benchmarks/maturity.py`: {DAYS} days of {ROWS:,} rows, predicted rate 10 %, labels with an
exponential delay of {MEAN_DELAY:g} days on average, each day replaced every day for three weeks. The true odds are the
predicted ones times a bias. PCOC, predicted over observed positives, of one week:

| {" | ".join(HEAD)} |
|---|---|---|---|---|---|
{table}

Days with fewer than half of their positives are left out ("usable"). `"auto"` is at most {worst:.1%} from the truth,
the PCOC once all labels had come; the estimated share by age is at most {off:.3f} off.
""",
    )


if __name__ == "__main__":
    main()
