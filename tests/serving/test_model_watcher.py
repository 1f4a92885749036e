"""Following a file and a Redis pointer: good models come in, bad ones do not, the old one never leaves."""

import json
import logging
import subprocess
import sys

import msgspec
import pytest

from builders import random_model
from mbct.errors import StorageError
from mbct.files import write_atomically
from mbct.model.bins import CategoryBins, FeatureBins, NumberBins
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.file import dump_document
from mbct.serving.loaded_model import LoadedModel
from mbct.serving.model_watcher import FileSource, ModelWatcher
from mbct.serving.openapi import document as document_of
from mbct.serving.options import Limits
from mbct.store.model_registry import ModelRegistry, version_of
from mbct.store.redis_backend import RedisBackend


def damaged_models(content):
    """Contents that must be refused, with a word of the reason."""
    good = json.loads(content)

    def changed(change):
        copy = json.loads(content)
        change(copy["state"]["model"])
        return json.dumps(copy).encode()

    def set_leaf_value(model, value):
        model["trees"][0]["leaf_value"][0] = value

    trees = good["state"]["model"]["trees"]
    # A tree with a split, and one of its inner nodes.
    t, inner = next((t, i) for t, tree in enumerate(trees) for i, kids in enumerate(tree["children"]) if kids)
    return {
        "empty": (b"", "damaged"),
        "cut short": (content[: len(content) // 2], "damaged"),
        "foreign": (b'{"a": 1}', "not a calibrator"),
        "no model": (json.dumps({**good, "state": {}}).encode(), "no model"),
        "another method": (json.dumps({**good, "method": "platt"}).encode(), "platt"),
        "leaf value not finite": (changed(lambda m: set_leaf_value(m, float("nan"))), "NaN is no number"),
        "leaf value a word": (changed(lambda m: set_leaf_value(m, "high")), "damaged"),
        "edges fall": (changed(lambda m: m["features"][0]["edges"].reverse()), "numbers that rise"),
        "name twice": (changed(lambda m: m["features"].append(m["features"][1])), "do not repeat"),
        "child before parent": (
            changed(lambda m: m["trees"][t]["children"][inner][0].__setitem__(0, 0)),
            "a later node",
        ),
        "no children": (changed(lambda m: m["trees"][t]["children"].__setitem__(inner, None)), "if and only if"),
        "feature beyond": (changed(lambda m: m["trees"][t]["feature"].__setitem__(inner, 99)), "damaged"),
        "score is a word": (changed(lambda m: m["features"][0].update(kind="category", values=[], type="string")), ""),
        "link": (changed(lambda m: m.update(link="cubic")), "cubic"),
    }


@pytest.fixture
def watcher(model_file):
    made = ModelWatcher(FileSource(model_file), poll_seconds=0.02)
    yield made
    made.stop()


def test_a_replaced_file_is_swapped_in(watcher, model_file, content, eventually):
    watcher.start()
    assert watcher.current.version == version_of(content(random_model(1, n_trees=4)))
    for seed in range(2, 6):
        write_atomically(model_file, content(random_model(seed)))
        expected = version_of(content(random_model(seed)))
        eventually(lambda expected=expected: watcher.current.version == expected, what="the swap")
    assert watcher.health.swaps == 4


DAMAGES = sorted(damaged_models(dump_document({"method": "mbct", "state": {"model": random_model(1).to_dict()}})))


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_bad_model_is_refused_and_the_old_one_serves(watcher, model_file, kind, caplog):
    watcher.start()
    before = watcher.current
    damage, word = damaged_models(model_file.read_bytes())[kind]
    write_atomically(model_file, damage)
    with caplog.at_level(logging.ERROR, "mbct.serving"):
        watcher.look()
        watcher.look()
    assert watcher.current is before
    assert watcher.health.refused == 1
    assert word in watcher.health.detail
    assert len(caplog.messages) == 1
    assert f"model {before.version} keeps serving" in caplog.messages[0]


def test_a_file_that_vanishes_and_returns(watcher, model_file, content, caplog):
    watcher.start()
    before = watcher.current
    model_file.unlink()
    with caplog.at_level(logging.INFO, "mbct.serving"):
        watcher.look()
        watcher.look()
        assert watcher.current is before
        assert not watcher.health.source_up
        write_atomically(model_file, content(random_model(9)))
        watcher.look()
    assert watcher.health.problem is None
    assert watcher.current.version == version_of(content(random_model(9)))
    assert sum("cannot read" in message for message in caplog.messages) == 1


def test_redis_pointer_is_followed_through_its_death(redis_server, content, eventually, tmp_path, caplog):
    caplog.set_level(logging.INFO, "mbct.serving")
    with ModelRegistry(redis_server.url) as registry:
        first = registry.publish(content(random_model(1)))
        copy = tmp_path / "last-good.json"
        watcher = ModelWatcher(
            ModelRegistry(RedisBackend(redis_server.url, timeout=1)), poll_seconds=0.1, last_good=copy
        )
        watcher.start()
        try:
            assert watcher.current.version == first
            assert version_of(copy.read_bytes()) == first
            redis_server.kill()
            eventually(lambda: not watcher.health.source_up, what="noticing")
            assert watcher.current.version == first
            assert "cannot be reached" in watcher.health.detail
            redis_server.start()
            eventually(lambda: watcher.health.source_up, what="recovery")
            second = registry.publish(content(random_model(2)))
            eventually(lambda: watcher.current.version == second, what="the swap")
            registry.backend._client.set("mbct:{default}:current", "deadbeef")
            eventually(lambda: watcher.health.problem, what="the dangling pointer")
            assert watcher.current.version == second
            registry.rollback(to=first)
            eventually(lambda: watcher.current.version == first, what="the rollback")
        finally:
            watcher.stop()


def test_news_come_by_the_channel_faster_than_by_polling(redis_server, content, eventually):
    with ModelRegistry(redis_server.url) as registry:
        registry.publish(content(random_model(1)))
        watcher = ModelWatcher(ModelRegistry(RedisBackend(redis_server.url)), poll_seconds=20)
        watcher.start()
        try:
            eventually(
                lambda: registry.backend._client.pubsub_numsub("mbct:{default}:changed")[0][1] == 1, what="subscribing"
            )
            second = registry.publish(content(random_model(2)))
            eventually(lambda: watcher.current.version == second, seconds=5, what="the swap")
            registry.rollback()
            eventually(lambda: watcher.current.version != second, seconds=5, what="the rollback")
        finally:
            registry.publish(content(random_model(3)))
            watcher.stop()


def test_corrupt_content_in_redis_is_refused(redis_server, content, caplog):
    with ModelRegistry(redis_server.url) as registry:
        good = registry.publish(content(random_model(1)))
        watcher = ModelWatcher(ModelRegistry(RedisBackend(redis_server.url)))
        watcher.look()
        bad = registry.publish(content(random_model(2)))
        registry.backend._client.hset(f"mbct:{{default}}:model:{bad}", "content", b"{}")
        watcher.look()
        assert watcher.current.version == good
        assert f"version {bad}" in watcher.health.detail
        assert "keeps serving" in caplog.text
        watcher.stop()


def test_without_redis_the_last_good_copy_serves(content, tmp_path, caplog):
    pytest.importorskip("redis", reason="redis is not installed: pip install 'mbct[redis]'")
    copy = tmp_path / "last-good.json"
    copy.write_bytes(content(random_model(1)))
    watcher = ModelWatcher(ModelRegistry(RedisBackend("redis://127.0.0.1:1")), poll_seconds=0.05, last_good=copy)
    watcher.start()
    try:
        assert watcher.current.version == version_of(content(random_model(1)))
        assert not watcher.health.source_up
        assert "until its source is back" in caplog.text
    finally:
        watcher.stop()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 kB, where mounting is allowed."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], capture_output=True)
    if mount.returncode:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_keeps_the_old_file_and_the_service_goes_on(small_disk, model_file, content, caplog):
    copy = small_disk / "last-good.json"
    watcher = ModelWatcher(FileSource(model_file), last_good=copy)
    watcher.look()
    kept = copy.read_bytes()
    (small_disk / "filler").write_bytes(b"x" * (60_000 - len(kept)))
    larger = content(random_model(2, n_trees=60))
    assert len(larger) > 10_000
    with pytest.raises(StorageError, match="No space left"):
        write_atomically(copy, larger)
    write_atomically(model_file, larger)
    watcher.look()
    assert watcher.current.version == version_of(larger)
    assert copy.read_bytes() == kept
    assert {path.name for path in small_disk.iterdir()} == {"filler", "last-good.json"}
    assert "No space left" in caplog.text
    watcher.stop()


def test_a_size_limit_on_files_is_such_a_disk_too(model_file, content, tmp_path):
    """The same without root: the kernel refuses to write beyond a limit."""
    larger = tmp_path / "larger.json"
    larger.write_bytes(content(random_model(2, n_trees=60)))
    code = (
        "import resource, signal, sys; from mbct.files import write_atomically; from pathlib import Path; "
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000)); "
        "write_atomically(sys.argv[1], Path(sys.argv[2]).read_bytes())"
    )
    before = model_file.read_bytes()
    done = subprocess.run([sys.executable, "-c", code, str(model_file), str(larger)], capture_output=True, text=True)
    assert done.returncode != 0
    assert "the file that was there is unchanged" in done.stderr
    assert model_file.read_bytes() == before


