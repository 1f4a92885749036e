"""Uvicorn's HTTP protocol with limits on the time and size of headers, and its server with an end that is no error.

Imported only when the service starts: uvicorn comes with an extra.
"""

import asyncio
from typing import Any

from uvicorn import Server
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from mbct.serving.options import Limits


# AutoHTTPProtocol is a variable to mypy: uvicorn sets it to the parser that is installed.
class LimitedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """One connection; it is closed where headers come too slowly or without end."""

    def __init__(self, *arguments: Any, limits: Limits, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._limits = limits
        self._timer: asyncio.TimerHandle | None = None
        self._header_bytes = 0

    def connection_made(self, transport: Any) -> None:
        """A client: its first headers are due."""
        super().connection_made(transport)
        self._expect_headers()

    def data_received(self, data: bytes) -> None:
        """Some bytes: what belongs to no request yet are headers, and those have limits."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:  # a request is under way
            self._headers_came()
            return
        self._header_bytes += len(data)
        if self._header_bytes > self._limits.header_bytes:
            self._give_up()
        elif self._timer is None:
            self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end."""
        self._headers_came()
        super().connection_lost(exc)

    def _expect_headers(self) -> None:
        self._timer = self.loop.call_later(self._limits.header_seconds, self._give_up)

    def _headers_came(self) -> None:
        self._header_bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()


class DrainedServer(Server):
    """Ends with status 0 after a drain, where uvicorn would raise the signal once more."""

    def handle_exit(self, sig: int, frame: Any) -> None:  # noqa: ARG002 - uvicorn's signature
        """The first signal drains, the second one ends at once."""
        self.force_exit = self.should_exit
        self.should_exit = True
