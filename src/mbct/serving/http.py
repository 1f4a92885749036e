"""The little HTTP that the service needs on top of ASGI: requests read within limits, replies, problems."""

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, NamedTuple, cast

import msgspec

from mbct.serving.options import Limits

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

JSON = b"application/json"
PROBLEM = b"application/problem+json"
TEXT = b"text/plain; charset=utf-8"
_LATE = "the body came too slowly"
_CLOSE = ((b"connection", b"close"),)


def media_type(headers: Mapping[bytes, bytes]) -> bytes:
    """The media type of a body, without parameters, in lower case.

    >>> media_type({b"content-type": b"Application/JSON; charset=utf-8"})
    b'application/json'
    """
    given = headers.get(b"content-type", b"")
    return given if given == JSON else given.partition(b";")[0].strip().lower()


def carries_token(headers: Mapping[bytes, bytes], token: bytes) -> bool:
    """Whether the headers carry the bearer token; the comparison takes the same time for any guess."""
    scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
    return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), token)


class Reply(NamedTuple):
    """What goes back to the client."""

    body: bytes
    content_type: bytes = JSON
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()

    def start(self) -> dict[str, Any]:
        """The ASGI message that begins the reply."""
        headers = [(b"content-type", self.content_type), (b"content-length", b"%d" % len(self.body)), *self.headers]
        return {"type": "http.response.start", "status": self.status, "headers": headers}


class Problem(Exception):  # noqa: N818 - the name of RFC 9457
    """A request that cannot be served, as RFC 9457 writes it: title, status, and a detail that names the remedy."""

    def __init__(self, status: int, title: str, detail: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(detail)
        self.status, self.title, self.detail, self.headers = status, title, detail, headers

    def reply(self) -> Reply:
        """The problem as a reply."""
        body = msgspec.json.encode({"title": self.title, "status": self.status, "detail": self.detail})
        return Reply(body, PROBLEM, self.status, self.headers)


class ClientGone(Exception):  # noqa: N818 - an event, which ends the request, not an error of ours
    """The client closed the connection before its request was complete."""


class Deadlines:
    """Ends the reading of bodies that come too slowly.

    One look at all of them now and then, instead of a timer for each request: nearly all bodies are there at once, and
    a timer would cost them a quarter of their time.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.reading: dict[asyncio.Task[Any], float] = {}
        """Tasks that read a body, and since when."""

    async def watch(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(min(self._seconds / 4.0, 1.0))
            oldest = time.monotonic() - self._seconds
            for task, began in self.reading.items():
                if began < oldest:
                    task.cancel(_LATE)


class Request:
    """One request; its body is read on demand, within the limits."""

    __slots__ = ("_deadlines", "_receive", "_unread", "headers", "limits", "method", "path", "query")

    def __init__(self, scope: Scope, receive: Receive, limits: Limits, deadlines: Deadlines) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: bytes = scope["query_string"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.limits = limits
        self._receive = receive
        self._deadlines = deadlines
        self._unread = True

    def content_type(self) -> bytes:
        """The media type of the body."""
        return media_type(self.headers)

    def body(self) -> Awaitable[bytes]:
        """The whole body; 413 where it is too large, 408 where it comes too slowly."""
        declared = self.headers.get(b"content-length")
        if declared is not None and declared.isdigit() and int(declared) > self.limits.body_bytes:
            raise self._too_large()
        return self._read(self.limits.body_bytes)

    async def discard(self) -> None:
        """Read what is left of a body nobody wants, as far as the limits go, so that the client hears the reply."""
        if self._unread and (b"content-length" in self.headers or b"transfer-encoding" in self.headers):
            try:
                await self._read(4 * self.limits.body_bytes, keep=False)
            except Problem:
                return

    async def _read(self, limit: int, *, keep: bool = True) -> bytes:
        task, reading = cast("asyncio.Task[Any]", asyncio.current_task()), self._deadlines.reading
        reading[task] = time.monotonic()
        try:
            message = await self._receive()
            body: bytes = message.get("body", b"")
            if message.get("more_body"):
                body, message = await self._read_on(body, limit, keep=keep)
        except asyncio.CancelledError as error:
            if error.args != (_LATE,):
                raise
            task.uncancel()
            self._unread = False
            seconds = self.limits.body_seconds
            raise Problem(408, "Request Timeout", f"the body took longer than {seconds:g} s", _CLOSE) from None
        finally:
            del reading[task]
        if message["type"] == "http.disconnect":
            raise ClientGone
        self._unread = False
        if len(body) > limit:
            raise self._too_large()
        return body

    async def _read_on(self, first: bytes, limit: int, *, keep: bool) -> tuple[bytes, MutableMapping[str, Any]]:
        """The rest of a body that comes in parts, and the last message."""
        parts, size = [first], len(first)
        while True:
            message = await self._receive()
            part = message.get("body", b"")
            size += len(part)
            if keep:
                parts.append(part)
            if not message.get("more_body"):
                return b"".join(parts), message
            if size > limit:
                raise self._too_large()

    def _too_large(self) -> Problem:
        detail = f"the body exceeds {self.limits.body_bytes:,} bytes; send fewer rows at a time"
        return Problem(413, "Content Too Large", detail, _CLOSE)
