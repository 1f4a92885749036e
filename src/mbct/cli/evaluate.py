"""``mbct evaluate``: every metric over all rows and by segment, and gates for CI and cron."""

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from mbct.cli.many_classes import classes_of, evaluate_classes, show_classes, with_classes
from mbct.cli.options import (
    gates_option,
    in_blocks,
    labelled,
    labelled_data,
    load_calibrator,
    names_option,
    needed_columns,
)
from mbct.cli.roles import Roles, RowOptions
from mbct.cli.shell import command, note, print_json, print_table
from mbct.errors import ParameterError

if TYPE_CHECKING:
    from mbct.evaluation.metrics.evaluation import Evaluation
    from mbct.evaluation.metrics.resampling import IntervalOptions
    from mbct.training.folds import BlockSize

EXAMPLES = (
    "mbct evaluate clicks.parquet --label click --score pctr",
    "mbct evaluate clicks.parquet --model model.json --by device,site",
    "mbct evaluate clicks.parquet --model model.json --fail-if 'ece > 0.01' --fail-if 'pcoc < 0.98'",
    "mbct evaluate clicks.parquet --metrics ece,ici,variational_error",
    "mbct evaluate flights.parquet --time date --block week --intervals",
    "mbct evaluate clicks.parquet --json | jq .after.all.ece",
)
MEASURED_BY = ("field_ece", "field_rce")
"""Errors over fields that a gate may name: their means over the fields of ``--by``."""
UNSEEN = "unseen"
"""What a gate may name beside the metrics: the share of rows of the worst column whose value is unseen."""

_GATE = re.compile(r"\s*([A-Za-z_]\w*)\s*(>=|<=|==|!=|>|<)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*")


@dataclass(frozen=True)
class Gate:
    """The check fails if ``metric`` stands to ``limit`` as ``sign`` says, or if the metric has no value."""

    metric: str
    sign: str
    limit: float

    def __str__(self) -> str:
        return f"{self.metric} {self.sign} {self.limit:g}"

    def check(self, values: Mapping[str, Any]) -> "GateResult":
        """Compare with the measured value."""
        if self.metric not in values:
            raise ParameterError(f"--fail-if names {self.metric!r}; measured were {', '.join(values)}")
        value = values[self.metric]
        known = value is not None and not math.isnan(value)
        return GateResult(self, float(value) if known else None, not known or _OPERATORS[self.sign](value, self.limit))


@dataclass(frozen=True)
class GateResult:
    """What a gate found; ``value`` is None where the metric is not defined on these rows."""

    gate: Gate
    value: float | None
    failed: bool

    def __str__(self) -> str:
        value = "not defined" if self.value is None else f"{self.value:.6g}"
        return f"{'failed' if self.failed else 'passed'}: {self.gate.metric} is {value}, fails if {self.gate}"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"fail_if": str(self.gate), "value": self.value, "failed": self.failed}


def parse_gate(text: str) -> Gate:
    """Read ``METRIC SIGN NUMBER``; nothing is evaluated.

    >>> str(parse_gate("ece>1e-2"))
    'ece > 0.01'
    >>> str(parse_gate("ECE > 0.01"))
    'ece > 0.01'
    """
    found = _GATE.fullmatch(text)
    if found is None:
        raise ParameterError(f"cannot read --fail-if {text!r}: write METRIC SIGN NUMBER, such as 'ece > 0.01'")
    return Gate(found[1].lower(), found[2], float(found[3]))


@command(examples=EXAMPLES)
@labelled
@in_blocks
@click.option(
    "--model",
    metavar="FILE",
    type=click.Path(),
    help="Evaluate this model's calibrated probabilities beside the score.",
)
@names_option("--by", "Columns whose values are evaluated one by one.")
@names_option("--metrics", "Metrics to measure; all but variational_error, which takes a while, if not given.")
@click.option("--intervals", is_flag=True, help="95 % intervals too; whole blocks of --time or --group are resampled.")
@click.option("--max-values", default=20, show_default=True, help="Values of a column shown; the rest are pooled.")
@gates_option("Exit with 1 if it holds, as 'ece > 0.01'; with --model also 'unseen > 0.5'.")
@click.pass_context
def evaluate(
    ctx: click.Context,
    rows: RowOptions,
    model: str | None,
    by: tuple[str, ...],
    metrics: tuple[str, ...],
    intervals: bool,
    max_values: int,
    gates: tuple[str, ...],
    as_json: bool,
) -> None:
    """Measure calibration, overall and by segment.

    Gates check the calibrated probabilities if a model is given, the score otherwise.
    """
    parsed = [parse_gate(text) for text in gates]
    calibrator = None if model is None else load_calibrator(model, many_classes=True)
    score = None if calibrator is None else calibrator.score_column_
    with labelled_data(rows, score=score, many_classes=True) as (opened, roles):
        opened.require(by)
        used = needed_columns(opened, roles, calibrator, by)
        if roles.scores:
            if by or metrics or intervals:
                raise ParameterError("--by, --metrics and --intervals are for two classes: leave them out")
            named = None if calibrator is None else calibrator.classes_.tolist()
            classes = named or classes_of(opened, roles, rows.score)
            table = with_classes(opened, roles.label, calibrator).table(used)
            results = evaluate_classes(table, roles, classes, calibrator)
        else:
            table = opened.table(used)
            results = evaluate_table(
                table, roles, calibrator, by, max_values, metrics=metrics, intervals=intervals, block=rows.block
            )
    values = measured(list(results.values())[-1])
    if any(gate.metric == UNSEEN for gate in parsed):
        values[UNSEEN] = max(unseen_by_column(calibrator, table).values(), default=0.0)
    checked = [gate.check(values) for gate in parsed]
    if as_json:
        print_json(_document(results, checked))
    else:
        _show(results, checked)
        if roles.scores:
            show_classes(results)
    if any(result.failed for result in checked):
        ctx.exit(1)


