import datetime
import hashlib
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbct.errors import DataError, ModelFileError
from mbct.model.bins import CategoryBins, FeatureBins, NumberBins
from mbct.store import CellStore
from mbct.store.cell_file import to_parquet
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
    whole = store.window(by_day=False)
    parts = [batch_of(10 * day + part) for day in range(4) for part in range(2)]
    expected = parts[0].merge(*parts[1:])
    np.testing.assert_array_equal(whole.cells.codes, expected.codes)
    np.testing.assert_allclose(whole.cells.sums.pred, expected.sums.pred, rtol=1e-12)
    assert whole.bins == BINS
    two = store.window(days=2, by_day=False, until=datetime.date(2024, 5, 3))
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
    with pytest.raises(DataError, match=r"batch '0/0' of 2024-05-01 is in the store with other rows"):
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


def _sums(store: CellStore) -> tuple[float, float, float]:
    total = store.window().cells.total
    return float(total.count), float(total.label), float(total.pred)


def _expected(*numbers: int) -> tuple[float, float, float]:
    totals = [batch_of(number).total for number in numbers]
    return tuple(sum(float(getattr(total, name)) for total in totals) for name in ("count", "label", "pred"))


def test_a_name_used_again_for_other_rows_is_refused_after_a_merge_too(url: str) -> None:
    store = _filled(url, n_days=1)
    store.compact(grace_seconds=0.0)
    assert store.append(batch_of(0), BINS, day="2024-05-01", batch="0/0").ids == ("0/0", "0/1")
    with pytest.raises(DataError, match="other rows than these"):
        store.append(batch_of(77), BINS, day="2024-05-01", batch="0/0")
    with pytest.raises(DataError, match="other rows than these"):
        store.append(batch_of(0), BINS, day="2024-05-02", batch="0/0")
    assert _sums(store) == pytest.approx(_expected(0, 1))


def test_equal_totals_are_not_equal_rows(url: str) -> None:
    store = CellStore(url)
    one = batch_of(0)
    codes = one.codes.copy()
    codes[:, 1] = (codes[:, 1] + 1) % BINS.n_codes[1]
    other = replace(one, codes=codes)
    store.append(one, BINS, day="2024-05-01", batch="a")
    with pytest.raises(DataError, match="other rows than these"):
        store.append(other, BINS, day="2024-05-01", batch="a")


def test_the_same_rows_in_another_order_with_other_last_digits_are_the_same_batch(url: str) -> None:
    store = CellStore(url)
    one = batch_of(0)
    order = np.random.default_rng(0).permutation(len(one))
    noisy = replace(one.select(order), sums=one.sums.take(order).scaled(1.0 + 3e-15))
    store.append(one, BINS, day="2024-05-01", batch="a")
    store.append(noisy, BINS, day="2024-05-01", batch="a")
    assert _sums(store) == pytest.approx(_expected(0))


@pytest.mark.parametrize("merged", [False, True])
def test_a_batch_is_replaced_atomically(url: str, merged: bool) -> None:
    store = _filled(url, n_days=1, per_day=3)
    if merged:
        store.compact(grace_seconds=0.0)
    store.append(batch_of(77), BINS, day="2024-05-01", batch="0/1", replace=True)
    assert _sums(store) == pytest.approx(_expected(0, 77, 2))
    before = store.manifest()
    store.append(batch_of(77), BINS, day="2024-05-01", batch="0/1", replace=True)
    assert store.manifest() == before
    store.append(batch_of(78), BINS, day="2024-05-02", batch="0/1", replace=True)
    assert store.days() == ["2024-05-01", "2024-05-02"]
    assert _sums(store) == pytest.approx(_expected(0, 78, 2))
    store.compact(grace_seconds=0.0)
    assert store.verify() == []


def test_a_compactor_whose_clock_is_ahead_deletes_nothing_young(tmp_path: Path, monkeypatch) -> None:
    store = _filled(tmp_path / "store", n_days=1)
    unnamed = store.storage.root / "cells" / "2024-05-01" / "about-to-be-named.parquet"
    unnamed.write_bytes(b"1")
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 7200.0)
    store.compact()
    assert unnamed.exists()


def test_appending_again_restores_a_file_that_is_gone(url: str) -> None:
    store = _filled(url, n_days=1, per_day=1)
    store.storage.remove(store.manifest().batches[0].file)
    store.append(batch_of(0), BINS, day="2024-05-01", batch="0/0")
    assert store.verify() == []
    assert _sums(store) == pytest.approx(_expected(0))


@pytest.mark.parametrize(
    "file", ["cells/2024-05-01/../../../secret.parquet", "/etc/passwd", "models/x.json", "cells/x"]
)
def test_a_manifest_cannot_name_files_outside_the_cells(tmp_path: Path, file: str) -> None:
    store = _filled(tmp_path / "store", n_days=1)
    number, body = store.log.newest()
    body["batches"][0]["file"] = file
    store.log.append(number + 1, body)
    with pytest.raises(ModelFileError, match=r"manifest of .* is damaged: .* is no file of cells"):
        CellStore(tmp_path / "store")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda cells: cells.codes.__setitem__((0, 1), 200), "feature 'site' has codes 0 to 200 of 5"),
        (lambda cells: cells.sums.count.__setitem__(0, np.nan), "cell 0 has count nan"),
        (lambda cells: cells.sums.count.__setitem__(0, -1.0), "cell 0 has count -1"),
        (lambda cells: cells.sums.label.__setitem__(0, 1e6), r"cell 0 has label 1e\+06"),
        (lambda cells: cells.sums.pred.__setitem__(0, np.inf), "cell 0 has pred inf"),
        (lambda cells: cells.sums.logit.__setitem__(0, np.nan), "cell 0 has logit nan"),
    ],
)
def test_cells_that_the_bins_cannot_have_made_are_refused_when_written_and_read(tmp_path, change, fault) -> None:
    store = _filled(tmp_path / "store", n_days=1, per_day=1)
    damaged = batch_of(5)
    change(damaged)
    with pytest.raises(DataError, match=fault):
        store.append(damaged, BINS, day="2024-05-01", batch="damaged")
    content = to_parquet([damaged])
    held = store.manifest().batches[0]
    (tmp_path / "store" / held.file).write_bytes(content)
    number, body = store.log.newest()
    body["batches"][0] |= {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    store.log.append(number + 1, body)
    with pytest.raises(ModelFileError, match=fault):
        store.window()


def test_a_window_can_keep_days_apart(url: str) -> None:
    store = _filled(url)
    window = store.window(days=2, half_life=1.0, by_day=True)
    days = [datetime.date(2024, 5, 3), datetime.date(2024, 5, 4)]
    expected = [(day - datetime.date(1970, 1, 1)).days for day in days]
    assert window.day is not None
    assert np.unique(window.day).tolist() == expected
    assert len(window.day) == len(window.cells)
    assert window.cells.sums.count[window.day == expected[0]].sum() == pytest.approx(40.0)
    assert window.cells.sums.count[window.day == expected[1]].sum() == pytest.approx(80.0)
    assert set(store.window().cells.block) == set(range(len(store.days())))
    added = store.window(by_day=False)
    assert added.day is added.cells.block is None
