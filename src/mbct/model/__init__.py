"""The frozen model: bins, encoding, trees, ensemble, rules, certificate, intervals and the file they are kept in."""
