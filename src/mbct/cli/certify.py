"""``mbct certify``: what rows that a model has not seen guarantee about it."""

from typing import TYPE_CHECKING, Any

import click

from mbct.cli.options import (
    in_blocks,
    labelled,
    labelled_data,
    load_calibrator,
    model_argument,
    names_option,
    needed_columns,
    output_option,
)
from mbct.cli.roles import RowOptions
from mbct.cli.shell import command, note, print_json, print_table, write_output
from mbct.errors import ParameterError

if TYPE_CHECKING:
    from mbct.model.certificate import Certificate

METHODS = ("clopper-pearson", "betting", "theorem-1", "blocks")
EXAMPLES = (
    "mbct certify model.json holdout.parquet",
    "mbct certify model.json holdout.parquet --by site,device -o certificate.json",
    "mbct certify model.json later.parquet --time date --attach certified.json",
    "mbct certify model.json holdout.parquet --max-error 0.01 --attach certified.json",
)


@command(examples=EXAMPLES)
@model_argument
@labelled
@in_blocks
@names_option("--by", "Columns whose values are certified too.")
@click.option("--alpha", type=click.FloatRange(0.0, 0.5, min_open=True), help="Level; the model's if not given.")
@click.option("--method", type=click.Choice(METHODS), help="blocks with --time or --group, else clopper-pearson.")
@click.option("--max-error", type=click.FloatRange(min=0.0, min_open=True), help="Merge bins until each is within it.")
@click.option("--top", default=10, show_default=True, type=click.IntRange(min=0), help="Bins to show, the widest.")
@output_option("Certificate to write, as JSON.", required=False)
@click.option("--attach", metavar="FILE", type=click.Path(), help="Model to write that holds its certificate.")
def certify(
    model: str,
    rows: RowOptions,
    by: tuple[str, ...],
    top: int,
    output: str | None,
    attach: str | None,
    as_json: bool,
    **choices: Any,
) -> None:
    """Bound how far the truth may be from a model's predictions.

    DATA holds rows that the model was not fitted on, which is checked. Every rule, every bin of the partition and every
    segment gets a bound on |true rate - mean calibrated prediction|; those of one group hold all at once.
    """
    calibrator = load_calibrator(model)
    if calibrator.method != "mbct":
        raise ParameterError(f"{model} holds a {calibrator.method!r} calibrator, which has no bins; fit 'mbct'")
    with labelled_data(rows, score=calibrator.score_column_) as (opened, roles):
        if roles.weight is not None:
            raise ParameterError(f"--weight {roles.weight}: a certificate counts every row once; leave it out")
        table = opened.table(needed_columns(opened, roles, calibrator, by))
    from mbct.evaluation.certify import certify as certify_model

    certificate = certify_model(
        calibrator, table, roles.label, by=by, time=roles.time, groups=roles.group, block=rows.block, **choices
    )
    if as_json:
        print_json(certificate.to_dict())
    else:
        _show(certificate, top)
    write_output(output, certificate.to_json().encode())
    if attach is not None:
        calibrator.attach(certificate).save(attach)
        note(f"wrote {attach}")


def _show(certificate: "Certificate", top: int) -> None:
    for line in certificate.lines():
        click.echo(line)
    if not certificate.unseen:
        click.echo("the fingerprint cannot tell whether these rows were fitted on: make sure that they were not")
    widest = sorted(certificate.bins, key=lambda found: -found.bound)[:top]
    if widest:
        click.echo()
        names = ["group", "bin", "rows", "label rate", "mean prediction", "lower", "upper", "Theorem 1"]
        numbers = ("label_rate", "mean_prediction", "lower", "upper", "theorem_1")
        shown = [(b.group, b.name, f"{b.rows:,}", *(f"{getattr(b, name):.4g}" for name in numbers)) for b in widest]
        print_table(names, shown, left=["group", "bin"])
