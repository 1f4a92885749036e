"""Chapter: each class against the rest, and all of them together."""

from mbct.report.page import Column, Section, change, table, text
from mbct.report.scored import Scored

_TOGETHER = (
    ("log_loss", "log loss"),
    ("brier", "Brier score"),
    ("accuracy", "accuracy"),
    ("mean_confidence", "mean probability of the likeliest class"),
    ("top_label_ece", "top-label ECE"),
    ("classwise_ece", "class-wise ECE"),
    ("mvce", "MVCE, mean over classes"),
)
_EACH = (
    Column("class", number=False),
    Column("rows", hint="rows of the class"),
    Column("PCOC", hint="predicted / observed rows of the class"),
    Column("log loss", hint="of the class against the rest"),
    Column("AUC"),
    Column("ECE"),
    Column("MVCE"),
)


def section(scored: Scored) -> Section | None:
    """Two tables, each figure before and after; None of a single probability."""
    if scored.many is None:
        return None
    before, after = scored.many
    together = table(
        (Column("all classes together", number=False), Column("before → after")),
        [[text(title), change(before.overall[name], after.overall[name])] for name, title in _TOGETHER],
        label="metrics of all classes",
    )
    each = [
        [
            text(name),
            f"{before.segments['count'][k]:,.0f}",
            *(
                change(before.segments[metric][k], after.segments[metric][k], 3)
                for metric in ("pcoc", "log_loss", "auc", "ece", "mvce")
            ),
        ]
        for k, name in enumerate(before.segments["segment"][1:], start=1)
    ]
    lead = (
        "The likeliest class is the predicted one: its probability should be the share of rows where it is right "
        "(top-label ECE). Class-wise ECE and MVCE are means over the classes, each against the rest."
    )
    return Section("classes", "Class by class", lead, together + table(_EACH, each, label="metrics of each class"))
