"""The model as a PMML 4.4 document: regression trees whose sum moves the prediction in the output.

Everything is said by the standard: an ordered list of predicates at each node, three-valued logic for missing values,
a segmentation whose method is ``sum``, and an output field with the formula. A multiplier is added as its logarithm.
Numbers are doubles; a category is a string that holds its canonical text (3 is ``3``, True is ``true``).
"""

import math
import re
from collections.abc import Iterable
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from mbct.errors import ParameterError
from mbct.export.lightgbm import log_multiplier
from mbct.model.bins import CategoryBins, Feature, NumberBins
from mbct.model.conditions import CodeBranch, Decision, Leaf, decisions, intervals, used_features
from mbct.model.ensemble import CalibrationEnsemble
from mbct.stats.probabilities import EPSILON

_NAMESPACE = "http://www.dmg.org/PMML-4_4"
_NO_XML = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_PLAIN = re.compile(r"[^\s\"\\]+")
"""A value that stands in an Array without quotes, about whose escapes readers disagree."""
_TREE = {
    "functionName": "regression",
    "splitCharacteristic": "multiSplit",
    "missingValueStrategy": "none",
    "noTrueChildStrategy": "returnLastPrediction",
}
_NUMBER = {"optype": "continuous", "dataType": "double"}


def to_pmml(model: CalibrationEnsemble, output: str = "calibrated") -> str:
    """A PMML document whose output field ``output`` is the calibrated probability."""
    used = used_features(model) if model.trees else [0]
    _refuse_unspeakable(model, used, output)
    root = Element("PMML", version="4.4", xmlns=_NAMESPACE)
    header = SubElement(root, "Header", description="Calibrated probability of a prediction")
    SubElement(header, "Application", name="mbct")
    dictionary = SubElement(root, "DataDictionary", numberOfFields=str(len(used)))
    for j in used:
        kind = _NUMBER if model.bins[j].ordered else {"optype": "categorical", "dataType": "string"}
        SubElement(dictionary, "DataField", kind, name=model.bins[j].name)
    ensemble = SubElement(root, "MiningModel", functionName="regression", modelName="calibration")
    _mining_schema(ensemble, model, used)
    _output(ensemble, model, output)
    segments = SubElement(ensemble, "Segmentation", multipleModelMethod="sum")
    for number, tree in enumerate(list(decisions(model)) or [Leaf(0.0 if model.link == "odds" else 1.0)], 1):
        segment = SubElement(segments, "Segment", id=str(number))
        SubElement(segment, "True")
        written = SubElement(segment, "TreeModel", _TREE)
        _mining_schema(written, model, used)
        _node(written, model, tree, Element("True"))
    indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _refuse_unspeakable(model: CalibrationEnsemble, used: Iterable[int], output: str) -> None:
    for j in used:
        bins = model.bins[j]
        if bins.name == output:
            raise ParameterError(f"output={output!r} is also the name of a feature; pass another name for the output")
        for text in (bins.name, *getattr(bins, "values", ())):
            if found := _NO_XML.search(text):
                raise ParameterError(
                    f"feature {bins.name!r} holds {text!r}: PMML is XML, which has no character {found[0]!r}; "
                    "clean the values and fit again, or choose another export"
                )


def _mining_schema(parent: Element, model: CalibrationEnsemble, used: Iterable[int]) -> None:
    schema = SubElement(parent, "MiningSchema")
    for j in used:
        SubElement(schema, "MiningField", name=model.bins[j].name, usageType="active", invalidValueTreatment="asIs")


def _node(parent: Element, model: CalibrationEnsemble, decision: Decision, predicate: Element) -> None:
    node = SubElement(parent, "Node")
    node.append(predicate)
    if isinstance(decision, Leaf):
        step = decision.leaf_value if model.link == "odds" else log_multiplier(decision.leaf_value, "PMML")
        node.set("score", repr(step))
    else:
        bins = model.bins[decision.feature]
        for position, case in enumerate(decision.cases):
            _node(node, model, case.below, _predicate(bins, decision, position))
        _node(node, model, decision.default.below, Element("True"))


def _predicate(bins: Feature, branch: CodeBranch, position: int) -> Element:
    codes = branch.cases[position].codes
    if isinstance(bins, NumberBins):
        parts = [_interval(bins, one.low, one.high) for one in intervals(bins, branch, position)]
    else:
        empty = [""] if bins.code_of[""] == bins.missing and bins.missing in codes else []
        parts = _membership(bins, [*empty, *(bins.values[code] for code in sorted(codes) if code < bins.n_values)])
    if bins.missing in codes:
        parts.append(Element("SimplePredicate", field=bins.name, operator="isMissing"))
    return _compound("or", parts)


def _interval(bins: NumberBins, low: float, high: float) -> Element:
    below = Element("SimplePredicate", field=bins.name, operator="lessOrEqual", value=repr(high))
    if math.isinf(low):
        return below
    above = Element("SimplePredicate", field=bins.name, operator="greaterThan", value=repr(low))
    return _compound("and", [above, below])


def _membership(bins: CategoryBins, values: list[str]) -> list[Element]:
    plain = [value for value in values if _PLAIN.fullmatch(value)]
    awkward = [value for value in values if not _PLAIN.fullmatch(value)]
    parts = []
    if len(plain) > 1:
        listed = Element("SimpleSetPredicate", field=bins.name, booleanOperator="isIn")
        SubElement(listed, "Array", type="string", n=str(len(plain))).text = " ".join(plain)
        parts.append(listed)
    else:
        awkward = plain + awkward
    return parts + [Element("SimplePredicate", field=bins.name, operator="equal", value=value) for value in awkward]


def _compound(operator: str, parts: list[Element]) -> Element:
    if len(parts) == 1:
        return parts[0]
    joined = Element("CompoundPredicate", booleanOperator=operator)
    joined.extend(parts)
    return joined


def _output(parent: Element, model: CalibrationEnsemble, output: str) -> None:
    """The formula: p / (p + (1 − p)·exp(−s)) with p held inside [ε, 1 − ε], or clip(p·exp(s), 0, 1)."""
    fields = SubElement(parent, "Output")
    SubElement(fields, "OutputField", _NUMBER, name="total step", feature="predictedValue")
    calibrated = SubElement(fields, "OutputField", _NUMBER, name=output, feature="transformedValue")
    score, total = Element("FieldRef", field=model.score_column), Element("FieldRef", field="total step")
    if not model.trees:
        calibrated.append(score)
    elif model.link == "linear":
        moved = _apply("*", score, _apply("exp", total))
        calibrated.append(_apply("max", _constant(0.0), _apply("min", _constant(1.0), moved)))
    else:
        held = _apply("max", _constant(EPSILON), _apply("min", _constant(1.0 - EPSILON), score))
        against = _apply("*", _apply("-", _constant(1.0), held), _apply("exp", _apply("-", _constant(0.0), total)))
        calibrated.append(_apply("/", held, _apply("+", held, against)))


def _apply(function: str, *arguments: Element) -> Element:
    applied = Element("Apply", function=function)
    applied.extend(arguments)
    return applied


def _constant(value: float) -> Element:
    constant = Element("Constant", dataType="double")
    constant.text = repr(value)
    return constant
