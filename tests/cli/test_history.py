"""``mbct history`` of a store without any."""

from terminal import mbct


def test_an_empty_store_has_none(tmp_path):
    assert mbct("history", "--store", "cells", "--json", cwd=tmp_path).out == '{\n  "events": []\n}\n'
