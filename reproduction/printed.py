"""Numbers as the paper prints them, to be set beside ours."""

TCE = 0.0868
"""Section 5.3, for Beta(0.2, 0.7) and E[Y|c] = c²."""
BIN_SIZES = {"porto-seguro": 800, "avazu": 2000, "cactrdc": 1000}
"""Section 5.1; said there to follow from α = 0.05 and e = 0.1."""
SIZES = {
    "cactrdc": (48_000_000, 11_000_000, 1_000_000),
    "porto-seguro": (357_000, 208_000, 30_000),
    "avazu": (24_000_000, 12_000_000, 4_000_000),
}
"""Table 1: rows for the predictor, for the calibrator, for the test."""
MAIN = {
    "cactrdc": {
        "base": (0.00394, 0.77902),
        "platt": (0.00374, 0.77902),
        "beta": (0.00371, 0.77902),
        "histogram": (0.00372, 0.77895),
        "isotonic": (0.00371, 0.77915),
        "scaling-binning": (0.00373, 0.77892),
        "mbct": (0.00368, 0.78693),
        "mbct-one-tree": (0.00374, 0.78373),
    },
    "porto-seguro": {
        "base": (0.00619, 0.62869),
        "platt": (0.00604, 0.62869),
        "beta": (0.00601, 0.62869),
        "histogram": (0.00597, 0.62998),
        "isotonic": (0.00598, 0.62936),
        "scaling-binning": (0.00605, 0.62880),
        "mbct": (0.00586, 0.63097),
        "mbct-one-tree": (0.00595, 0.62999),
    },
    "avazu": {
        "base": (0.00976, 0.71880),
        "platt": (0.00792, 0.71880),
        "beta": (0.00789, 0.71880),
        "histogram": (0.00787, 0.72381),
        "isotonic": (0.00787, 0.72030),
        "scaling-binning": (0.00792, 0.71871),
        "mbct": (0.00780, 0.74177),
        "mbct-one-tree": (0.00784, 0.73797),
    },
}
"""Table 2: MVCE and AUC."""
ONLINE = {"isotonic": {"auc": 0.003, "ctr": 0.088, "ecpm": 0.045}, "mbct": {"auc": 0.057, "ctr": 0.221, "ecpm": 0.084}}
"""Table 3: relative gains of the online test over no calibration."""
