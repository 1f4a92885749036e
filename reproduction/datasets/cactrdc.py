"""CACTRDC, the paper's own data: its CSV as the authors publish it, ``cactrdc/cactrdc.csv``.

The file holds the calibrator's rows with the predictor's click-through rate. Its header is not documented, so the
label and the prediction are looked for under the usual names and every other column is taken as a discrete feature.
"""

from collections.abc import Sequence
from pathlib import Path

from mbct.errors import DataError
from reproduction import printed
from reproduction.datasets.dataset import Dataset
from reproduction.datasets.reading import header, read

NAME = "cactrdc"
FILE = "cactrdc/cactrdc.csv"
CALIBRATION_ROWS = 11_110_227
"""The first lines of the file train the calibrator, the rest tests it (the authors' note)."""
N_FEATURES = 7
LABELS = ("click", "label", "is_click", "y")
SCORES = ("pctr", "ctr", "prediction", "score", "p")


def files(data: Path) -> Path | None:
    """The file to read."""
    return data / FILE if (data / FILE).is_file() else None


def load(path: Path, calibration_rows: int = CALIBRATION_ROWS) -> Dataset:
    """Read and check the file."""
    names = header(path)
    label, score = _named(names, LABELS, "label", path), _named(names, SCORES, "predicted click-through rate", path)
    features = tuple(name for name in names if name not in (label, score))
    if len(features) != N_FEATURES:
        raise DataError(
            f"{path} has {len(features)} columns beside {label!r} and {score!r} where the paper has {N_FEATURES} "
            f"discrete features: {', '.join(features)}; drop the others"
        )
    frame = read(path, names)
    if frame.height <= calibration_rows:
        raise DataError(
            f"{path} has {frame.height:,} rows, but the first {calibration_rows:,} train the calibrator and the rest "
            "test it: download it again, it is not complete"
        )
    share = calibration_rows / frame.height
    return Dataset(
        name=NAME,
        title="CACTRDC",
        origin=path.name,
        frame=frame,
        label=label,
        predictor_features=(),
        predictor_categories=(),
        calibration_features=features,
        probe=features[-1],
        printed_bin_size=printed.BIN_SIZES[NAME],
        shares=(0.0, share, 1.0 - share),
        order="time",
        score=score,
        whole=True,
    )


def _named(names: Sequence[str], usual: Sequence[str], what: str, path: Path) -> str:
    found = [name for name in names if name.lower() in usual]
    if len(found) != 1:
        raise DataError(
            f"{path} must have one column for the {what}, called {' or '.join(usual)}; "
            f"its header is {', '.join(names)}: rename the column"
        )
    return found[0]
