"""A model registry in Redis: immutable versions, one atomic pointer, a channel that announces its moves.

Keys of the model called NAME (the braces keep them in one slot of a Redis cluster):

=============================== ====== =====================================================================
key                             type   content
=============================== ====== =====================================================================
``mbct:{NAME}:current``         string the version in service: the pointer
``mbct:{NAME}:versions``        zset   every version, by the time of its publication
``mbct:{NAME}:history``         list   the pointer's positions, the newest first; rolling back pops it
``mbct:{NAME}:model:VERSION``   hash   ``content`` (the model file), ``sha256``, ``published``, ``note``
``mbct:{NAME}:rules:VERSION…``  hashes the same model as rules for clients in any language (``redis_rules``)
``mbct:{NAME}:changed``         channel each new value of the pointer
=============================== ====== =====================================================================
"""

import hashlib
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from mbct.errors import ParameterError, StorageError
from mbct.lazy import optional
from mbct.model.ensemble import CalibrationEnsemble
from mbct.store.model_registry import ModelVersion
from mbct.store.redis_rules import layout_keys, write_rules

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


class RedisBackend:
    """The versions of one model in Redis.

    Parameters
    ----------
    url, name : str, default name "default"
        As in ``redis://user:password@host:6379/0``, and which model.
    keep : int, default=20
        Versions beyond the newest ``keep`` are deleted, never the one in service nor the one before it.
    rules : bool, default=True
        Also write each version as rules that any client can look up.
    timeout : float, default=2.0
        Seconds to wait for Redis.
    """

    def __init__(
        self, url: str, name: str = "default", *, keep: int = 20, rules: bool = True, timeout: float = 2.0
    ) -> None:
        if not _NAME.fullmatch(name):
            raise ParameterError(f"name={name!r} must be 1 to 64 letters, digits, '_', '.' or '-'")
        if keep < 2:
            raise ParameterError(f"keep={keep!r} must be at least 2: the version in service and the one before it")
        redis = _redis()
        try:
            self._client = redis.Redis.from_url(url, socket_timeout=timeout, socket_connect_timeout=timeout)
        except ValueError as error:
            raise ParameterError(f"the Redis address is not understood: {error}") from error
        self._url = _without_password(url)
        self._name, self._keep, self._rules = name, keep, rules
        self._root = f"mbct:{{{name}}}"
        self._pointer_keys = [f"{self._root}:{part}" for part in ("versions", "current", "history", "changed")]
        self._publish = self._client.register_script(_PUBLISH)
        self._roll_back = self._client.register_script(_ROLL_BACK)

    def current(self) -> str | None:
        """The version in service."""
        with self._reachable():
            found = self._client.get(f"{self._root}:current")
        return None if found is None else found.decode()

    def content(self, version: str) -> bytes | None:
        """Bytes of a version."""
        with self._reachable():
            found = self._client.hget(self._key("model", version), "content")
        return None if found is None else bytes(found)

    def versions(self) -> list[ModelVersion]:
        """Every version, the newest first."""
        with self._reachable():
            current = self.current()
            listed = self._client.zrange(f"{self._root}:versions", 0, -1, desc=True, withscores=True)
            pipeline = self._client.pipeline(transaction=False)
            for version, _ in listed:
                pipeline.hstrlen(self._key("model", version.decode()), "content")
                pipeline.hget(self._key("model", version.decode()), "note")
            details = pipeline.execute()
        return [
            ModelVersion(version.decode(), at, version.decode() == current, size, (note or b"").decode())
            for (version, at), size, note in zip(listed, details[::2], details[1::2], strict=True)
        ]

    def add(self, version: str, content: bytes, model: CalibrationEnsemble, note: str) -> None:
        """Keep a version."""
        fields = {
            "content": content,
            "sha256": hashlib.sha256(content).hexdigest(),
            "published": repr(time.time()),
            "note": note,
        }
        with self._reachable():
            self._client.hset(self._key("model", version), mapping=fields)
            if self._rules:
                write_rules(self._client, self._key("rules", version), model)

    def put_into_service(self, version: str, note: str) -> None:  # noqa: ARG002 - kept with the version
        """Point to a version, then delete the oldest."""
        with self._reachable():
            self._publish(keys=self._pointer_keys, args=[version, repr(time.time())])
            self._prune()

    def step_back(self, to: str | None, reason: str) -> str | None:  # noqa: ARG002 - Redis keeps no reasons
        """Point to an earlier version in one atomic step."""
        with self._reachable():
            try:
                return str(self._roll_back(keys=self._pointer_keys, args=[to or ""]).decode())
            except _redis().ResponseError as error:
                if "NOHISTORY" in str(error) or "NOVERSION" in str(error):
                    return None
                raise

    def records(self) -> list[dict[str, Any]]:
        """The pointer's positions, oldest first."""
        with self._reachable():
            history = self._client.lrange(f"{self._root}:history", 0, -1)
        return [{"number": i, "in_service": v.decode()} for i, v in enumerate(reversed(history), start=1)]

    def listener(self) -> Any:
        """A subscription to the moves of the pointer: ``get_message`` waits for one."""
        subscription = self._client.pubsub(ignore_subscribe_messages=True)
        with self._reachable():
            subscription.subscribe(f"{self._root}:changed")
        return subscription

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()

    def _prune(self) -> None:
        history = self._client.lrange(f"{self._root}:history", 0, 1)
        protected = {*history, self._client.get(f"{self._root}:current")}
        for version in self._client.zrange(f"{self._root}:versions", 0, -self._keep - 1):
            if version not in protected:
                text = version.decode()
                pipeline = self._client.pipeline(transaction=True)
                pipeline.zrem(f"{self._root}:versions", version)
                pipeline.delete(self._key("model", text), *layout_keys(self._client, self._key("rules", text)))
                pipeline.execute()

    def _key(self, part: str, version: str) -> str:
        return f"{self._root}:{part}:{version}"

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
        return f"the registry {self._name!r} at {self._url}"


def _redis() -> Any:
    return optional("a registry in Redis needs redis: pip install 'mbct[redis]'", "redis")


def _without_password(url: str) -> str:
    """The address as it may appear in logs.

    >>> _without_password("redis://me:secret@example:6379/0")
    'redis://example:6379/0'
    """
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"
