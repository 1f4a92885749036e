"""What a comparison of methods found: held-out scores, paired differences, ties and what to take."""

from dataclasses import dataclass, field, fields
from typing import Any

from mbct.data.checks import leaps
from mbct.evaluation.metrics.results import Table
from mbct.notebook import html_table
from mbct.text import table_lines

CLEAR = 2.0
"""Standard errors by which a method must beat another one to be preferred."""
_HEADER = ("method", "log loss", "difference ± s.e.", "Brier", "AUC", "ECE", "MVCE", "fit s")


@dataclass(frozen=True)
class MethodScore:
    """Held-out scores of one method: means over the folds, weighted by their rows.

    Of many classes, the Brier score is summed over the classes, and AUC, ECE and MVCE are means over the classes, each
    against the rest.

    ``log_loss_difference`` and ``brier_difference`` are to the base, negative where the method is better, and
    ``behind_best`` is the difference in log loss to the best method. Their standard errors come from paired losses of
    rows, or of whole blocks where time or groups were given. Times do not count in comparisons of two results.
    """

    name: str
    log_loss: float
    brier: float
    auc: float
    ece: float
    mvce: float
    log_loss_difference: float
    log_loss_standard_error: float
    brier_difference: float
    brier_standard_error: float
    behind_best: float
    behind_best_standard_error: float
    fit_seconds: float = field(compare=False)
    predict_seconds: float = field(compare=False)

    @property
    def z(self) -> float:
        """Gain in log loss over the base, in standard errors."""
        se = self.log_loss_standard_error
        return -self.log_loss_difference / se if se > 0.0 else 0.0

    @property
    def ties_with_best(self) -> bool:
        """Whether the best method is ahead by less than two standard errors."""
        return self.behind_best <= CLEAR * self.behind_best_standard_error


@dataclass(frozen=True)
class Failure:
    """A method that could not be fitted, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Comparison:
    """Methods by held-out log loss, best first; ``print`` shows the table and which method to take.

    Attributes
    ----------
    methods : tuple of MethodScore
        By rising held-out log loss.
    failures : tuple of Failure
        Methods that could not be fitted.
    n_rows, n_folds : int
        Held-out rows, and splits of them.
    base : str
        Name of the predictions as they came, "identity".
    blocks : str or None
        What rows belong together by, "time", "groups" or "time and groups"; None where rows stand alone.
    whole_blocks : bool
        Whether no split has rows of one block both among those fitted on and among those held out.
    """

    methods: tuple[MethodScore, ...]
    failures: tuple[Failure, ...]
    n_rows: int
    n_folds: int
    base: str = "identity"
    blocks: str | None = None
    whole_blocks: bool = True

    def __getitem__(self, name: str) -> MethodScore:
        for method in self.methods:
            if method.name == name:
                return method
        raise KeyError(f"{name!r} was not compared; there are {', '.join(m.name for m in self.methods)}")

    @property
    def best(self) -> MethodScore:
        """The lowest log loss, if it beats the base by two standard errors, else the base."""
        first = self.methods[0]
        return first if first.z >= CLEAR else self[self.base]

    @property
    def ties(self) -> tuple[str, ...]:
        """Methods that the best one does not beat by two standard errors, the best first."""
        return tuple(m.name for m in self.methods if m.ties_with_best) if self.best.name != self.base else ()

    @property
    def recommendation(self) -> str:
        """Which method to take, or which ones tie, in one line."""
        best, first = self.best, self.methods[0]
        if best.name == self.base:
            if first.name == self.base:
                return "Leave the base as it is: no method has a lower held-out log loss."
            return (
                f"Leave the base as it is: the best method, {first.name}, lowers the log loss by "
                f"{-first.log_loss_difference:.5f} ± {first.log_loss_standard_error:.5f}, which may be chance."
            )
        gain = (
            f"lowers the held-out log loss by {-best.log_loss_difference:.5f} ± {best.log_loss_standard_error:.5f} "
            f"({self[self.base].log_loss:.5f} → {best.log_loss:.5f})"
        )
        base_auc = self[self.base].auc
        if leaps(best.auc, base_auc):
            return (
                f"Suspiciously good: {best.name} {gain}, and AUC goes from {base_auc:.3f} to {best.auc:.3f}. "
                "Look for a column that was recorded after the outcome before you take it."
            )
        if len(self.ties) == 1:
            return f"Take {best.name}: it {gain}, and no other method comes within two standard errors of it."
        others = [self[name] for name in self.ties[1:]]
        tied = ", ".join(f"{m.name} (+{m.behind_best:.5f} ± {m.behind_best_standard_error:.5f})" for m in others)
        return f"No single best: {best.name} {gain}, and {tied} {'tie' if len(others) > 1 else 'ties'} with it."

    def to_frame(self) -> Any:
        """A pandas data frame with one row for each method, best first."""
        names = [each.name for each in fields(MethodScore)]
        columns = [(name, tuple(getattr(m, name) for m in self.methods)) for name in names]
        columns.append(("ties_with_best", tuple(m.name in self.ties for m in self.methods)))
        return Table(tuple(columns)).to_pandas().set_index("name")

    def __str__(self) -> str:
        header, *lines = table_lines(_HEADER, [self._row(m) for m in self.methods], left=_HEADER)
        return "\n".join([self._title(), header, "-" * len(header), *lines, *self._failures(), "", self.recommendation])

    def _failures(self) -> list[str]:
        return [f"{failure.name}: not compared, {failure.reason}" for failure in self.failures]

    def _title(self) -> str:
        within = ""
        if self.blocks is not None and self.whole_blocks:
            both = self.blocks == "time and groups"
            whole = "time held out, no group on both sides" if both else f"{self.blocks} held out"
            within = f", whole blocks of {whole}"
        elif self.blocks is not None:
            within = f", blocks of {self.blocks} are partly fitted on, partly held out"
        folds = "1 fold" if self.n_folds == 1 else f"{self.n_folds} folds"
        return f"{self.n_rows:,} rows, {folds}, held-out scores{within}"

    def _row(self, m: MethodScore) -> tuple[str, ...]:
        is_base = m.name == self.base
        difference = "(base)" if is_base else f"{m.log_loss_difference:+.5f} ± {m.log_loss_standard_error:.5f}"
        scores = (f"{score:.5f}" for score in (m.brier, m.auc, m.ece, m.mvce))
        return m.name, f"{m.log_loss:.5f}", difference, *scores, f"{m.fit_seconds:.2f}"

    def _repr_html_(self) -> str:
        rows = map(self._row, self.methods)
        return html_table(self._title(), _HEADER, rows, *self._failures(), self.recommendation)
