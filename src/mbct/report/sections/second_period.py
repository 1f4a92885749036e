"""Chapter: the same model on two data sets side by side, such as this month and the last."""

from dataclasses import dataclass

from mbct.report.page import Column, Section, number, table, text
from mbct.report.scored import Scored
from mbct.report.sections import metrics

_SHOWN = (("log_loss", "Log loss"), ("pcoc", "PCOC"), ("ece", "ECE"), ("auc", "AUC"))


@dataclass(frozen=True)
class TwoPeriods:
    """Figures of both data sets, each before and after."""

    rows: tuple[int, int]
    label_rates: tuple[float, float]
    metrics: tuple[tuple[str, tuple[float, float, float, float]], ...]
    """Name, then other before, other after, this before, this after."""


def compute(scored: Scored, other: Scored) -> TwoPeriods:
    """The head's metrics of both."""
    sides = (other.before, other.after, scored.before, scored.after)
    measured, measure = [], metrics.statistics(len(scored.classes))
    for name, title in _SHOWN:
        if name not in measure:
            continue
        was, moved, before, after = (float(measure[name](rows)) for rows in sides)
        measured.append((title, (was, moved, before, after)))
    rates = tuple(float(rows.whole.label[0] / rows.whole.count[0]) for rows in (other.before, scored.before))
    return TwoPeriods((other.n_rows, scored.n_rows), (rates[0], rates[1]), tuple(measured))


def render(found: TwoPeriods, name: str) -> Section:
    """One table."""
    lead = (
        f"The same model on {name} and on the data of this page. A loss that rises with the label rate need not mean "
        "that the model got worse: compare before with after within each."
    )
    columns = (
        Column("metric", number=False),
        Column(f"{name}, before"),
        Column(f"{name}, after"),
        Column("here, before"),
        Column("here, after"),
    )
    lines = [[f"<b>{text(title)}</b>", *(number(value) for value in values)] for title, values in found.metrics]
    rates, rows = found.label_rates, found.rows
    lines.append(["<b>Label rate</b>", number(rates[0]), "", number(rates[1]), ""])
    lines.append(["<b>Rows</b>", f"{rows[0]:,}", "", f"{rows[1]:,}", ""])
    return Section("two", "Beside another period", lead, table(columns, lines, label="two periods"))
