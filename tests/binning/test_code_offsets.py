import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mbct.binning.code_offsets import code_offsets


@given(st.lists(st.integers(0, 300), max_size=20))
def test_every_code_of_every_feature_has_a_place_of_its_own(n_codes):
    offsets = code_offsets(tuple(n_codes))
    places = [offsets[j] + code for j, n in enumerate(n_codes) for code in range(n)]
    assert places == list(range(int(offsets[-1])))
    assert offsets.dtype == np.int64


def test_arrays_give_the_same():
    assert code_offsets(np.array([2, 7], np.int64)).tolist() == code_offsets((2, 7)).tolist() == [0, 2, 9]