class AbsurdSource:
    """A source that fails as no source should."""

    def __init__(self):
        self.failing = None

    def in_service(self):
        if self.failing == "in_service":
            raise ZeroDivisionError("in in_service")
        return str(self.failing)

    def read(self, _):
        if self.failing == "read":
            raise RecursionError("in read")
        return dump_document({"method": "mbct", "state": {"model": random_model(1).to_dict()}})

    def close(self):
        pass


@pytest.mark.parametrize("failing", ["in_service", "read", "build"])
def test_no_exception_ends_the_watching(failing, caplog):
    source = AbsurdSource()
    calls = []

    def build(content, name):
        calls.append(name)
        if source.failing == "build":
            raise MemoryError("no room")
        return LoadedModel(content, name)

    watcher = ModelWatcher(source, build, poll_seconds=0.01)
    watcher.look()
    before = watcher.current
    source.failing = failing
    watcher.look()
    assert watcher.current is before
    assert watcher.health.refused == (failing == "build")
    assert watcher.health.source_up == (failing == "build")
    assert "keeps serving" in caplog.text
    source.failing = "over"
    watcher.look()
    assert watcher.health.problem is None


def with_features(model, features):
    """The same score with other features, and no trees."""
    return CalibrationEnsemble(model.score_column, model.link, FeatureBins((model.bins[0], *features)), ())


