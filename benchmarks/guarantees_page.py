"""The page of ``benchmarks/guarantees.py``: Markdown from its results."""

from typing import Any

import pandas as pd

HEAD = """# Do certificates hold?

Written by `python benchmarks/guarantees.py --data ../shared/data` from `guarantees.json`. The level is 95 % for all
bins of a data set at once. What is promised, and under which conditions: [What we can promise](../guarantees.md).
"""


def page(results: dict[str, Any]) -> str:
    """All sections that have results."""
    parts = [HEAD]
    if "independent" in results:
        parts += [_independent(pd.DataFrame(results["independent"])), _shocks(pd.DataFrame(results["shocks"]))]
        parts.append(_merged({name: pd.DataFrame(results[name]) for name in ("all bins", "merged")}))
    if "real" in results:
        parts.append(_real(results["real"]))
    return "\n".join(parts)


def _independent(found: pd.DataFrame) -> str:
    rows = [
        f"| {bins} | {_coverages(group)} | {group['clopper-pearson width'].mean():.4f} | "
        f"{group['betting width'].mean():.4f} | {group['theorem width'].mean():.4f} | {group['ratio'].median():.2f} |"
        for bins, group in [*found.groupby("bins"), ("all", found)]
    ]
    by_rate = [
        f"| {rate:.1%} | {_coverages(group)} | {group['ratio'].min():.2f} to {group['ratio'].max():.2f} |"
        for rate, group in found.groupby("rate")
    ]
    return f"""## Independent labels

{len(found)} data sets of 10,000 to 100,000 rows; sizes of bins follow power laws, true rates differ within bins,
predictions are off. Coverage is the share of data sets in which all bins hold; the half-width is the mean over bins
and data sets (that of Theorem 1 without the distance of label rate and prediction that it adds); the ratio is the
median over bins of Clopper-Pearson's half-width to Theorem 1's.

| bins | coverage: Clopper-Pearson | betting | Theorem 1 | half-width: Clopper-Pearson | betting | Theorem 1 | ratio |
|---|---|---|---|---|---|---|---|
{chr(10).join(rows)}

| label rate | coverage: Clopper-Pearson | betting | Theorem 1 | ratio |
|---|---|---|---|---|
{chr(10).join(by_rate)}

The ratio falls below a half where positives are few; where a bin holds thousands of positives both are near their
normal limit, whose ratio z(α/2B)/√(2·ln(3B/α)) is 0.78 for 10 bins and 0.86 for 500.
"""


def _shocks(found: pd.DataFrame) -> str:
    rows = [
        f"| {days} | {group['clopper-pearson'].mean():.1%} | {group['blocks'].mean():.1%} | "
        f"{group['clopper-pearson width'].mean():.4f} | {group['blocks width'].mean():.4f} |"
        for days, group in [*found.groupby("days"), ("all", found)]
    ]
    return f"""## Days with shocks

{len(found)} data sets of 10, 30 or 100 bins; each day of 500 rows has a normal shock of 0.4 in the log-odds. The
truth is the rate of a day to come. Labels of one day are not independent, so the exact method does not hold, as
expected; `blocks` does, about.

| days | coverage: Clopper-Pearson | blocks | half-width: Clopper-Pearson | blocks |
|---|---|---|---|---|
{chr(10).join(rows)}
"""


def _merged(found: dict[str, pd.DataFrame]) -> str:
    names = {"all bins": "none", "merged": "0.05"}
    rows = [
        f"| {names[name]} | {group['bins'].median():.0f} | {group['held'].mean():.1%} | "
        f"{group['rows inside'].mean():.1%} | {group['width'].mean():.4f} |"
        for name, group in found.items()
    ]
    return f"""## The partition and the intervals of rows

One model of simulated clicks, certified on {len(found["merged"])} samples of 8,000 rows. Merging by labels keeps
the coverage, because the union is over all that could be kept. The last columns are about single rows, of which
nothing is promised: how many true probabilities lie in their row's interval, and its mean half-width.

| `max_error` | bins | all bins hold | rows inside | half-width |
|---|---|---|---|---|
{chr(10).join(rows)}
"""


def _real(found: list[dict[str, Any]]) -> str:
    rows = []
    for name in dict.fromkeys(each["data"] for each in found):
        for method in ("clopper-pearson", "blocks"):
            group = pd.DataFrame([each[method] for each in found if each["data"] == name and method in each])
            if len(group):
                rows.append(
                    f"| {name} | {method} | {len(group)} | {group['bins'].mean():.0f} | "
                    f"{group['outside'].mean():.1%} | "
                    f"{group['surely outside'].mean():.1%} | {(group['surely outside'] > 0).mean():.0%} | "
                    f"{group['width'].mean():.4f} |"
                )
    return f"""## Real data: later rows

French claims: 20 random splits of 30,000 rows to fit, 20,000 to certify and 30,000 later ones. Flights of 2013 in
time order: 20 windows of 60 days to fit, 30 to certify and 30 later ones, half of the rows. The columns count bins
of the partition whose later label rate lies outside the interval (later rates are noisy themselves), those that lie
outside beyond the noise of the later rows, and splits with at least one of these.

| data | method | splits | bins | outside | surely outside | splits with any | half-width |
|---|---|---|---|---|---|---|---|
{chr(10).join(rows)}

Where rows are exchangeable the certificate holds for later rows. In time order it does not: the world moves from
month to month, which no certificate of the past covers.
"""


def _coverages(group: pd.DataFrame) -> str:
    return " | ".join(f"{group[method].mean():.1%}" for method in ("clopper-pearson", "betting", "theorem-1"))
