"""Makes the product wrong in one place after the other, and says which change no near test sees.

    .venv/bin/python -m ops.mutations --seed 7 --count 200
    .venv/bin/python -m ops.mutations --kept

The first draws places; the second takes those of `kept.toml`, of which each must be seen.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ops.mutations.places import KEPT, ROOT, Mutation, drawn, kept
from ops.mutations.trying import FOUND, WANTED
from ops.near import near

# Two processes keep two processors busy: each child runs one test at a time.
PROCESSES: Final = 2
# They start processes, which have the product as it is.
_OF_PROCESSES: Final = ("tests/browser", "tests/e2e", "tests/ops", "tests/entrypoints")


def main() -> int:
    parser = argparse.ArgumentParser(description="Say which mutations of the product no near test sees")
    parser.add_argument("--kept", action="store_true", help=f"those of {KEPT.relative_to(ROOT)}, of which each must be seen")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    given = parser.parse_args()
    mutations = kept() if given.kept else drawn(given.seed, given.count)
    found = tried(mutations)
    unseen = [str(one) for one in mutations if found.get(str(one), {}).get("caught") == []]
    broken = [str(one) for one in mutations if "caught" not in found.get(str(one), {}) and not found.get(str(one), {}).get("unapplied")]
    unapplied = [str(one) for one in mutations if found.get(str(one), {}).get("unapplied")]
    for title, some in (("No near test sees", unseen), ("Ended otherwise", broken), ("Reaches nothing", unapplied)):
        print(f"{title}: {len(some)}", *some, sep="\n  ")
    print(f"{len(mutations)} mutations: {len(mutations) - len(unseen) - len(broken) - len(unapplied)} seen.")
    return 1 if given.kept and (unseen or broken or unapplied) else 0


def tried(mutations: Sequence[Mutation]) -> Mapping[str, Mapping[str, Any]]:
    """What came of each mutation, by its text."""
    with tempfile.TemporaryDirectory(prefix="postern-mutations-") as name:
        directory = Path(name)
        processes = [_started(directory / str(number), mutations[number::PROCESSES]) for number in range(PROCESSES)]
        for process in processes:
            process.wait()
        lines = [line for file in directory.glob("*.found") for line in file.read_text(encoding="utf-8").splitlines()]
    return {said["mutation"]: said for said in map(json.loads, lines)}


def _started(place: Path, mutations: Sequence[Mutation]) -> "subprocess.Popen[bytes]":
    tests: set[str] = set()
    with place.with_suffix(".wanted").open("w", encoding="utf-8") as file:
        for one in mutations:
            found = [test for test in near({one.file: frozenset({one.line})}) if not test.startswith(_OF_PROCESSES)]
            tests |= set(found)
            fields = {name: getattr(one, name) for name in ("file", "line", "before", "after", "at")}
            file.write(json.dumps({"mutation": fields, "near": found}) + "\n")
    environment = {**os.environ, WANTED: str(place.with_suffix(".wanted")), FOUND: str(place.with_suffix(".found"))}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "ops.mutations.trying", *sorted(tests)]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main())
