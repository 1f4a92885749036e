"""Options that several commands take, and what they mean together."""

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from mbct.cli.roles import Roles, RowOptions, as_binary, assign, score_columns
from mbct.cli.shell import note
from mbct.cli.sources import Data, open_data
from mbct.errors import MBCTWarning, ModelFileError, ParameterError

if TYPE_CHECKING:
    from mbct.calibrators.base import Calibrator
    from mbct.store.cell_store import CellStore
    from mbct.training.folds import BlockSize

DATA_ENDINGS = (".csv", ".tsv", ".parquet", ".pq")

Function = TypeVar("Function", bound=Callable[..., Any])

data_argument = click.argument("data", required=False, metavar="[DATA]", type=click.Path())
model_argument = click.argument("model", type=click.Path())
sql_option = click.option("--sql", metavar="QUERY", help="Query to run on DATA, which it calls 'data'.")
label_option = click.option("--label", metavar="COLUMN", help="Column of 0 and 1. Guessed from its name if not given.")
positive_option = click.option("--positive", metavar="VALUE", help="Value of the label that counts as 1, others as 0.")
score_option = click.option(
    "--score", metavar="COLUMN", help="Column of predicted probabilities, or one for each class: 'p_*'. Guessed."
)
weight_option = click.option("--weight", metavar="COLUMN", help="Column of row weights.")
memory_option = click.option(
    "--memory-limit",
    metavar="SIZE",
    help="Memory for reading, such as 1GB; more goes to disk. Most of it if not given.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document for machines.")


def number_or_text(_: click.Context, __: click.Parameter, value: str | None) -> str | int | None:
    """An option that is a whole number or a word."""
    return int(value) if value and value.isdigit() else value


time_option = click.option(
    "--time",
    metavar="COLUMN",
    help="When rows happened: days are held out whole. A column of 10 dates or more is taken if not given; none for no "
    "time.",
)
group_option = click.option(
    "--group", metavar="COLUMN", help="Rows of one value are held out together, as of a patient."
)
block_option = click.option(
    "--block",
    metavar="UNIT",
    default="day",
    show_default=True,
    callback=number_or_text,
    help="Of --time: day, week, hour, or a number of equal stretches.",
)
_ROWS = (sql_option, weight_option, score_option, positive_option, label_option, data_argument)


def labelled(function: Function) -> Function:
    """Options of a command that takes labelled rows: they arrive as one argument ``rows``, beside --json."""

    @wraps(function)
    def collected(**given: Any) -> Any:
        named = [field.name for field in fields(RowOptions) if field.name in given]
        return function(rows=RowOptions(**{name: given.pop(name) for name in named}), **given)

    for option in (json_option, *_ROWS):
        collected = option(collected)
    return cast("Function", collected)


def in_blocks(function: Function) -> Function:
    """Options that say which rows belong together: --time, --group and --block, below :func:`labelled`."""
    for option in (block_option, group_option, time_option):
        function = option(function)
    return function


def features_options(function: Function) -> Function:
    """Options that choose the columns that may explain a bias."""
    function = names_option("--exclude", "Columns to leave out.")(function)
    return names_option("--features", "Columns that may explain the bias; all others are left out.")(function)


def output_option(text: str, *, required: bool = True) -> Callable[[Function], Function]:
    """``-o FILE``."""
    return click.option("-o", "--output", required=required, metavar="FILE", type=click.Path(), help=text)


def seed_option(text: str) -> Callable[[Function], Function]:
    """``--seed N``."""
    return click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help=text)


def gates_option(text: str) -> Callable[[Function], Function]:
    """``--fail-if GATE``, repeated."""
    return click.option("--fail-if", "gates", multiple=True, metavar="GATE", help=text)


def _store(_: click.Context, __: click.Parameter, value: str) -> "CellStore":
    from mbct.store.cell_store import CellStore

    return CellStore(value)


