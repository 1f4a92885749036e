"""How good predictions are: metrics, diagnostics, comparison of methods, ranking of features."""
