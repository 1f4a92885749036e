r"""Anytime-valid evidence that a stream of outcomes has left its predicted probabilities, at an unknown time.

A stream is calibrated within tolerance δ if every outcome, given the past, is Bernoulli with odds within a factor
e^±δ of the predicted ones. Against it stand tilts θ of the log-odds beyond the tolerance. For θ > 0 and
q⁺ = σ(logit q + δ),

    L(θ) = Π exp(θ·y − log(1 + q⁺·(e^θ − 1)))

has expectation at most 1 given the past whatever the true probabilities within the tolerance, so it is an e-process; so
it is for θ < 0 with q⁻. A change at an unknown time is a mixture over the times at which the product begins, with
weights w that sum to 1; it needs one number a tilt (Shiryaev's recursion), E ← E·L(batch) + w, where w, the weight of
changes after the batch, depends on what came before them alone: a batch may end when and for whatever reason it likes.
By Ville's inequality E, averaged over tilts, ever reaches 1/α with probability at most α, however often one looks.
Shin, Ramdas and Rinaldo, "E-detectors", 2022; Howard et al., "Time-uniform Chernoff bounds", 2020.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from mbct.stats.probabilities import logit, sigmoid
from mbct.validation import FloatArray

TILTS: FloatArray = np.array([s * t for s in (-1.0, 1.0) for t in (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)])
"""Changes of the log-odds beyond the tolerance that are looked for; between two of them little power is lost."""
_FROM_THE_START = 0.5  # Weight of a stream that was off from its first outcome on
_FIRST_SCALE = 100.0
_TAIL = 0.2
"""Weight of changes after information v: (1 + v/100)^−0.2 of the rest. The cost of a late change grows slowly."""
COUNT, LABEL, PRED, INFORMATION = range(4)
N_SUMS = 4 + len(TILTS)


def outcome_sums(y_prob: FloatArray, y_true: FloatArray, tolerance: float) -> FloatArray:
    """What an outcome adds to the sums of its stream: 1, y, q, q(1 − q), and log(1 + q±·(e^θ − 1)) for each tilt θ.

    Sums over the rows of a batch are all that :meth:`ChangeEvidence.advance` needs.
    """
    z = logit(y_prob)
    high, low = sigmoid(z + tolerance), sigmoid(z - tolerance)
    bound = np.where(TILTS > 0.0, high[:, None], low[:, None])
    normaliser = np.log1p(bound * np.expm1(TILTS))
    return np.column_stack([np.ones(len(z)), y_true, y_prob, high * (1.0 - high), normaliser])


@dataclass
class ChangeEvidence:
    """Evidence of several streams, updated batch by batch; all of it is plain arrays, the first axis is the stream.

    ``log_e`` and ``cusum`` have an entry for each tilt. ``cusum`` restarts where the evidence from there on is largest:
    at ``start`` (the time of a batch), with sums ``since`` then: count, label, pred.
    """

    log_e: FloatArray
    cusum: FloatArray
    start: FloatArray
    since: FloatArray
    information: FloatArray

    @classmethod
    def of(cls, n_streams: int) -> "ChangeEvidence":
        """Streams of which nothing was seen."""
        shape = (n_streams, len(TILTS))
        zeros = [np.zeros(shape), np.zeros(shape), np.zeros((*shape, 3)), np.zeros(n_streams)]
        return cls(np.full(shape, np.log(_FROM_THE_START)), *zeros)

    def advance(self, sums: FloatArray, at: float) -> FloatArray:
        """Add a batch of sums, one row a stream, at time ``at``; its log-likelihood ratio for each stream and tilt."""
        batch = TILTS * sums[:, LABEL, None] - sums[:, 4:]
        after = self.information + sums[:, INFORMATION]
        with np.errstate(divide="ignore"):  # a stream of which the batch holds nothing adds no weight
            log_weight = np.log(_later(self.information) - _later(after))
        self.log_e = np.logaddexp(self.log_e + batch, log_weight[:, None])
        self.information = after
        fresh = (self.cusum <= 0.0) & (sums[:, COUNT, None] > 0.0)
        self.start = np.where(fresh, at, self.start)
        self.since = np.where(fresh[..., None], 0.0, self.since) + sums[:, None, :3]
        self.cusum = np.where(fresh, 0.0, self.cusum) + batch
        return np.asarray(batch)

    def log_evidence(self) -> FloatArray:
        """Logarithm of each stream's E, the mean over its tilts."""
        most = self.log_e.max(axis=1)
        return np.asarray(most + np.log(np.mean(np.exp(self.log_e - most[:, None]), axis=1)))

    def restart(self, stream: int) -> None:
        """Forget a stream, as if nothing of it was seen."""
        new = ChangeEvidence.of(1)
        for field in fields(self):
            getattr(self, field.name)[stream] = getattr(new, field.name)[0]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; numbers come back as they were."""
        return {field.name: getattr(self, field.name).tolist() for field in fields(self)}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "ChangeEvidence":
        """Undo :meth:`to_dict`."""
        return cls(**{field.name: np.array(state[field.name], dtype=np.float64) for field in fields(cls)})


def _later(information: FloatArray) -> FloatArray:
    """Weight of all changes that lie beyond so much information."""
    return np.asarray((1.0 - _FROM_THE_START) * (1.0 + information / _FIRST_SCALE) ** -_TAIL)
