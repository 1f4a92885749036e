"""What displays of predictions share: before and after a calibrator, and colours by name."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from mbct.evaluation.diagnostics.calibrated_rows import calibrated_rows
from mbct.plots.style import AFTER, BEFORE, PALETTE


class PredictionsDisplay(ABC):
    """A display of one prediction or several, such as those before and after a calibrator."""

    _by_columns: ClassVar[bool] = False
    """Whether ``by`` says which columns are segments."""

    @classmethod
    @abstractmethod
    def from_predictions(cls, *args: Any, **options: Any) -> Self:
        """Compute and draw; every display says what it takes."""

    @classmethod
    def from_estimator(
        cls, calibrator: Any, X: Any, y: Any, *, sample_weight: Any = None, y_prob: Any = None, **options: Any
    ) -> Self:
        """Compute and draw before and after a fitted calibrator.

        Parameters
        ----------
        calibrator : Calibrator
            A fitted calibrator of one probability.
        X : frame, mapping or array
            Rows with the columns that the calibrator was fitted on.
        y : str or array
            Labels, or the name of their column in ``X``.
        sample_weight : str, array, number or None, default=None
            Weights of the rows, or the name of their column; None counts each row once.
        y_prob : array or None, default=None
            Prediction to calibrate; None takes the score column of ``X``.
        **options
            Keywords of :meth:`from_predictions`; ``by``, where it has one, names a column of ``X``, or all if left out.
        """
        rows = calibrated_rows(calibrator, X, y, sample_weight=sample_weight, y_prob=y_prob)
        if cls._by_columns:
            options["by"] = rows.fields(options.get("by"))
        both = {"before": rows.before, "after": rows.after}
        return cls.from_predictions(rows.y_true, both, sample_weight=rows.weight, **options)


def by_name(y_prob: Any) -> Mapping[str, Any]:
    """Predictions by name; a single one has none."""
    return y_prob if isinstance(y_prob, Mapping) else {"": y_prob}


def colours_of(names: Sequence[str], colours: Sequence[str] | None) -> list[str]:
    """The colour of each prediction: ``colours`` in turn or, if None, those of before and after, else the palette."""
    chosen = colours or ((BEFORE, AFTER) if tuple(names) == ("before", "after") else PALETTE)
    return [chosen[i % len(chosen)] for i in range(len(names))]
