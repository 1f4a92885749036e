import json
import subprocess
import sys

import pytest

from builders import random_model
from mbct.errors import ParameterError
from mbct.export import TARGETS, export_model
from mbct.model.bins import CategoryBins, FeatureBins, NumberBins
from mbct.model.ensemble import CalibrationEnsemble

OPTIONS = {"onnx": {"missing_text": "<missing>"}}


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_exports_text_bytes_or_files(target: str) -> None:
    content = export_model(random_model(1), target, **OPTIONS.get(target, {}))
    assert isinstance(content, {"onnx": bytes, "dbt": dict}.get(target, str))
    assert content
    assert TARGETS[target].suffix.startswith("" if target == "dbt" else ".")
    assert TARGETS[target].summary


def test_an_unknown_target_is_named_with_the_known_ones() -> None:
    with pytest.raises(ParameterError, match="unknown export 'excel'; available are rules, sql, dbt, onnx"):
        export_model(random_model(1), "excel")


def test_an_unknown_option_is_named_with_the_known_ones() -> None:
    with pytest.raises(ParameterError, match="export 'sql' has no option dialekt; it takes dialect, form, table"):
        export_model(random_model(1), "sql", dialekt="duckdb")
    with pytest.raises(ParameterError, match="export 'python' has no option form; it takes none"):
        export_model(random_model(1), "python", form="x")


@pytest.mark.parametrize("target", TARGETS)
def test_half_a_surrogate_pair_is_refused(target: str) -> None:
    bins = FeatureBins((NumberBins("score", ()), CategoryBins("text", ("\ud800",))))
    with pytest.raises(ParameterError, match=r"feature 'text' holds '\\ud800', which is not valid Unicode"):
        export_model(CalibrationEnsemble("score", "odds", bins, ()), target)


def test_exports_need_no_optional_package_but_their_own() -> None:
    program = (
        "import json, sys; import mbct.export.registry as r; from mbct.model.file_check import read_ensemble\n"
        "model = read_ensemble(json.load(sys.stdin))\n"
        "[r.export_model(model, target) for target in r.TARGETS if target != 'onnx']\n"
        "print(sorted(set(sys.modules) & {'onnx', 'lightgbm', 'duckdb', 'sqlglot', 'sklearn', 'pandas', 'pyspark'}))"
    )
    content = json.dumps(random_model(1).to_dict())
    result = subprocess.run([sys.executable, "-c", program], input=content, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
