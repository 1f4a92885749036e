"""Chapter: what held-out rows guarantee, where the model holds a certificate."""

from mbct.model.certificate import EXACT, Certificate
from mbct.report.page import Column, Section, number, table, text
from mbct.report.scored import Scored

MOST_BINS = 60


def section(scored: Scored) -> Section | None:
    """The promises in words, and the bins of the partition with their bounds; None without a certificate."""
    found: Certificate | None = getattr(scored.calibrator, "certificate_", None)
    if found is None:
        return None
    who = f"{found.rows:,} rows" + (f" of {found.blocks:,} blocks" if found.blocks else "")
    lead = (
        f"{who} that no tree has seen bound how far the true rate of a bin may be from its mean calibrated prediction "
        f"({text(found.method)}, {'exact' if found.method in EXACT else 'approximate'}). Later changes are not covered."
    )
    bins = sorted((b for b in found.bins if b.group != "rules"), key=lambda b: (b.group, -b.rows))
    lines = [
        [
            text(b.group),
            text(b.name),
            f"{b.rows:,}",
            number(b.label_rate, 3),
            number(b.mean_prediction, 3),
            f"± {number(b.bound, 2)}",
            f"± {number(b.theorem_1, 2)}",
        ]
        for b in bins[:MOST_BINS]
    ]
    columns = (
        Column("group", number=False),
        Column("bin", number=False),
        Column("rows"),
        Column("label rate"),
        Column("mean prediction"),
        Column("certified", hint="the true rate is this near to the mean prediction, for all bins of a group at once"),
        Column("Theorem 1", hint="the same by the paper's bound"),
    )
    more = f"<p>{len(bins) - MOST_BINS:,} more are in the model file.</p>" if len(bins) > MOST_BINS else ""
    promises = "".join(f"<li>{text(line)}</li>" for line in found.lines())
    origin = f"<p>Model {text(found.model)}, rows {text(found.data)}.</p>"
    body = f"<ul>{promises}</ul>{table(columns, lines, label='certified bins')}{more}{origin}"
    return Section("certificate", "What is certified", lead, body, folded=True)
