"""Section 5.3: which metric comes nearest to the true calibration error."""
