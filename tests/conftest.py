"""Settings of all tests."""

from hypothesis import settings

# Kernels are compiled on first use and machines are shared: no deadline tells anything about the code.
settings.register_profile("shared", deadline=None, print_blob=True)
settings.load_profile("shared")
