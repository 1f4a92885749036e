"""Options that several commands take, and what they mean together."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mbct.cli.roles import Roles, as_binary, assign
from mbct.cli.shell import note
from mbct.cli.sources import Data, open_data
from mbct.errors import ModelFileError, ParameterError

DATA_ENDINGS = (".csv", ".tsv", ".parquet", ".pq")

Function = TypeVar("Function", bound=Callable[..., Any])

data_argument = click.argument("data", required=False, metavar="[DATA]", type=click.Path())
model_argument = click.argument("model", type=click.Path())
sql_option = click.option("--sql", metavar="QUERY", help="Query to run on DATA, which it calls 'data'.")
label_option = click.option("--label", metavar="COLUMN", help="Column of 0 and 1. Guessed from its name if not given.")
positive_option = click.option("--positive", metavar="VALUE", help="Value of the label that counts as 1, others as 0.")
score_option = click.option("--score", metavar="COLUMN", help="Column of predicted probabilities. Guessed likewise.")
weight_option = click.option("--weight", metavar="COLUMN", help="Column of row weights.")
memory_option = click.option(
    "--memory-limit",
    metavar="SIZE",
    help="Memory for reading, such as 1GB; more goes to disk. Most of it if not given.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document for machines.")


def labelled(function: Function) -> Function:
    """Options of a command that takes labelled rows: DATA, --sql, --label, --positive, --score, --weight, --json."""
    options = (json_option, sql_option, weight_option, score_option, positive_option, label_option, data_argument)
    for option in options:
        function = option(function)
    return function


def features_options(function: Function) -> Function:
    """Options that choose the columns that may explain a bias."""
    function = names_option("--exclude", "Columns to leave out.")(function)
    return names_option("--features", "Columns that may explain the bias; all others are left out.")(function)


def output_option(text: str) -> Callable[[Function], Function]:
    """``-o FILE``, which must be given."""
    return click.option("-o", "--output", required=True, metavar="FILE", type=click.Path(), help=text)


def methods() -> list[str]:
    """Names of all calibration methods."""
    from mbct.calibrators.registry import available

    return available()


def names(_: click.Context, __: click.Parameter, value: Sequence[str]) -> tuple[str, ...]:
    """Values of an option that may be repeated or hold names between commas."""
    return tuple(name.strip() for given in value for name in given.split(",") if name.strip())


def names_option(flag: str, text: str) -> Callable[[Function], Function]:
    """An option of column or method names: repeated, or between commas."""
    return click.option(flag, multiple=True, metavar="NAMES", callback=names, help=f"{text} Commas or repeats.")


def settings_option(text: str) -> Callable[[Function], Function]:
    """``--set NAME=VALUE``, repeated; values are read as JSON where they can be, as text otherwise."""
    return click.option(
        "--set", "settings", multiple=True, metavar="NAME=VALUE", callback=_settings, help=f"{text} May be repeated."
    )


def _settings(_: click.Context, __: click.Parameter, value: Sequence[str]) -> dict[str, Any]:
    settings = {}
    for given in value:
        name, equals, text = given.partition("=")
        if not equals or not name.isidentifier():
            raise click.BadParameter(f"{given!r} is not of the form NAME=VALUE")
        try:
            settings[name] = json.loads(text)
        except ValueError:
            settings[name] = text
    return settings


@contextmanager
def labelled_data(
    data: str | None,
    sql: str | None,
    label: str | None,
    score: str | None,
    weight: str | None,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    *,
    positive: str | None = None,
    memory_limit: str | None = None,
) -> Iterator[tuple[Data, Roles]]:
    """The labelled rows, and the role of each column, which is shown."""
    with open_data(data, sql, memory_limit=memory_limit) as opened:
        roles = assign(opened, label=label, score=score, weight=weight, features=features, exclude=exclude)
        for line in roles.lines():
            note(line)
        yield as_binary(opened, roles.label, positive), roles


if TYPE_CHECKING:
    from mbct.calibrators.base import Calibrator


def load_calibrator(path: str) -> "Calibrator":
    """The calibrator of a model file; one of many classes is for Python alone."""
    from mbct.calibrators.persistence import load_model

    try:
        calibrator = load_model(path)
    except ModelFileError as error:
        if path.lower().removesuffix(".gz").endswith(DATA_ENDINGS):
            raise ParameterError(f"{path} is data, no model: MODEL comes first, then DATA") from error
        raise
    if not isinstance(calibrator.score_column_, str):
        raise ParameterError(
            f"{path} calibrates {len(calibrator.score_column_)} classes at once, commands one probability: load it in "
            "Python with mbct.load_model"
        )
    return calibrator


def check_settings(method: str, settings: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raise where ``--set`` names what the method does not have."""
    names = sorted(known)
    if foreign := sorted(set(settings) - set(names)):
        listed = ", ".join(names) or "none"
        raise ParameterError(f"method {method!r} has no parameter {foreign[0]!r}; it has {listed}")
