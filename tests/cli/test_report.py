import json
from pathlib import Path

from terminal import mbct, mbct_on_terminal


def test_a_page_and_its_verdict(folder: Path, tmp_path: Path):
    done = mbct("report", folder / "paper.json", folder / "clicks.parquet", "-o", "report.html", cwd=tmp_path)
    assert done.code == 0, done.err
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert done.out.splitlines()[0] in page
    assert "mbct report" in page, "the page names the command that made it"


def test_json_and_title(folder: Path, tmp_path: Path):
    arguments = [folder / "isotonic.json", folder / "clicks.csv", "--title", "Clicks <of> May", "--json"]
    done = mbct("report", *arguments, "-o", "report.html", cwd=tmp_path)
    assert json.loads(done.out)["n_rows"] == 4000
    assert "Clicks &lt;of&gt; May" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_on_a_terminal(folder: Path, tmp_path: Path):
    done = mbct_on_terminal("report", folder / "paper.json", folder / "clicks.csv", "-o", "report.html", cwd=tmp_path)
    assert done.code == 0
    assert "4,000 rows" in done.out


def test_bad_input(folder: Path, tmp_path: Path):
    done = mbct("report", folder / "paper.json", folder / "clicks.csv", "--label", "x", "-o", "r.html", cwd=tmp_path)
    assert done.code == 2
    assert "no column 'x'" in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_page_and_a_score_that_is_none(folder: Path, tmp_path: Path):
    arguments = ["report", folder / "isotonic.json", folder / "clicks.parquet"]
    refused = mbct(*arguments, "-o", "report.pdf", cwd=tmp_path)
    assert refused.code == 2
    assert "report.pdf must end in .html" in refused.err
    wrong = mbct(*arguments, "--score", "age", "-o", "report.html", cwd=tmp_path)
    assert "score 'age' lies outside [0, 1]" in wrong.err
    assert list(tmp_path.iterdir()) == []


def test_blocks_are_as_long_as_asked(folder: Path, tmp_path: Path):
    query = "SELECT *, DATE '2024-01-01' + (row_number() OVER () % 40)::INT AS day FROM data"
    arguments = ["report", folder / "isotonic.json", folder / "clicks.parquet", "--sql", query, "-o", "report.html"]
    for block, n_blocks in (("day", 40), ("week", 6)):
        done = mbct(*arguments, "--block", block, cwd=tmp_path)
        assert done.code == 0, done.err
        page = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert f"by the sums of {n_blocks} whole blocks of rows" in page
    refused = mbct(*arguments, "--block", "nonsense", cwd=tmp_path)
    assert refused.code == 2
    assert "block='nonsense' must be 'day', 'week', 'hour' or a number" in refused.err
