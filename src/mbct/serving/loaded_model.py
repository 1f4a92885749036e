"""A model made ready to serve: version, scorers, and decoders of the rows it takes."""

import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import msgspec
import numpy as np

from mbct.errors import ModelFileError
from mbct.model.bins import CategoryBins, CountUnseen, Feature, FeatureBins, NumberBins
from mbct.model.certificate import certificate_of
from mbct.model.class_model import ClassModel
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.file import ensemble_of, has_many_classes
from mbct.model.rules import Rule, rules_as_dicts, to_text
from mbct.serving.batch import BatchScorer
from mbct.serving.explanation import rules_by_node
from mbct.serving.http import Problem
from mbct.serving.options import Limits
from mbct.serving.row import RowScorer
from mbct.store.model_registry import version_of

_PROBES = 64
_TOLERANCE = 1e-12
_UNMATCHED = re.compile(r'["\\\x00-\x1f\x7f]')
"""Characters that JSON escapes in keys: msgspec has no fields of such names."""
Identifier = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]


@dataclass(frozen=True, eq=False)
class Decoders:
    """Typed decoders: what does not fit the model's columns is refused while it is read."""

    json: Any
    msgpack: Any
    explain: Any


class LoadedModel:
    """One version, immutable: a request that holds it is answered by it alone, whatever is swapped meanwhile."""

    def __init__(
        self,
        content: bytes,
        name: str = "the model file",
        *,
        limits: Limits | None = None,
        count_unseen: CountUnseen | None = None,
    ) -> None:
        self.content = content
        self.version = version_of(content)
        self.loaded_at = time.time()
        self._frozen = _frozen(content, name)
        self.bins = self._frozen.bins
        self.classes = self._frozen.classes if isinstance(self._frozen, ClassModel) else None
        self.n_scores = 1 if self.classes is None else len(self.classes)
        self.batch = BatchScorer(self._frozen)
        self.decoders = _decoders(self.bins, self.n_scores, limits or Limits())
        if isinstance(self._frozen, CalibrationEnsemble):
            certificate = None if self._frozen.intervals is None else certificate_of(content, name)
            self.certificate = None if certificate is None else certificate.summary()
            self.row = RowScorer(self._frozen, count_unseen=count_unseen)
            self._compare_with_reference(name)

    @property
    def model(self) -> CalibrationEnsemble:
        """The trees of one probability; a problem for the client where the model has many classes."""
        if not isinstance(self._frozen, CalibrationEnsemble):
            raise Problem(501, "Not Implemented", f"a model of {self.n_scores} classes is asked at /v1/score alone")
        return self._frozen

    @cached_property
    def rule_of(self) -> dict[tuple[int, int], Rule]:
        """Every rule by tree and node."""
        return rules_by_node(self.model)

    @cached_property
    def rules_json(self) -> bytes:
        """All rules, as the service answers them."""
        return msgspec.json.encode({"model": self.version, "rules": rules_as_dicts(self.model)})

    @cached_property
    def rules_text(self) -> bytes:
        """All trees, for people."""
        return to_text(self.model).encode()

    def description(self) -> dict[str, Any]:
        """What a client wants to know of the model."""
        features = [_feature_description(feature) for feature in self.bins.features[self.n_scores :]]
        common = {"model": self.version, "loaded_at": self.loaded_at, "features": features}
        if isinstance(model := self._frozen, ClassModel):
            trees = sum(len(each.trees) for each in model.ensembles)
            return {**common, "score": model.scores, "classes": model.classes, "link": "softmax", "trees": trees}
        return {
            **common,
            "score": model.score_column,
            "link": model.link,
            "trees": len(model.trees),
            "rules": model.n_rules,
            "certificate": self.certificate,
        }

    def _compare_with_reference(self, name: str) -> None:
        """Score some rows both ways: warms the kernels up, and nothing that scores wrongly goes into service."""
        rng = np.random.default_rng(0)
        bins = self.model.bins
        codes = np.column_stack([rng.integers(0, feature.missing + 1, _PROBES) for feature in bins])
        score = rng.random(_PROBES)
        codes[:, 0] = bins[0].encode(score)
        expected = self.model.calibrate_codes(codes.astype(bins.code_type), score)
        columns = [score.tolist(), *(_raw_values(bins[j], codes[:, j].tolist()) for j in range(1, len(bins)))]
        batch = self.batch.score_columns(columns).calibrated
        single = [self.row.score_values(row) for row in zip(*columns, strict=True)]
        if not (np.abs(batch - expected) <= _TOLERANCE).all() or not (np.abs(single - expected) <= _TOLERANCE).all():
            raise ModelFileError(f"{name} is not scored as its trees say; keep the file and report this")


