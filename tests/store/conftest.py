"""Fixtures of the store's tests."""

from processes import redis_server  # noqa: F401 - found by its name
