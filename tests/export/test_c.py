import ctypes
import datetime
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders import one_split_model, random_model, random_rows, reference, table_model, wide_model
from mbct.errors import ParameterError
from mbct.export import export_model
from mbct.model.bins import CategoryBins
from mbct.model.ensemble import CalibrationEnsemble

FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1"]
Calibrate = Callable[[dict[str, Any]], float]


@pytest.fixture(scope="module")
def compile_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Calibrate]:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler found: apt-get install gcc")
    folder = tmp_path_factory.mktemp("c")
    numbers = iter(range(10**6))

    def build(model: CalibrationEnsemble, prefix: str = "mbct") -> Calibrate:
        source = folder / f"model_{next(numbers)}.c"
        source.write_text(str(export_model(model, "c", prefix=prefix)), encoding="ascii")
        library = source.with_suffix(".so")
        subprocess.run([compiler, *FLAGS, "-shared", "-fPIC", source, "-o", library, "-lm"], check=True)
        return bind(model, library, prefix)

    return build


def bind(model: CalibrationEnsemble, library: Path, prefix: str) -> Calibrate:
    features = list(model.bins)
    types = {"integer": ctypes.POINTER(ctypes.c_longlong), "number": ctypes.c_double, "boolean": ctypes.c_int}
    kinds = [types.get(getattr(f, "value_type", "number"), ctypes.c_char_p) for f in features]

    class Row(ctypes.Structure):
        _fields_ = [(f"field_{i}", kind) for i, kind in enumerate(kinds)]

    function = getattr(ctypes.CDLL(str(library)), f"{prefix}_calibrate")
    function.restype, function.argtypes = ctypes.c_double, [ctypes.POINTER(Row)]

    def calibrate(row: dict[str, Any]) -> float:
        values = [as_c(row[f.name], kind) for f, kind in zip(features, kinds, strict=True)]
        return float(function(ctypes.byref(Row(*values))))

    return calibrate


def as_c(value: Any, kind: Any) -> Any:
    if kind is ctypes.c_double:
        return np.nan if value is None else value
    if kind is ctypes.c_int:
        return -1 if value is None else int(value)
    if value is None:
        return None
    if kind is ctypes.c_char_p:
        if isinstance(value, datetime.datetime):
            return value.isoformat(sep=" ").encode()
        return (value if isinstance(value, str) else value.isoformat()).encode()
    return ctypes.pointer(ctypes.c_longlong(value))


def calibrated(calibrate: Calibrate, columns: dict[str, list[Any]]) -> list[float]:
    rows = zip(*columns.values(), strict=True)
    return [calibrate(dict(zip(columns, row, strict=True))) for row in rows]


@given(st.integers(0, 2**32 - 1), st.sampled_from(["odds", "linear"]))
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_get_the_same_probability_to_the_last_bits(compile_model: Any, seed: int, link: Any) -> None:
    model = random_model(seed, link, n_features=7)
    columns = random_rows(seed, model, 60, infinite=True)
    got = calibrated(compile_model(model), columns)
    np.testing.assert_allclose(got, reference(model, columns), rtol=1e-14, atol=0)


def test_a_wide_model_compiles(compile_model: Any) -> None:
    model = wide_model(2)
    calibrate = compile_model(model, "wide")
    columns = random_rows(2, model, 300)
    np.testing.assert_allclose(calibrated(calibrate, columns), reference(model, columns), rtol=1e-14)


def test_a_model_without_trees_returns_the_prediction(compile_model: Any) -> None:
    model = random_model(1).with_trees(())
    columns = random_rows(1, model, 5)
    assert calibrated(compile_model(model), columns) == columns["score"]


def test_a_missing_prediction_stays_missing(compile_model: Any) -> None:
    model = random_model(1, n_features=1)
    assert np.isnan(compile_model(model)({"score": None, "number 0": 1.0}))


def test_texts_and_names_that_c_could_misread(compile_model: Any) -> None:
    values = ("??/", '"', "\\", "\n", "\x01", "é", "x" * 5000, "é" * 3000, "%d", "", "12", "\x7f")
    model = one_split_model(CategoryBins("*/ int /* ??/ double", values))
    rows = {"score": [0.5] * 14, "*/ int /* ??/ double": [*values, "unknown", None]}
    np.testing.assert_allclose(calibrated(compile_model(model), rows), reference(model, rows), rtol=1e-14)


def test_the_whole_range_of_64_bits(compile_model: Any) -> None:
    values = (-(2**63), 2**63 - 1, 2**53, 2**53 + 1, 0)
    model = one_split_model(CategoryBins("id", tuple(map(str, values)), "integer"))
    rows = {"score": [0.5] * 7, "id": [*values, 5, None]}
    np.testing.assert_allclose(calibrated(compile_model(model), rows), reference(model, rows), rtol=1e-14)


def test_another_file_can_include_the_declarations(tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler found: apt-get install gcc")
    model = random_model(1, n_features=1)
    (tmp_path / "model.c").write_text(str(export_model(model, "c")), encoding="ascii")
    (tmp_path / "main.c").write_text(
        "#define MBCT_DECLARATIONS\n"
        '#include "model.c"\n'
        "#include <stdio.h>\n"
        "int main(void)\n{\n"
        "    struct mbct_row row = {.score = 0.25, .number_0 = 3.5};\n"
        '    printf("%.17g\\n", mbct_calibrate(&row));\n'
        "    return 0;\n}\n",
        encoding="ascii",
    )
    command = [compiler, *FLAGS, "main.c", "model.c", "-o", "main", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    printed = subprocess.run([tmp_path / "main"], capture_output=True, check=True, text=True).stdout
    expected = reference(model, {"score": [0.25], "number 0": [3.5]})
    assert float(printed) == pytest.approx(expected[0], rel=1e-14)
    symbols = subprocess.run(["nm", "main"], cwd=tmp_path, capture_output=True, check=True, text=True).stdout
    assert not any(name in symbols for name in ("malloc", "calloc", "realloc"))


def test_the_prefix_must_be_an_identifier() -> None:
    with pytest.raises(ParameterError, match="prefix='a b' must be a C identifier"):
        export_model(random_model(1), "c", prefix="a b")


@pytest.mark.parametrize("link", ["odds", "linear"])
def test_large_tables_and_binary_trees(compile_model: Callable[..., Calibrate], link: Any) -> None:
    model = table_model(1, link, 8, 60, n_binary=2)
    columns = random_rows(1, model, 300)
    np.testing.assert_allclose(calibrated(compile_model(model), columns), reference(model, columns), rtol=1e-14)
