"""``mbct fit``: learn a calibration and write it to a file."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from mbct.cli.corrections import Correction, Moves
from mbct.cli.many_classes import classes_of, fit_classes
from mbct.cli.options import (
    check_settings,
    features_options,
    in_blocks,
    labelled,
    labelled_data,
    memory_option,
    methods,
    output_option,
    settings_option,
)
from mbct.cli.roles import Roles, RowOptions
from mbct.cli.shell import OneOf, answer, command
from mbct.cli.sources import Data

if TYPE_CHECKING:
    from mbct.calibrators.base import Calibrator
    from mbct.model.ensemble import CalibrationEnsemble

EXAMPLES = (
    "mbct fit clicks.parquet --label click --score pctr -o model.json",
    "mbct fit 'logs/*.csv.gz' -o model.json",
    "cat clicks.csv | mbct fit - -o model.json",
    "mbct fit duckdb:///ads.db?table=clicks --exclude campaign -o model.json",
    "mbct fit clicks.parquet --sql \"SELECT * FROM data WHERE day < '2024-02-01'\" -o model.json",
    "mbct fit flights.parquet --time date --gap 1 -o model.json",
    "mbct fit visits.parquet --group patient -o model.json",
    "mbct fit clicks.parquet --preset paper --set max_depth=4 -o model.json",
    "mbct fit clicks.parquet --set model_size=compact -o model.json",
    "mbct fit clicks.parquet --set certify=0.2 --set max_error=0.05 -o certified.json",
    "mbct fit clicks.parquet --set rank_preservation=within-bin --set negative_sampling_rate=0.1 -o model.json",
    "mbct fit clicks.parquet --method isotonic -o model.json",
    "mbct fit animals.parquet --label animal --score 'p_*' -o model.json",
    "mbct fit animals.parquet --label animal --score p_cat,p_dog,p_eel --method matrix-scaling -o model.json",
)


@command(examples=EXAMPLES)
@labelled
@in_blocks
@features_options
@click.option(
    "--method",
    default="mbct",
    show_default=True,
    type=OneOf("method", methods),
    help="Calibration method; see 'mbct compare'.",
)
@click.option(
    "--preset",
    type=click.Choice(["default", "fast", "paper"]),
    help="Of method mbct: validated on held-out data, the same faster, or as the paper prints it.",
)
@settings_option("Parameter of the method.")
@output_option("Model file to write.")
@click.option("--gap", type=click.IntRange(min=0), default=0, help="Of --time: blocks left out between the folds.")
@click.option("--half-life", type=float, metavar="BLOCKS", help="Of --time: blocks after which a row counts half.")
@memory_option
def fit(
    rows: RowOptions,
    method: str,
    preset: str | None,
    settings: dict[str, Any],
    output: str,
    gap: int,
    half_life: float | None,
    as_json: bool,
) -> None:
    """Learn the bias of predictions; write a model.

    DATA holds a label of 0 and 1, a predicted probability, and the columns that may explain its bias. It is
    processed in place and need not fit into memory.
    """
    parameters = {**settings, **({"preset": preset} if preset else {})}
    with labelled_data(rows, many_classes=True) as (data, roles):
        named = list(roles.features or ()) if rows.features else None
        blocks = {"time": roles.time, "groups": roles.group, "block": rows.block, "gap": gap, "half_life": half_life}
        if roles.scores:
            classes = classes_of(data, roles, rows.score)
            many = fit_classes(data, roles, classes, method, parameters, {**blocks, "features": named})
            many.save(output)
            text = f"{data.count():,} rows, {len(classes)} classes: {', '.join(classes)}\nwrote {output}"
            document = {"model": output, **_used(roles, many).to_dict(), "method": many.method, "classes": classes}
            answer(text, document, as_json=as_json)
            return
        fitted = fit_rows(data, roles, method, parameters, {**blocks, "features": named})
    fitted.calibrator.save(output)
    document = {"model": output, **_used(roles, fitted.calibrator).to_dict(), **fitted.to_dict()}
    answer(f"{fitted}\nwrote {output}", document, as_json=as_json)


def _used(roles: Roles, calibrator: "Calibrator") -> Roles:
    """Roles without the features that the fit has left out; those that the user names are kept."""
    if roles.features is None or getattr(calibrator, "features", None) is not None:
        return roles
    left_out = getattr(calibrator, "excluded_features_", [])
    features = tuple(name for name in roles.features if name not in left_out)
    return replace(
        roles, features=features, excluded=(*roles.excluded, *((name, _IDENTIFIES_TIME) for name in left_out))
    )


@dataclass(frozen=True)
class Fitted:
    """A calibrator and what it did to the rows it was fitted on."""

    calibrator: "Calibrator"
    rows: int
    label_rate: float
    mean_prediction: float
    mean_calibrated: float
    period: tuple[str, str] | None
    corrections: "tuple[Correction, ...]"

    @property
    def model(self) -> "CalibrationEnsemble | None":
        """The trees, where the method has any."""
        return getattr(self.calibrator, "model_", None) if self.calibrator.method == "mbct" else None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        numbers = {name: getattr(self, name) for name in ("rows", "label_rate", "mean_prediction", "mean_calibrated")}
        found: dict[str, Any] = {"method": self.calibrator.method, **numbers, "period": self.period}
        if self.model is not None:
            found |= {"trees": len(self.model.trees), "rules": self.model.n_rules}
        if (reordered := getattr(self.calibrator, "reorder_rate_", None)) is not None:
            found["reorder_rate"] = reordered
        if getattr(self.calibrator, "held_out_gain_", None) is not None:
            names = ("held_out_gain", "held_out_gain_error", "held_out_gain_by_fold")
            found |= {name: getattr(self.calibrator, f"{name}_", None) for name in names}
        return {**found, "corrections": [vars(each) for each in self.corrections]}

    def __str__(self) -> str:
        period = "" if self.period is None else f" from {self.period[0]} to {self.period[1]}"
        rows = (
            f"{self.rows:,} rows{period}, label rate {self.label_rate:.5g}, mean prediction "
            f"{self.mean_prediction:.5g} before and {self.mean_calibrated:.5g} after"
        )
        shares = ", ".join(f"{name} {share:.0%}" for name, share in feature_shares(self.calibrator)[:_MOST_COLUMNS])
        columns = f"columns that mattered: {shares}" if shares else ""
        largest = f"largest corrections: {'; '.join(map(str, self.corrections))}" if self.corrections else ""
        certificate = getattr(self.calibrator, "certificate_", None)
        certified = [] if certificate is None else [f"certified {line}" for line in certificate.lines()]
        return "\n".join(line for line in (rows, self._gain(), self._size(), columns, largest, *certified) if line)

    def _size(self) -> str:
        from mbct.calibrators.inputs import FEWEST

        if self.model is None:
            return ""
        if not self.model.trees:
            positives = self.rows * self.label_rate
            few = min(positives, self.rows - positives) < FEWEST
            why = "too few rows to tell" if few else "held-out data show no significant gain"
            return f"no trees: {why}, so predictions are returned unchanged"
        reordered = getattr(self.calibrator, "reorder_rate_", None)
        pairs = "" if reordered is None else f"; {reordered:.1%} of row pairs changed rank"
        return f"{getattr(self.calibrator, 'form_', '')}{pairs}"

    def _gain(self) -> str:
        from mbct.calibrators.fitted_mbct import FittedMBCT, describe_gain

        text = describe_gain(self.calibrator) if isinstance(self.calibrator, FittedMBCT) else ""
        return f"held-out log loss: {text}" if text else ""


_MOST_COLUMNS = 8
_IDENTIFIES_TIME = "its values identify the time"


def feature_shares(calibrator: "Calibrator") -> list[tuple[str, float]]:
    """Features with their share of the held-out gain, largest first; none where the method does not tell."""
    shares = getattr(calibrator, "feature_importances_", None)
    if shares is None:
        return []
    named = zip(map(str, calibrator.feature_names_in_), map(float, shares), strict=True)
    return sorted(((name, share) for name, share in named if share >= 0.005), key=lambda pair: -pair[1])


def fit_rows(data: Data, roles: Roles, method: str, parameters: dict[str, Any], blocks: dict[str, Any]) -> Fitted:
    """A calibrator fitted on rows whose columns have ``roles``; ``blocks`` say which rows belong together.

    Of MBCT only the cells, of other methods the columns in use are brought into memory.
    """
    from mbct.calibrators.registry import calibrator_class

    kind = calibrator_class(method)
    known = set(kind._get_param_names())
    check_settings(method, parameters, known - {"score_column", "features"})
    taken = {name: value for name, value in blocks.items() if name in known and value is not None}
    calibrator = kind(score_column=roles.score, **{**taken, **parameters})
    # The paper's trees undo a sampling of negatives row by row, and a certificate is made of rows.
    by_row = parameters.get("certify") is not None or (
        parameters.get("preset") == "paper" and parameters.get("negative_sampling_rate", 1.0) != 1.0
    )
    rows = data.source(roles.columns) if method == "mbct" and not by_row else data.table(roles.columns)
    calibrator.fit(rows, roles.label, roles.weight)
    return _with_means(calibrator, data, roles)


def _with_means(calibrator: "Calibrator", data: Data, roles: Roles) -> Fitted:
    """What the calibrator does to the rows, read once more, some at a time."""
    import numpy as np

    n_rows, total_weight, sums = 0, 0.0, np.zeros(3)
    moves = Moves(calibrator.model_ if calibrator.method == "mbct" else None)
    for batch in data.batches(roles.columns):
        label, prediction = (np.asarray(batch[name], dtype=np.float64) for name in (roles.label, roles.score))
        weight = np.ones(len(label)) if roles.weight is None else np.asarray(batch[roles.weight], dtype=np.float64)
        calibrated = calibrator.calibrate(batch)
        sums += [float(weight @ values) for values in (label, prediction, calibrated)]
        n_rows, total_weight = n_rows + len(label), total_weight + float(weight.sum())
        moves.add(batch, prediction, calibrated, weight)
    period = None if roles.time is None else data.period(roles.time)
    rate, before, after = (float(value) for value in sums / total_weight)
    return Fitted(calibrator, n_rows, rate, before, after, period, moves.largest())
