"""Damaged model files by the thousand: each must be refused or work, and none may crash or hang the process.

    python scripts/attack_models.py [NUMBER]

Every file is read by a child process, which scores rows, writes the rules and exports SQL with whatever it accepts. A
child that dies is a crash; one that takes more than five seconds for a file hangs.
"""

import multiprocessing
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from builders import random_model, random_rows
from mbct.calibrators.persistence import dumps, loads
from mbct.data.columns import read_columns
from mbct.data.entry import calibrated
from mbct.errors import MBCTError
from mbct.export.sql import to_sql
from mbct.model.file import dump_document, ensemble_of
from mbct.model.rules import rules_as_dicts, to_text
from mutants import mutants
from small_calibrators import SMALL, fitted, rows

ROOT = Path(__file__).parents[1]
LONGEST = 5.0


def sources() -> dict[str, bytes]:
    """Small models of every kind."""
    real = {path.stem: path.read_bytes() for path in (ROOT / "tests/model/data").glob("version_1.*.json")}
    real.pop("version_1.expected")
    drawn = {
        f"drawn {link}": dump_document({"method": "mbct", "state": {"model": random_model(7, link, 3, 7).to_dict()}})
        for link in ("odds", "linear")
    }
    small = {f"{name} calibrator": dumps(fitted(name)) for name in SMALL}
    return {**drawn, **real, **small}


def attack(name: str, content: bytes, first: int, n: int, answers: Any) -> None:
    """Read mutants one by one and tell what became of each before the next begins."""
    for number, mutant in enumerate(mutants(content, n, seed=first)):
        answers.send((number, None))
        try:
            answers.send((number, use(name, mutant)))
        except MBCTError:
            answers.send((number, "refused"))
        except Exception as error:
            answers.send((number, f"{type(error).__name__}: {error}"[:120]))


def use(name: str, content: bytes) -> str:
    """Do with a model what the package does."""
    if name.endswith(" calibrator"):
        calibrated_rows = loads(content).calibrate(rows(name.removesuffix(" calibrator"))[0])
        return "read" if np.all((calibrated_rows >= 0.0) & (calibrated_rows <= 1.0)) else "no probability"
    if not name.startswith("drawn"):
        loads(content)
    if "lightgbm" in name:
        return "read"
    model = ensemble_of(content)
    values = calibrated(read_columns(random_rows(0, model, 50)), model)
    if not np.all((values >= 0.0) & (values <= 1.0)):
        return "no probability"
    to_text(model)
    rules_as_dicts(model)
    to_sql(model, "duckdb", "select")
    return "read"


def answers_in_time(receiver: Any, child: psutil.Process) -> bool:
    """Whether an answer comes before the child worked five seconds for it (a busy machine is no hang), or a minute."""
    used, end = sum(child.cpu_times()[:2]), time.monotonic() + 60.0
    while not receiver.poll(LONGEST):
        if sum(child.cpu_times()[:2]) - used > LONGEST or time.monotonic() > end:
            return False
    return True


def main(n_mutants: int) -> int:
    """Attack with so many files; 1 where one of them broke anything."""
    outcomes: Counter[str] = Counter()
    slowest = 0.0
    models = sources()
    context = multiprocessing.get_context("fork")
    for round_number, (name, content) in enumerate(models.items()):
        receiver, sender = context.Pipe(duplex=False)
        n = -(-n_mutants // len(models))
        child = context.Process(target=attack, args=(name, content, round_number, n, sender))
        child.start()
        sender.close()
        began = time.perf_counter()
        try:
            while True:
                if not answers_in_time(receiver, psutil.Process(child.pid)):
                    outcomes["hang"] += 1
                    child.kill()
                    break
                _, answer = receiver.recv()
                now = time.perf_counter()
                if answer is not None:
                    outcomes[answer] += 1
                    slowest = max(slowest, now - began)
                began = now
        except EOFError:
            child.join()
            if child.exitcode:
                outcomes[f"crash ({child.exitcode})"] += 1
    print(pd.Series(outcomes).to_string(), f"\nslowest: {slowest:.2f} s")
    return 0 if set(outcomes) <= {"read", "refused"} else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000))
