"""What became of a store: runs of the loop with their alarms, beside the decisions about models."""

import datetime
from typing import Any

from mbct.errors import StorageError
from mbct.store.cell_store import CellStore
from mbct.store.document_log import DocumentLog
from mbct.store.model_registry import ModelRegistry

_STATES_KEPT = 5


class History:
    """Runs of the loop, oldest first, and the state of the monitor between them; each is written atomically."""

    def __init__(self, store: CellStore) -> None:
        self._registry = ModelRegistry(store)
        self._runs = DocumentLog(store.storage, "history", {}, kept=None)
        self._monitor = DocumentLog(store.storage, "monitor", {}, kept=_STATES_KEPT)

    def add(self, run: dict[str, Any]) -> int:
        """Keep a run; its number."""
        at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        number = self._runs.newest()[0] + 1
        if not self._runs.append(number, {"at": at, **run}):
            raise StorageError("another loop has written its history meanwhile: run one loop for a store")
        return number

    def runs(self) -> list[dict[str, Any]]:
        """All runs, oldest first."""
        return [{"number": number, **self._runs.read(number)} for number in self._runs.numbers()]

    def monitor_state(self) -> dict[str, Any]:
        """The state of the monitor; empty where there is none."""
        return self._monitor.newest()[1]

    def keep_monitor_state(self, state: dict[str, Any]) -> None:
        """Keep the state of the monitor, unless that of the same day is kept already."""
        day = state["last_day"]
        self._monitor.change(lambda body: None if body and body["last_day"] >= day else state)

    def events(self) -> list[dict[str, Any]]:
        """Decisions about models and runs of the loop in the order of time."""
        decisions = [{"kind": "decision", **record} for record in self._registry.records()]
        runs = [{"kind": "loop", **run} for run in self.runs()]
        return sorted([*decisions, *runs], key=lambda event: event["at"])
