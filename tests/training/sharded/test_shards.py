import numpy as np

from mbct.training.sharded.shards import Columns, FileShards


def _doubled(columns: Columns, first: int) -> tuple[Columns, tuple[int, float]]:
    return {"weight": 2.0 * columns["weight"]}, (first, float(columns["weight"].sum()))


def _first_row_left_out(columns: Columns, _: int) -> tuple[Columns, tuple[int]]:
    return {"codes": columns["codes"][1:]}, (len(columns["codes"]),)


def _filled(shards: FileShards) -> FileShards:
    for n_rows in (2, 3, 4):
        shards.append({"codes": np.full((n_rows, 2), n_rows, dtype=np.uint8), "weight": np.ones(n_rows)})
    return shards


def test_results_add_up_and_only_updates_are_kept() -> None:
    with FileShards(2) as shards:
        _filled(shards)
        assert shards.total(_doubled) == (0 + 2 + 5, 9.0)
        assert shards.update(_doubled) == (7, 9.0)
        assert shards.total(_doubled) == (7, 18.0)


def test_the_head_is_the_first_rows_of_as_many_shards_as_it_needs() -> None:
    with FileShards() as shards:
        _filled(shards)
        assert shards.head(4)["codes"][:, 0].tolist() == [2, 2, 3, 3]
        assert len(shards.head(100)["weight"]) == 9


def test_other_rows_leave_nothing_of_those_before() -> None:
    with FileShards() as shards:
        _filled(shards)
        assert shards.update(_first_row_left_out) == (9,)
        assert list(shards.head(10)) == ["codes"]
        assert shards.sizes == [1, 2, 3]
        folder = shards.folder
    assert not folder.exists()
