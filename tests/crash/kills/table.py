"""The kill table: `python tests/crash/kills/table.py N [--seed S] [--jobs J]`.

N times an agent's process group is ended with SIGKILL, each time at a random instant of a turn with tools, or of a
load. The table says how often each promise was broken; the exit code is 1 unless every number is 0. The seed fixes
what is asked and where a kill is aimed at; the instant itself is the machine's.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a program, this file is the first on the path

from crash.kills.judge import Verdicts
from crash.kills.killing import killed


def main() -> int:
    """Make the table and print it."""
    parser = argparse.ArgumentParser(description="Kill agents and count what was lost.")
    parser.add_argument("kills", type=int)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--fault", default="", help="plant this one of faults.py, to see the table red")
    parser.add_argument("--keep", type=Path, help="work in this folder and leave it there")
    asked = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kills-", ignore_cleanup_errors=True) as folder:
        verdicts = killed(asked.kills, asked.keep or Path(folder), seed=asked.seed, jobs=asked.jobs, fault=asked.fault)
    print(written(verdicts, f"seed {asked.seed}, {time.monotonic() - began:.0f} s"))
    return 0 if verdicts.clean else 1


def written(verdicts: Verdicts, note: str) -> str:
    """Return the table as text."""
    lines = [f"{sum(verdicts.kills.values())} kills ({note})"]
    lines += [f"  {count:6}  at {point}" for point, count in sorted(verdicts.kills.items())]
    lines.append("of which")
    lines += [f"  {len(found):6}  {column}" for column, found in verdicts.found.items()]
    for column, found in verdicts.found.items():
        lines += [f"! {column}: {what}" for what in sorted(found)[:5]]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
