"""PySpark: data frames of the user's own session.

Small tables are broadcast, and no row goes through a Python function, but for cells in shards
(:class:`SparkShards`), which the kernels of training work on where they are.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from mbct.data.engines.engine import CellFormat, ColumnOf, Engine, Frame, lazy
from mbct.data.expressions import total_sql
from mbct.model.conditions import CodeDecision
from mbct.training.sharded.shards import Columns, Join, Shards, Task, added, changed_columns, first_rows
from mbct.validation import FloatArray

_BATCH_ROWS = 500_000  # Rows of a partition that are split by shard at once
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

    @contextmanager
    def shards(self, frame: Frame, form: CellFormat, n_shards: int, _n_threads: int) -> Iterator[Shards]:
        """Shards in the executors' storage."""
        shards = SparkShards(frame.to_native(), form, n_shards)
        try:
            yield shards
        finally:
            shards.frame.unpersist()

    def release(self, frame: Frame) -> None:
        """Tell the executors to drop the rows."""
        frame.to_native().unpersist()


class SparkShards:
    """Shards as rows of a data frame, each its number, how many rows it holds, and its columns as bytes.

    Executors run the tasks, so that they need this package too. What a task finds is joined in each partition, as
    another row, and then by the driver.
    """

    def __init__(self, rows: Any, form: CellFormat, n_shards: int):
        def split(batches: Iterable[Any]) -> Iterator[Any]:
            return _split(batches, form, n_shards)

        def build(table: Any) -> Any:
            return _built(table, form)

        parts = rows.mapInArrow(split, "number int, rows binary")
        self.sizes: dict[int, int] = {}
        self._hold(parts.groupBy("number").applyInArrow(build, _SCHEMA))

    def total(self, task: Task[Any], join: Join = added) -> Any:
        """See :class:`~mbct.training.sharded.shards.Shards`."""
        return _joined(self._after(task, join, keep=False), join)

    def update(self, task: Task[Any], join: Join = added) -> Any:
        """See :class:`~mbct.training.sharded.shards.Shards`."""
        before = self.frame
        self._hold(self._after(task, join, keep=True))
        before.unpersist()
        return _joined(self.frame, join)

    def head(self, n_rows: int) -> Columns:
        """See :class:`~mbct.training.sharded.shards.Shards`."""
        n_needed = int(np.searchsorted(np.cumsum(list(self.sizes.values())), n_rows)) + 1
        some = ", ".join(map(str, list(self.sizes)[:n_needed]))
        found = self.frame.where(f"columns IS NOT NULL AND number IN ({some})").orderBy("number").collect()
        return first_rows([_serializer().loads(row["columns"]) for row in found], n_rows)

    def _after(self, task: Task[Any], join: Join, *, keep: bool) -> Any:
        """What the frame becomes by a task."""
        first = dict(zip(self.sizes, np.cumsum([0, *self.sizes.values()]).tolist(), strict=False))

        def run(batches: Iterable[Any]) -> Iterator[Any]:
            return _run(batches, task, join, first, keep=keep)

        return self.frame.where("columns IS NOT NULL").mapInArrow(run, _SCHEMA)

    def _hold(self, frame: Any) -> None:
        """Have the executors store a frame, cut off from the one before."""
        self.frame = frame.localCheckpoint(eager=True)
        sizes = self.frame.where("columns IS NOT NULL").select("number", "size").orderBy("number").collect()
        self.sizes = {row["number"]: row["size"] for row in sizes}


def _serializer() -> Any:
    """The one by which Spark sends Python objects between its processes."""
    from pyspark.serializers import CPickleSerializer

    return CPickleSerializer()


_SCHEMA = "number int, size long, columns binary, found binary"


def _joined(frame: Any, join: Join) -> Any:
    """What was found in all partitions, in the order of their first shards."""
    rows = frame.where("found IS NOT NULL").select("number", "found").collect()
    return reduce(join, (_serializer().loads(row["found"]) for row in sorted(rows, key=lambda row: row["number"])))


def _row(number: int, size: int, columns: bytes | None, found: bytes | None) -> Any:
    """One row of the frame of shards."""
    import pyarrow as pa

    types = (pa.int32(), pa.int64(), pa.binary(), pa.binary())
    arrays = [pa.array([value], kind) for value, kind in zip((number, size, columns, found), types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, ["number", "size", "columns", "found"])


def _split(batches: Iterable[Any], form: CellFormat, n_shards: int) -> Iterator[Any]:
    """Rows of a partition by shard, many batches at a time."""
    import pyarrow as pa

    def split(some: list[Any]) -> Iterator[Any]:
        batch = nw.from_native(pa.Table.from_batches(some), eager_only=True)
        for number, rows in form.split(form.columns(batch), n_shards):
            arrays = [pa.array([number], pa.int32()), pa.array([_serializer().dumps(rows)], pa.binary())]
            yield pa.RecordBatch.from_arrays(arrays, ["number", "rows"])

    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= _BATCH_ROWS:
            yield from split(waiting)
            waiting = []
    if waiting:
        yield from split(waiting)


def _built(table: Any, form: CellFormat) -> Any:
    """The shard of all rows with its number."""
    import pyarrow as pa

    cells = form.cells(_serializer().loads(rows.as_py()) for rows in table["rows"])
    return pa.Table.from_batches(
        [_row(table["number"][0].as_py(), len(cells["codes"]), _serializer().dumps(cells), None)]
    )


def _run(batches: Iterable[Any], task: Task[Any], join: Join, first: Mapping[int, int], *, keep: bool) -> Iterator[Any]:
    """Run a task on the shards of a partition, one at a time; the last row is what was found in all of them."""
    found: dict[int, Any] = {}
    for batch in batches:
        for number, held in zip(batch["number"].to_pylist(), batch["columns"], strict=True):
            columns = _serializer().loads(held.as_py())
            changed, found[number] = task(columns, first[number])
            if keep:
                after = changed_columns(columns, changed)
                yield _row(number, len(after["codes"]), _serializer().dumps(after), None)
    if found:
        yield _row(min(found), 0, None, _serializer().dumps(reduce(join, (found[number] for number in sorted(found)))))
