"""``python -m reproduction NAME… | all [--quick] [--out DIR] [--data DIR] [--seed N] [--plan | --render]``."""

import argparse
import sys
from pathlib import Path

from mbct.errors import MBCTError
from reproduction import NAMES
from reproduction.page import render
from reproduction.reproduce import ALL, Options, plan, run


def main(arguments: list[str] | None = None) -> int:
    """Parse, run (or plan, or render), say where the page is."""
    parser = argparse.ArgumentParser(prog="python -m reproduction", description="Reproduce the paper's experiments.")
    parser.add_argument("names", nargs="+", metavar="NAME", help=f"{', '.join(NAMES)} or {ALL}")
    parser.add_argument("--quick", action="store_true", help="small versions of all, in a few minutes")
    parser.add_argument("--out", type=Path, help="folder to write (docs/reproduction, or build/reproduction-quick)")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of data files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repetitions", type=int, help="splits of each data set and simulated markets")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--plan", action="store_true", help="only say what is to be computed and how long it takes")
    instead.add_argument("--render", action="store_true", help="only write page, tables and figures from what is there")
    given = parser.parse_args(arguments)
    out = given.out or Path("build/reproduction-quick" if given.quick else "docs/reproduction")
    options = Options(quick=given.quick, out=out, data=given.data, seed=given.seed, repetitions=given.repetitions)
    try:
        if given.plan:
            text = str(plan(given.names, **options))
        else:
            text = str(render(out) if given.render else run(given.names, **options))
    except MBCTError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(f"{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
