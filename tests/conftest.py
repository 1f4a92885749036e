"""Settings of all tests, and the one Spark of a worker."""

import os
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

# Kernels are compiled on first use and machines are shared: no deadline tells anything about the code.
settings.register_profile("shared", deadline=None, print_blob=True)
settings.load_profile("shared")


@pytest.fixture(scope="session")
def spark_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A local Spark, started once and stopped at the end; tests take a ``newSession()`` with settings of their own."""
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java: apt-get install default-jre-headless")
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed: pip install 'mbct[spark]'")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # executors run this package too
    session = (
        sql.SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.default.parallelism", "2")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("spark")))
        # Optimising machine code and collecting garbage in threads take longer than they save on so few rows.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    yield session
    session.stop()
