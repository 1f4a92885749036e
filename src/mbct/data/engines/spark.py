"""PySpark: data frames of the user's own session; small tables are broadcast, nothing is a Python function."""

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from mbct.data.engines.engine import ColumnOf, Engine, Frame, lazy
from mbct.data.expressions import total_sql
from mbct.model.conditions import CodeDecision
from mbct.validation import FloatArray

_QUANTILE_ACCURACY = 100_000  # The rank of an approximate quantile is off by at most one part in this many


class SparkEngine(Engine):
    """Queries run on the session of the data frame; joins are broadcast, which keeps the order within a partition."""

    def collect(self, frame: Frame) -> nw.DataFrame[Any]:
        """The result as an Arrow table on the driver."""
        return nw.from_native(frame.to_native().toArrow(), eager_only=True)

    def table(self, beside: Frame, columns: Mapping[str, np.ndarray[Any, Any]]) -> Frame:
        """A local relation, marked for broadcast."""
        import pyarrow as pa
        from pyspark.sql import functions

        content = pa.table({name: pa.array(values.tolist()) for name, values in columns.items()})
        return lazy(functions.broadcast(beside.to_native().sparkSession.createDataFrame(content)))

    def in_utc(self, frame: Frame, columns: Sequence[str]) -> Frame:
        """From the session's zone, in which Spark shows every timestamp."""
        from pyspark.sql import functions

        shown = {name: functions.col(f"`{name}`").cast("timestamp_ntz") for name in columns}
        zone, utc = functions.current_timezone(), functions.lit("UTC")
        moved = {name: functions.convert_timezone(zone, utc, value) for name, value in shown.items()}
        return lazy(frame.to_native().withColumns(moved))

    def sum_trees(
        self, frame: Frame, into: str, terms: Sequence[CodeDecision], column: ColumnOf, *, product: bool
    ) -> Frame:
        """As SQL text, which is written and bound much faster than expression objects."""
        total = total_sql(terms, lambda feature: f"`{column(feature)}`", product=product)
        return lazy(frame.to_native().selectExpr("*", f"{total} AS `{into}`"))

    def count_distinct(self, frame: Frame, columns: Sequence[str]) -> int:
        """HyperLogLog++ of the columns' hash."""
        from pyspark.sql import functions

        hashed = functions.xxhash64(*(functions.col(f"`{name}`") for name in columns))
        return int(frame.to_native().select(functions.approx_count_distinct(hashed)).collect()[0][0])

    def quantiles(self, frame: Frame, column: str, n_points: int) -> FloatArray:
        """Quantiles of the Greenwald-Khanna sketch."""
        shares = np.linspace(0.0, 1.0, n_points).tolist()
        points = frame.to_native().approxQuantile(column, shares, 1.0 / _QUANTILE_ACCURACY)
        return np.sort(np.asarray(points, dtype=np.float64))

    def materialize(self, frame: Frame) -> Frame:
        """Rows held by the executors, cut off from the query that made them."""
        return lazy(frame.to_native().localCheckpoint(eager=True))

    def release(self, frame: Frame) -> None:
        """Tell the executors to drop the rows."""
        frame.to_native().unpersist()
