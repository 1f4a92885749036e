import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from mbct import MBCTCalibrator, load_model
from mbct.calibrators import DirichletCalibrator, MulticlassCalibrator
from mbct.errors import DataError, MBCTWarning, ParameterError

SCORES = ["early", "on time", "late"]


def three_classes(seed, n_rows, *, biased=True):
    """Delays whose base thinks too well of one carrier."""
    rng = np.random.default_rng(seed)
    carrier = rng.choice(["AA", "B6", "UA"], n_rows)
    hour = rng.integers(5, 24, n_rows)
    z = np.column_stack([rng.normal(0.8, 0.7, n_rows), rng.normal(0.5, 0.7, n_rows), 0.1 * (hour - 15.0)])
    truth = z + (np.column_stack([-1.0 * (carrier == "B6"), 0 * z[:, 0], 1.0 * (carrier == "B6")]) if biased else 0.0)
    base, true = (np.exp(v) / np.exp(v).sum(axis=1, keepdims=True) for v in (z, truth))
    label = (rng.random((n_rows, 1)) > true.cumsum(axis=1)).sum(axis=1)
    frame = pd.DataFrame({"carrier": carrier, "hour": hour, **dict(zip(SCORES, base.T, strict=True))})
    return frame, np.array(["a early", "b on time", "c late"])[label], true


def log_loss(probabilities, label):
    code = np.unique(label, return_inverse=True)[1]
    return float(-np.log(np.clip(probabilities[np.arange(len(code)), code], 1e-12, 1)).mean())


@pytest.mark.parametrize("coupling", ["joint", "one-vs-rest"])
def test_a_bias_by_feature_is_found_where_dirichlet_cannot_see_it(coupling):
    frame, label, _ = three_classes(0, 8_000)
    test, test_label, truth = three_classes(1, 8_000)
    model = MulticlassCalibrator(score_column=SCORES, coupling=coupling).fit(frame, label)
    calibrated = model.calibrate(test)
    assert np.allclose(calibrated.sum(axis=1), 1.0, atol=1e-12)
    assert model.classes_.tolist() == ["a early", "b on time", "c late"]
    dirichlet = DirichletCalibrator(score_column=SCORES).fit(frame[SCORES], label).calibrate(test[SCORES])
    assert log_loss(calibrated, test_label) < log_loss(dirichlet, test_label) - 0.01
    base_error, error = (np.sqrt(np.mean((q - truth) ** 2)) for q in (test[SCORES].to_numpy(), calibrated))
    assert error < 0.4 * base_error


@pytest.mark.parametrize("coupling", ["joint", "one-vs-rest"])
def test_nothing_to_correct_changes_almost_nothing(coupling):
    frame, label, _ = three_classes(2, 5_000, biased=False)
    test, test_label, _ = three_classes(3, 5_000, biased=False)
    calibrated = MulticlassCalibrator(score_column=SCORES, coupling=coupling).fit(frame, label).calibrate(test)
    assert log_loss(calibrated, test_label) < log_loss(test[SCORES].to_numpy(), test_label) + 5e-4


@pytest.mark.filterwarnings("ignore:left out of the rules, because their values identify the time")
@pytest.mark.parametrize("coupling", ["joint", "one-vs-rest"])
def test_a_bias_of_single_days_is_not_learned_where_days_are_held_out_whole(coupling):
    """Every day has its own bias, which nothing but a column that names the day can tell: it does not come again."""
    frame, label, _ = three_classes(0, 4_000, biased=False)
    day = np.arange(4_000) // 200
    moved = np.random.default_rng(1).normal(size=20)[day] > 0.5
    label = np.where(moved, "c late", label)
    frame = frame.assign(batch=day % 20, day=day)
    by_row = MulticlassCalibrator(SCORES, coupling=coupling, max_trees=20).fit(frame.drop(columns="day"), label)
    by_day = MulticlassCalibrator(SCORES, coupling=coupling, max_trees=20, time="day").fit(frame, label)
    base = frame[SCORES].to_numpy()
    change = [np.abs(model.calibrate(frame) - base).mean() for model in (by_row, by_day)]
    assert change[0] > 0.1
    assert change[1] < 0.05
    assert "day" not in by_day.feature_names_in_
    groups = MulticlassCalibrator(SCORES, coupling=coupling, max_trees=4, groups="day").fit(frame, label)
    assert np.allclose(groups.calibrate(frame).sum(axis=1), 1.0)


