"""Side-by-side comparison of calibration methods on the same held-out rows."""
