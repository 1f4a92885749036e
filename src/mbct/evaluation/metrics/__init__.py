"""The metrics, one module for each kind; :mod:`mbct.metrics` names them for users."""
