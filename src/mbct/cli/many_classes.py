"""Many classes on the command line: one score column for each, named by a pattern such as ``p_*`` or by commas."""

from typing import TYPE_CHECKING, Any

import click

from mbct.cli.options import check_settings
from mbct.cli.roles import Roles
from mbct.cli.shell import print_table
from mbct.cli.sources import Data
from mbct.errors import DataError, ParameterError

if TYPE_CHECKING:
    from mbct.calibrators.base import Calibrator
    from mbct.calibrators.multiclass.scores import ManyScores
    from mbct.evaluation.metrics.evaluation import Evaluation

DEFAULT = "mbct-multiclass"


def calibrates_many(calibrator: "Calibrator") -> bool:
    """Whether a calibrator has a score column for each class."""
    return isinstance(calibrator.score_column_, list)


def classes_of(data: Data, roles: Roles, given: str | None) -> list[str]:
    """The label of each score column as text: what ``*`` stands for in its name, else the sorted labels in order."""
    labels = data.values(roles.label, len(roles.scores) + 1)
    if given is not None and given.count("*") == 1 and "," not in given:
        before, after = given.split("*")
        named = [name[len(before) : len(name) - len(after)] for name in roles.scores]
        if set(labels) <= set(named):
            return named
    if len(labels) != len(roles.scores):
        raise DataError(
            f"{len(roles.scores)} score columns, but label {roles.label!r} has "
            f"{'more' if len(labels) > len(roles.scores) else len(labels)} classes ({', '.join(labels[:8])}): name the "
            "columns by their classes (p_cat, p_dog … as --score 'p_*'), or pass one for each class"
        )
    return labels


def with_classes(data: Data, label: str, calibrator: "Calibrator | None") -> Data:
    """Labels as text, as ``mbct fit`` takes classes, unless the calibrator knows them as numbers."""
    numbers = calibrator is not None and calibrator.classes_.dtype.kind not in "UO"
    return data if numbers else data.with_text(label)


def fit_classes(
    data: Data, roles: Roles, classes: list[str], method: str, parameters: dict[str, Any], blocks: dict[str, Any]
) -> "ManyScores":
    """A calibrator of all classes, as ``fit_rows`` has it for two; labels count by their text."""
    from mbct.calibrators.multiclass.scores import ManyScores
    from mbct.calibrators.registry import METHODS, calibrator_class

    method = DEFAULT if method == "mbct" else method
    kind = calibrator_class(method)
    if not issubclass(kind, ManyScores):
        able = ", ".join(sorted(name for name, (module, _) in METHODS.items() if ".multiclass." in module))
        raise ParameterError(f"method {method!r} calibrates one probability: for many classes take {able}")
    known = set(kind._get_param_names())
    check_settings(method, parameters, known - {"score_column", "features", "classes"})
    taken = {name: value for name, value in blocks.items() if name in known and value is not None}
    calibrator = kind(**{**taken, **parameters, "score_column": list(roles.scores), "classes": classes})
    plain = [*roles.scores, roles.label, *([] if roles.weight is None else [roles.weight])]
    table = data.with_text(roles.label).table(roles.columns if kind.feature_aware else plain)
    calibrator.fit(table, roles.label, roles.weight)
    return calibrator


def evaluate_classes(table: Any, roles: Roles, classes: list[str], calibrator: Any) -> "dict[str, Evaluation]":
    """Evaluations of the scores ("before") and, with a calibrator, of its probabilities ("after")."""
    import numpy as np

    from mbct.data.columns import read_columns
    from mbct.metrics import evaluate_classes as evaluate

    columns = read_columns(table)
    label = columns.numpy(roles.label)
    weight = None if roles.weight is None else columns.numpy(roles.weight)
    before = np.column_stack([np.asarray(columns.numpy(name), dtype=np.float64) for name in roles.scores])
    results = {"before": evaluate(label, before, classes=classes, sample_weight=weight)}
    if calibrator is not None:
        after, named = calibrator.calibrate(table), calibrator.classes_.tolist()
        results["after"] = evaluate(label, after, classes=named, sample_weight=weight)
    return results


def show_classes(results: "dict[str, Evaluation]") -> None:
    """Tables of each class against the rest."""
    from mbct.evaluation.metrics.results import Table

    names = ["segment", "count", "label_rate", "mean_prediction", "pcoc", "log_loss", "auc", "ece", "mvce"]
    for when, each in results.items():
        click.echo(f"\n{when}, by class")
        shown = Table(tuple((name, each.segments[name][1:]) for name in names))
        print_table(["class", *names[1:]], shown.texts(), left=["class"])
