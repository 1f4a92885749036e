"""What the insurance guide says about exposure, on real claims."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from mbct import MBCTCalibrator

ROOT = Path(__file__).parents[2]
GUIDE = " ".join((ROOT / "docs" / "guides" / "insurance.md").read_text(encoding="utf-8").split())
CLAIMS = ROOT.parent / "shared" / "data" / "fremtpl2.parquet"


@pytest.fixture(scope="module")
def policies() -> dict[str, np.ndarray]:
    if not CLAIMS.exists():
        pytest.skip(f"{CLAIMS} is absent: it holds freMTPL2freq of the R package CASdatasets")
    table = pq.read_table(CLAIMS, columns=["Exposure", "claim", "ClaimNb", "Area", "DrivAge", "BonusMalus"])
    return {name: table[name].to_numpy() for name in table.column_names}


def test_the_rates_of_the_guide_are_those_of_the_claims(policies: dict[str, np.ndarray]):
    exposure, claim = policies["Exposure"], policies["claim"]
    years = np.sum(exposure)
    weighted, with_claim, claims = (np.sum(each) / years for each in (exposure * claim, claim, policies["ClaimNb"]))
    assert f"On the {len(claim):,} French motor policies" in GUIDE
    assert f"the first is {weighted:.3f} and the second {with_claim:.3f} ({claims:.3f} with every claim" in GUIDE


def test_claims_per_year_follow_from_the_probability_of_the_time_in_force(policies: dict[str, np.ndarray]):
    order = np.random.default_rng(0).permutation(len(policies["claim"]))
    fitted, held_out = ({name: v[rows] for name, v in policies.items()} for rows in (order[:60_000], order[60_000:]))
    for rows in (fitted, held_out):
        rows["risk"] = 1 - np.exp(-0.05 * rows["Exposure"])  # half of what it should be
    calibrator = MBCTCalibrator("risk", features=["Area", "DrivAge", "BonusMalus"], preset="paper", min_bin_size=2_000)
    calibrated = calibrator.fit(fitted, "claim").calibrate(held_out)
    years = np.sum(held_out["Exposure"])
    per_year = np.sum(-np.log1p(-calibrated)) / years
    assert per_year == pytest.approx(np.sum(held_out["ClaimNb"]) / years, rel=0.03)
    assert f"the others come out at {per_year:.3f} claims per year" in GUIDE
