"""The frozen model: bins, encoding, trees, ensemble, rules, bounds and the file they are kept in."""
