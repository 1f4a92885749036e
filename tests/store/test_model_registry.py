"""Versions, pointer, rollback and rules in a real Redis."""

import importlib.util
import random
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from builders import random_model, random_rows, table_model
from mbct.errors import ModelFileError, ParameterError, StorageError
from mbct.model.file import dump_document
from mbct.serving.batch import BatchScorer
from mbct.store.model_registry import ModelRegistry, publish, version_of
from mbct.store.redis_backend import RedisBackend

EXAMPLE = Path(__file__).parents[2] / "examples" / "redis_rules_client.py"


def content(seed, **kwargs):
    return dump_document({"method": "mbct", "state": {"model": random_model(seed, **kwargs).to_dict()}})


@pytest.fixture
def registry(redis_server):
    with ModelRegistry(redis_server.url, "ctr") as opened:
        yield opened


def test_publish_read_and_list(registry):
    assert registry.in_service() is None
    with pytest.raises(StorageError, match="no model yet"):
        registry.read()
    first = registry.publish(content(1), note="Monday")
    second = registry.publish(content(2))
    assert registry.in_service() == second == version_of(content(2))
    assert registry.read() == content(2)
    assert registry.read(first) == content(1)
    listed = registry.versions()
    assert [(v.version, v.current, v.note) for v in listed] == [(second, True, ""), (first, False, "Monday")]
    assert listed[0].size == len(content(2))
    assert listed[0].published > listed[1].published


def test_the_same_content_is_the_same_version(registry):
    assert registry.publish(content(1)) == registry.publish(content(1))
    assert len(registry.versions()) == 1
    with pytest.raises(StorageError, match="no earlier version"):
        registry.rollback()
    assert registry.in_service() == version_of(content(1))


def test_rollback_goes_back_step_by_step_and_to_any_version(redis_server, tmp_path):
    registry = ModelRegistry(redis_server.url, "ctr")
    path = tmp_path / "model.json"
    versions = []
    for seed in range(4):
        path.write_bytes(content(seed))
        versions.append(publish(path, redis_server.url, name="ctr"))
    assert registry.rollback() == versions[2]
    assert registry.rollback() == versions[1]
    assert registry.rollback(versions[3]) == versions[3]
    assert registry.rollback() == versions[1]
    with pytest.raises(StorageError, match=r"no version 'feed'; it has \["):
        registry.rollback("feed")


def test_old_versions_are_deleted_with_their_rules_but_never_the_last_two(registry, redis_server):
    with ModelRegistry(RedisBackend(redis_server.url, "ctr", keep=3)) as keeping_three:
        versions = [keeping_three.publish(content(seed)) for seed in range(6)]
    assert {v.version for v in registry.versions()} == set(versions[-3:])
    assert not any(v in key.decode() for v in versions[:3] for key in registry.backend._client.keys("*"))
    registry.rollback(to=versions[3])
    with ModelRegistry(RedisBackend(redis_server.url, "ctr", keep=2)) as keeping_two:
        keeping_two.publish(content(9))
    assert versions[3] in {v.version for v in registry.versions()}
    assert registry.rollback() == versions[3]


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b"\xff", b'{"format": "mbct-calibrator", "version": 99}'])
def test_no_bad_model_can_be_published(registry, damage):
    good = registry.publish(content(1))
    with pytest.raises(ModelFileError):
        registry.publish(damage)
    assert registry.in_service() == good


def test_damaged_content_is_found_by_its_checksum(registry):
    version = registry.publish(content(1))
    registry.backend._client.hset(f"mbct:{{ctr}}:model:{version}", "content", content(1)[:-10])
    with pytest.raises(ModelFileError, match=f"version {version} .* is damaged"):
        registry.read()
    assert registry.publish(content(1)) == version
    assert registry.read() == content(1)


def test_readers_see_whole_versions_while_writers_publish_and_roll_back(redis_server):
    known = {version_of(content(seed)): content(seed) for seed in range(5)}
    with ModelRegistry(RedisBackend(redis_server.url, "ctr", rules=False)) as registry:
        registry.publish(content(0))
        registry.publish(content(1))
    done, faults = threading.Event(), []

    def write(seed):
        draw = random.Random(seed)
        with ModelRegistry(RedisBackend(redis_server.url, "ctr", rules=False)) as registry:
            while not done.is_set():
                if draw.random() < 0.7:
                    registry.publish(content(draw.randrange(5)))
                else:
                    try:
                        registry.rollback()
                    except StorageError as error:
                        if "no earlier version" not in str(error):
                            faults.append(error)

    writers = [threading.Thread(target=write, args=(seed,)) for seed in range(3)]
    for writer in writers:
        writer.start()
    with ModelRegistry(redis_server.url, "ctr") as reader:
        for _ in range(300):
            version = reader.in_service()
            if known.get(version) != reader.read(version):
                faults.append(version)
    done.set()
    for writer in writers:
        writer.join()
    assert faults == []


