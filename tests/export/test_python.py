import datetime
import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import random_model, random_rows, reference, table_model, wide_model
from mbct.export import export_model, standalone
from mbct.model.encoding import category_key
from mbct.model.ensemble import CalibrationEnsemble


def load(model: CalibrationEnsemble) -> Any:
    content: dict[str, Any] = {"__name__": "exported"}
    exec(compile(export_model(model, "python"), "exported.py", "exec"), content)
    return SimpleNamespace(**content)


def rows_of(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


@given(st.integers(0, 2**32 - 1), st.sampled_from(["odds", "linear"]))
@settings(deadline=None, max_examples=100)
def test_rows_get_the_same_probability_to_the_last_bits(seed: int, link: Any) -> None:
    model = random_model(seed, link, n_features=7)
    columns = random_rows(seed, model, 60, infinite=True)
    exported = load(model)
    got = [exported.calibrate(row) for row in rows_of(columns)]
    np.testing.assert_allclose(got, reference(model, columns), rtol=1e-14, atol=0)


def test_the_file_runs_with_the_standard_library_alone(tmp_path: Path) -> None:
    model = random_model(8, n_features=4)
    columns = random_rows(8, model, 50)
    program, lines = tmp_path / "calibrate.py", tmp_path / "rows.jsonl"
    program.write_text(str(export_model(model, "python")), encoding="utf-8")
    lines.write_text("\n".join(map(json.dumps, rows_of(columns))) + "\n\n", encoding="utf-8")
    from_file = _run(program, str(lines))
    from_input = _run(program, text=lines.read_text(encoding="utf-8"))
    assert from_file.returncode == 0, from_file.stderr
    assert from_file.stdout == from_input.stdout
    np.testing.assert_allclose(np.array(from_file.stdout.split(), float), reference(model, columns), rtol=1e-14)


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    program = tmp_path / "calibrate.py"
    program.write_text(str(export_model(random_model(8, n_features=1), "python")), encoding="utf-8")
    good = '{"score": 0.5, "number 0": null}\n'
    for bad, message in [
        ('{"score": 1.5, "number 0": 1}', "'score' must be a probability between 0 and 1, got 1.5"),
        ('{"score": null, "number 0": 1}', "got None"),
        ('{"score": 0.5}', "the row has no 'number 0'"),
        ("{", "Expecting property name"),
        ("3", "not iterable"),
    ]:
        result = _run(program, text=good + bad + "\n")
        assert result.returncode == 2
        assert result.stderr.startswith("-, line 2: ")
        assert message in result.stderr
        assert len(result.stdout.split()) == 1


def _run(program: Path, *arguments: str, text: str | None = None) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-S", "-I", "-X", "utf8", "-W", "error", str(program), *arguments]
    return subprocess.run(command, input=text or "", capture_output=True, encoding="utf-8", check=False)


def test_only_features_that_trees_look_at_are_needed() -> None:
    model = random_model(8, n_features=7).with_trees(())
    assert load(model).calibrate({"score": 0.25}) == 0.25


@pytest.mark.parametrize(
    "value",
    [
        *("a", "", 3, 3.0, -0.0, True, 2.5, 1e300, 2**70, float("inf"), None, float("nan"), b"caf\xc3\xa9"),
        *(
            Decimal("1.50"),
            Decimal("NaN"),
            Decimal("2E+30"),
            Decimal("Infinity"),
            pd.NA,
            pd.NaT,
            pd.Timestamp("2024-01-02 03:04:05.5"),
        ),
        *(
            datetime.date(2024, 1, 2),
            datetime.datetime(2024, 1, 2, 3),
            datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC),
        ),
        *(np.int64(7), np.float32(0.1), np.float64(4.0), np.bool_(True), np.str_("x"), np.bytes_(b"y")),
        *(np.datetime64("2024-01-02T03:04:05.123456789"), np.datetime64("NaT"), np.datetime64("2024-01-02")),
    ],
)
def test_category_texts_are_those_of_the_package(value: Any) -> None:
    assert standalone._text(value) == category_key(value)


def test_a_number_too_large_for_a_float_is_infinite() -> None:
    assert standalone._number(10**400) == np.inf
    assert standalone._number(-(10**400)) == -np.inf


def test_a_wide_model_stays_a_file_of_moderate_size() -> None:
    source = export_model(wide_model(1, n_trees=8), "python")
    assert len(source) < 1_000_000


@pytest.mark.parametrize("link", ["odds", "linear"])
def test_large_tables_and_binary_trees(link: Any) -> None:
    model = table_model(1, link, 8, 60, n_binary=2)
    columns = random_rows(1, model, 300)
    exported = load(model)
    got = [exported.calibrate(row) for row in rows_of(columns)]
    np.testing.assert_allclose(got, reference(model, columns), rtol=1e-14)
