"""Pure functions of arrays: sums of bins, Theorem 1, divisions and views, calibration errors, scores."""
