"""The result of a comparison: one row for each method, frozen and printable."""

from dataclasses import dataclass, field

_CLEAR = 2.0
"""Standard errors by which a method must beat the base to be recommended."""


@dataclass(frozen=True)
class MethodScore:
    """Held-out scores of one method: means over the folds, weighted by their rows.

    ``log_loss_difference`` and ``brier_difference`` are to the base, negative where the method is better; their
    standard errors come from the rows' paired losses. Times do not count in comparisons of two results.
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
    fit_seconds: float = field(compare=False)
    predict_seconds: float = field(compare=False)

    @property
    def z(self) -> float:
        """Gain in log loss over the base, in standard errors."""
        se = self.log_loss_standard_error
        return -self.log_loss_difference / se if se > 0.0 else 0.0


@dataclass(frozen=True)
class Failure:
    """A method that could not be fitted, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Comparison:
    """Methods by held-out log loss, best first; ``print`` shows the table and which method to take."""

    methods: tuple[MethodScore, ...]
    failures: tuple[Failure, ...]
    n_rows: int
    n_folds: int
    base: str = "identity"

    def __getitem__(self, name: str) -> MethodScore:
        for method in self.methods:
            if method.name == name:
                return method
        raise KeyError(f"{name!r} was not compared; there are {', '.join(m.name for m in self.methods)}")

    @property
    def best(self) -> MethodScore:
        """The method to take: the lowest log loss, if it beats the base by two standard errors, else the base."""
        first = self.methods[0]
        return first if first.z >= _CLEAR else self[self.base]

    @property
    def recommendation(self) -> str:
        """Which method to take, in one line."""
        best, first = self.best, self.methods[0]
        if best.name == self.base:
            if first.name == self.base:
                return "Leave the base as it is: no method has a lower held-out log loss."
            return (
                f"Leave the base as it is: the best method, {first.name}, lowers the log loss by "
                f"{-first.log_loss_difference:.5f} ± {first.log_loss_standard_error:.5f}, which may be chance."
            )
        return (
            f"Take {best.name}: it lowers the held-out log loss by {-best.log_loss_difference:.5f} "
            f"± {best.log_loss_standard_error:.5f} ({self[self.base].log_loss:.5f} → {best.log_loss:.5f})."
        )

    def __str__(self) -> str:
        width = max(len("method"), *(len(m.name) for m in self.methods))
        header = _columns(width, "method", "log loss", "difference ± s.e.", "Brier", "AUC", "ECE", "MVCE", "fit s")
        lines = [f"{self.n_rows:,} rows, {self.n_folds} folds, held-out scores", header, "-" * len(header)]
        lines += [_line(m, width, is_base=m.name == self.base) for m in self.methods]
        lines += [f"{failure.name}: not compared, {failure.reason}" for failure in self.failures]
        return "\n".join([*lines, "", self.recommendation])


def _line(m: MethodScore, width: int, *, is_base: bool) -> str:
    difference = "(base)" if is_base else f"{m.log_loss_difference:+.5f} ± {m.log_loss_standard_error:.5f}"
    scores = (f"{score:.5f}" for score in (m.brier, m.auc, m.ece, m.mvce))
    return _columns(width, m.name, f"{m.log_loss:.5f}", difference, *scores, f"{m.fit_seconds:.2f}")


def _columns(width: int, name: str, log_loss: str, difference: str, *others: str) -> str:
    fixed = "  ".join(f"{text:<7}" for text in others[:-1])
    return f"{name:<{width}}  {log_loss:<8}  {difference:<18}  {fixed}  {others[-1]:>6}"
