"""Larger data sets in the order of time: departures in the United States, employment in Massachusetts."""

from pathlib import Path

from reproduction.datasets.dataset import Dataset
from reproduction.datasets.reading import if_there, polars, read

_BIN_SIZE = 1000
"""The paper's for CACTRDC, its own data."""
_THIRD = 1.0 / 3.0
_PERSON = ("SCHL", "MAR", "RELP", "DIS", "ESP", "CIT", "MIG", "MIL", "SEX", "RAC1P")
_FIRST_EVALUATED = 2017
_STRETCHES = 50
"""A year has no finer date: rows come household by household, and a block is so much of a year's rows."""


def departures_file(data: Path) -> Path | None:
    """Departures of 2001."""
    return if_there(data / "flights_2001.parquet")


def load_departures(path: Path) -> Dataset:
    """Three million departures, January to June 2001: whether one was more than a quarter of an hour late.

    Two months each train the predictor, the calibrators, and evaluate. The hour is that of the actual departure; the
    minutes are left out, since they would give the delay away.
    """
    pl = polars()
    frame = read(path, ("date", "origin", "destination", "distance", "late")).select(
        pl.col("late").cast(pl.Int8),
        "distance",
        pl.col("origin", "destination").cast(pl.String).cast(pl.Categorical),
        hour=pl.col("date").dt.hour(),
        weekday=pl.col("date").dt.weekday(),
        day=pl.col("date").dt.ordinal_day(),
    )
    return Dataset(
        name="flights-2001",
        title="Departures of 2001",
        origin=path.name,
        frame=frame,
        label="late",
        predictor_features=("hour", "weekday", "distance", "origin", "destination"),
        predictor_categories=("origin", "destination"),
        calibration_features=("hour", "weekday", "origin", "destination"),
        probe="distance",
        printed_bin_size=_BIN_SIZE,
        shares=(_THIRD, _THIRD, _THIRD),
        order="time",
        block="day",
        whole=True,
    )


def employment_file(data: Path) -> Path | None:
    """Employment."""
    return if_there(data / "employment.parquet")


def load_employment(path: Path) -> Dataset:
    """Persons in Massachusetts with the predictions of a model: 2015 and 2016 calibrate, 2017 and 2018 evaluate."""
    pl = polars()
    columns = ("id", "year", "employed", "predicted_probability", "AGEP", "ANC", *_PERSON)
    place = pl.int_range(pl.len()).over("year") * _STRETCHES // pl.len().over("year")
    frame = (
        read(path, columns)
        .sort("year", "id", maintain_order=True)
        .with_columns(
            pl.col("ANC", *_PERSON).cast(pl.String).cast(pl.Categorical), block=pl.col("year") * _STRETCHES + place
        )
        .drop("id")
    )
    share = float((frame["year"] < _FIRST_EVALUATED).mean())
    return Dataset(
        name="employment",
        title="Employment",
        origin=path.name,
        frame=frame,
        label="employed",
        predictor_features=(),
        predictor_categories=(),
        calibration_features=("AGEP", *_PERSON),
        probe="ANC",
        printed_bin_size=_BIN_SIZE,
        shares=(0.0, share, 1.0 - share),
        order="time",
        block="block",
        score="predicted_probability",
        discrete=False,
        whole=True,
    )
