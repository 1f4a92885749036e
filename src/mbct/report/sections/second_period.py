"""Chapter: the same model on two data sets side by side, such as this month and the last."""

from mbct.report.page import Column, Section, number, table, text
from mbct.report.scored import Scored
from mbct.report.sections import metrics

_SHOWN = (("log_loss", "Log loss"), ("pcoc", "PCOC"), ("ece", "ECE"), ("auc", "AUC"))


def section(scored: Scored, other: Scored, name: str) -> Section:
    """The head's metrics of both in one table."""
    lead = (
        f"The same model on {name} and on the data of this page. A loss that rises with the label rate need not mean "
        "that the model got worse: compare before with after within each."
    )
    headings = (f"{name}, before", f"{name}, after", "here, before", "here, after")
    sides = (other.before, other.after, scored.before, scored.after)
    measures = metrics.statistics(len(scored.classes))
    lines = [
        [f"<b>{text(title)}</b>", *(number(float(measures[metric](rows))) for rows in sides)]
        for metric, title in _SHOWN
        if metric in measures
    ]
    was, now = (number(rows.label_rate) for rows in (other.before, scored.before))
    lines.append(["<b>Label rate</b>", was, "", now, ""])
    lines.append(["<b>Rows</b>", f"{other.n_rows:,}", "", f"{scored.n_rows:,}", ""])
    columns = (Column("metric", number=False), *map(Column, headings))
    return Section("two", "Beside another period", lead, table(columns, lines, label="two periods"))
