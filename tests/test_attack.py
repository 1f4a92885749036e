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
    sys.modules.pop("attack")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["store", "journal", "registry", "disk", "names", "bodies", "swaps"])
def test_nothing_is_lost_mixed_or_answered_by_5xx(attack, tmp_path, name):
    found, faults = getattr(attack, f"attack_{name}")(tmp_path, 3.0, random.Random(5))
    assert faults == 0, found


def test_a_store_that_loses_batches_is_noticed(attack, tmp_path, monkeypatch):
    real = CellStore.append
    monkeypatch.setattr(CellStore, "append", lambda *a, **k: None if int(k["batch"]) % 3 == 0 else real(*a, **k))
    draw = random.Random(5)
    monkeypatch.setattr(draw, "uniform", lambda _low, _high: 1.5)
    assert attack.attack_store(tmp_path, 3.0, draw)[1] > 0
