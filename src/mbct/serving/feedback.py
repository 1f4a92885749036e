"""The feedback loop: outcomes find their scores, move the live metrics, and become cells for the next training."""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import Protocol

import numpy as np

from mbct.errors import ParameterError, StorageError
from mbct.model.bins import CategoryBins, Feature, FeatureBins
from mbct.model.rules import condition
from mbct.serving.batch import ScoredBatch
from mbct.serving.journal import Joined, Journal, Remembered, as_columns, read_lines
from mbct.serving.options import FeedbackOptions
from mbct.serving.outcome_stream import LiveCalibration, LiveMetric, OutcomeStream
from mbct.store import Cells, DroppedDayError, cells_of_rows

log = logging.getLogger("mbct.serving")

_FORGOTTEN_AT_ONCE = 20_000  # Twice the rows of a request: about 15 ms


class OutcomeSink(Protocol):
    """Where the cells of outcomes go: a :class:`~mbct.store.cell_store.CellStore` is one.

    Appending a batch for the second time must change nothing.
    """

    def append(self, cells: Cells, bins: FeatureBins, *, day: str, batch: str) -> object:
        """Keep cells of a day durably, or raise."""


@dataclass(frozen=True)
class Joining:
    """What became of reported outcomes."""

    joined: int
    unknown: tuple[str, ...]
    """Ids that were never scored, too long ago, or have had their outcome."""


