"""Calibrate a row with plain Redis commands alone: the same few lines work in any language.

    python examples/redis_rules_client.py redis://127.0.0.1:6379 default '{"score": 0.2, "carrier": "UA"}'

Nothing of mbct is imported here. `docs/deploying.md` describes the keys.
"""

import json
import sys

import redis


def text_of(value):
    """A category's canonical text: 3 and 3.0 are "3", true is "true"."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def code_of(client, root, number, row):
    """Which interval or value of a feature the row has."""
    feature = client.hgetall(f"{root}:feature:{number}")
    value = row.get(feature["name"])
    if value is None:
        return feature["missing"]
    if feature["kind"] == "number":
        return str(client.zcount(f"{root}:edges:{number}", "-inf", f"({float(value)!r}"))
    return client.hget(f"{root}:codes:{number}", text_of(value)) or feature["unseen"]


def multiplier_of(client, tree, codes):
    """Walk down one tree until no branch takes the row."""
    node = "0"
    while True:
        feature = client.hget(tree, node)
        below = client.hget(tree, f"{node}:{codes[int(feature)]}") if feature is not None else None
        if below is None:
            return float(client.hget(tree, f"{node}:multiplier"))
        node = below


def calibrate(client, name, row):
    """Calibrated probability of a row, and the version that gave it."""
    version = client.get(f"mbct:{{{name}}}:current")
    root = f"mbct:{{{name}}}:rules:{version}"
    model = client.hgetall(root)
    codes = [code_of(client, root, number, row) for number in range(int(model["features"]))]
    factor = 1.0
    for number in range(int(model["trees"])):
        factor *= multiplier_of(client, f"{root}:tree:{number}", codes)
    p = row[model["score"]]
    if model["trees"] == "0":
        return p, version
    if model["applies_to"] == "probability":
        return min(p * factor, 1.0), version
    p = min(max(p, 1e-9), 1 - 1e-9)
    odds = p / (1 - p) * factor
    return odds / (1 + odds), version


if __name__ == "__main__":
    url, model_name, row_text = sys.argv[1:]
    connection = redis.Redis.from_url(url, decode_responses=True)
    print(*calibrate(connection, model_name, json.loads(row_text)))
