from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from mbct.calibrators import CalibratedClassifier


@parametrize_with_checks(
    [CalibratedClassifier(LogisticRegression(), "platt"), CalibratedClassifier(LogisticRegression(), "isotonic")]
)
def test_keeps_the_contract_of_scikit_learn(estimator, check):
    check(estimator)
