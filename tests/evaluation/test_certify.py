import numpy as np
import pytest

from builders import biased_clicks
from mbct import MBCTCalibrator, certify
from mbct.calibrators.registry import make
from mbct.errors import DataError, ModelFileError, ParameterError
from mbct.model.certificate import Certificate


@pytest.fixture(scope="module")
def fitted():
    return MBCTCalibrator("p", preset="fast", max_trees=4).fit(biased_clicks(0, 6_000).frame, "y")


def test_rules_partition_and_segments_are_certified(fitted):
    fresh = biased_clicks(1, 6_000)
    certificate = certify(fitted, fresh.frame, "y", by=["device", "site"])
    assert certificate.groups == ("rules", "partition", "device", "site")
    assert certificate.unseen
    calibrated = fitted.calibrate(fresh.frame)
    for found in certificate.group("device"):
        own = (fresh.frame["device"] == found.name).to_numpy()
        assert found.rows == own.sum()
        assert found.mean_prediction == pytest.approx(calibrated[own].mean())
        assert found.label_rate == pytest.approx(fresh.y[own].mean())
        assert found.lower < found.label_rate - found.mean_prediction < found.upper
        assert abs(found.label_rate - found.mean_prediction) < found.bound < found.theorem_1
    assert next(certificate.lines()).endswith(f"at 95%, all {len(certificate.group('rules')):,} bins at once")


def test_rows_of_the_fit_are_refused(fitted):
    with pytest.raises(DataError, match="rows of the fit are among the rows to certify with"):
        certify(fitted, biased_clicks(0, 6_000).frame, "y")


def test_blocks_are_taken_where_rows_belong_together(fitted):
    fresh = biased_clicks(1, 3_000)
    day = np.arange(3_000) // 60
    certificate = certify(fitted, fresh.frame, "y", time=day, by="device")
    assert (certificate.method, certificate.blocks) == ("blocks", 50)
    assert "approximately" in next(certificate.lines())
    assert certify(fitted, fresh.frame, "y", time=day, method="clopper-pearson").blocks == 0


def test_a_certificate_is_json_both_ways(fitted):
    certificate = certify(fitted, biased_clicks(1, 2_000).frame, "y")
    again = Certificate.from_json(certificate.to_json())
    assert again.to_json() == certificate.to_json()
    assert again.bins == certificate.bins
    for damage in ('"method": "luck"', '"rows": -1', '"level": "high"'):
        name = damage.split(":")[0]
        broken = certificate.to_json().replace(f"{name}:", f'"other": 0, {damage}, "more":')
        with pytest.raises(ModelFileError):
            Certificate.from_json(broken)
    with pytest.raises(ModelFileError, match="the certificate is damaged"):
        Certificate.from_json("{")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "luck"}, "method='luck' must be one of clopper-pearson"),
        ({"alpha": 0.7}, "alpha=0.7 must lie above 0"),
    ],
)
def test_wrong_parameters(fitted, options, message):
    with pytest.raises(ParameterError, match=message):
        certify(fitted, biased_clicks(1, 100).frame, "y", **options)


def test_methods_without_bins_are_refused():
    data = biased_clicks(0, 500)
    with pytest.raises(ParameterError, match="a 'isotonic' calibrator has no bins to certify"):
        certify(make("isotonic", score_column="p").fit(data.frame[["p"]], data.y), data.frame, "y")


def test_a_file_and_a_lazy_frame_are_read(fitted, tmp_path):
    polars = pytest.importorskip("polars")
    frame = polars.from_pandas(biased_clicks(1, 500).frame)
    frame.write_parquet(tmp_path / "rows.parquet")
    expected = certify(fitted, frame, "y").to_json()
    assert certify(fitted, frame.lazy(), "y").to_json() == expected
    assert certify(fitted, str(tmp_path / "rows.parquet"), "y").to_json() == expected
