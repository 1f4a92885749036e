"""The page on architecture: the files that one fit goes through are those that it names, no more and no fewer."""

import re
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd

import mbct
from mbct import MBCTCalibrator

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
PACKAGE = Path(mbct.__file__).parent


def test_one_fit_calls_functions_of_the_files_that_the_page_names():
    text = PAGE.read_text(encoding="utf-8").split("## One `fit`")[1].split("## One `calibrate`")[0]
    rng = np.random.default_rng(0)
    columns = {"device": rng.choice(["m", "d"], 5000), "age": rng.integers(18, 80, 5000), "pctr": rng.beta(1, 9, 5000)}
    data = pd.DataFrame(columns)
    data["click"] = rng.random(5000) < data.pctr * np.where(data.device == "m", 1.6, 0.8)
    MBCTCalibrator("pctr").fit(data, "click")  # imports and compiles all that the fit needs
    seen = set()

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_name != "<module>":
            seen.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        MBCTCalibrator("pctr").fit(data, "click")
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    called = {str(Path(name).relative_to(PACKAGE.parent)) for name in seen if Path(name).is_relative_to(PACKAGE)}
    assert called == set(re.findall(r"`(mbct/[\w/]+\.py)`", text))
    assert f"It is {len(called)} files" in text
