"""A flame graph as a still picture, from the samples that py-spy took.

    py-spy record -f raw -o samples.txt -- python fit.py
    python benchmarks/speed_flame.py samples.txt docs/images/flame-default.svg

A box is a function, as wide as its share of the samples, above the one that called it. Lines of one function are
joined, and imports are left out.
"""

import re
import sys
from collections import Counter
from pathlib import Path

WIDTH, ROW, LEAST = 1100.0, 20, 0.004
COLOURS = ("#0072B2", "#56B4E9", "#009E73", "#F0E442", "#E69F00", "#CC79A7")
"""Okabe and Ito's, by the package's folder."""
DARK = frozenset(("#0072B2", "#009E73"))

Stack = tuple[str, ...]


def read(path: Path) -> Counter[Stack]:
    """Samples of each stack of our own functions, "folder/file.py function"."""
    found: Counter[Stack] = Counter()
    for line in path.read_text().splitlines():
        frames, _, count = line.rpartition(" ")
        own = re.findall(r"([\w.<>]+) \((?:\S*/)?mbct/([\w/]+\.py):\d+\)", frames)
        if own and own[0][1] != "__init__.py":
            found[tuple(f"{file} {name.split('.')[-1]}" for name, file in own)] += int(count)
    return found


def boxes(stacks: Counter[Stack], depth: int, left: float, scale: float) -> list[str]:
    """Boxes of one level and, above each, of those it called."""
    drawn: list[str] = []
    names = dict.fromkeys(stack[depth] for stack in sorted(stacks) if len(stack) > depth)
    for name in names:
        inside = Counter({s: n for s, n in stacks.items() if len(s) > depth and s[depth] == name})
        width = inside.total() * scale
        if width >= LEAST * WIDTH:
            drawn += [_box(name, depth, left, width, inside.total()), *boxes(inside, depth + 1, left, scale)]
        left += width
    return drawn


def _box(name: str, depth: int, left: float, width: float, samples: int) -> str:
    folder = name.split("/")[0]
    colour = COLOURS[sum(map(ord, folder)) % len(COLOURS)]
    label = name[: int(width / 6.2)] if width > 40 else ""
    text = "white" if colour in DARK else "black"
    y = f"@{depth}@"
    return (
        f"<g><title>{name.replace('<', '&lt;')}: {samples} samples</title>"
        f'<rect x="{left:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 1}" fill="{colour}" stroke="white"/>'
        f'<text x="{left + 3:.1f}" y="{y}" dy="14" fill="{text}">{label.replace("<", "&lt;")}</text></g>'
    )


def main() -> None:
    """Read samples, write the picture."""
    stacks = read(Path(sys.argv[1]))
    drawn = boxes(stacks, 0, 0.0, WIDTH / stacks.total())
    deepest = max(int(found) for box in drawn for found in re.findall(r'y="@(\d+)@"', box))
    height = ROW * (deepest + 1)
    placed = [re.sub(r"@(\d+)@", lambda m: str(height - ROW * (int(m[1]) + 1)), box) for box in drawn]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height}" font-family="monospace" '
    head += f'font-size="10"><rect width="{WIDTH:g}" height="{height}" fill="white"/>'
    Path(sys.argv[2]).write_text("\n".join([head, *placed, "</svg>"]) + "\n")


if __name__ == "__main__":
    main()
