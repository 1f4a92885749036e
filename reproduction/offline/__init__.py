"""Sections 5.4 and 5.5: the main table and the in-depth figures, on data at rest."""
