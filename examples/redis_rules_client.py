"""Calibrate rows with plain Redis commands alone: the same few lines work in any language.

    python examples/redis_rules_client.py redis://127.0.0.1:6379 default '{"score": 0.2, "carrier": "UA"}'

Nothing of mbct is imported here. What a version needs beside its tables is read once; a row then takes one round trip.
`docs/deploying.md` describes the keys.
"""

import json
import sys
from bisect import bisect_left, bisect_right

import redis


def text_of(value):
    """A category's canonical text: 3 and 3.0 are "3", true is "true"."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def code_of(feature, value):
    """Which interval or value of a feature the row has."""
    if value is None:
        return feature["missing"]
    if "edges" in feature:
        return bisect_left(feature["edges"], float(value))
    return feature["codes"].get(text_of(value), feature["unseen"])


def walk(nodes, codes):
    """Multiplier of the node of a small tree where a row stops."""
    node = nodes[0]
    while node[1] >= 0:
        child = node[3][bisect_right(node[2], codes[node[1]]) - 1]
        if child < 0:
            break
        node = nodes[child]
    return node[0]


class Rules:
    """The version in service of one model."""

    def __init__(self, client, name):
        self.client, self.pointer, self.root = client, f"mbct:{{{name}}}:current", f"mbct:{{{name}}}:rules"
        self.version = None

    def load(self, version):
        """Read once what does not depend on the row."""
        found = self.client.hgetall(f"{self.root}:{version}")
        self.version, self.score, self.applies_to = version, found["score"], found["applies_to"]
        self.features, self.tables, self.trees = (json.loads(found[name]) for name in ("features", "tables", "trees"))

    def calibrate(self, row):
        """Calibrated probability of a row, and the version that gave it: one round trip."""
        if self.version is None:
            self.load(self.client.get(self.pointer))
        codes = [code_of(feature, row.get(feature["name"])) for feature in self.features]
        pipeline = self.client.pipeline(transaction=False)
        pipeline.get(self.pointer)
        for number, table in enumerate(self.tables):
            fields = [""]
            for feature, classes in zip(table["features"], table["classes"], strict=True):
                fields.append(f"{fields[-1]},{classes[codes[feature]]}".lstrip(","))
            pipeline.hmget(f"{self.root}:{self.version}:table:{number}", fields[::-1])
        current, *found = pipeline.execute()
        if current != self.version:
            self.load(current)
            return self.calibrate(row)
        factor = 1.0
        for entries in found:  # The longest field that is present
            factor *= float(next(entry for entry in entries if entry is not None))
        for nodes in self.trees:
            factor *= walk(nodes, codes)
        return self.moved(row[self.score], factor), current

    def moved(self, p, factor):
        """The prediction multiplied, or its odds."""
        if not (self.tables or self.trees):
            return p
        if self.applies_to == "probability":
            return min(p * factor, 1.0)
        p = min(max(p, 1e-9), 1 - 1e-9)
        odds = p / (1 - p) * factor
        return odds / (1 + odds)


if __name__ == "__main__":
    url, model_name, row_text = sys.argv[1:]
    connection = redis.Redis.from_url(url, decode_responses=True)
    print(*Rules(connection, model_name).calibrate(json.loads(row_text)))
