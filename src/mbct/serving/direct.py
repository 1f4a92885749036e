"""The short way of a scoring request: one that came whole is answered as soon as the parser has read it.

On the long way, ASGI, a request costs a task, an event, three messages and two writes: several times what scoring one
row takes. Here it costs the parser's callbacks and one write. Only good requests are answered so. Whatever is not plain
(a body that is still coming, an earlier request under way, a fault in it) goes the long way, which knows every case.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from mbct.serving.http import Reply
from mbct.serving.limits import GuardedProtocol

AnswerAtOnce = Callable[[dict[bytes, bytes], bytes], Reply | None]
"""The reply to headers and a body, or None where the request must go the long way; it raises nothing."""


def is_possible() -> bool:
    """Whether uvicorn uses the parser with callbacks, httptools; its other one, in pure Python, has none."""
    return hasattr(GuardedProtocol, "on_headers_complete")


class DirectProtocol(GuardedProtocol):
    """One connection; ``answer`` is asked first about requests of ``POST path``."""

    def __init__(self, *arguments: Any, path: bytes, answer: AnswerAtOnce, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._direct_path, self._answer = path, answer
        self._held: list[bytes] | None = None
        """The parts of the body so far of a request that may be answered at once; None for any other."""
        self._answered = False
        self._answered_at = 0.0
        self._idle_timer: asyncio.TimerHandle | None = None
        self._default_headers: list[tuple[bytes, bytes]] | None = None
        self._head = b""

    def feed(self, data: bytes) -> None:
        """Read some bytes; a request that is not complete with them goes the long way."""
        self._answered = False
        super().feed(data)
        if self._held is not None:
            self._go_the_long_way()

    def on_headers_complete(self) -> None:
        """The parser has read the headers."""
        if self._is_plain():
            self._held = []
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """The parser has read a part of the body, nearly always all of it."""
        if self._held is None:
            super().on_body(body)
        else:
            self._held.append(body)

    def on_message_complete(self) -> None:
        """The parser has read the whole request."""
        if self._held is not None:
            reply = self._answer(dict(self.headers), b"".join(self._held))
            if reply is not None:
                self._held = None
                self._send(reply)
                return
            self._go_the_long_way()
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        super().connection_lost(exc)

    def _is_plain(self) -> bool:
        """Whether nothing but the scoring itself is to be done for this request."""
        return (
            self.url == self._direct_path
            and self.parser.get_method() == b"POST"
            and self.parser.should_keep_alive()
            and not self.parser.should_upgrade()
            and not self.expect_100_continue
            and not super()._request_under_way()
            and not self.flow.write_paused
            and not self.transport.is_closing()
            and (self.limit_concurrency is None or len(self.connections) < self.limit_concurrency)
        )

    def _go_the_long_way(self) -> None:
        """Begin the request once more, as uvicorn would have, with what has come of its body."""
        parts, self._held = self._held, None
        if self.transport.is_closing():
            return
        super().on_headers_complete()
        for part in parts or ():
            super().on_body(part)

    def _send(self, reply: Reply) -> None:
        """Head and body in one write."""
        if self.server_state.default_headers is not self._default_headers:
            # Uvicorn makes them anew each second, for the date.
            self._default_headers = self.server_state.default_headers
            self._head = b"".join(b"%b: %b\r\n" % header for header in self._default_headers)
        body = reply.body
        self.transport.write(
            b"HTTP/1.1 200 OK\r\n%bcontent-type: %b\r\ncontent-length: %d\r\n\r\n%b"
            % (self._head, reply.content_type, len(body), body)
        )
        self._answered = True
        self._answered_at = self.loop.time()
        if self._idle_timer is None:
            self._wait_idle(self.timeout_keep_alive)

    def _wait_idle(self, seconds: float) -> None:
        # One timer that looks when the last answer was: a timer a request costs as much as scoring it.
        self._idle_timer = self.loop.call_later(seconds, self._close_if_idle)

    def _close_if_idle(self) -> None:
        self._idle_timer = None
        if super()._request_under_way() or self._timer is not None or self.timeout_keep_alive_task is not None:
            return  # The request under way, or the timer of its headers or of uvicorn, sees to the connection.
        left = self._answered_at + self.timeout_keep_alive - self.loop.time()
        if left > 0.0:
            self._wait_idle(left)
        else:
            self._give_up()

    def _request_under_way(self) -> bool:
        return self._answered or super()._request_under_way()
