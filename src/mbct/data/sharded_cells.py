"""Cells that never come into memory together: coded rows go into shards by the hash of their content.

Rows of equal codes and prediction have equal hashes, so each shard joins its own; and since cells in canonical order
are in the order of their hashes, a range of hashes is a stretch of them.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from mbct.data.blocks import number_blocks
from mbct.data.engines.engine import CellFormat
from mbct.data.rows import GROUP, TIME, P, W, Y, code_column
from mbct.data.source import LazySource
from mbct.model.bins import CodeMatrix, FeatureBins
from mbct.training.folds import BlockColumns, BlockNumbers
from mbct.training.grouping import group_rows, hash_rows, prediction_bits, with_blocks
from mbct.training.sharded.shards import Columns, Shards

SHARD_ROWS = 1_000_000
"""Rows of a shard, about: 50 to 100 bytes each, and twice that while it is worked on."""


class ShardedCells(NamedTuple):
    """Shards of cells, and the number of blocks that they belong to; 0 where rows are independent."""

    shards: Shards
    n_blocks: int


@dataclass(frozen=True)
class _Numbers:
    """Number of the block that each of the ``values`` of a column belongs to; the values are sorted."""

    column: str
    values: np.ndarray[Any, Any]
    number: BlockNumbers

    @property
    def n_blocks(self) -> int:
        """How many there are."""
        return int(self.number.max()) + 1

    def of(self, values: np.ndarray[Any, Any]) -> BlockNumbers:
        """Block of each row."""
        distinct, position = np.unique(values, return_inverse=True)
        return self.number[np.searchsorted(self.values, distinct)][position]


@dataclass(frozen=True)
class CodedRows(CellFormat):
    """How batches of coded rows become cells, wherever they are."""

    n_features: int
    code_type: npt.DTypeLike
    blocks: _Numbers | None

    def columns(self, batch: nw.DataFrame[Any]) -> Columns:
        """Narrow codes, prediction, label, weight and block of a batch."""
        codes = np.empty((len(batch), self.n_features), dtype=self.code_type)
        for j in range(self.n_features):
            codes[:, j] = batch[code_column(j)].to_numpy()
        names = {"y_prob": P, "label": Y, "weight": W}
        found: Columns = {name: np.array(batch[column].to_numpy(), dtype=np.float64) for name, column in names.items()}
        if self.blocks is not None:
            found["block"] = self.blocks.of(np.asarray(batch[self.blocks.column].to_numpy()))
        return {"codes": codes, **found}

    def parts(self, columns: Columns, n_parts: int) -> npt.NDArray[np.int64]:
        """Part of the range of hashes that each row belongs to."""
        hashes = hash_rows(self._keys(columns), prediction_bits(columns["y_prob"]))
        return ((hashes >> np.uint64(32)) * np.uint64(n_parts) >> np.uint64(32)).astype(np.int64)

    def cells(self, batches: Iterable[Columns]) -> Columns:
        """The rows of one part as cells in canonical order."""
        listed = list(batches)
        rows = {name: np.concatenate([each.pop(name) for each in listed]) for name in list(listed[0])}
        group, first = group_rows(self._keys(rows), rows["y_prob"])
        label = np.bincount(group, rows["weight"] * rows["label"], len(first)).astype(np.float64)
        weight = np.bincount(group, rows["weight"], len(first)).astype(np.float64)
        kept = {name: rows[name][first] for name in rows if name not in ("weight", "label")}
        return kept | {"weight": weight, "label": label}

    def _keys(self, columns: Columns) -> CodeMatrix:
        codes: CodeMatrix = columns["codes"]
        return codes if self.blocks is None else with_blocks(codes, columns["block"], self.blocks.n_blocks)


@contextmanager
def sharded_cells(
    coded: LazySource, bins: FeatureBins, blocks: BlockColumns | None, n_rows: int, n_threads: int
) -> Iterator[ShardedCells]:
    """Cells of equal codes and prediction in shards: files of this machine, or the executors' storage."""
    numbers = None if blocks is None or not blocks.given else _numbered_blocks(coded, blocks)
    coding = CodedRows(len(bins), bins.code_type, numbers)
    with coded.engine.shards(coded.frame, coding, -(-n_rows // SHARD_ROWS), n_threads) as shards:
        yield ShardedCells(shards, 0 if numbers is None else numbers.n_blocks)


def _numbered_blocks(coded: LazySource, blocks: BlockColumns) -> _Numbers:
    """The block of each distinct time or group, as :func:`~mbct.data.blocks.number_blocks` numbers those of rows."""
    name = GROUP if blocks.time is None else TIME
    found = coded.engine.collect(coded.frame.group_by(name).agg(nw.len().alias(W)))
    count = np.asarray(found[W].to_numpy(), dtype=np.int64)
    # Where the value is missing, an error says in how many rows.
    values = np.repeat(np.asarray(found[name].to_numpy()), np.where(found[name].is_null().to_numpy(), count, 1))
    when, who = (None, values) if blocks.time is None else (values, None)
    number = number_blocks(when, who, blocks.block)
    order = np.argsort(values)
    return _Numbers(name, values[order], number[order])
