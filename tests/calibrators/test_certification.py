from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

from builders import biased_clicks
from mbct import MBCTCalibrator, load_model
from mbct.calibrators.certification import HeldOutRows, bounds, certify_rows, split_for_certificate
from mbct.calibrators.inputs import training_data
from mbct.data.columns import encode, read_columns
from mbct.errors import DataError, ParameterError
from mbct.model.certificate import Certificate
from mbct.training.folds import BlockColumns
from mbct.training.trainer import RowFingerprint


@pytest.fixture(scope="module")
def fitted():
    return MBCTCalibrator("p", preset="fast", max_trees=8).fit(biased_clicks(0, 8_000).frame, "y")


def held_out(model, data, block=None):
    codes = encode(read_columns(data.frame), model.model_.bins, data.p)
    return HeldOutRows(codes, data.p, model.calibrate(data.frame), data.y, block)


@pytest.mark.parametrize("method", ["clopper-pearson", "betting", "theorem-1"])
def test_all_bins_hold_at_once(fitted, method):
    """The truth of the certified rows lies within all bounds, in at least 1 − α of 40 samples; α is 0.2 here."""
    rules = partition = 0
    for seed in range(1, 41):
        data = biased_clicks(seed, 3_000)
        rows = held_out(fitted, data)
        certificate = certify_rows(fitted.model_, rows, RowFingerprint(), alpha=0.2, method=method)
        nodes = [tree.apply(rows.codes) for tree in fitted.model_.trees]
        gap = data.truth - rows.calibrated
        rules += all(
            found.lower <= gap[nodes[tree] == node].mean() <= found.upper
            for found in certificate.group("rules")
            for tree, node in [map(int, found.name.split("/"))]
        )
        lower, upper = certificate.intervals.of_rows(fitted.model_.bin_tree.apply(rows.codes), rows.calibrated)
        partition += all(
            lower[own].mean() <= data.truth[own].mean() <= upper[own].mean() for own in bins_of(rows.calibrated, upper)
        )
    assert min(rules, partition) >= 0.8 * 40


def bins_of(calibrated, upper):
    """Rows of each bin: those whose interval has the same multiplier."""
    factor = np.round(upper / calibrated, 6)
    return [np.flatnonzero(factor == each) for each in np.unique(factor)]


def test_bins_of_the_partition_hold_every_row_once(fitted):
    rows = held_out(fitted, biased_clicks(1, 20_000))
    certificate = certify_rows(fitted.model_, rows, RowFingerprint(), alpha=0.05, method="clopper-pearson")
    partition = certificate.group("partition")
    assert sum(found.rows for found in partition) == 20_000
    assert len(partition) > len(fitted.model_.bin_tree.leaves)


@pytest.mark.parametrize("max_error", [0.02, 0.03, 0.05])
def test_merging_meets_the_requested_error_with_the_more_bins_the_larger_it_is(fitted, max_error):
    rows = held_out(fitted, biased_clicks(1, 20_000))

    def partition(error):
        found = certify_rows(
            fitted.model_, rows, RowFingerprint(), alpha=0.05, method="clopper-pearson", max_error=error
        )
        return found.group("partition")

    merged = partition(max_error)
    assert max(found.bound for found in merged) <= max_error
    assert sum(found.rows for found in merged) == 20_000
    assert len(merged) <= len(partition(2 * max_error))


def test_an_error_that_no_partition_has_is_refused(fitted):
    rows = held_out(fitted, biased_clicks(1, 2_000))
    with pytest.raises(DataError, match=r"max_error=0.001 cannot be certified by 2,000 rows: as one bin .* ± 0\.0"):
        certify_rows(fitted.model_, rows, RowFingerprint(), alpha=0.05, method="clopper-pearson", max_error=0.001)


def test_the_mean_of_the_ends_is_the_interval_of_the_bin(fitted):
    data = biased_clicks(1, 20_000)
    model = deepcopy(fitted)
    rows = held_out(model, data)
    certificate = certify_rows(model.model_, rows, RowFingerprint(), alpha=0.05, method="clopper-pearson")
    model.attach(certificate)
    calibrated, lower, upper = model.calibrate(data.frame, return_interval=True)
    assert np.array_equal(calibrated, rows.calibrated)
    found = {
        (len(own), *np.round([lower[own].mean(), upper[own].mean()], 6).tolist()) for own in bins_of(calibrated, upper)
    }
    assert found == {
        (b.rows, *np.round([b.mean_prediction + b.lower, b.mean_prediction + b.upper], 6).tolist())
        for b in certificate.group("partition")
    }


def test_blocks_are_as_wide_as_independent_rows_at_least(fitted):
    data = biased_clicks(1, 4_000)
    rows = held_out(fitted, data, np.repeat(np.arange(40), 100).astype(np.int32))
    one = np.zeros(4_000, dtype=np.int64)
    exact = bounds(rows, one, 1, 1, 0.05, "clopper-pearson")
    blocks = bounds(rows, one, 1, 1, 0.05, "blocks")
    assert blocks.lower[0] <= exact.lower[0] < exact.upper[0] <= blocks.upper[0]
    with pytest.raises(DataError, match="method='blocks' needs to know which rows belong together"):
        bounds(held_out(fitted, data), one, 1, 1, 0.05, "blocks")


