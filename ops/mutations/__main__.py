"""Makes the product wrong in one place after the other, and says which change no near test sees.

    .venv/bin/python -m ops.mutations --seed 7 --count 200
    .venv/bin/python -m ops.mutations --seed 7 --count 200 --chosen
    .venv/bin/python -m ops.mutations --kept

The first draws places. The second also says which of the changes that near tests see no chosen case of the same files sees, as `make test`
runs them. The third takes those of `kept.toml`, of which each must be seen, and writes which case saw each.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

from core.frozen import values_of
from ops.mutations.places import KEPT, ROOT, SEEN, Mutation, Stale, drawn, kept
from ops.mutations.trying import CHOSEN, FOUND, WANTED
from ops.near import WALKS, near

# Two processes keep two processors busy: each child runs one test at a time.
PROCESSES: Final = 2
# They start processes, or read files, and both have the product as it is.
_AS_IT_IS: Final = ("tests/browser", "tests/e2e", "tests/ops", "tests/entrypoints", "tests/house")


def main() -> int:
    parser = argparse.ArgumentParser(description="Say which mutations of the product no near test sees")
    parser.add_argument("--kept", action="store_true", help=f"those of {KEPT.relative_to(ROOT)}, of which each must be seen")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--chosen", action="store_true", help="say also which of them the chosen cases miss")
    given = parser.parse_args()
    try:
        mutations = kept() if given.kept else drawn(given.seed, given.count)
    except Stale as stale:
        sys.exit(f"{KEPT.relative_to(ROOT)}: {stale}")
    found = tried(mutations, chosen=given.chosen)
    said = {str(one): found.get(str(one), {"broken": "the process ended before"}) for one in mutations}
    unseen = [one for one, what in said.items() if what.get("caught") == ""]
    broken = [f"{one}\n{what['broken']}" for one, what in said.items() if "broken" in what]
    unapplied = [one for one, what in said.items() if "unapplied" in what]
    seen = {one: what["caught"] for one, what in said.items() if what.get("caught")}
    missed = [one for one in seen if said[one].get(CHOSEN) == ""]
    titles = [("No near test sees", unseen), ("Ended otherwise", broken), ("Reaches nothing", unapplied)]
    for title, some in [*titles, *([("Near tests see, and no chosen case of theirs", missed)] if given.chosen else [])]:
        print(f"{title}: {len(some)}", *some, sep="\n  ")
    if given.chosen:
        print(f"Of {len(seen)} mutations that near tests see, chosen cases of the same files see {len(seen) - len(missed)}.")
    if given.kept:
        SEEN.parent.mkdir(exist_ok=True)
        SEEN.write_text("".join(f"{case}\n" for case in sorted({*seen.values()})), encoding="utf-8")
    print(f"{len(said)} mutations: {len(said) - len(unseen) - len(broken) - len(unapplied)} seen.")
    return 1 if given.kept and (unseen or broken or unapplied) else 0


def tried(mutations: Sequence[Mutation], *, chosen: bool = False) -> Mapping[str, Mapping[str, Any]]:
    """What came of each mutation, by its text."""
    with tempfile.TemporaryDirectory(prefix="postern-mutations-") as name:
        directory = Path(name)
        processes = [_started(directory / str(number), mutations[number::PROCESSES], chosen=chosen) for number in range(PROCESSES)]
        for process in processes:
            process.wait()
        lines = [line for file in directory.glob("*.found") for line in file.read_text(encoding="utf-8").splitlines()]
    return {said["mutation"]: said for said in map(json.loads, lines)}


def near_of(mutation: Mutation) -> Sequence[str]:
    """The files and folders of tests that may see it, in the order in which they run: those with its name are the likeliest."""
    found = [test for test in near({mutation.file: frozenset({mutation.line})}) if not test.startswith(_AS_IT_IS)]
    named = Path(mutation.file).stem
    return sorted({*found, *mutation.seen_by} or WALKS, key=lambda test: (test not in mutation.seen_by, named not in test, test))


def _started(place: Path, mutations: Sequence[Mutation], *, chosen: bool) -> "subprocess.Popen[bytes]":
    tests = {one: near_of(one) for one in mutations}
    lines = [json.dumps({"mutation": values_of(one), "near": near, CHOSEN: chosen}) + "\n" for one, near in tests.items()]
    place.with_suffix(".wanted").write_text("".join(lines), encoding="utf-8")
    environment = {**os.environ, WANTED: str(place.with_suffix(".wanted")), FOUND: str(place.with_suffix(".found"))}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "ops.mutations.trying", *sorted({*chain(*tests.values())})]
    return subprocess.Popen(command, cwd=ROOT, env=environment)


if __name__ == "__main__":
    sys.exit(main())
