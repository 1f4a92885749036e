"""``mbct fit``: learn a calibration and write it to a file."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from mbct.cli.options import (
    check_settings,
    features_options,
    labelled,
    labelled_data,
    memory_option,
    methods,
    output_option,
    settings_option,
)
from mbct.cli.roles import Roles
from mbct.cli.shell import OneOf, command, print_json
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
    "mbct fit clicks.parquet --preset paper --set max_depth=4 -o model.json",
    "mbct fit clicks.parquet --set model_size=compact -o model.json",
    "mbct fit clicks.parquet --set rank_preservation=within-bin --set negative_sampling_rate=0.1 -o model.json",
    "mbct fit clicks.parquet --method isotonic -o model.json",
)


@command(examples=EXAMPLES)
@labelled
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
@memory_option
def fit(
    data: str | None,
    label: str | None,
    positive: str | None,
    score: str | None,
    weight: str | None,
    features: tuple[str, ...],
    exclude: tuple[str, ...],
    method: str,
    preset: str | None,
    settings: dict[str, Any],
    output: str,
    memory_limit: str | None,
    sql: str | None,
    as_json: bool,
) -> None:
    """Learn the bias of predictions; write a model.

    DATA holds a label of 0 and 1, a predicted probability, and the columns that may explain its bias. It is
    processed in place and need not fit into memory.
    """
    parameters = {**settings, **({"preset": preset} if preset else {})}
    with labelled_data(
        data, sql, label, score, weight, features, exclude, memory_limit=memory_limit, positive=positive
    ) as (rows, roles):
        fitted = fit_rows(rows, roles, method, parameters)
    fitted.calibrator.save(output)
    if as_json:
        print_json({"model": output, **roles.to_dict(), **fitted.to_dict()})
        return
    click.echo(str(fitted))
    click.echo(f"wrote {output}")


@dataclass(frozen=True)
class Fitted:
    """A calibrator and what it did to the rows it was fitted on."""

    calibrator: "Calibrator"
    rows: int
    label_rate: float
    mean_prediction: float
    mean_calibrated: float

    @property
    def model(self) -> "CalibrationEnsemble | None":
        """The trees, where the method has any."""
        return getattr(self.calibrator, "model_", None) if self.calibrator.method == "mbct" else None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        numbers = {key: value for key, value in vars(self).items() if key != "calibrator"}
        trees = {} if self.model is None else {"trees": len(self.model.trees), "rules": self.model.n_rules}
        reordered = {} if self.reordered is None else {"reorder_rate": self.reordered}
        return {"method": self.calibrator.method, **numbers, **trees, **reordered}

    @property
    def reordered(self) -> float | None:
        """Share of row pairs that changed rank, where the rows were in memory."""
        return getattr(self.calibrator, "reorder_rate_", None)

    def __str__(self) -> str:
        summary = (
            f"{self.rows:,} rows, label rate {self.label_rate:.5g}, mean prediction "
            f"{self.mean_prediction:.5g} before and {self.mean_calibrated:.5g} after"
        )
        if self.model is None:
            return summary
        if not self.model.trees:
            return f"{summary}\nno trees: held-out data show no significant gain, so predictions are returned unchanged"
        pairs = "" if self.reordered is None else f"; {self.reordered:.2%} of row pairs changed rank"
        return f"{summary}\n{len(self.model.trees)} trees with {self.model.n_rules:,} rules{pairs}"


def fit_rows(data: Data, roles: Roles, method: str, parameters: dict[str, Any]) -> Fitted:
    """A calibrator fitted on rows whose columns have ``roles``.

    Of MBCT only the cells, of other methods the columns in use are brought into memory.
    """
    from mbct.calibrators.registry import calibrator_class

    kind = calibrator_class(method)
    check_settings(method, parameters, set(kind._get_param_names()) - {"score_column", "features"})
    calibrator = kind(score_column=roles.score, **parameters)
    # The paper's trees undo a sampling of negatives row by row.
    by_row = parameters.get("preset") == "paper" and parameters.get("negative_sampling_rate", 1.0) != 1.0
    rows = data.source(roles.columns) if method == "mbct" and not by_row else data.table(roles.columns)
    calibrator.fit(rows, roles.label, roles.weight)
    return _with_means(calibrator, data, roles)


def _with_means(calibrator: "Calibrator", data: Data, roles: Roles) -> Fitted:
    """What the calibrator does to the rows, read once more, some at a time."""
    import numpy as np

    n_rows, total_weight, sums = 0, 0.0, np.zeros(3)
    for batch in data.batches(roles.columns):
        label, prediction = (np.asarray(batch[name], dtype=np.float64) for name in (roles.label, roles.score))
        weight = np.ones(len(label)) if roles.weight is None else np.asarray(batch[roles.weight], dtype=np.float64)
        sums += [float(weight @ values) for values in (label, prediction, calibrator.calibrate(batch))]
        n_rows, total_weight = n_rows + len(label), total_weight + float(weight.sum())
    return Fitted(calibrator, n_rows, *(sums / total_weight).tolist())
