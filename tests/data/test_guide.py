"""The script of the guide, as a user would submit it, on two small days."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from mbct import CellStore
from mbct.data import score
from mbct.model.file import load_ensemble
from mbct.store import ModelRegistry

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "from-one-machine-to-a-cluster.md"
LOCAL = (
    "--master local[2] --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=2 "
    "--conf spark.driver.bindAddress=127.0.0.1 --conf spark.driver.host=127.0.0.1 "
    "--driver-java-options '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC' pyspark-shell"
)


def _log(day: int) -> pl.DataFrame:
    rng = np.random.default_rng(day)
    n = 3000
    site = rng.choice(["news", "games"], n)
    pctr = rng.beta(1, 5, n).round(3)
    click = rng.random(n) < np.clip(pctr * np.where(site == "games", 2.0, 0.7), 0, 1)
    return pl.DataFrame({"pctr": pctr, "site": site, "hour": rng.integers(0, 24, n), "click": click})


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java: apt-get install default-jre-headless")
def test_the_script_fits_refreshes_and_scores(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'mbct[spark]'")
    found = re.search(r"```python\n(\"\"\"spark-submit calibrate\.py.*?)```", GUIDE.read_text(encoding="utf-8"), re.S)
    assert found
    (tmp_path / "calibrate.py").write_text(found[1])
    runs = []
    for day in (1, 2):
        _log(day).write_parquet(tmp_path / f"log{day}.parquet")
        log, store, scored = (str(tmp_path / name) for name in (f"log{day}.parquet", "store", f"scored{day}"))
        runs.append(["calibrate.py", log, store, f"2024-05-0{day}", scored])
    nights = (
        f"import json, runpy, sys\nfor sys.argv in json.loads({json.dumps(runs)!r}): runpy.run_path('calibrate.py')"
    )
    done = subprocess.run(
        [sys.executable, "-c", nights],
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": LOCAL},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "better than the predictions as they came" in done.stdout
    store = CellStore(tmp_path / "store")
    assert store.days() == ["2024-05-01", "2024-05-02"]
    model = ModelRegistry(store).in_service()
    assert model is not None
    scored = pl.read_parquet(tmp_path / "scored2" / "*.parquet").sort("pctr", "site", "hour", "click")
    expected = score(_log(2), load_ensemble(tmp_path / "store" / "models" / f"{model}.json"))
    expected = expected.sort("pctr", "site", "hour", "click")
    np.testing.assert_allclose(scored["calibrated"], expected["calibrated"], rtol=0, atol=1e-12)
