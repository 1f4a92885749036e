"""MBCT as it is run in production: cells by day in a store, a refresh every night, the model in service as SQL."""

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from mbct import CellStore, MBCTCalibrator, refresh
from mbct.data import aggregate
from mbct.errors import MissingDependencyError
from mbct.export import export_model
from mbct.store import ModelRegistry
from reproduction.arrays import FloatArray
from reproduction.auction.log import LABEL

_DAYS_TO_START = 2
"""A refresh fits on all days but the newest, on which it is evaluated."""


class DeployedMBCT:
    """Each night the day's log goes into the store as cells, and the model is refitted from cells alone.

    The candidates of the next day are scored by a database: the exported SQL expression in DuckDB.
    """

    def __init__(self, folder: Path, calibrator: MBCTCalibrator, window: int, half_life: float) -> None:
        self.store = CellStore(folder)
        self.calibrator = calibrator
        self.window = window
        self.half_life = half_life
        self.decisions: list[dict[str, Any]] = []
        self._bins: Any = None
        self._expression = f'"{calibrator.score_column}"'
        self._database = _duckdb().connect(config={"threads": 1})

    def learn(self, day: date, log: Any) -> None:
        """Store the day's cells, refresh, export what is in service."""
        if self._bins is None:
            # The first log decides how the columns are cut into bins, as the preset wants it; its tree is not used.
            first = clone(self.calibrator).set_params(max_trees=1)
            self._bins = first.fit(log.drop(LABEL), log[LABEL]).model_.bins
        self.store.append(aggregate(log, self._bins, label=LABEL), self._bins, day=day, batch=day.isoformat())
        if len(self.store.days()) >= _DAYS_TO_START:
            self._refresh(day)

    def _refresh(self, day: date) -> None:
        found = refresh(self.store, self.calibrator, days=self.window, half_life=self.half_life)
        self.decisions.append({"day": day.isoformat(), "decision": found.decision, "gain": found.comparison.gain})
        if found.in_service is not None:
            self._expression = str(export_model(ModelRegistry(self.store).ensemble(found.in_service), "sql"))

    def calibrate(self, candidates: Any) -> FloatArray:
        """The SQL of the model in service over the candidates; before there is one, the predictions as they are."""
        self._database.register("candidates", candidates.to_arrow())
        query = f"SELECT CAST({self._expression} AS DOUBLE) AS calibrated FROM candidates"
        return np.asarray(self._database.sql(query).fetchnumpy()["calibrated"], dtype=np.float64)


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError as error:
        raise MissingDependencyError(
            "the auction scores its candidates in DuckDB, which is not installed: pip install 'mbct[reproduce]'"
        ) from error
    return duckdb
