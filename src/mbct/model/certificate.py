"""The certificate of a model: for every bin, how far the truth may be from the mean calibrated prediction."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

from mbct.errors import ModelFileError
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.file import parse_document
from mbct.model.file_check import fault, number, read_intervals, read_list, read_object, text
from mbct.model.intervals import RowIntervals

Method = Literal["clopper-pearson", "betting", "theorem-1", "blocks"]
EXACT: tuple[Method, ...] = ("clopper-pearson", "betting", "theorem-1")
RULES, PARTITION = "rules", "partition"
_MOST_BINS = 2**20
_NUMBERS = ("rows", "label_rate", "mean_prediction", "lower", "upper", "theorem_1")


@dataclass(frozen=True)
class CertifiedBin:
    """One bin and the ends of E[Y] − mean calibrated prediction on rows that no tree has seen.

    Attributes
    ----------
    group : str
        "rules", "partition" or the column of a segment; all bins of a group hold at once.
    name : str
        The rule as ``tree/node``, the bin or the segment's value.
    rows : int
        Certified rows in the bin.
    label_rate, mean_prediction : float
        Share of positives and mean calibrated prediction of these rows.
    lower, upper : float
        Ends of the true rate minus the mean prediction.
    theorem_1 : float
        The same as one number by the paper's Theorem 1: |label rate − mean prediction| and its bound.
    """

    group: str
    name: str
    rows: int
    label_rate: float
    mean_prediction: float
    lower: float
    upper: float
    theorem_1: float

    @property
    def bound(self) -> float:
        """|E[Y] − mean calibrated prediction| is at most this."""
        return max(abs(self.lower), abs(self.upper))


@dataclass(frozen=True)
class Certificate:
    """What held-out rows say for certain about a model: plain data, JSON both ways.

    Attributes
    ----------
    level : float
        Probability with which all bins of a group hold at once.
    method : str
        "clopper-pearson", "betting", "theorem-1" or, approximate, "blocks".
    model, data : str
        Hash of the ensemble and of the certified rows.
    rows : int
        Certified rows.
    blocks : int
        Blocks that they belong to, 0 where rows count as independent.
    unseen : bool
        Whether the fingerprint in the model file shows that none of them was fitted on; False where it cannot tell.
    bins : tuple of CertifiedBin
        Every rule, every bin of the partition, every segment.
    intervals : RowIntervals
        Intervals of rows that follow from the partition.
    """

    level: float
    method: Method
    model: str
    data: str
    rows: int
    blocks: int
    unseen: bool
    bins: tuple[CertifiedBin, ...]
    intervals: RowIntervals

    def group(self, name: str) -> tuple[CertifiedBin, ...]:
        """Bins of one group."""
        return tuple(found for found in self.bins if found.group == name)

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups, in order."""
        return tuple(dict.fromkeys(found.group for found in self.bins))

    @property
    def levels(self) -> str:
        """The level in words."""
        return f"at {self.level:.0%}{'' if self.method in EXACT else ', approximately'}"

    def lines(self) -> Iterator[str]:
        """What is certified, in words, a line a group."""
        for name in self.groups:
            bins = self.group(name)
            worst = max(bins, key=lambda found: found.bound)
            mean = sum(found.rows * found.bound for found in bins) / max(sum(found.rows for found in bins), 1)
            yield (
                f"{name}: within ± {worst.bound:.2g} (mean ± {mean:.2g} over rows) {self.levels}, "
                f"all {len(bins):,} bins at once"
            )

    def lines_of_rules(self) -> dict[tuple[int, int], str]:
        """What is certified of each rule, in words, by tree and node; a rule without a held-out row is left out."""
        rules = self.group(RULES)
        tail = f"{self.levels}, all {len(rules):,} bins at once"
        keys = (found.name.partition("/") for found in rules)
        return {
            (int(tree), int(node)): f"certified within ± {found.bound:.2g} {tail}"
            for (tree, _, node), found in zip(keys, rules, strict=True)
        }

    def summary(self) -> dict[str, Any]:
        """What a reader of the model wants to know: all but the bins."""
        kept = ("level", "method", "model", "data", "rows", "blocks", "unseen")
        return {**{name: getattr(self, name) for name in kept}, "promises": list(self.lines())}

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; bins as columns."""
        columns = {name: [getattr(b, name) for b in self.bins] for name in ("group", "name", "bound", *_NUMBERS)}
        return {**vars(self), "bins": columns, "intervals": self.intervals.to_dict()}

    def to_json(self) -> str:
        """The document that :meth:`from_json` reads."""
        return json.dumps(self.to_dict(), ensure_ascii=False, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, content: str | bytes) -> Self:
        """Undo :meth:`to_json`."""
        try:
            return cls.from_dict(json.loads(content))
        except (ValueError, RecursionError) as error:
            raise ModelFileError(f"the certificate is damaged: {error}; certify again") from error

    @classmethod
    def from_dict(cls, content: Any, place: str = "certificate") -> Self:
        """Undo :meth:`to_dict`; raise where anything in it makes no sense."""
        names = ("level", "method", "model", "data", "rows", "blocks", "unseen", "bins", "intervals")
        fields = read_object(content, place, names)
        bins = read_object(fields["bins"], f"{place}.bins", ("group", "name", *_NUMBERS))
        columns = {name: read_list(bins[name], f"{place}.bins.{name}", _MOST_BINS) for name in bins}
        if len({len(column) for column in columns.values()}) > 1:
            raise fault(f"{place}.bins", "columns of several lengths", "columns of one length")
        if fields["method"] not in get_args(Method):
            raise fault(f"{place}.method", fields["method"], f"one of {', '.join(get_args(Method))}")
        read = [
            CertifiedBin(
                text(columns["group"][i], f"{place}.bins.group"),
                text(columns["name"][i], f"{place}.bins.name"),
                int(number(columns["rows"][i], f"{place}.bins.rows", 0.0, 2.0**53)),
                *(number(columns[name][i], f"{place}.bins.{name}", -1.0, 2.0) for name in _NUMBERS[1:]),
            )
            for i in range(len(columns["group"]))
        ]
        return cls(
            number(fields["level"], f"{place}.level", 0.0, 1.0),
            fields["method"],
            text(fields["model"], f"{place}.model"),
            text(fields["data"], f"{place}.data"),
            int(number(fields["rows"], f"{place}.rows", 0.0, 2.0**53)),
            int(number(fields["blocks"], f"{place}.blocks", 0.0, 2.0**53)),
            bool(fields["unseen"]),
            tuple(read),
            read_intervals(fields["intervals"], place=f"{place}.intervals"),
        )


def read_certificate(state: dict[str, Any]) -> Certificate | None:
    """The certificate in the state of a model file, or None; its intervals stand with the ensemble."""
    certificate = state.get("certificate")
    if certificate is None:
        return None
    fields = read_object(certificate, "certificate", ())
    return Certificate.from_dict({**fields, "intervals": read_object(state["model"], "model", ()).get("intervals")})


def certificate_of(content: bytes, name: str = "the model file") -> Certificate | None:
    """The certificate inside a model file that was read before; None where there is none."""
    return read_certificate(parse_document(content, name)["state"])


def model_hash(model: CalibrationEnsemble) -> str:
    """Digest of what calibrates, whatever intervals are kept beside it."""
    content = {name: value for name, value in model.to_dict().items() if name != "intervals"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
