"""A test file is named after the module or folder that it tests, or is listed here with what it is about."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
OF_ALL = ("architecture", "docs", "laws")
"""Folders whose tests are about the whole package."""
OF_SEVERAL = {
    "calibrators/score_only/test_bbq.py": "BBQ of score_only/binning.py beside its reference",
    "calibrators/score_only/test_beta.py": "beta calibration of score_only/logistic.py beside betacal",
    "calibrators/score_only/test_histogram.py": "histogram binning of score_only/binning.py",
    "calibrators/score_only/test_platt.py": "Platt scaling of score_only/logistic.py",
    "calibrators/score_only/test_scaling_binning.py": "scaling-binning of score_only/binning.py beside its reference",
    "calibrators/score_only/test_temperature.py": "temperature scaling of score_only/logistic.py",
    "calibrators/test_probmetrics.py": "scalings of two and many classes beside probmetrics",
    "calibrators/test_soft_labels.py": "labels that are fractions or counts, in every calibrator",
    "calibrators/test_warnings.py": "what calibrators warn of: rows, columns and values that look wrong",
    "calibrators/test_interrupt.py": "Ctrl-C during a fit",
    "calibrators/test_time_and_groups.py": "time and groups from the estimator down to the trees",
    "cli/test_serving.py": "publish, rollback and serve together",
    "data/test_agreement.py": "the same cells from every engine",
    "data/test_dependence.py": "rows that belong together of data/checks.py",
    "data/test_guide.py": "the guide on engines",
    "data/test_raw_errors.py": "what every way of reading raw values refuses",
    "data/test_raw_groups.py": "groups of raw values of data/raw_cells.py",
    "data/test_raw_rows.py": "rows of raw values of data/raw_cells.py",
    "data/test_scoring.py": "scoring of data/entry.py in every engine",
    "data/test_spellings.py": "one spelling of a value wherever it is read",
    "evaluation/diagnostics/test_diagnostics.py": "what all diagnostics share",
    "evaluation/metrics/test_docs.py": "the page on metrics",
    "evaluation/metrics/test_imports.py": "what metrics load",
    "evaluation/metrics/test_laws.py": "laws of every metric",
    "evaluation/metrics/test_peers.py": "metrics beside other libraries",
    "evaluation/metrics/test_scorers.py": "metrics as scikit-learn scorers",
    "evaluation/metrics/test_segments.py": "segments of evaluation/metrics/rows.py",
    "export/sql/test_engines.py": "the exported SQL in real databases",
    "export/sql/test_intervals.py": "intervals of export/sql/statement.py in real databases",
    "export/test_exports_guide.py": "the guide on exports",
    "model/test_code_tests.py": "tests of codes in model/conditions.py, in every engine",
    "model/test_masks.py": "trees as words of model/tree.py, added up by model/ensemble.py",
    "plots/test_displays.py": "what all displays share",
    "report/test_browser.py": "the page in a browser",
    "report/test_parts.py": "reading, resampling and formatting of a report",
    "reproduction/test_public_interface.py": "what the experiments import",
    "reproduction/test_published_page.py": "docs/reproduction",
    "serving/test_docs_deploying.py": "the page on deploying",
    "serving/test_grafana.py": "deploy/grafana/mbct.json",
    "serving/test_live.py": "live calibration of serving/outcome_stream.py",
    "stats/test_block_correlation.py": "correlation within blocks of stats/probabilities.py",
    "stats/test_cumulative_error.py": "ECCE of stats/expected_error.py",
    "stats/test_ranking.py": "AUC and changes of rank of stats/probabilities.py",
    "stats/test_smooth_error.py": "smooth ECE of stats/expected_error.py",
    "store/test_cell_metrics.py": "metrics and comparisons on cells of store/refresh.py",
    "store/test_crashes.py": "writers that die",
    "test_attack.py": "scripts/attack.py, for some seconds",
    "test_container.py": "deploy/: the container's own commands, and what stands around it",
    "test_release.py": "what is released: one version, the same bounds, Pythons and sessions wherever they are named",
    "training/paper/test_by_hand.py": "trees of the paper that were grown by hand",
    "training/test_duplicates.py": "duplicates in cells of training/binned_rows.py",
    "training/test_fingerprint.py": "by what training/trainer.py knows rows again",
    "training/test_fold_split.py": "cells split into folds and halves by training/folds.py",
    "training/test_gradients.py": "gradients and leaf values of training/grower.py",
    "training/test_presets.py": "the presets of training/trainer.py",
    "training/test_recalibration.py": "logit recalibration of training/offsets.py",
    "training/test_weights.py": "weights through the whole of training",
}


def mirrored(path: Path) -> bool:
    """Whether a module or folder of the same name stands where the test does."""
    name = path.stem.removeprefix("test_")
    places = [ROOT / "src" / "mbct" / path.parent, ROOT / path.parent]
    return any((place / f"{name}.py").exists() or (place / name).is_dir() for place in places)


@pytest.mark.parametrize("path", sorted(TESTS.rglob("test_*.py")), ids=lambda path: str(path.relative_to(TESTS)))
def test_a_test_file_mirrors_a_module_or_says_what_it_is_about(path: Path):
    relative = path.relative_to(TESTS)
    listed = str(relative) in OF_SEVERAL
    assert listed != (relative.parts[0] in OF_ALL or mirrored(relative))


def test_nothing_is_listed_that_is_gone():
    assert [name for name in OF_SEVERAL if not (TESTS / name).exists()] == []
