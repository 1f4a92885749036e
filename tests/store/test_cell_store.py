import datetime
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbct.errors import DataError, ModelFileError
from mbct.model.bins import CategoryBins, FeatureBins, NumberBins
from mbct.store import CellStore
from store_writers import BINS, batch_of

OTHER_BINS = FeatureBins((NumberBins("p", (0.5,)), CategoryBins("site", ("a",))))


def _filled(url: str | Path, n_days: int = 4, per_day: int = 2) -> CellStore:
    store = CellStore(url)
    for day in range(n_days):
        for part in range(per_day):
            store.append(batch_of(10 * day + part), BINS, day=f"2024-05-0{day + 1}", batch=f"{day}/{part}")
    return store


@pytest.fixture(params=["local", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "store") if request.param == "local" else f"memory://{tmp_path.name}/store"


def _count(cells) -> float:
    return float(cells.total.count)


def test_a_window_adds_up_its_days(url: str) -> None:
    store = _filled(url)
    assert store.days() == ["2024-05-01", "2024-05-02", "2024-05-03", "2024-05-04"]
    whole = store.window()
    parts = [batch_of(10 * day + part) for day in range(4) for part in range(2)]
    expected = parts[0].merge(*parts[1:])
    np.testing.assert_array_equal(whole.cells.codes, expected.codes)
    np.testing.assert_allclose(whole.cells.sums.pred, expected.sums.pred, rtol=1e-12)
    assert whole.bins == BINS
    two = store.window(days=2, until=datetime.date(2024, 5, 3))
    assert (two.first_day, two.last_day) == ("2024-05-02", "2024-05-03")
    assert _count(two.cells) == 160


def test_old_days_fade_by_half_lives(url: str) -> None:
    store = _filled(url)
    faded = store.window(half_life=2.0)
    assert _count(faded.cells) == pytest.approx(80 * (1 + 2**-0.5 + 2**-1.0 + 2**-1.5), rel=1e-12)


def test_appending_a_batch_twice_counts_it_once(url: str) -> None:
    store = _filled(url, n_days=1)
    before = store.manifest()
    again = store.append(batch_of(0), BINS, day="2024-05-01", batch="0/0")
    assert store.manifest() == before
    assert again in before.batches
    with pytest.raises(DataError, match=r"batch '0/0' of 2024-05-01 is in the store with 40 rows.*choose another name"):
        store.append(batch_of(77), BINS, day="2024-05-01", batch="0/0")
    assert store.verify() == []


def test_compaction_changes_no_sum_and_remembers_batches(url: str) -> None:
    store = _filled(url)
    before = store.window(half_life=3.0).cells
    compacted = store.compact(grace_seconds=0.0)
    assert len(compacted.batches) == 4
    assert store.verify() == []
    after = store.window(half_life=3.0).cells
    np.testing.assert_array_equal(after.codes, before.codes)
    np.testing.assert_allclose(after.sums.logit, before.sums.logit, rtol=1e-12)
    store.append(batch_of(0), BINS, day="2024-05-01", batch="0/0")
    assert store.manifest() == compacted
    assert store.compact(grace_seconds=0.0) == compacted


def test_young_leftovers_stay_and_old_ones_go(tmp_path: Path) -> None:
    store = _filled(tmp_path / "store", n_days=1)
    store.compact()
    assert len(store.storage.names("cells")) == 3
    assert [fault for fault in store.verify() if "named by no manifest" in fault]
    store.compact(grace_seconds=0.0)
    assert len(store.storage.names("cells")) == 1


def test_days_can_be_dropped_for_good(url: str) -> None:
    store = _filled(url)
    store.compact(keep_days=2, grace_seconds=0.0)
    assert store.days() == ["2024-05-03", "2024-05-04"]
    with pytest.raises(DataError, match="day 2024-05-02 was dropped: the store keeps days from 2024-05-03 on"):
        store.append(batch_of(10), BINS, day="2024-05-02", batch="1/0")
    store.compact(grace_seconds=0.0)
    assert len(store.storage.names("cells")) == 2


def test_bins_are_stored_once_and_two_kinds_are_not_mixed(url: str) -> None:
    store = _filled(url)
    assert len(store.storage.names("bins")) == 1
    store.append(batch_of(1, bins=OTHER_BINS), OTHER_BINS, day="2024-05-05", batch="other")
    with pytest.raises(DataError, match=r"2024-05-01 to 2024-05-04 hold cells of other bins"):
        store.window()
    assert _count(store.window(days=1).cells) == 40
    assert _count(store.window(fingerprint=BINS.fingerprint).cells) == 320
    with pytest.raises(DataError, match="were coded with bins"):
        store.append(batch_of(1), OTHER_BINS, day="2024-05-05", batch="wrong")


@pytest.mark.parametrize("damage", ["truncated", "foreign", "empty"])
def test_a_damaged_file_of_cells_is_named_and_refused(tmp_path: Path, damage: str) -> None:
    store = _filled(tmp_path / "store", n_days=1)
    batch = store.manifest().batches[0]
    path = tmp_path / "store" / batch.file
    content = path.read_bytes()
    if damage == "foreign":
        pq.write_table(pa.table({"a": [1]}), path)
    else:
        path.write_bytes(content[: len(content) // 2] if damage == "truncated" else b"")
    with pytest.raises(ModelFileError, match=r"2024-05-01/.*\.parquet is truncated or foreign"):
        store.window()
    assert len(store.verify()) == 1
    path.write_bytes(content)
    assert store.verify() == []


def test_a_missing_file_of_cells_is_named(tmp_path: Path) -> None:
    store = _filled(tmp_path / "store", n_days=1)
    batch = store.manifest().batches[0]
    (tmp_path / "store" / batch.file).unlink()
    with pytest.raises(ModelFileError, match=r"a file of cells is gone .*parquet"):
        store.window()
    assert store.verify() == [f"{tmp_path / 'store'}/{batch.file} is missing"]


def test_a_damaged_manifest_is_named_and_refused(tmp_path: Path) -> None:
    _filled(tmp_path / "store", n_days=1)
    newest = sorted((tmp_path / "store" / "manifest").iterdir())[-1]
    content = newest.read_bytes()
    newest.write_bytes(content[:50])
    with pytest.raises(ModelFileError, match=rf"{newest.name} is truncated or foreign"):
        CellStore(tmp_path / "store")
    document = json.loads(content)
    document["body"]["batches"][0]["count"] = 1.0
    newest.write_text(json.dumps(document))
    with pytest.raises(ModelFileError, match=rf"{newest.name} was changed after it was written"):
        CellStore(tmp_path / "store")


def test_foreign_folders_and_files_are_named_and_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ModelFileError, match=r"no store of cells.*'notes.txt'"):
        CellStore(tmp_path)
    _filled(tmp_path / "store", n_days=1)
    (tmp_path / "store" / "manifest" / "copy.json").write_text("{}")
    with pytest.raises(ModelFileError, match=r"manifest/copy.json does not belong to the store"):
        CellStore(tmp_path / "store").manifest()


def test_changed_bins_are_refused(tmp_path: Path) -> None:
    store = _filled(tmp_path / "store", n_days=1)
    path = tmp_path / "store" / "bins" / f"{BINS.fingerprint}.json"
    path.write_text(path.read_text().replace("0.2", "0.3"))
    with pytest.raises(ModelFileError, match=r"bins/.*json was changed"):
        store.window()
    path.write_text("{}")
    with pytest.raises(ModelFileError, match="no file of bins"):
        store.window()


def test_old_manifests_are_tidied_away(tmp_path: Path) -> None:
    store = _filled(tmp_path / "store", n_days=1, per_day=30)
    assert len(store.storage.names("manifest")) == 20
    assert _count(store.window().cells) == 30 * 40


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"days": 0}, "days=0 must be at least 1"),
        ({"half_life": 0.0}, r"half_life=0.0 must be above 0 days"),
        ({"until": "2024-04-01"}, "holds no cells up to 2024-04-01"),
        ({"until": "May"}, "day 'May' must be a date"),
        ({"fingerprint": "0"}, "holds no cells"),
    ],
)
def test_impossible_windows_are_refused(tmp_path: Path, arguments: dict[str, object], message: str) -> None:
    store = _filled(tmp_path / "store", n_days=1)
    with pytest.raises(DataError, match=message):
        store.window(**arguments)


def test_an_empty_store_says_so(tmp_path: Path) -> None:
    store = CellStore(tmp_path / "store")
    with pytest.raises(DataError, match="holds no cells"):
        store.window()
    with pytest.raises(DataError, match="batch must be a name"):
        store.append(batch_of(0), BINS, day="2024-05-01", batch="")
