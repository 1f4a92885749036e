"""The attack of `make attack`, for some seconds: it finds nothing, and it would find something."""

import random
import sys
from pathlib import Path

import pytest

from mbct.store import CellStore

ROOT = Path(__file__).parents[1]


@pytest.fixture
def attack(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import attack as module

    yield module
    for name in [name for name in sys.modules if name.startswith("attack")]:
        del sys.modules[name]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n"),
    [
        ("store", 8),
        ("journal", 8),
        ("refresh", 8),
        ("registry", 16),
        ("redis", 16),
        ("online", 8),
        ("history", 8),
        ("disk", 20),
        ("names", 300),
        ("bodies", 2_000),
        ("swaps", 10),
    ],
)
def test_nothing_is_lost_mixed_or_answered_by_5xx(attack, tmp_path, name, n):
    found, faults = attack.ATTACKS[name][0](tmp_path, n, random.Random(5))
    assert faults == 0, found


def test_a_store_that_loses_batches_is_noticed(attack, tmp_path, monkeypatch):
    real = CellStore.append
    monkeypatch.setattr(CellStore, "append", lambda *a, **k: None if int(k["batch"]) % 3 == 0 else real(*a, **k))
    draw = random.Random(5)
    monkeypatch.setattr(draw, "uniform", lambda _low, _high: 1.5)
    assert attack.attack_store(tmp_path, 2, draw)[1] > 0


def test_a_refresh_that_leaves_no_record_is_noticed(attack, tmp_path, monkeypatch):
    kills = sys.modules["attack_kills"]
    real = kills.refresh

    def forgetful(store, calibrator):
        found = real(store, calibrator)
        if found.record > 1:
            (tmp_path / f"records/{found.record:010d}.json").unlink()
        return found

    monkeypatch.setattr(kills, "refresh", forgetful)
    draw = random.Random(5)
    monkeypatch.setattr(draw, "uniform", lambda _low, _high: 5.0)
    assert attack.attack_refresh(tmp_path, 2, draw)[1] > 0
