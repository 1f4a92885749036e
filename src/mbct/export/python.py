"""The model as one Python file without dependencies: :mod:`mbct.export.standalone` with its tables filled in."""

from importlib.resources import files

from mbct.model.bins import Feature, NumberBins
from mbct.model.conditions import run_nodes, used_features
from mbct.model.ensemble import CalibrationEnsemble
from mbct.stats.probabilities import EPSILON

_BEGIN, _END = "# The model\n", "# End of the model\n"


def to_python(model: CalibrationEnsemble) -> str:
    """Source of a module with ``calibrate(row: dict) -> float``, which is also a program for JSON lines."""
    head, rest = standalone(model)
    return head + rest


def standalone(model: CalibrationEnsemble) -> tuple[str, str]:
    """The module up to the end of the model's tables, and the functions below them."""
    source = files("mbct.export").joinpath("standalone.py").read_text(encoding="utf-8")
    head, rest = source.split(_BEGIN)
    return head + "\n".join(_tables(model)) + "\n", rest.split(_END)[1]


def _tables(model: CalibrationEnsemble) -> list[str]:
    used = used_features(model)
    position = {feature: i for i, feature in enumerate(used)}
    position[-1] = -1
    lines = [f"LINK = {model.link!r}", f"EPSILON = {EPSILON!r}"]
    lines.append("# (name, edges of a number or None, codes of values in all spellings, number of values, their type)")
    lines += ["FEATURES: Sequence[Feature] = (", *(f"    {_feature(model.bins[j])}," for j in used), ")"]
    lines.append("# (step, feature or -1, first code of each run, child of each run or -1 to stop here)")
    lines.append("TREES: Sequence[Sequence[Node]] = (")
    for tree in model.trees:
        nodes = run_nodes(model, tree)
        lines += [
            "    (",
            *(f"        {(n.leaf_value, position[n.feature], n.starts, n.children)!r}," for n in nodes),
            "    ),",
        ]
    return [*lines, ")"]


def _feature(bins: Feature) -> str:
    if isinstance(bins, NumberBins):
        return repr((bins.name, tuple(map(float, bins.edges)), {}, bins.n_values, "number"))
    codes = {text: code for text, code in bins.code_of.items() if text is not None}
    return repr((bins.name, None, codes, bins.n_values, bins.value_type))
