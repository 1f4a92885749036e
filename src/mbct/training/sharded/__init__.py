"""Growth on shards: the default algorithm where the cells are too many for the memory of one process."""
