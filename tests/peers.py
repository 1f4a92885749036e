"""Data and settings that the comparisons with independent implementations share."""

from functools import partial

import numpy as np
from sklearn.linear_model import LogisticRegression

# The peers call scikit-learn's logistic regression with its default tolerance of 1e-4, which leaves errors of the same
# size in their predictions. With this in its place they solve the same problem exactly.
ExactLogisticRegression = partial(LogisticRegression, tol=1e-12, max_iter=100_000)


def biased_scores(seed=0, n=3000, power=1.6):
    rng = np.random.default_rng(seed)
    p = rng.beta(0.7, 1.8, n).clip(1e-6, 1 - 1e-6)
    return p, (rng.uniform(size=n) < 0.1 + 0.8 * p**power).astype(float)
