"""Section 5.6, simulated: what calibration does to an advertising market."""
