"""The model as Redis hashes that a client in any language can look up, without this package.

Under ``ROOT = mbct:{NAME}:rules:VERSION``:

=================== ====== ===========================================================================================
key                 type   content
=================== ====== ===========================================================================================
``ROOT``            hash   ``score``, ``applies_to`` ("odds" or "probability"), ``features`` and ``trees`` (numbers)
``ROOT:feature:J``  hash   ``name``, ``kind`` ("number" or "category"), ``missing`` and ``unseen`` (codes)
``ROOT:edges:J``    zset   edges of a number: its code is ``ZCOUNT ROOT:edges:J -inf (x``
``ROOT:codes:J``    hash   text of a category's value → code; a value that is absent has the code ``unseen``
``ROOT:tree:T``     hash   ``N`` → feature that node N asks for (absent in a leaf); ``N:CODE`` → next node (absent: the
                           row stops at N); ``N:multiplier``, and ``N:rule``, the rule in words
=================== ====== ===========================================================================================

Feature 0 is the prediction itself. A row starts at node 0 of each tree; the multipliers of the nodes where it stops are
multiplied: odds p/(1−p) with p held inside [1e-9, 1 − 1e-9], or the probability itself, cut to [0, 1].
"""

import math
from typing import Any

from mbct.errors import ParameterError
from mbct.model.bins import Feature, NumberBins
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.rules import rules
from mbct.model.tree import STOP

MOST_FIELDS = 2_000_000
"""Above this the hashes would fill a cache: serve such a model by the service or an export."""


def write_rules(client: Any, root: str, model: CalibrationEnsemble) -> None:
    """Write a model's hashes; nothing reads them before the pointer names their version."""
    hashes = _tree_hashes(model)
    n_fields = sum(map(len, hashes))
    if n_fields > MOST_FIELDS:
        raise ParameterError(
            f"the model has {n_fields:,} branches, too many for rules in Redis (at most {MOST_FIELDS:,}); "
            "publish it with rules=False or fit a compact one"
        )
    pipeline = client.pipeline(transaction=False)
    for feature_number, feature in enumerate(model.bins):
        _write_feature(pipeline, root, feature_number, feature)
    for tree_number, fields in enumerate(hashes):
        pipeline.hset(f"{root}:tree:{tree_number}", mapping=fields)
    applies_to = "probability" if model.link == "linear" else "odds"
    pipeline.hset(
        root,
        mapping={
            "score": model.score_column,
            "applies_to": applies_to,
            "features": len(model.bins),
            "trees": len(model.trees),
        },
    )
    pipeline.execute()


def layout_keys(client: Any, root: str) -> list[str]:
    """Every key of a version's rules."""
    n_features, n_trees = (int(n or 0) for n in client.hmget(root, "features", "trees"))
    parts = [f"{kind}:{j}" for j in range(n_features) for kind in ("feature", "edges", "codes")]
    return [root, *(f"{root}:{part}" for part in parts), *(f"{root}:tree:{t}" for t in range(n_trees))]


def _write_feature(pipeline: Any, root: str, number: int, feature: Feature) -> None:
    described = {"name": feature.name, "kind": feature.kind, "missing": feature.missing, "unseen": feature.unseen}
    pipeline.hset(f"{root}:feature:{number}", mapping=described)
    if isinstance(feature, NumberBins):
        if feature.edges:
            pipeline.zadd(f"{root}:edges:{number}", {repr(edge): edge for edge in feature.edges})
    elif feature.values:
        pipeline.hset(f"{root}:codes:{number}", mapping={value: code for code, value in enumerate(feature.values)})


def _tree_hashes(model: CalibrationEnsemble) -> list[dict[str, str]]:
    hashes: list[dict[str, str]] = [{} for _ in model.trees]
    for tree, fields in zip(model.trees, hashes, strict=True):
        for node, feature in enumerate(tree.feature.tolist()):
            step = float(tree.step[node])
            fields[f"{node}:multiplier"] = repr(step if model.link == "linear" else math.exp(step))
            if feature < 0:
                continue
            fields[str(node)] = str(feature)
            start = int(tree.table_start[node])
            table = tree.table[start : start + model.bins[feature].n_codes].tolist()
            fields.update({f"{node}:{code}": str(child) for code, child in enumerate(table) if child != STOP})
    for rule in rules(model):
        hashes[rule.tree][f"{rule.node}:rule"] = str(rule)
    return hashes