def test_certified_by_construction(tmp_path):
    data = biased_clicks(0, 10_000)
    options = {"preset": "fast", "max_trees": 4}
    model = MBCTCalibrator("p", certify=0.2, max_error=0.1, **options).fit(data.frame, "y")
    certificate = model.certificate_
    assert certificate.rows == 2_000
    assert certificate.unseen
    assert certificate.method == "clopper-pearson"
    assert max(found.bound for found in certificate.group("partition")) <= 0.1
    model.save(tmp_path / "model.json")
    again = load_model(tmp_path / "model.json")
    assert again.certificate_.to_dict() == certificate.to_dict()
    for one, other in zip(*(m.calibrate(data.frame, return_interval=True) for m in (model, again)), strict=True):
        assert np.array_equal(one, other)
    with pytest.raises(ParameterError, match="the certificate is of model"):
        MBCTCalibrator("p", **options).fit(data.frame, "y").attach(certificate)


def test_whole_blocks_are_kept_and_of_time_the_last():
    data = biased_clicks(0, 6_000)
    day = np.arange(6_000) // 100
    model = MBCTCalibrator("p", preset="fast", max_trees=2, certify=0.25)
    model.fit(data.frame, "y", time=day)
    assert (model.certificate_.rows, model.certificate_.blocks, model.certificate_.method) == (1_500, 15, "blocks")
    assert model.fingerprint_.count == 4_500
    assert model.fingerprint_.label == data.y[:4_500].sum()
    model.fit(data.frame, "y", groups=day % 7)
    assert model.certificate_.blocks == 2


def test_no_group_is_both_fitted_on_and_certified_with():
    data = biased_clicks(0, 6_000)
    day, shop = np.arange(6_000) // 100, np.random.default_rng(0).integers(0, 40, 6_000)
    columns = BlockColumns(day, shop)
    rows = training_data(data.frame.assign(shop=shop), "y", None, None, "p", blocks=columns)
    train, certify = split_for_certificate(rows, 0.25, 1.0, 0)
    assert len(certify.y_true) == pytest.approx(6_000 / 16, rel=0.25)
    assert train.block[:, 0].max() == 44
    assert set(certify.block[:, 0]) == set(range(45, 60))
    assert not set(train.block[:, 1]) & set(certify.block[:, 1])
    model = MBCTCalibrator("p", preset="fast", max_trees=2, certify=0.25).fit(data.frame, "y", time=day, groups=shop)
    assert (model.certificate_.rows, model.certificate_.blocks) == (len(certify.y_true), 15)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"certify": 0.2, "alpha": 0.6}, "alpha=0.6 must be at most 0.5 for certify"),
        ({"certify": 1.5}, "certify=1.5 must lie between 0 and 1"),
        ({"max_error": 0.1}, "max_error=0.1 must be above 0, and needs certify=0.2"),
        ({"certify": 0.2, "negative_sampling_rate": 0.5}, "certify counts every row once"),
    ],
)
def test_what_cannot_be_certified_is_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        MBCTCalibrator("p", preset="fast", **options).fit(biased_clicks(0, 500).frame, "y")


def test_predictions_of_0_and_no_rows(fitted):
    data = biased_clicks(1, 300)
    rows = held_out(fitted, data)
    nothing = HeldOutRows(rows.codes, rows.y_prob, np.zeros(300), rows.y_true)
    certificate = certify_rows(fitted.model_, nothing, RowFingerprint(), alpha=0.05, method="clopper-pearson")
    (whole,) = certificate.group("partition")
    assert whole.lower <= data.truth.mean() <= whole.upper
    again = Certificate.from_json(certificate.to_json())
    assert np.array_equal(again.intervals.upper, certificate.intervals.upper)
    none = HeldOutRows(*(column[:0] for column in (rows.codes, rows.y_prob, rows.calibrated, rows.y_true)))
    with pytest.raises(DataError, match="there are no rows to certify with"):
        certify_rows(fitted.model_, none, RowFingerprint(), alpha=0.05, method="clopper-pearson")


def test_intervals_of_another_tree_are_refused(fitted):
    rows = held_out(fitted, biased_clicks(1, 300))
    found = certify_rows(fitted.model_, rows, RowFingerprint(), alpha=0.05, method="clopper-pearson")
    short = replace(found.intervals, start=found.intervals.start[:-1])
    with pytest.raises(ParameterError, match="do not fit a tree of"):
        fitted.attach(replace(found, intervals=short))


def test_rows_in_an_engine_are_refused():
    import polars

    frame = polars.from_pandas(biased_clicks(0, 500).frame).lazy()
    with pytest.raises(ParameterError, match=r"certify=0\.2 needs the rows in memory"):
        MBCTCalibrator("p", certify=0.2).fit(frame, "y")


def test_a_model_without_certificate_has_no_intervals(fitted):
    with pytest.raises(ParameterError, match=r"the model has no intervals: fit with certify=0\.2"):
        fitted.calibrate(biased_clicks(0, 10).frame, return_interval=True)
