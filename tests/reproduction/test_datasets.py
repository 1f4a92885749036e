"""The loaders of the original files, on small files with the same headers."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from mbct.errors import DataError
from reproduction.datasets import avazu, cactrdc, load, porto_seguro, present
from reproduction.datasets.dataset import Dataset

N = 60


def porto_file(folder: Path, columns=porto_seguro.WHOLE_COLUMNS, n=N) -> Path:
    rng = np.random.default_rng(0)
    path = folder / porto_seguro.WHOLE
    path.parent.mkdir(parents=True)
    frame = pl.DataFrame({name: rng.integers(0, 3, n) for name in columns})
    frame.with_columns(target=pl.Series(rng.integers(0, 2, n))).write_csv(path)
    return path


def avazu_file(folder: Path, columns=avazu.COLUMNS, n=N) -> Path:
    rng = np.random.default_rng(1)
    path = folder / avazu.WHOLE
    path.parent.mkdir(parents=True)
    content = {name: rng.integers(0, 3, n) for name in columns}
    content |= {name: rng.choice(["1fbe01fe", "85f751fd"], n) for name in columns if name.endswith("_id")}
    content["hour"] = 14102100 + np.arange(n)[::-1] % 24
    pl.DataFrame(content).write_csv(path)
    return path


def cactrdc_file(folder: Path, names: list[str], n=N) -> Path:
    rng = np.random.default_rng(2)
    path = folder / cactrdc.FILE
    path.parent.mkdir(parents=True)
    content = {name: rng.integers(0, 2, n) for name in names}
    if "pctr" in names:
        content["pctr"] = rng.random(n)
    pl.DataFrame(content).write_csv(path)
    return path


FEATURES = [f"f{i}" for i in range(7)]


def test_whole_porto_seguro_with_the_papers_features_and_split(tmp_path, monkeypatch):
    porto_file(tmp_path)
    monkeypatch.setattr(porto_seguro, "WHOLE_ROWS", N)
    dataset = load(porto_seguro.NAME, tmp_path)
    assert dataset.whole
    assert dataset.calibration_features == porto_seguro.PAPER_FEATURES
    assert "id" not in dataset.predictor_features
    assert len(porto_seguro.WHOLE_COLUMNS) == 59
    split = dataset.split(0)
    assert [len(split.predictor), len(split.calibration), len(split.test)] == [36, 21, 3]


def test_porto_seguro_cut_short_is_refused(tmp_path):
    path = porto_file(tmp_path)
    with pytest.raises(DataError, match=r"60 rows where the original has 595,212"):
        porto_seguro.load(path)


def test_a_missing_column_is_named(tmp_path):
    path = porto_file(tmp_path, porto_seguro.WHOLE_COLUMNS[:-1])
    with pytest.raises(DataError, match="'ps_calc_20_bin'"):
        porto_seguro.load(path)


def test_whole_avazu_is_put_in_the_order_of_time(tmp_path, monkeypatch):
    path = avazu_file(tmp_path)
    monkeypatch.setattr(avazu, "WHOLE_ROWS", N)
    dataset = avazu.load(path)
    assert dataset.frame["hour"].is_sorted()
    assert dataset.frame["hour_of_day"].max() < 24
    split = dataset.split(7)
    assert split.predictor.max() < split.calibration.min() <= split.calibration.max() < split.test.min()


def test_avazu_checks_all_columns_even_those_it_does_not_read(tmp_path):
    path = avazu_file(tmp_path, [name for name in avazu.COLUMNS if name != "device_ip"])
    with pytest.raises(DataError, match="'device_ip'"):
        avazu.load(path)


def test_avazu_cut_short_is_refused(tmp_path):
    with pytest.raises(DataError, match="40,428,967"):
        avazu.load(avazu_file(tmp_path))


def test_cactrdc_splits_after_the_given_line(tmp_path):
    dataset = cactrdc.load(cactrdc_file(tmp_path, ["click", "pctr", *FEATURES]), calibration_rows=50)
    split = dataset.split(3)
    assert len(split.predictor) == 0
    assert split.calibration.tolist() == list(range(50))
    assert split.test.tolist() == list(range(50, N))
    assert dataset.score == "pctr"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["clicked", "pctr", *FEATURES], "one column for the label"),
        (["click", "rate", *FEATURES], "predicted click-through rate"),
        (["click", "pctr", *FEATURES, "f7"], "8 columns beside"),
    ],
)
def test_cactrdc_with_another_header_is_refused(tmp_path, names, message):
    with pytest.raises(DataError, match=message):
        cactrdc.load(cactrdc_file(tmp_path, names))


def test_cactrdc_cut_short_is_refused(tmp_path):
    with pytest.raises(DataError, match="11,110,227"):
        cactrdc.load(cactrdc_file(tmp_path, ["click", "pctr", *FEATURES]))


def test_a_file_that_is_no_table_is_refused(tmp_path):
    path = tmp_path / porto_seguro.SAMPLE
    path.write_bytes(b"not a table")
    with pytest.raises(DataError, match="cannot be read as parquet"):
        porto_seguro.load(path)


def test_an_absent_data_set_is_named(tmp_path):
    assert "avazu" not in present(tmp_path)
    with pytest.raises(DataError, match="'avazu' is not in"):
        load("avazu", tmp_path)


def test_a_random_split_is_a_partition_and_follows_the_seed():
    dataset = Dataset("d", "D", "d", pl.DataFrame({"y": np.zeros(100)}), "y", (), (), (), "y", 10, (0.5, 0.3, 0.2))
    split, again, other = dataset.split(0), dataset.split(0), dataset.split(1)
    rows = np.concatenate([split.predictor, split.calibration, split.test])
    assert sorted(rows) == list(range(100))
    assert np.array_equal(split.test, again.test)
    assert not np.array_equal(split.test, other.test)