def test_a_listener_hears_of_moves(registry, redis_server):
    listener = registry.backend.listener()
    assert listener.get_message(timeout=0.05) is None
    with ModelRegistry(redis_server.url, "ctr") as other:
        other.publish(content(1))
    assert any(listener.get_message(timeout=0.5) for _ in range(4))
    listener.close()


def test_redis_killed_loses_no_published_version(registry, redis_server):
    version = registry.publish(content(1))
    redis_server.kill()
    with pytest.raises(StorageError, match=r"the registry 'ctr' at redis://127.0.0.1:\d+ cannot be reached"):
        registry.in_service()
    redis_server.start()
    assert registry.read(version) == content(1)


def test_bad_names_and_addresses_are_refused():
    pytest.importorskip("redis", reason="redis is not installed: pip install 'mbct[redis]'")
    with pytest.raises(ParameterError, match="name='a b'"):
        ModelRegistry("redis://127.0.0.1", "a b")
    with pytest.raises(ParameterError, match="address is not understood"):
        RedisBackend("http://127.0.0.1")
    with pytest.raises(StorageError, match="cannot be reached") as caught:
        publish(content(1), "redis://me:secret@127.0.0.1:1")
    assert "secret" not in str(caught.value)


def example():
    spec = importlib.util.spec_from_file_location("redis_rules_client", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def published(model, url):
    return publish(dump_document({"method": "mbct", "state": {"model": model.to_dict()}}), url)


@pytest.mark.parametrize("link", ["odds", "linear"])
def test_a_client_of_plain_commands_agrees_and_follows_the_version(redis_server, link):
    import redis

    client = redis.Redis.from_url(redis_server.url, decode_responses=True)
    rules = example().Rules(client, "default")
    models = [random_model(seed, link, n_trees=3 if seed else 0) for seed in range(3)]
    for seed, model in enumerate([*models, table_model(3, link, 8, n_groups=20, n_binary=3)]):
        version = published(model, redis_server.url)
        columns = random_rows(seed, model, 60)
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        answers = [rules.calibrate(row) for row in rows]
        np.testing.assert_allclose([q for q, _ in answers], BatchScorer(model).score_rows(rows), rtol=0, atol=1e-12)
        assert {v for _, v in answers} == {version}
    client.close()


def test_a_row_takes_one_round_trip(redis_server):
    import redis

    model = table_model(3, n_tables=3, n_groups=20)
    published(model, redis_server.url)
    client = redis.Redis.from_url(redis_server.url, decode_responses=True)
    rules = example().Rules(client, "default")
    row = {name: 0.2 if name == "score" else None for name in model.bins.names}
    rules.calibrate(row)
    assert client.exists(*(f"mbct:{{default}}:rules:{rules.version}:table:{t}" for t in range(3))) == 3
    before = client.info("stats")["total_commands_processed"], client.info("stats")["total_reads_processed"]
    rules.calibrate(row)
    after = client.info("stats")["total_commands_processed"], client.info("stats")["total_reads_processed"]
    # Two requests for the statistics themselves stand between.
    assert after[0] - before[0] == 2 + 1 + 3
    assert after[1] - before[1] == 2 + 1
    client.close()


def test_the_example_runs_by_itself(redis_server):
    model = random_model(1, n_features=1)
    version = published(model, redis_server.url)
    command = [sys.executable, str(EXAMPLE), redis_server.url, "default", '{"score": 0.2, "number 0": 3}']
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert float(printed[0]) == pytest.approx(BatchScorer(model).score_rows([{"score": 0.2, "number 0": 3}])[0])
    assert printed[1] == version


def test_rules_can_be_read_in_words(registry):
    version = registry.publish(content(1))
    words = registry.backend._client.lrange(f"mbct:{{ctr}}:rules:{version}:words", 0, -1)
    assert words
    assert all(rule.decode().startswith("× ") for rule in words)


def test_a_version_that_is_published_again_has_its_words_once(registry):
    model = content(1)
    key = f"mbct:{{ctr}}:rules:{registry.publish(model)}:words"
    once = registry.backend._client.lrange(key, 0, -1)
    registry.publish(model)
    assert registry.backend._client.lrange(key, 0, -1) == once