def evaluate_table(
    table: Any,
    roles: Roles,
    calibrator: Any,
    by: Sequence[str],
    max_values: int = 20,
    *,
    metrics: Sequence[str] = (),
    intervals: bool = False,
    block: "BlockSize" = "day",
) -> dict[str, "Evaluation"]:
    """Evaluations of the score ("before") and, with a calibrator, of its probabilities ("after").

    Blocks of the column of time are as long as ``block`` says.
    """
    from mbct.calibrators.fitted_mbct import fitting_rows
    from mbct.calibrators.inputs import take_labels, take_weights, warn
    from mbct.data.columns import read_columns
    from mbct.metrics import evaluate as evaluate_arrays
    from mbct.progress import track
    from mbct.validation import as_probabilities

    columns, labels, _ = take_labels(read_columns(table), roles.label)
    columns, weights = take_weights(columns, roles.weight)
    predictions = {"before": as_probabilities(columns.numpy(roles.score), f"score {roles.score!r}")}
    if calibrator is not None:
        predictions["after"] = calibrator.calibrate(table)
        if calibrator.method == "mbct":
            y_true = calibrator.encode_labels(labels, roles.label)
            warn(fitting_rows(calibrator.fingerprint_, y_true, predictions["before"], weights), 1)
    segments = table.select(list(by)) if by else None
    time, groups = (None if name is None else columns.column(name) for name in (roles.time, roles.group))
    confidence = 0.95 if intervals else None
    options: IntervalOptions = {"confidence": confidence, "time": time, "groups": groups, "block": block}
    return {
        when: evaluate_arrays(
            labels,
            predictions[when],
            by=segments,
            metrics=metrics or None,
            max_values=max_values,
            sample_weight=weights,
            **options,
        )
        for when in track(list(predictions), "evaluating")
    }


def measured(evaluation: "Evaluation") -> dict[str, Any]:
    """All that a gate may name."""
    by_class = "accuracy" in evaluation.overall  # whose metrics of single classes have no value over all rows
    values = {
        name: value
        for name, value in evaluation.overall.items()
        if name not in ("field", "segment") and not (by_class and math.isnan(value))
    }
    if evaluation.fields is not None:
        values |= {name: evaluation.fields[name][-1] for name in MEASURED_BY}
        values["multicalibration_error"] = evaluation.multicalibration_error
    return values


def unseen_by_column(calibrator: Any, table: Any) -> dict[str, float]:
    """Of each category that the trees split by, the share of rows whose value training has not met."""
    from mbct.calibrators.fitted_mbct import unseen_shares
    from mbct.data.columns import encode, read_columns

    if calibrator is None or calibrator.method != "mbct":
        raise ParameterError(f"--fail-if names {UNSEEN!r}, which needs a model of method mbct")
    columns = read_columns(table)
    codes = encode(columns, calibrator.model_.bins, columns.numpy(calibrator.score_column_))
    return unseen_shares(calibrator.model_, codes)


def _document(results: dict[str, "Evaluation"], checked: list[GateResult]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for when, each in results.items():
        overall = {
            name: value if value is not None and math.isfinite(value) else None
            for name, value in measured(each).items()
        }
        document[when] = {"all": overall, **each.to_dict()}
    return {**document, "gates": [result.to_dict() for result in checked]}


def _show(results: dict[str, "Evaluation"], checked: list[GateResult]) -> None:
    from mbct.evaluation.metrics.results import cell_text

    sides = [measured(each) for each in results.values()]
    ends = [_ends(each) for each in results.values()]
    rows = [
        (name, *(cell_text(side[name]) + around.get(name, "") for side, around in zip(sides, ends, strict=True)))
        for name in sides[0]
    ]
    print_table(["all rows", *results], rows, left=["all rows"])
    for when, each in results.items():
        if each.fields is None:
            continue
        click.echo(f"\n{when}, by segment")
        print_table(each.shown().names, each.shown().texts(), left=["field", "segment"])
    lines = [(line, when) for when, each in results.items() for line in each.notes]
    for line in dict.fromkeys(line for line, _ in lines):
        noted = [when for other, when in lines if other == line]
        note(line if len(noted) == len(results) else f"{noted[0]}, {line}")
    for result in checked:
        click.echo(str(result))


def _ends(evaluation: "Evaluation") -> dict[str, str]:
    """The interval of each metric over all rows, in brackets; nothing where there is none."""
    if evaluation.intervals is None:
        return {}
    ends = dict(zip(evaluation.intervals.names, evaluation.intervals.texts()[0], strict=True))
    names = [name.removesuffix("_low") for name in ends if name.endswith("_low")]
    return {name: f" [{ends[f'{name}_low']}, {ends[f'{name}_high']}]" for name in names}


_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}