def test_a_model_with_other_columns_is_refused_unless_allowed(model_file, content):
    model = random_model(1, n_trees=4)
    _, number, text, *rest = model.bins
    added = with_features(model, [number, text, *rest, NumberBins("new", (1.0,))])
    narrowed = with_features(model, [number, NumberBins(text.name, (1.0,)), *rest])
    fewer = with_features(model, [number])
    watcher = ModelWatcher(FileSource(model_file))
    watcher.look()
    before = watcher.current
    for refused, reason in ((added, "'new' is new"), (narrowed, f"'{text.name}' takes numbers only")):
        write_atomically(model_file, content(refused))
        watcher.look()
        assert watcher.current is before
        assert watcher.health.problem == "a new model was refused: it has other columns"
        assert reason in watcher.health.detail
    assert watcher.health.refused == 2
    write_atomically(model_file, content(fewer))
    watcher.look()
    assert watcher.current.version == version_of(content(fewer))
    assert watcher.health.problem is None
    forced = ModelWatcher(FileSource(model_file), allow_other_columns=True)
    forced.look()
    write_atomically(model_file, content(added))
    forced.look()
    assert forced.current.version == version_of(content(added))


def test_the_model_in_service_of_a_store_is_watched(tmp_path, content):
    registry = ModelRegistry(tmp_path / "store")
    watcher = ModelWatcher(registry, poll_seconds=0.01)
    watcher.look()
    assert watcher.current is None
    first = registry.publish(content(random_model(1)))
    watcher.look()
    second = registry.publish(content(random_model(1, n_trees=5)))
    watcher.look()
    assert watcher.current.version == second
    registry.rollback()
    watcher.look()
    assert watcher.current.version == first


def test_any_name_of_a_column_can_be_served(content):
    names = ['15" screen', "back\\slash", "new\nline", "ü", "*", "", "f1", "a`b"]
    bins = FeatureBins((NumberBins('p"', ()), *(CategoryBins(name, ("x", "y")) for name in names)))
    model = CalibrationEnsemble('p"', "odds", bins, ())
    loaded = LoadedModel(content(model))
    row = {'p"': 0.25, **dict.fromkeys(names, "x")}
    for document in ({"rows": [row]}, {"columns": {name: [value] for name, value in row.items()}}):
        for codec, decoder in ((msgspec.json, loaded.decoders.json), (msgspec.msgpack, loaded.decoders.msgpack)):
            decoded = decoder.decode(codec.encode(document))
            given = decoded.rows[0] if "rows" in document else decoded.columns
            assert msgspec.structs.astuple(given)[0] in (0.25, [0.25])
    for wrong, words in (
        ({**row, 'p"': 2.0}, '<= 1.0 - at `$.rows[0].p"`'),
        ({**row, '15" screen': []}, '- at `$.rows[0].15" screen`'),
        ({'p"': 0.5}, 'missing required field `15" screen`'),
    ):
        with pytest.raises(msgspec.ValidationError) as caught:
            loaded.decoders.json.decode(msgspec.json.encode({"rows": [wrong]}))
        assert words in str(caught.value)
    assert msgspec.json.decode(msgspec.json.encode(document_of(loaded, Limits(), token=False)))
