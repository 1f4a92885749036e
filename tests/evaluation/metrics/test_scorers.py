import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, cross_val_score

import mbct.metrics as metrics


def _data(n=400):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, (rng.random(n) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)


@pytest.mark.parametrize(
    "name", ["ece", "mvce", "smooth_ece", "ece_sweep", "debiased_ece", "ecce", "brier", "log_loss"]
)
def test_every_error_is_a_scorer(name):
    X, y = _data()
    scorer = make_scorer(getattr(metrics, name), response_method="predict_proba", greater_is_better=False)
    model = LogisticRegression().fit(X, y)
    direct = getattr(metrics, name)(y, model.predict_proba(X)[:, 1])
    assert scorer(model, X, y) == -direct
    scores = cross_val_score(LogisticRegression(), X, y, scoring=scorer, cv=3)
    assert np.all(scores <= 0)
    assert scores.dtype == np.float64


def test_grid_search_takes_one():
    X, y = _data()
    scorer = make_scorer(metrics.ece, response_method="predict_proba", greater_is_better=False, n_bins=5)
    search = GridSearchCV(LogisticRegression(), {"C": [1e-4, 1.0]}, scoring=scorer, cv=3).fit(X, y)
    assert search.best_params_ == {"C": 1.0}


def test_scorer_takes_weights():
    X, y = _data()
    model = LogisticRegression().fit(X, y)
    scorer = make_scorer(metrics.auc, response_method="predict_proba")
    w = np.arange(len(y)) % 3
    assert scorer(model, X, y, sample_weight=w) == metrics.auc(y, model.predict_proba(X)[:, 1], sample_weight=w)
