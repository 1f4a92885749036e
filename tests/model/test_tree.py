import numpy as np

from mbct.model.tree import CalibrationTree, rounded


def a_split(*steps: float) -> CalibrationTree:
    """A root of three codes, one of which stops there, and two leaves."""
    return CalibrationTree(
        np.array([0, -1, -1], np.int32),
        np.array([0, 3, 3]),
        np.array([1, 2, -1], np.int32),
        np.array(steps),
        np.array([10.0, 6.0, 3.0]),
        np.array([4.0, 3.0, 1.0]),
        np.array([5.0, 2.0, 2.0]),
    )


def test_a_shift_moves_every_row_by_the_constant_and_nothing_else():
    tree = a_split(0.25, -0.5, 1.0)
    moved = tree.shifted(0.125)
    assert moved.leaf_value.tolist() == [0.375, -0.375, 1.125]
    assert tree.leaf_value.tolist() == [0.25, -0.5, 1.0]
    codes = np.array([[0], [1], [2]], np.uint8)
    np.testing.assert_array_equal(moved.leaf_value[moved.apply(codes)], tree.leaf_value[tree.apply(codes)] + 0.125)
    assert moved.to_dict((3,)) == {**tree.to_dict((3,)), "leaf_value": [0.375, -0.375, 1.125]}


def test_shifted_and_rescaled_steps_keep_nine_digits():
    tree = a_split(0.0, 1.0, 2.0)
    assert tree.shifted(1 / 3).leaf_value.tolist() == [0.333333333, 1.33333333, 2.33333333]
    assert tree.rescaled(1 / 3).leaf_value.tolist() == [0.0, 0.333333333, 0.666666667]


def test_numbers_are_rounded_as_python_writes_them():
    values = np.r_[np.random.default_rng(0).lognormal(0, 20, 1000), 0.0, -0.0, -1 / 3, np.inf, np.nan, 5e-324]
    expected = [float(f"{value * (1 + 1e-11):.9g}") for value in values.tolist()]
    assert rounded(values).tobytes() == np.array(expected).tobytes()
    assert rounded(np.array([])).shape == (0,)


def test_the_order_of_summation_does_not_decide_ties():
    ties = np.array([10542.45805, -10542.45805, 0.1234567885, 3e9 + 5.0, 1.000000005])
    for noise in (0.0, 1e-13, -1e-13, 5e-12, -5e-12):
        assert rounded(ties * (1.0 + noise)).tobytes() == rounded(ties).tobytes()
    assert rounded(rounded(ties)).tobytes() == rounded(ties).tobytes()