@pytest.mark.parametrize("coupling", ["joint", "one-vs-rest"])
def test_time_and_groups_together_find_a_bias_that_all_days_and_groups_share(coupling):
    frame, label, _ = three_classes(0, 6_000)
    rng = np.random.default_rng(1)
    frame = frame.assign(day=np.arange(6_000) // 150, shop=rng.integers(0, 50, 6_000))
    model = MulticlassCalibrator(SCORES, coupling=coupling, max_trees=30, time="day", groups="shop")
    test, test_label, _ = three_classes(2, 4_000)
    found = model.fit(frame, label).calibrate(test)
    assert log_loss(found, test_label) < log_loss(test[SCORES].to_numpy(), test_label) - 0.005
    order = rng.permutation(len(label))
    assert np.array_equal(model.fit(frame.iloc[order], label[order]).calibrate(test), found)


@pytest.mark.parametrize("coupling", ["joint", "one-vs-rest"])
def test_saved_and_loaded_it_says_the_same(coupling, tmp_path):
    frame, label, _ = three_classes(4, 2_000)
    model = MulticlassCalibrator(score_column=SCORES, coupling=coupling, max_trees=20).fit(frame, label)
    model.save(tmp_path / "model.json")
    loaded = load_model(tmp_path / "model.json")
    assert np.array_equal(loaded.predict_proba(frame), model.predict_proba(frame))
    assert loaded.predict(frame).tolist() == model.predict(frame).tolist()


@pytest.mark.parametrize("coupling", ["joint", "one-vs-rest"])
def test_row_order_threads_and_copies_do_not_matter(coupling):
    frame, label, _ = three_classes(5, 1_500)
    frame["label"] = label

    def fitted(rows, weight=None, **options):
        model = MulticlassCalibrator(score_column=SCORES, coupling=coupling, max_trees=15, **options)
        return model.fit(rows, "label", sample_weight=weight).calibrate(frame)

    expected = fitted(frame)
    assert np.array_equal(fitted(frame.sample(frac=1.0, random_state=0)), expected)
    assert np.array_equal(fitted(frame, n_threads=1), expected)
    copies = np.random.default_rng(0).integers(0, 3, len(frame))
    assert np.array_equal(fitted(frame, copies), fitted(frame.loc[frame.index.repeat(copies)]))


@pytest.mark.parametrize("coupling", ["joint", "one-vs-rest"])
def test_weights_of_rows_invent_nothing(coupling):
    frame, label, _ = three_classes(7, 3_000, biased=False)
    test, test_label, _ = three_classes(8, 5_000, biased=False)
    base = log_loss(test[SCORES].to_numpy(), test_label)
    for weight in (np.full(len(frame), 5.0), np.random.default_rng(1).integers(1, 6, len(frame))):
        model = MulticlassCalibrator(score_column=SCORES, coupling=coupling).fit(frame, label, sample_weight=weight)
        assert log_loss(model.calibrate(test), test_label) < base + 2e-3


def test_handwritten_digits_from_a_matrix_of_scores():
    X, y = load_digits(return_X_y=True)
    part = np.arange(len(y)) % 3
    base = LogisticRegression(C=1e-4, max_iter=2000).fit(X[part == 0], y[part == 0])
    train, test = (base.predict_proba(X[part == k]) for k in (1, 2))
    model = MulticlassCalibrator().fit(X[part == 1], y[part == 1], y_prob=train)
    calibrated = model.calibrate(X[part == 2], y_prob=test)
    code = np.arange(10)[y[part == 2]]
    losses = [-np.log(q[np.arange(len(code)), code]).mean() for q in (calibrated, test)]
    assert losses[0] < 0.8 * losses[1]


def test_wrong_use_is_named():
    frame, label, _ = three_classes(6, 50)
    with pytest.raises(ParameterError, match="coupling='both' must be 'joint' or 'one-vs-rest'"):
        MulticlassCalibrator(score_column=SCORES, coupling="both").fit(frame, label)
    with pytest.raises(DataError, match="2 score columns, but y has 3 classes"):
        MulticlassCalibrator(score_column=SCORES[:2]).fit(frame, label)
    frame, label, _ = three_classes(6, 1_500)
    fitted = MulticlassCalibrator(score_column=SCORES, max_trees=5, n_folds=2).fit(frame, label)
    with pytest.raises(DataError, match=r"column is missing: 'carrier'; the data has 'hour'$"):
        fitted.calibrate(frame.drop(columns="carrier"))


def by_day(seed=0, n_rows=4_000):
    """Rows of twenty days in order, with a column that gives the day away and one that numbers the rows."""
    frame, label, _ = three_classes(seed, n_rows)
    day = np.arange(n_rows) * 20 // n_rows
    return frame.assign(day=day, week=day // 4), label


def test_features_that_identify_the_time_are_left_out_of_joint_trees_unless_named(tmp_path):
    frame, label = by_day()
    model = MulticlassCalibrator(SCORES, time="day", max_trees=20)
    with pytest.warns(MBCTWarning, match=r"left out of the rules, because their values identify the time .*: 'week'"):
        model.fit(frame, label)
    assert model.excluded_features_ == ["week"]
    week = model.bins_.names.index("week")
    assert any(model.trees_)
    assert not any(np.any(tree.feature == week) for trees in model.trees_ for tree in trees)
    model.save(tmp_path / "model.json")
    assert load_model(tmp_path / "model.json").excluded_features_ == ["week"]
    named = MulticlassCalibrator(SCORES, ["carrier", "week"], time="day", max_trees=2)
    with pytest.warns(MBCTWarning, match=r"kept because features=\[…\] names them: 'week'"):
        named.fit(frame, label)
    assert set(MulticlassCalibrator(SCORES, groups="day", max_trees=2).fit(frame, label).excluded_features_) == set()


@pytest.mark.parametrize("coupling", ["joint", "one-vs-rest"])
def test_identifiers_and_dates_are_no_features(coupling):
    frame, label, _ = three_classes(0, 600)
    frame = frame.assign(id=[f"row {i}" for i in range(600)])
    with pytest.warns(MBCTWarning, match=r"left out, features=\[…\] would keep them: id"):
        model = MulticlassCalibrator(SCORES, coupling=coupling, max_trees=2, n_folds=2).fit(frame, label)
    assert np.array_equal(model.calibrate(frame), model.calibrate(frame.assign(id="other")))


def test_gap_and_half_life_of_each_class_are_those_of_two_classes():
    frame, label = by_day()
    rest = frame.drop(columns=["week", *SCORES])
    settings = {"time": "day", "max_trees": 10, "gap": 2, "half_life": 1.0}
    model = MulticlassCalibrator(SCORES, coupling="one-vs-rest", **settings).fit(frame.drop(columns="week"), label)
    for each, name, score in zip(model.each_, model.classes_, SCORES, strict=True):
        alone = MBCTCalibrator(**settings).fit(rest, (label == name).astype(int), y_prob=frame[score])
        expected = alone.calibrate(rest, y_prob=frame[score])
        assert np.array_equal(each.calibrate(rest.drop(columns="day"), y_prob=frame[score]), expected)


def test_gap_and_half_life_of_joint_trees_default_to_none_and_one_fold():
    frame, label = by_day()
    frame = frame.drop(columns="week")

    def calibrated(**blocks):
        return MulticlassCalibrator(SCORES, time="day", max_trees=10, **blocks).fit(frame, label).calibrate(frame)

    plain = calibrated()
    assert np.array_equal(calibrated(gap=0, half_life=4.0), plain)  # twenty days in five folds
    assert not np.array_equal(calibrated(gap=2), plain)
    assert not np.array_equal(calibrated(half_life=1.0), plain)
    with pytest.raises(ParameterError, match="gap and half_life are measured in blocks of time"):
        MulticlassCalibrator(SCORES, gap=2).fit(frame, label)


def test_recent_days_decide_how_much_is_kept():
    """A bias that has ended is kept less where only recent days count."""
    frame, label, _ = three_classes(0, 4_000)
    calm, calm_label, _ = three_classes(1, 200, biased=False)
    frame = pd.concat([frame, calm], ignore_index=True).assign(day=np.arange(4_200) // 100)
    label = np.concatenate([label, calm_label])
    change = [
        np.abs(model.fit(frame, label).calibrate(frame) - frame[SCORES].to_numpy()).mean()
        for model in (MulticlassCalibrator(SCORES, time="day", max_trees=20, half_life=h) for h in (1000.0, 1.0))
    ]
    assert change[1] < 0.9 * change[0]
