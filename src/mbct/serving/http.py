"""The little HTTP that the service needs on top of ASGI: requests read within limits, replies, problems."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple

import msgspec

from mbct.serving.options import Limits

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

JSON = b"application/json"
PROBLEM = b"application/problem+json"
TEXT = b"text/plain; charset=utf-8"


class Reply(NamedTuple):
    """What goes back to the client."""

    body: bytes
    content_type: bytes = JSON
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()

    async def send(self, send: Send) -> None:
        """Write the reply."""
        headers = [(b"content-type", self.content_type), (b"content-length", b"%d" % len(self.body)), *self.headers]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


class Problem(Exception):  # noqa: N818 - the name of RFC 9457
    """A request that cannot be served, as RFC 9457 writes it: title, status, and a detail that names the remedy."""

    def __init__(self, status: int, title: str, detail: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(detail)
        self.status, self.title, self.detail, self.headers = status, title, detail, headers

    def reply(self) -> Reply:
        """The problem as a reply."""
        body = msgspec.json.encode({"title": self.title, "status": self.status, "detail": self.detail})
        return Reply(body, PROBLEM, self.status, self.headers)


class ClientGone(Exception):  # noqa: N818
    """The client closed the connection before its request was complete."""


class Request:
    """One request; its body is read on demand, within the limits."""

    __slots__ = ("_receive", "_unread", "headers", "limits", "method", "path", "query")

    def __init__(self, scope: Scope, receive: Receive, limits: Limits) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: bytes = scope["query_string"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.limits = limits
        self._receive = receive
        self._unread = True

    def content_type(self) -> bytes:
        """The media type of the body, without parameters, in lower case."""
        return self.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()

    def require_token(self, token: bytes) -> None:
        """Raise unless the request carries the bearer token; the comparison takes the same time for any guess."""
        scheme, _, given = self.headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(given.strip(), token):
            challenge = ((b"www-authenticate", b'Bearer realm="mbct"'),)
            raise Problem(401, "Unauthorized", "send the service's token as 'Authorization: Bearer …'", challenge)

    async def body(self) -> bytes:
        """The whole body; 413 where it is too large, 408 where it comes too slowly."""
        limit = self.limits.body_bytes
        declared = self.headers.get(b"content-length", b"")
        if declared.isdigit() and int(declared) > limit:
            raise self._too_large()
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                return await self._read(limit)
        except TimeoutError as error:
            seconds = self.limits.body_seconds
            raise Problem(408, "Request Timeout", f"the body took longer than {seconds:g} s", _CLOSE) from error

    async def discard(self) -> None:
        """Read what is left of a body nobody wants, as far as the limits go, so that the client hears the reply."""
        if self._unread and (b"content-length" in self.headers or b"transfer-encoding" in self.headers):
            try:
                async with asyncio.timeout(self.limits.body_seconds):
                    await self._read(4 * self.limits.body_bytes, keep=False)
            except (Problem, TimeoutError):
                return

    async def _read(self, limit: int, *, keep: bool = True) -> bytes:
        message = await self._receive()
        if message["type"] == "http.request" and not message.get("more_body"):
            self._unread = False
            if len(message["body"]) > limit:
                raise self._too_large()
            return bytes(message["body"])
        parts, size = [], 0
        while True:
            if message["type"] == "http.disconnect":
                raise ClientGone
            size += len(message["body"])
            if size > limit:
                raise self._too_large()
            if keep:
                parts.append(message["body"])
            if not message.get("more_body"):
                self._unread = False
                return b"".join(parts)
            message = await self._receive()

    def _too_large(self) -> Problem:
        detail = f"the body exceeds {self.limits.body_bytes:,} bytes; send fewer rows at a time"
        return Problem(413, "Content Too Large", detail, _CLOSE)


_CLOSE = ((b"connection", b"close"),)