def _frozen(content: bytes, name: str) -> CalibrationEnsemble | ClassModel:
    if not has_many_classes(content, name):
        return ensemble_of(content, name)
    from mbct.calibrators.persistence import model_of

    return model_of(content, name)


def _raw_values(feature: Feature, codes: list[int]) -> list[Any]:
    """A raw value for each code: an interval's upper edge, a category's text, None for missing."""
    known: Sequence[Any] = feature.values if isinstance(feature, CategoryBins) else (*feature.edges, math.inf)
    return [None if code == feature.missing else known[code] for code in codes]


def _decoders(bins: FeatureBins, n_scores: int, limits: Limits) -> Decoders:
    category: Any = Annotated[str, msgspec.Meta(max_length=limits.text_length)] | int | float | bool | None
    value_types = [float | None if isinstance(feature, NumberBins) else category for feature in bins]
    value_types[:n_scores] = [Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]] * n_scores
    fields = [f"f{j}" for j in range(len(value_types))]
    plain_names = not any(_UNMATCHED.search(name) for name in bins.names)
    rename = dict(zip(fields, bins.names, strict=True)) if plain_names else None
    row = msgspec.defstruct("Row", list(zip(fields, value_types, strict=True)), rename=rename, frozen=True, gc=False)
    # Here and below, types that are made at run time, from the model's features, are no types to mypy.
    lists = [list[value_type] for value_type in value_types]  # type: ignore[valid-type]
    columns = msgspec.defstruct("Columns", list(zip(fields, lists, strict=True)), rename=rename, frozen=True)
    unset = msgspec.UNSET
    request = msgspec.defstruct(
        "ScoreRequest",
        [
            ("rows", Annotated[list[row], msgspec.Meta(min_length=1)] | msgspec.UnsetType, unset),  # type: ignore[valid-type]
            ("columns", columns | msgspec.UnsetType, unset),
            ("ids", list[Identifier] | None, None),
        ],
    )
    explained = msgspec.defstruct("ExplainRequest", [("row", row)])
    decoders = [(msgspec.json, request), (msgspec.msgpack, request), (msgspec.json, explained)]
    if rename is None:
        return Decoders(*(_RenamingDecoder(codec.Decoder(), kind, bins.names) for codec, kind in decoders))
    return Decoders(*(codec.Decoder(kind) for codec, kind in decoders))


class _RenamingDecoder:
    """Decodes rows with column names that msgspec cannot match, such as ``15" screen``, in two steps."""

    def __init__(self, decoder: Any, kind: Any, names: Sequence[str]) -> None:
        self._decoder, self._kind, self._names = decoder, kind, names
        self._field_of = {name: f"f{j}" for j, name in enumerate(names)}

    def decode(self, body: bytes) -> Any:
        document = self._decoder.decode(body)
        if isinstance(document, dict):
            renamed = {name: self._renamed(document[name]) for name in ("row", "columns") if name in document}
            if isinstance(rows := document.get("rows"), list):
                renamed["rows"] = [self._renamed(row) for row in rows]
            document = document | renamed
        try:
            return msgspec.convert(document, self._kind)
        except msgspec.ValidationError as error:
            # Fields have our own names here: the message must have the user's.
            found = re.sub(r"([.`])f(\d+)\b", lambda match: match[1] + self._names[int(match[2])], str(error))
            raise msgspec.ValidationError(found) from error

    def _renamed(self, row: Any) -> Any:
        if not isinstance(row, dict):
            return row
        return {field: row[name] for name, field in self._field_of.items() if name in row}


def _feature_description(feature: Feature) -> dict[str, Any]:
    described: dict[str, Any] = {"name": feature.name, "kind": feature.kind}
    if isinstance(feature, CategoryBins):
        known = {"known_values": feature.n_values, "values": feature.values[:100]}
        return described | {"type": feature.value_type, **known}
    return described | {"low": min(feature.edges, default=None), "high": max(feature.edges, default=None)}
