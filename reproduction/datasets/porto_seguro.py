"""Porto Seguro's Safe Driver Prediction: the Kaggle file ``porto-seguro/train.csv``, or a sample of it."""

from pathlib import Path

from reproduction import printed
from reproduction.datasets.dataset import Dataset, require_rows
from reproduction.datasets.reading import header, read

NAME = "porto-seguro"
WHOLE = "porto-seguro/train.csv"
SAMPLE = "porto_seguro.parquet"
WHOLE_ROWS = 595_212
WHOLE_COLUMNS = (
    "id",
    "target",
    "ps_ind_01",
    "ps_ind_02_cat",
    "ps_ind_03",
    "ps_ind_04_cat",
    "ps_ind_05_cat",
    *(f"ps_ind_{i:02d}_bin" for i in range(6, 14)),
    "ps_ind_14",
    "ps_ind_15",
    *(f"ps_ind_{i:02d}_bin" for i in range(16, 19)),
    *(f"ps_reg_{i:02d}" for i in range(1, 4)),
    *(f"ps_car_{i:02d}_cat" for i in range(1, 12)),
    *(f"ps_car_{i:02d}" for i in range(11, 16)),
    *(f"ps_calc_{i:02d}" for i in range(1, 15)),
    *(f"ps_calc_{i:02d}_bin" for i in range(15, 21)),
)
"""Header of the Kaggle file."""
PAPER_FEATURES = ("ps_ind_05_cat", "ps_ind_17_bin", "ps_car_01_cat", "ps_car_06_cat", "ps_car_07_cat", "ps_car_09_cat")
"""Appendix A.1 announces seven and names these six."""


def files(data: Path) -> Path | None:
    """The file to read: the whole one if it is there."""
    return next((data / name for name in (WHOLE, SAMPLE) if (data / name).is_file()), None)


def load(path: Path) -> Dataset:
    """Read and check the file."""
    whole = path.suffix == ".csv"
    columns = WHOLE_COLUMNS if whole else tuple(header(path))
    frame = read(path, columns)
    if whole:
        require_rows(frame.height, WHOLE_ROWS, str(path))
    return Dataset(
        name=NAME,
        title="Porto Seguro" if whole else "Porto Seguro (20 % sample)",
        origin=path.name,
        frame=frame,
        label="target",
        predictor_features=tuple(name for name in columns if name not in ("id", "target")),
        predictor_categories=tuple(name for name in columns if name.endswith("_cat")),
        calibration_features=tuple(name for name in PAPER_FEATURES if name in columns),
        probe="ps_car_13",
        printed_bin_size=printed.BIN_SIZES[NAME],
        shares=_proportions(),
        whole=whole,
    )


def _proportions() -> tuple[float, float, float]:
    sizes = printed.SIZES[NAME]
    return sizes[0] / sum(sizes), sizes[1] / sum(sizes), sizes[2] / sum(sizes)
