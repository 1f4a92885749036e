"""Avazu click-through data: the Kaggle file ``avazu/train.csv`` (40 million rows), or a small sample of it."""

from pathlib import Path
from typing import Any

from reproduction import printed
from reproduction.datasets.dataset import Dataset, require_columns, require_rows
from reproduction.datasets.reading import header, polars, read

NAME = "avazu"
WHOLE = "avazu/train.csv"
SAMPLE = "avazu.parquet"
WHOLE_ROWS = 40_428_967
COLUMNS = (
    "id",
    "click",
    "hour",
    "C1",
    "banner_pos",
    "site_id",
    "site_domain",
    "site_category",
    "app_id",
    "app_domain",
    "app_category",
    "device_id",
    "device_ip",
    "device_model",
    "device_type",
    "device_conn_type",
    *(f"C{i}" for i in range(14, 22)),
)
"""Header of the Kaggle file, and of the sample."""
PAPER_FEATURES = ("banner_pos", "site_id", "site_category", "device_type", "C16", "C19", "C20")
_PREDICTOR = (
    "C1",
    "banner_pos",
    "site_id",
    "site_domain",
    "site_category",
    "app_id",
    "app_domain",
    "app_category",
    "device_type",
    "device_conn_type",
    *(f"C{i}" for i in range(14, 22)),
)
"""All but the row's number, its day, and the device's own keys, most of which occur once."""


def files(data: Path) -> Path | None:
    """The file to read: the whole one if it is there."""
    return next((data / name for name in (WHOLE, SAMPLE) if (data / name).is_file()), None)


def load(path: Path) -> Dataset:
    """Read and check the file; rows in the order of time."""
    require_columns(header(path), COLUMNS, str(path))
    whole = path.suffix == ".csv"
    frame = _with_hour_of_day(read(path, ("click", "hour", *_PREDICTOR)))
    if whole:
        require_rows(frame.height, WHOLE_ROWS, str(path))
    return Dataset(
        name=NAME,
        title="Avazu" if whole else "Avazu (0.05 % sample)",
        origin=path.name,
        frame=frame,
        label="click",
        predictor_features=("hour_of_day", *_PREDICTOR),
        predictor_categories=_PREDICTOR,
        calibration_features=PAPER_FEATURES,
        probe="C14",
        printed_bin_size=printed.BIN_SIZES[NAME],
        shares=(0.6, 0.3, 0.1),
        order="time",
        block="hour",
        whole=whole,
    )


def _with_hour_of_day(frame: Any) -> Any:
    pl = polars()
    texts = [name for name, kind in frame.schema.items() if kind == pl.String]
    hour = (pl.col("hour") % 100).cast(pl.Int8).alias("hour_of_day")
    return frame.sort("hour", maintain_order=True).with_columns(hour, *(pl.col(t).cast(pl.Categorical) for t in texts))
