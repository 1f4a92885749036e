"""The chapters of the report, one file each: first what is computed, then how it is shown."""
