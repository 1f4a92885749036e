"""Where a service puts the outcomes it has joined: a store, one batch at a time."""

from mbct.binning.features import FeatureBins
from mbct.cells.cells import Cells
from mbct.store.cell_store import CellStore


class StoreSink:
    """Appends a service's batches to a store.

    The first ten characters of a batch's name are its day. ``bins`` are those of the models that may score; bins that
    the store holds already need not be given.
    """

    def __init__(self, store: CellStore, *bins: FeatureBins):
        self.store = store
        for each in bins:
            store.keep_bins(each)

    def append(self, cells: Cells, batch_id: str) -> None:
        """Add a batch; one that is there already is left alone."""
        self.store.append(cells, self.store.bins(cells.fingerprint), day=batch_id[:10], batch=batch_id)
