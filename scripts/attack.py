"""Attack what must not lose or mix anything: kills, full disks, hostile bodies and names, swaps under load.

    python scripts/attack.py [--share 1.0] [--seed 0] [NAME ...]

Each attack works with real processes and real files, then checks everything that was acknowledged. Prints one line each
and ends with 1 if anything was lost, counted twice, mixed, or answered by 5xx.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from attack_forgetting import attack_forgetting
from attack_kills import attack_disk, attack_journal, attack_redis, attack_refresh, attack_registry, attack_store
from attack_online import attack_history, attack_online
from attack_service import attack_bodies, attack_names, attack_swaps
from mbct.store.cell_file import from_parquet, to_parquet
from store_writers import BINS, batch_of

ATTACKS = {
    "store": (attack_store, 250),
    "journal": (attack_journal, 250),
    "refresh": (attack_refresh, 250),
    "registry": (attack_registry, 125),
    "redis": (attack_redis, 125),
    "online": (attack_online, 200),
    "history": (attack_history, 200),
    "disk": (attack_disk, 300),
    "names": (attack_names, 5_000),
    "bodies": (attack_bodies, 200_000),
    "swaps": (attack_swaps, 100),
    "forgetting": (attack_forgetting, 10_000_000),
}
"""Each attack and how often it strikes: 1,400 kills in all."""


def main() -> int:
    """Run the attacks; 1 if anything broke."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ATTACKS)}; all by default")
    parser.add_argument("--share", type=float, default=1.0, help="of the strikes of each attack")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(ATTACKS):
        parser.error(f"no attack is called {', '.join(sorted(unknown))}")
    from_parquet(to_parquet([batch_of(0)]), BINS, "warm-up")  # imports that every child would repeat
    broken = 0
    for name in arguments.names or ATTACKS:
        attack, n = ATTACKS[name]
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="mbct-attack-") as folder:
            (target := Path(folder) / "target").mkdir()
            found, faults = attack(target, max(1, round(n * arguments.share)), random.Random(arguments.seed))
        print(f"{name:10} {found}; faults: {faults}; {time.monotonic() - began:.0f} s", flush=True)
        broken += faults
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
