from pathlib import Path

import pytest
from store_writers import BINS, batch_of

from mbct.errors import DataError, ModelFileError
from mbct.store import CellStore, StoreSink


def test_batches_of_a_service_arrive_once_on_their_day(tmp_path: Path) -> None:
    store = CellStore(tmp_path / "store")
    sink = StoreSink(store, BINS)
    for _ in range(2):
        sink.append(batch_of(1), "2024-05-06-instance-1")
    sink.append(batch_of(2), "2024-05-07-instance-1")
    assert store.days() == ["2024-05-06", "2024-05-07"]
    assert float(store.window().cells.total.count) == 80
    StoreSink(CellStore(tmp_path / "store")).append(batch_of(3), "2024-05-07-instance-2")
    assert float(store.window().cells.total.count) == 120


def test_unknown_bins_and_days_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=f"bins/{BINS.fingerprint}.json is missing"):
        StoreSink(CellStore(tmp_path / "store")).append(batch_of(1), "2024-05-06-instance-1")
    with pytest.raises(DataError, match="day 'instance-1' must be a date"):
        StoreSink(CellStore(tmp_path / "store"), BINS).append(batch_of(1), "instance-1")
