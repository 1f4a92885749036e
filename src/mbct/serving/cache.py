"""Model versions in Redis: immutable contents, one atomic pointer, a channel that tells of its moves.

Keys of the model called NAME (the braces keep them in one slot of a Redis cluster):

=============================== ====== =====================================================================
key                             type   content
=============================== ====== =====================================================================
``mbct:{NAME}:current``         string the version in force: the pointer
``mbct:{NAME}:versions``        zset   every version, by the time of its publication
``mbct:{NAME}:history``         list   the pointer's positions, the newest first; rolling back pops it
``mbct:{NAME}:model:VERSION``   hash   ``content`` (the model file), ``sha256``, ``published``, ``note``
``mbct:{NAME}:rules:VERSION…``  hashes the same model as rules for clients in any language (``rules_layout``)
``mbct:{NAME}:changed``         channel each new value of the pointer
=============================== ====== =====================================================================

A version is the beginning of its content's SHA-256, so content cannot change under its name, and publishing the same
file twice is publishing it once.
"""

import hashlib
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from mbct.errors import MissingDependencyError, ModelFileError, ParameterError, StorageError
from mbct.model.file import read_bytes
from mbct.serving.checked import checked_ensemble
from mbct.serving.rules_layout import layout_keys, write_rules

VERSION_DIGITS = 16
_KEPT_HISTORY = 100
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")

_PUBLISH = f"""
redis.call('ZADD', KEYS[1], 'NX', ARGV[2], ARGV[1])
local before = redis.call('GET', KEYS[2])
if before ~= ARGV[1] then
  redis.call('SET', KEYS[2], ARGV[1])
  redis.call('LPUSH', KEYS[3], ARGV[1])
  redis.call('LTRIM', KEYS[3], 0, {_KEPT_HISTORY - 1})
end
redis.call('PUBLISH', KEYS[4], ARGV[1])
return before
"""

_ROLL_BACK = """
local target = ARGV[1]
if target == '' then
  local back = 1
  target = redis.call('LINDEX', KEYS[3], back)
  while target and not redis.call('ZSCORE', KEYS[1], target) do
    back = back + 1
    target = redis.call('LINDEX', KEYS[3], back)
  end
  if not target then return redis.error_reply('NOHISTORY') end
  redis.call('LTRIM', KEYS[3], back, -1)
else
  if not redis.call('ZSCORE', KEYS[1], target) then return redis.error_reply('NOVERSION') end
  redis.call('LPUSH', KEYS[3], target)
end
redis.call('SET', KEYS[2], target)
redis.call('PUBLISH', KEYS[4], target)
return target
"""


@dataclass(frozen=True)
class PublishedVersion:
    """One version in the cache."""

    version: str
    published: float
    """Seconds since 1970."""
    current: bool
    size: int
    note: str


