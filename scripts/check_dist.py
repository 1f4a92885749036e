"""Build sdist and wheel, check them, and try the wheel in fresh environments: every extra, and README's examples.

    python scripts/check_dist.py [--extras cli,serve] [--no-examples]

The examples run in an empty folder far from this repository, so that nothing but the installed wheel can answer.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
USES = {
    "": "import mbct; print(mbct.__version__)",
    "cli": "import subprocess; subprocess.run(['mbct', '--help'], check=True, stdout=subprocess.DEVNULL)",
    "polars": "import mbct.data, polars; from mbct.data.source import is_lazy; assert is_lazy(polars.LazyFrame())",
    "spark": "import pyspark, mbct.data.engines.spark",
    "store": "from mbct.store import CellStore; assert not CellStore('cells').manifest().batches",
    "plots": "import matplotlib; matplotlib.use('agg'); import mbct.plots",
    "report": "import altair, vl_convert, mbct.report",
    "serve": "import mbct.serving.app, mbct.serving.server, httptools, msgspec, uvicorn",
    "redis": "from mbct.store.redis_backend import RedisBackend; RedisBackend('redis://127.0.0.1:1')",
    "onnx": "import onnx, mbct.export",
    "lightgbm": "import lightgbm; from mbct.calibrators import make; make('lightgbm')",
    "mlflow": "import warnings; warnings.simplefilter('ignore'); import mlflow.pyfunc, mbct; mbct.mlflow.log_model",
}
"""What shows that an extra brought what it promises; the extras for development are tried by their own targets."""
EXAMPLES = ("cli,report", ["pandas"])
"""What README tells its reader to install, and what its Python example imports besides."""


def main() -> int:
    """Build, check, try."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extras", help="names joined by commas; all but spark by default")
    parser.add_argument("--no-examples", action="store_true", help="leave README's examples out")
    arguments = parser.parse_args()
    chosen = arguments.extras.split(",") if arguments.extras else [extra for extra in USES if extra != "spark"]
    wheel = build()
    with tempfile.TemporaryDirectory(prefix="mbct-dist-") as folder:
        for extra in chosen:
            python = fresh_environment(Path(folder) / (extra or "none"), wheel, extra)
            run([python, "-I", "-W", "error", "-c", USES[extra]], _clean(Path(folder)), python.parent)
            print(f"installed and used: {wheel.name}{f'[{extra}]' if extra else ''}", flush=True)
            shutil.rmtree(Path(folder) / (extra or "none"))
        if not arguments.no_examples:
            python = fresh_environment(Path(folder) / "examples", wheel, EXAMPLES[0], *EXAMPLES[1])
            print(f"README's examples run: {run_examples(python, _clean(Path(folder)))}", flush=True)
    return 0


def build() -> Path:
    """Make dist/ anew and check what will be shown of it."""
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    run([sys.executable, "-m", "build", "--outdir", "dist"], ROOT)
    files = sorted((ROOT / "dist").iterdir())
    run([sys.executable, "-m", "twine", "check", "--strict", *map(str, files)], ROOT)
    (wheel,) = (path for path in files if path.suffix == ".whl")
    version = re.search(r'^__version__ = "(.+)"', (ROOT / "src/mbct/__init__.py").read_text(), re.M)
    if version is None or f"-{version[1]}-" not in wheel.name:
        raise SystemExit(f"{wheel.name} has not the version of mbct/__init__.py")
    return wheel


def fresh_environment(folder: Path, wheel: Path, extra: str, *others: str) -> Path:
    """The interpreter of a new environment that holds the wheel with an extra."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    if unknown := set(extra.split(",")) - {*declared, ""}:
        raise SystemExit(f"pyproject.toml has no extra {', '.join(sorted(unknown))}")
    run(["uv", "venv", "--quiet", "--python", sys.executable, str(folder)], ROOT)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    run(["uv", "pip", "install", "--quiet", "--python", str(python), wanted, *others], ROOT)
    return python


def run_examples(python: Path, folder: Path) -> int:
    """README's blocks of Python in one process, then its console blocks line by line; how many commands and blocks."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(<!-- not run: .+? -->\n+)?^```(python|console)\n(.*?)^```", readme, re.M | re.S)
    shown = [(language, code) for left_out, language, code in blocks if not left_out]
    script = "\n".join(code for language, code in shown if language == "python")
    run([python, "-I", "-c", script], folder, python.parent)
    commands = [line[2:] for language, code in shown if language == "console" for line in code.splitlines()]
    for command in commands:
        run(["bash", "-euc", command], folder, python.parent)
    return len(commands) + sum(language == "python" for language, _ in shown)


def run(command: list[object], folder: Path, first_on_path: Path | None = None) -> None:
    """Run, or end with what it said; nothing of this repository is on the path of imports."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    tools = [str(path) for path in (first_on_path, Path(sys.executable).parent) if path]
    environment["PATH"] = os.pathsep.join([*tools, environment["PATH"]])
    done = subprocess.run([str(part) for part in command], cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


def _clean(folder: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix="empty-", dir=folder))


if __name__ == "__main__":
    sys.exit(main())
