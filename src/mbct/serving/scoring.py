"""What `/v1/score` does: a body in, calibrated probabilities out, counted and remembered on the way."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from mbct.errors import DataError
from mbct.serving.batch import Scored
from mbct.serving.codec import ScoreBody, decode_score, encode_score, unprocessable
from mbct.serving.feedback import FeedbackLoop
from mbct.serving.http import Problem, Reply, carries_token, media_type
from mbct.serving.loaded_model import ServedModel
from mbct.serving.metrics import Metrics
from mbct.serving.model_watcher import Follower
from mbct.serving.options import ServiceOptions
from mbct.validation import FloatArray

PATH = "/v1/score"


class Scoring:
    """Scores requests with the model in force; it waits for nothing, so no swap can come between its steps."""

    def __init__(self, follower: Follower, feedback: FeedbackLoop, options: ServiceOptions, metrics: Metrics) -> None:
        self._follower, self._feedback, self._metrics = follower, feedback, metrics
        self._limits = options.limits
        self._token = None if options.token is None else options.token.encode()

    def reply(self, content_type: bytes, body: bytes, query: bytes = b"") -> Reply:
        """The answer to a body; a :class:`~mbct.serving.http.Problem` says what is wrong with it."""
        served = self.served()
        content = decode_score(served, content_type, body, self._limits, query)
        try:
            calibrated = self._one(served, content.row, content.ids) if content.row else self._many(served, content)
        except (DataError, ValueError, OverflowError) as error:
            raise unprocessable(str(error)) from error
        return Reply(encode_score(calibrated, served.version, content.format), content.format)

    def reply_at_once(self, headers: dict[bytes, bytes], body: bytes) -> Reply | None:
        """The answer to a good request, counted; None for any other: the long way names what is wrong with it."""
        began = time.perf_counter()
        if len(body) > self._limits.body_bytes or (self._token and not carries_token(headers, self._token)):
            return None
        try:
            reply = self.reply(media_type(headers), body)
        except Exception:
            # A fault of the client or of ours: it happens again on the long way, which answers for it and logs ours.
            return None
        self._metrics.observe(PATH, reply.status, time.perf_counter() - began)
        return reply

    def served(self) -> ServedModel:
        """The model in force."""
        served = self._follower.current
        if served is None:
            raise Problem(503, "Service Unavailable", "there is no model yet; see /readyz", ((b"retry-after", b"5"),))
        return served

    def _one(self, served: ServedModel, row: Sequence[Any], ids: Sequence[str] | None) -> list[float]:
        calibrated = served.row.score_values(row)
        self._metrics.count_rows(1, row[0], calibrated)
        if ids is not None:
            scored = Scored(np.array([row[0]]), np.array([calibrated]), served.row.last_codes(), Counter())
            self._feedback.remember(served.model.bins, ids, scored)
        return [calibrated]

    def _many(self, served: ServedModel, content: ScoreBody) -> FloatArray:
        scored = served.batch.score_columns(content.columns)
        self._metrics.count_rows(len(scored.score), float(scored.score.sum()), float(scored.calibrated.sum()))
        for feature, number in scored.unseen.items():
            self._metrics.count_unseen(feature, number)
        if content.ids is not None:
            self._feedback.remember(served.model.bins, content.ids, scored)
        return scored.calibrated