class ModelCache:
    """The versions of one model in Redis. ``url`` as in ``redis://user:password@host:6379/0``."""

    def __init__(self, url: str, name: str = "default", *, timeout: float = 2.0) -> None:
        if not _NAME.fullmatch(name):
            raise ParameterError(f"name={name!r} must be 1 to 64 letters, digits, '_', '.' or '-'")
        redis = _redis()
        try:
            self._client = redis.Redis.from_url(url, socket_timeout=timeout, socket_connect_timeout=timeout)
        except ValueError as error:
            raise ParameterError(f"the Redis address is not understood: {error}") from error
        self._where = _without_password(url)
        self.name = name
        self._root = f"mbct:{{{name}}}"
        self._pointer_keys = [f"{self._root}:{part}" for part in ("versions", "current", "history", "changed")]
        self._publish = self._client.register_script(_PUBLISH)
        self._roll_back = self._client.register_script(_ROLL_BACK)

    def publish(self, content: bytes, *, keep: int = 20, note: str = "", rules: bool = True) -> str:
        """Add a version and point to it; a content that is no good model is refused. Returns the version.

        Everything is written before the pointer moves, so a publication that dies half-way changes nothing. Versions
        beyond the newest ``keep`` are deleted, never the one in force nor the one before it.
        """
        if keep < 2:
            raise ParameterError(f"keep={keep!r} must be at least 2: the version in force and the one before it")
        version = version_of(content)
        model = checked_ensemble(content, f"version {version}")
        with self._reachable():
            self._client.hset(
                self._model_key(version),
                mapping={
                    "content": content,
                    "sha256": hashlib.sha256(content).hexdigest(),
                    "published": repr(time.time()),
                    "note": note,
                },
            )
            if rules:
                write_rules(self._client, self._rules_key(version), model)
            self._publish(keys=self._pointer_keys, args=[version, repr(time.time())])
            self._prune(keep)
        return version

    def rollback(self, to: str | None = None) -> str:
        """Point to the version before the current one, or to ``to``; one atomic step. Returns the version in force."""
        with self._reachable():
            try:
                return str(self._roll_back(keys=self._pointer_keys, args=[to or ""]).decode())
            except _redis().ResponseError as error:
                if "NOHISTORY" in str(error):
                    raise StorageError(f"{self} has no earlier version to go back to; publish one") from error
                if "NOVERSION" in str(error):
                    known = [found.version for found in self.versions()]
                    raise StorageError(f"{self} holds no version {to!r}; it has {known}") from error
                raise

    def current(self) -> str | None:
        """The version in force, or None where nothing was published."""
        with self._reachable():
            found = self._client.get(f"{self._root}:current")
        return None if found is None else found.decode()

    def read(self, version: str | None = None) -> bytes:
        """Content of a version (the one in force by default), its checksum compared."""
        version = version or self.current()
        if version is None:
            raise StorageError(f"{self} holds no model yet; publish one")
        with self._reachable():
            content = self._client.hget(self._model_key(version), "content")
        if content is None:
            raise StorageError(f"{self} holds no version {version!r}")
        if version_of(content) != version:
            raise ModelFileError(
                f"version {version} of {self} is damaged: its content has checksum {version_of(content)}; "
                "publish it again"
            )
        return bytes(content)

    def versions(self) -> list[PublishedVersion]:
        """Every version, the newest first."""
        with self._reachable():
            current = self.current()
            listed = self._client.zrange(f"{self._root}:versions", 0, -1, desc=True, withscores=True)
            pipeline = self._client.pipeline(transaction=False)
            for version, _ in listed:
                pipeline.hstrlen(self._model_key(version.decode()), "content")
                pipeline.hget(self._model_key(version.decode()), "note")
            details = pipeline.execute()
        return [
            PublishedVersion(version.decode(), at, version.decode() == current, size, (note or b"").decode())
            for (version, at), size, note in zip(listed, details[::2], details[1::2], strict=True)
        ]

    def listener(self) -> "ChangeListener":
        """Wait for the pointer to move."""
        return ChangeListener(self._client.pubsub(ignore_subscribe_messages=True), f"{self._root}:changed", self)

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()

    def _prune(self, keep: int) -> None:
        history = self._client.lrange(f"{self._root}:history", 0, 1)
        protected = {*history, self._client.get(f"{self._root}:current")}
        for version in self._client.zrange(f"{self._root}:versions", 0, -keep - 1):
            if version not in protected:
                text = version.decode()
                pipeline = self._client.pipeline(transaction=True)
                pipeline.zrem(f"{self._root}:versions", version)
                pipeline.delete(self._model_key(text), *layout_keys(self._client, self._rules_key(text)))
                pipeline.execute()

    def _model_key(self, version: str) -> str:
        return f"{self._root}:model:{version}"

    def _rules_key(self, version: str) -> str:
        return f"{self._root}:rules:{version}"

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        redis = _redis()
        try:
            yield
        except (redis.ConnectionError, redis.TimeoutError) as error:
            raise StorageError(f"{self} cannot be reached: {error}; is Redis running there?") from error
        except redis.ResponseError as error:
            raise StorageError(f"{self} refused a command: {error}") from error

    def __str__(self) -> str:
        return f"the cache {self.name!r} at {self._where}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ChangeListener:
    """A subscription to the pointer's moves."""

    def __init__(self, subscription: Any, channel: str, cache: ModelCache) -> None:
        self._subscription, self._channel, self._cache = subscription, channel, cache
        self._subscribed = False

    def wait(self, seconds: float) -> bool:
        """Whether the pointer moved within ``seconds``; an error where Redis is away."""
        with self._cache._reachable():
            if not self._subscribed:
                self._subscription.subscribe(self._channel)
                self._subscribed = True
            return self._subscription.get_message(timeout=seconds) is not None

    def close(self) -> None:
        """End the subscription."""
        self._subscription.close()


def version_of(content: bytes) -> str:
    """A content's version: the beginning of its SHA-256.

    >>> version_of(b"")
    'e3b0c44298fc1c14'
    """
    return hashlib.sha256(content).hexdigest()[:VERSION_DIGITS]


def publish(
    model: str | os.PathLike[str] | bytes,
    url: str,
    *,
    name: str = "default",
    keep: int = 20,
    note: str = "",
    rules: bool = True,
) -> str:
    """Publish a model file (or its bytes) to Redis and make it the version in force. Returns the version."""
    content = model if isinstance(model, bytes) else read_bytes(Path(model))
    with ModelCache(url, name) as cache:
        return cache.publish(content, keep=keep, note=note, rules=rules)


def rollback(url: str, *, name: str = "default", to: str | None = None) -> str:
    """Go back to the version before the current one, or to version ``to``. Returns the version in force."""
    with ModelCache(url, name) as cache:
        return cache.rollback(to)


def _redis() -> Any:
    try:
        import redis
    except ImportError as error:
        raise MissingDependencyError("the cache needs redis: pip install 'mbct[redis]'") from error
    return redis


def _without_password(url: str) -> str:
    """The address as it may appear in logs.

    >>> _without_password("redis://me:secret@example:6379/0")
    'redis://example:6379/0'
    """
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place}{parts.path}"