store_option = click.option(
    "--store", required=True, metavar="FOLDER", callback=_store, help="Store of cells, local or an fsspec URL."
)
half_life_option = click.option(
    "--half-life", type=float, metavar="DAYS", help="A row that much older than the last day counts one half."
)


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
    rows: RowOptions, *, score: str | Sequence[str] | None = None, many_classes: bool = False
) -> Iterator[tuple[Data, Roles]]:
    """The labelled rows, and the role of each column, which is shown; ``score`` stands in for one that is not named."""
    with open_data(rows.data, rows.sql, memory_limit=rows.memory_limit) as opened:
        named = score_columns(opened, rows.score) if rows.score else [score] if isinstance(score, str) else score or ()
        if len(named) > 1 and not many_classes:
            raise ParameterError(f"this command takes one probability; --score names {len(named)} columns")
        roles = assign(opened, rows, named)
        for line in roles.lines():
            note(line)
        if roles.scores:
            yield opened, roles
            return
        binary = as_binary(opened, roles.label, rows.positive)
        if roles.features:
            _note_suspicions(binary, roles, rows.block)
        yield binary, roles


def _note_suspicions(data: Data, roles: Roles, block: "BlockSize") -> None:
    """Say which features alone separate the labels of a sample of the rows, and by which the rows belong together."""
    import numpy as np

    from mbct.data.blocks import blocks_of_time
    from mbct.data.checks import MOST_ROWS, find_dependence, find_leaks
    from mbct.data.columns import read_columns
    from mbct.training.folds import BlockColumns

    columns = read_columns(data.sample(MOST_ROWS, roles.columns))
    label, score = (np.asarray(columns.numpy(name), dtype=np.float64) for name in (roles.label, roles.score))
    if not (np.isin(label, (0.0, 1.0)).all() and np.isfinite(score).all()):
        return  # the command itself says what is wrong with them
    features = columns.only(roles.features or ())
    for leak in find_leaks(features, label, y_prob=score):
        note(f"suspected leak: {leak}; leave it out with --exclude {leak.column}")
        warnings.filterwarnings("ignore", "suspected leak", MBCTWarning)  # which would say it again
    if roles.group is not None:
        return
    checked = BlockColumns(roles.time, block=block)
    days = None if roles.time is None else blocks_of_time(columns.column(roles.time), checked.block)
    number = None if days is None else np.unique(days, return_inverse=True)[1]
    if (found := find_dependence(features, label, score, number)) is not None:
        note(found.on_command_line())
        warnings.filterwarnings("ignore", "rows with one value", MBCTWarning)


def load_calibrator(path: str, *, many_classes: bool = False) -> "Calibrator":
    """The calibrator of a model file; one of many classes where the command takes it."""
    from mbct.calibrators.persistence import load_model

    try:
        calibrator = load_model(path)
    except ModelFileError as error:
        if path.lower().removesuffix(".gz").endswith(DATA_ENDINGS):
            raise ParameterError(f"{path} is data, no model: MODEL comes first, then DATA") from error
        raise
    if not (many_classes or isinstance(calibrator.score_column_, str)):
        raise ParameterError(
            f"{path} calibrates {len(calibrator.score_column_)} classes at once, this command one probability: load it "
            "in Python with mbct.load_model"
        )
    return calibrator


def needed_columns(data: Data, roles: Roles, calibrator: "Calibrator | None", by: Sequence[str]) -> list[str]:
    """Columns that are looked at; one that the model needs and the data lacks is named by the model itself."""
    wanted = {*roles.columns, *by, *(() if calibrator is None else calibrator.feature_names_in_)}
    return [name for name in data.names if name in wanted]


def check_settings(method: str, settings: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raise where ``--set`` names what the method does not have."""
    names = sorted(known)
    if foreign := sorted(set(settings) - set(names)):
        listed = ", ".join(names) or "none"
        raise ParameterError(f"method {method!r} has no parameter {foreign[0]!r}; it has {listed}")
