"""The page and the picture of the speed benchmark, drawn from its results."""

import json
import math
import statistics
from pathlib import Path
from typing import Any

from made_with import made_with

HEAD = """# Speed and memory

Written by `benchmarks/speed.py` from `docs/benchmarks/speed.json`; run it again with

```bash
make bench
python benchmarks/speed.py --only predict   # one part: {parts}
```

{machine}. Every piece of work runs in a fresh process, ours and the peer's in turns; a ratio is taken within a repeat.
"Ratio" is the median over the repeats, its range in brackets; "peak" is the process's peak resident memory, data and
interpreter included. Where it says "× faster", the ratio is the peer's time over ours, elsewhere ours over the peer's.
The rows are simulated (`benchmarks/speed_data.py`, seeded): a prediction and seven features, two of them text; only the
comparison with Monte Carlo runs on real flights. [Where the time goes](performance.md) says what is behind the figures.
[The scoring service](benchmarks/serving.md) has a page of its own.

![Ratio of each comparison to its target](benchmarks/speed.svg)

| work | target | ours | peer | ratio | peak | met |
|---|---|---|---|---|---|---|
"""
MET, MISSED, NO_TARGET = "#0072B2", "#D55E00", "#666666"
"""Blue, vermilion and grey of Okabe and Ito: told apart by every kind of sight."""


def write_page(results: Path) -> None:
    """Write ``benchmarks.md`` beside the folder of the results, and the picture into it."""
    content = json.loads(results.read_text())
    rows, machine = content["rows"], content["machine"]
    parts = ", ".join(dict.fromkeys(row["part"] for row in rows))
    libraries = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    where = f"{machine['cores']} cores, Python {machine['python']}, {libraries}"
    lines = [_line(row) for row in rows]
    notes = [f"- {row['work']}: {row['note']}." for row in rows if row["note"]]
    text = HEAD.format(parts=parts, machine=where) + "\n".join(lines) + "\n\n" + "\n".join(notes)
    made = f"{_commits(rows)}\n\n{made_with()}"
    (results.parent.parent / "benchmarks.md").write_text(f"{text}\n\n{made}\n")
    (results.parent / "speed.svg").write_text(picture(rows))


def _commits(rows: list[dict[str, Any]]) -> str:
    """Which parts were measured with which commit; the page itself is made with the last one."""
    parts: dict[str, list[str]] = {}
    for row in rows:
        parts.setdefault(row["commit"], [])
        parts[row["commit"]] += [row["part"]] * (row["part"] not in parts[row["commit"]])
    return "Measured with commit " + "; ".join(f"{commit}: {', '.join(names)}" for commit, names in parts.items()) + "."


def _line(row: dict[str, Any]) -> str:
    unit = _unit(row)
    ours = f"{statistics.median(row['ours']):.3g} {unit}"
    peer = f"{row['peer']}: {statistics.median(row['theirs']):.3g} {unit}" if row["theirs"] else ""
    met = {True: "yes", False: "**no**", None: ""}[row["met"]]
    peak = f"{row['peak_mb'] / 1000:.2f} GB" if row["peak_mb"] else ""
    if peak and row["peer_peak_mb"]:
        peak += f" (peer {row['peer_peak_mb'] / 1000:.2f})"
    return f"| {row['work']} | {row['target']} | {ours} | {peer} | {_ratio(row)} | {peak} | {met} |"


def _unit(row: dict[str, Any]) -> str:
    return row["note"].split(";")[0] if row["note"].startswith(("ns a row", "µs")) else "s"


def _ratio(row: dict[str, Any]) -> str:
    if not row["ratios"]:
        return ""
    middle, low, high = statistics.median(row["ratios"]), min(row["ratios"]), max(row["ratios"])
    spread = f" ({low:.3g} to {high:.3g})" if high > low else ""
    return f"{middle:.3g}{spread}{' × faster' if row['speed_up'] else ''}"


def picture(rows: list[dict[str, Any]]) -> str:
    """One bar a comparison: how many times better than its target (right of the line) or worse (left), log scale."""
    drawn = [row for row in rows if row["limit"]]
    step, left, width, top = 40, 290, 300, 46
    height = top + step * len(drawn) + 20
    middle, unit = left + width / 2, width / 2 / math.log(100.0)

    def x_of(times: float) -> float:
        return middle + unit * max(-math.log(100.0), min(math.log(100.0), math.log(max(times, 1e-9))))

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 80} {height}" '
        'font-family="sans-serif" font-size="12" role="img">',
        "<title>How far each measurement lies from its target</title>",
        f'<rect width="{left + width + 80}" height="{height}" fill="white"/>',
        f'<text x="{middle - 8}" y="16" text-anchor="end" fill="{MISSED}">◀ misses its target</text>',
        f'<text x="{middle + 8}" y="16" fill="{MET}">better than its target ▶</text>',
    ]
    for times in (0.01, 0.1, 1.0, 10.0, 100.0):
        x, colour = x_of(times), "#333" if times == 1.0 else "#ddd"
        parts.append(f'<line x1="{x:.1f}" y1="{top - 10}" x2="{x:.1f}" y2="{height - 16}" stroke="{colour}"/>')
        name = f"{times:g} ×" if times != 1.0 else "target"
        parts.append(f'<text x="{x:.1f}" y="{top - 14}" text-anchor="middle" fill="#555">{name}</text>')
    for number, row in enumerate(drawn):
        parts.extend(_bar(row, top + step * number, step, left, middle, x_of))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bar(row: dict[str, Any], y: float, step: float, left: float, middle: float, x_of: Any) -> list[str]:
    values = row["ratios"] or row["ours"]
    better = [value / row["limit"] if row["speed_up"] else row["limit"] / max(value, 1e-9) for value in values]
    typical, colour = statistics.median(better), MET if row["met"] else MISSED
    begin, end = sorted((middle, x_of(typical)))
    work, target = (row[key].replace("<", "&lt;") for key in ("work", "target"))
    centre = y + step / 2
    return [
        f'<text x="{left - 10}" y="{centre - 1:.1f}" text-anchor="end" font-size="11">{work}</text>',
        f'<text x="{left - 10}" y="{centre + 13:.1f}" text-anchor="end" font-size="11" fill="#555">{target}</text>',
        f'<rect x="{begin:.1f}" y="{y + 9:.1f}" width="{max(end - begin, 1):.1f}" height="{step - 18}" '
        f'fill="{colour}"/>',
        f'<line x1="{x_of(min(better)):.1f}" y1="{centre:.1f}" x2="{x_of(max(better)):.1f}" y2="{centre:.1f}" '
        'stroke="black" stroke-width="2"/>',
        f'<text x="{x_of(100.0) + 8:.1f}" y="{centre + 4:.1f}" fill="{colour}">{typical:.2g} ×</text>',
    ]