class FeedbackLoop:
    """Remembers scores until their outcome comes. Not thread-safe but for :meth:`flush`: the event loop owns it."""

    def __init__(
        self, options: FeedbackOptions, sink: OutcomeSink | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        if sink is not None and options.folder is None:
            raise ParameterError("outcomes for a store need a journal: set the feedback's folder")
        self._options, self._sink, self._clock = options, sink, clock
        # Ordered by when they were scored. A plain dict finds its first entry in time that grows with those deleted.
        self._waiting: OrderedDict[str, Remembered] = OrderedDict()
        self._next_number = 0
        self._unsegmented = ""  # Bins of which the log has noted that they lack the segment's feature
        self._live = LiveCalibration(options)
        self._journal: Journal | None = None
        self._flushing = Lock()
        self.stream = OutcomeStream(options)
        if options.folder is not None:
            self._journal = Journal(options.folder, options, clock)
            self._restore(self._journal)

    def adjusted(self, model: str, bins: FeatureBins, scored: ScoredBatch) -> ScoredBatch:
        """A scored batch after the online layer; may run in a thread."""
        if not self._options.online:
            return scored
        moved = self.stream.adjusted(model, scored.calibrated, _segments(bins, scored, self._options.segment))
        return scored if moved is None else scored._replace(calibrated=moved, frozen=scored.calibrated)

    def remember(self, bins: FeatureBins, ids: Sequence[str], scored: ScoredBatch, model: str = "") -> None:
        """Keep scores until their outcome comes; scoring goes on where the disk is full, and the log says so."""
        now, fingerprint = self._clock(), bins.fingerprint
        if (segment := self._options.segment) not in (None, *bins.names) and fingerprint != self._unsegmented:
            self._unsegmented = fingerprint
            log.warning("the model has no feature %r: live metrics, alarms and the layer know no segments", segment)
        segments = _segments(bins, scored, segment)
        numbers = range(self._next_number, self._next_number + len(ids))
        self._next_number = numbers.stop
        frozen = [None] * len(ids) if scored.frozen is None else scored.frozen.tolist()
        rows = (scored.codes.tolist(), scored.score.tolist(), scored.calibrated.tolist())
        columns = (ids, numbers, *rows, segments, frozen)
        made = [
            Remembered(i, n, now, fingerprint, c, p, q, s, model, f)
            for i, n, c, p, q, s, f in zip(*columns, strict=True)
        ]
        if self._journal is not None:
            try:
                self._journal.remember_bins(bins)
                self._journal.add_scores(made)
            except StorageError as error:
                log.error("scores are remembered in memory alone: %s", error)
        for score in made:
            self._wait_for(score)
        self._forget_oldest(now)

    def join(self, outcomes: Sequence[tuple[str, int]]) -> Joining:
        """Join outcomes with their scores; StorageError, and nothing joined, where the journal cannot be written."""
        now = self._clock()
        self._forget_oldest(now)
        joined: dict[str, Joined] = {}
        unknown = []
        for identifier, label in outcomes:
            score = None if identifier in joined else self._waiting.get(identifier)
            if score is None or score.at < now - self._options.remember_seconds:
                unknown.append(identifier)
            else:
                joined[identifier] = Joined(score, now, label)
        if self._journal is not None and joined:
            self._journal.add_outcomes(joined.values())
        for identifier in joined:
            del self._waiting[identifier]
        lines = list(joined.values())
        self._live.add(now, *as_columns(lines))
        self.stream.take(lines)
        return Joining(len(joined), tuple(unknown))

    def live(self) -> list[LiveMetric]:
        """PCOC and ECE of every window and segment."""
        now = self._clock()
        self.stream.close_before(now)
        return self._live.report(now)

    def checkpoint(self) -> Callable[[], None] | None:
        """What saves the present state beside the journal, in a thread; None without a journal.

        Called in the event loop, so that state and position belong together.
        """
        if self._journal is None:
            return None
        return partial(self._journal.save_checkpoint, self._journal.position, self.stream.state())

    @property
    def waiting(self) -> int:
        """Number of scores that wait for their outcome."""
        return len(self._waiting)

    def seal(self) -> None:
        """Close the outcomes so far for :meth:`flush`; called in the event loop, as :meth:`join` is."""
        if self._journal is not None and self._sink is not None:
            self._journal.seal()

    def flush(self) -> int:
        """Hand sealed outcomes to the sink as cells by day; may run in a thread. Returns the number of batches.

        A file counts as handed over only after the sink has it; killed in between, it is offered again under the same
        batch id, which the sink ignores: every outcome arrives exactly once. Outcomes of a day that the sink has
        dropped for good are left out, and the log says so.
        """
        if self._journal is None or self._sink is None:
            return 0
        n_batches = 0
        failed: Exception | None = None
        with self._flushing:
            for path in self._journal.sealed():
                try:
                    n_batches += self._hand_over(path, self._journal, self._sink)
                except Exception as error:
                    # What is wrong with one file must not keep the others back.
                    failed = failed or error
        if failed is not None:
            raise failed
        return n_batches

    def sync(self) -> None:
        """Bring the journal to the disk itself, where the policy is to do so now and then; may run in a thread."""
        if self._journal is not None:
            self._journal.sync()

    def _hand_over(self, path: Path, journal: Journal, sink: OutcomeSink) -> int:
        n_batches = 0
        outcomes = sorted(read_lines(path, Joined), key=_day_and_bins)
        for (day, fingerprint), group in groupby(outcomes, key=_day_and_bins):
            bins, lines = journal.bins(fingerprint), list(group)
            batch = f"{day}-{path.name.rpartition('-')[2]}-{fingerprint}"
            codes = np.array([line.scored.codes for line in lines], dtype=bins.code_type)
            score = np.array([line.scored.score for line in lines])
            try:
                sink.append(cells_of_rows(codes, score, as_columns(lines)[1], bins), bins, day=day, batch=batch)
                n_batches += 1
            except DroppedDayError as error:
                log.warning("%d outcomes were left out: %s", len(lines), error)
        journal.mark_handed(path)
        return n_batches

    def close(self) -> None:
        """Close the journal."""
        if self._journal is not None:
            self._journal.close()

    def _restore(self, journal: Journal) -> None:
        newest_joined: dict[str, int] = {}
        for at, group in groupby(journal.joined(), key=lambda line: line.at):
            lines = list(group)
            for line in lines:
                newest_joined[line.scored.id] = max(line.scored.number, newest_joined.get(line.scored.id, -1))
                self._next_number = max(self._next_number, line.scored.number + 1)
            self._live.add(at, *as_columns(lines))
        state, after = journal.checkpoint()
        try:
            if state is not None:
                self.stream.restore(state)
        except (ParameterError, KeyError, TypeError, ValueError) as error:
            log.warning("alarms begin anew: %s", error)
            self.stream = OutcomeStream(self._options)
        self.stream.take(after)
        now = self._clock()
        for score in journal.waiting(newest_joined):
            self._next_number = max(self._next_number, score.number + 1)
            self._wait_for(score)
            self._forget_oldest(now)
        if self._waiting or newest_joined:
            log.info("feedback restored: %d scores wait for their outcome", len(self._waiting))

    def _wait_for(self, score: Remembered) -> None:
        self._waiting[score.id] = score
        self._waiting.move_to_end(score.id)

    def _forget_oldest(self, now: float) -> None:
        """Forget some of what is too old or too much: more than one request brings, but never all at once."""
        oldest = now - self._options.remember_seconds
        waiting, most = self._waiting, self._options.remembered
        for _ in range(_FORGOTTEN_AT_ONCE):
            if not waiting or (len(waiting) <= most and next(iter(waiting.values())).at >= oldest):
                return
            waiting.popitem(last=False)


def _segments(bins: FeatureBins, scored: ScoredBatch, segment: str | None) -> list[str | None]:
    """The segment of each row in words: a value, an interval, missing or unseen."""
    if segment is None or segment not in bins.names:
        return [None] * len(scored.score)
    position = bins.names.index(segment)
    feature = bins[position]
    codes = scored.codes[:, position].tolist()
    names: dict[int, str | None] = {code: _segment_name(feature, code) for code in set(codes)}
    return [names[code] for code in codes]


def _segment_name(feature: Feature, code: int) -> str:
    if code >= feature.n_values:
        return "missing" if code == feature.missing else "unseen"
    return feature.values[code] if isinstance(feature, CategoryBins) else str(condition(feature, frozenset([code])))


def _day_and_bins(line: Joined) -> tuple[str, str]:
    return datetime.fromtimestamp(line.at, UTC).date().isoformat(), line.scored.bins
