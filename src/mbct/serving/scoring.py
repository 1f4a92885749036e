"""What `/v1/score` does: a body in, calibrated probabilities out, counted and remembered on the way."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mbct.errors import DataError, MBCTError
from mbct.serving.batch import ScoredBatch
from mbct.serving.codec import ScoreBody, decode_score, encode_score, unprocessable, wants_interval
from mbct.serving.feedback import FeedbackLoop
from mbct.serving.http import Problem, Reply
from mbct.serving.loaded_model import LoadedModel
from mbct.serving.metrics import Metrics
from mbct.serving.model_watcher import ModelWatcher
from mbct.serving.options import ServiceOptions

PATH = "/v1/score"
LARGE_BODY = 2**17
"""Bytes from which on a body is decoded and scored in a thread, so that other requests need not wait for it."""


class ScoredRequest(NamedTuple):
    """A request that was scored, still to be counted."""

    loaded: LoadedModel
    ids: Sequence[str] | None
    scored: ScoredBatch
    reply: Reply


class Scoring:
    """Scores requests, each with one model: the one in service when it begins."""

    def __init__(
        self, watcher: ModelWatcher, feedback: FeedbackLoop, options: ServiceOptions, metrics: Metrics
    ) -> None:
        self._watcher, self._feedback, self._metrics = watcher, feedback, metrics
        self._limits, self._online = options.limits, options.feedback.online

    def reply(self, content_type: bytes, body: bytes, query: bytes = b"") -> Reply:
        """The answer to a body; a :class:`~mbct.serving.http.Problem` says what is wrong with it."""
        loaded = self.loaded()
        content = decode_score(loaded, content_type, body, self._limits, query)
        wanted = wants_interval(query)
        if wanted or not content.row or loaded.classes is not None:
            return self.count(self._score(loaded, content, wanted))
        try:
            calibrated = self._one(loaded, content.row, content.ids)
        except (DataError, ValueError, OverflowError) as error:
            raise unprocessable(str(error)) from error
        return Reply(encode_score([calibrated], loaded.version, content.format), content.format)

    def score(self, content_type: bytes, body: bytes, query: bytes) -> ScoredRequest:
        """Decode and score without touching what the event loop owns: may run in a thread."""
        loaded = self.loaded()
        content = decode_score(loaded, content_type, body, self._limits, query)
        return self._score(loaded, content, wants_interval(query))

    def count(self, request: ScoredRequest) -> Reply:
        """Count and remember what was scored; in the event loop."""
        loaded, ids, scored, reply = request
        calibrated = scored.calibrated if loaded.classes is None else scored.calibrated.max(axis=1)
        self._metrics.count_rows(len(scored.score), float(scored.score.sum()), float(calibrated.sum()))
        for feature, number in scored.unseen.items():
            self._metrics.count_unseen(feature, number)
        if ids is not None:
            self._feedback.remember(loaded.bins, ids, scored, loaded.version)
        return reply

    def loaded(self) -> LoadedModel:
        """The model in service."""
        loaded = self._watcher.current
        if loaded is None:
            raise Problem(503, "Service Unavailable", "there is no model yet; see /readyz", ((b"retry-after", b"5"),))
        return loaded

    def _one(self, loaded: LoadedModel, row: Sequence[Any], ids: Sequence[str] | None) -> float:
        calibrated = loaded.row.score_values(row)
        if ids is not None or self._online:
            scored = ScoredBatch(np.array([row[0]]), np.array([calibrated]), loaded.row.last_codes(), Counter())
            scored = self._feedback.adjusted(loaded.version, loaded.bins, scored)
            calibrated = float(scored.calibrated[0])
            if ids is not None:
                self._feedback.remember(loaded.bins, ids, scored, loaded.version)
        self._metrics.count_rows(1, row[0], calibrated)
        return calibrated

    def _score(self, loaded: LoadedModel, content: ScoreBody, with_interval: bool) -> ScoredRequest:
        columns = content.columns if content.row is None else [[value] for value in content.row]
        if loaded.classes is not None and (with_interval or content.ids is not None or self._online):
            raise unprocessable("ids, intervals and the online layer are for one probability, the model has many")
        if with_interval and self._online:
            raise unprocessable("intervals are certified for the model, not for what the online layer makes of it")
        try:
            scored = loaded.batch.score_columns(columns)
            interval = loaded.model.interval_of(scored.codes, scored.calibrated) if with_interval else None
        except (MBCTError, ValueError, OverflowError) as error:
            raise unprocessable(str(error)) from error
        if loaded.classes is None:
            scored = self._feedback.adjusted(loaded.version, loaded.bins, scored)
        answer = encode_score(scored.calibrated, loaded.version, content.format, interval, loaded.classes)
        reply = Reply(answer, content.format)
        return ScoredRequest(loaded, content.ids, scored, reply)
