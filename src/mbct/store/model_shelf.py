"""The models of a store: every one that was fitted, which of them is in service, and why."""

import datetime
import hashlib
from collections.abc import Mapping
from typing import Any

from mbct.errors import DataError, ModelFileError, StorageError
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.file import ensemble_of
from mbct.store.cell_store import CellStore
from mbct.store.decision_log import DocumentLog


class ModelShelf:
    """Models by the digest of their bytes, and a log of records, the newest of which says what is in service."""

    def __init__(self, store: CellStore):
        self.place = store.place
        self.log = DocumentLog(self.place, "records", {"in_service": None}, kept=None)

    def in_service(self) -> str | None:
        """Identity of the model in service."""
        found: str | None = self.log.newest()[1]["in_service"]
        return found

    def read(self, model: str) -> bytes:
        """Bytes of a model file."""
        name = f"models/{model}.json"
        try:
            content = self.place.read(name)
        except FileNotFoundError as error:
            raise DataError(
                f"no model {model!r} in {self.place.url}: it holds {', '.join(self.models()) or 'none'}"
            ) from error
        if identity(content) != model:
            raise ModelFileError(f"{self.place.url}/{name} is truncated or was changed: restore it")
        return content

    def ensemble(self, model: str) -> CalibrationEnsemble:
        """The frozen ensemble of a model."""
        return ensemble_of(self.read(model), f"{self.place.url}/models/{model}.json")

    def models(self) -> list[str]:
        """Identities of all models."""
        return [name.removeprefix("models/").removesuffix(".json") for name in self.place.names("models")]

    def records(self) -> list[dict[str, Any]]:
        """All records, oldest first."""
        return [{"number": number, **self.log.read(number)} for number in self.log.numbers()]

    def put(self, content: bytes) -> str:
        """Keep a model file; returns its identity."""
        ensemble_of(content)
        model = identity(content)
        self.place.create(f"models/{model}.json", content)
        return model

    def record(self, after: int, decision: str, in_service: str | None, details: Mapping[str, Any]) -> int:
        """Write the record that follows number ``after``; fails if another was written meanwhile."""
        body = {**details, "decision": decision, "in_service": in_service, "at": now()}
        if not self.log.append(after + 1, body):
            raise StorageError(
                f"another record was written to {self.place.url} meanwhile: another model may be in service, run again"
            )
        return after + 1

    def promote(self, content: bytes, reason: str) -> str:
        """Put a model into service by hand."""
        number, body = self.log.newest()
        model = self.put(content)
        self.record(number, "promoted by hand", model, {"previous": body["in_service"], "reason": reason})
        return model

    def roll_back(self, model: str | None = None, reason: str = "") -> str:
        """Put an earlier model back into service: the named one, or the one before the present."""
        number, body = self.log.newest()
        present = body["in_service"]
        if model is None:
            served = [record["in_service"] for record in self.records() if record["in_service"] not in (None, present)]
            if not served:
                raise DataError(f"no other model has been in service in {self.place.url}: nothing to roll back to")
            model = str(served[-1])
        self.read(model)
        self.record(number, "rolled back", model, {"previous": present, "reason": reason})
        return model


def identity(content: bytes) -> str:
    """Identity of a model: the digest of its bytes."""
    return hashlib.sha256(content).hexdigest()[:16]


def now() -> str:
    """The present moment, in UTC."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
