"""Damaged model files: a value of the JSON replaced, removed, repeated or moved, or bytes of it changed."""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

_VALUES = (
    None, True, 0, 1, -1, 0.5, -0.0, 2**31, 2**63, -(2**70), 10**400, 1e308, -1e308, 1e-320, "", "x", "\ud800", "\0",
    '15" screen', [], {}, [[]], [0, 1], {"a": 1}, "9" * 5000, "nan", "linear", "odds",
)  # fmt: skip


def mutants(content: bytes, n: int, seed: int = 0) -> Iterator[bytes]:
    """``n`` damaged copies of a model file; the same seed gives the same ones."""
    rng = random.Random(seed)
    places = list(_places(json.loads(content)))
    for _ in range(n):
        if rng.random() < 0.15:
            yield _changed_bytes(rng, content)
            continue
        damaged = json.loads(content)  # far faster than a deep copy
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            _damage(rng, damaged, rng.choice(places))
        yield json.dumps(damaged).encode()


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from _places(item, (*path, key))


def _damage(rng: random.Random, document: Any, path: tuple[Any, ...]) -> None:
    try:
        for key in path[:-1]:
            document = document[key]
        key = path[-1]
        old = document[key]
        kind = rng.randrange(6)
        if kind == 0:
            del document[key]
        elif kind == 1 and isinstance(document, list):
            document.insert(key, copy.deepcopy(old))
        elif kind == 2 and isinstance(document, list):
            document[key] = copy.deepcopy(rng.choice(document))
        elif kind == 3 and isinstance(old, int | float) and not isinstance(old, bool):
            document[key] = rng.choice((old + 1, old - 1, -old, old * 1e9, old + 0.5, str(old), int(old)))
        elif kind == 4 and isinstance(old, list) and old:
            document[key] = rng.choice((old[:-1], old * 2, old[::-1], [old], old * 500))
        else:
            document[key] = rng.choice(_VALUES)
    except (KeyError, IndexError, TypeError, OverflowError):
        pass  # an earlier damage took the place away


def _changed_bytes(rng: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 2, 8))):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed[: rng.choice((len(changed), rng.randrange(len(changed))))])
