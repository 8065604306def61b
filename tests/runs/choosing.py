"""Chooses what `make test` runs, and writes it to `tests/chosen.txt`: `python -m tests.runs.choosing`, last in a green `make check-all`.

Chosen are, for each function of the product and each branch of `core`, the two cheapest cases that reached it in the run of all tests; what
`WHOLE` names in `ops/runs/chosen.py`; and the cases that saw the kept mutations. A case that is chosen already stays until another costs
less than half of it. So the list changes with the tests, and not with the mood of the machine.

    python -m tests.runs.choosing --first      # from any run with --reached: one with failures, or of a part; without mutations
    python -m tests.runs.choosing --thin       # fewer: a case goes of which everything is reached by two others
    python -m tests.runs.choosing --compare    # what `make test` reaches of it, after a run with --chosen --reached
"""

import argparse
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from ops.mutations.places import SEEN
from ops.runs.chosen import LIST, Chosen, Listed, is_whole
from tests.places import ROOT
from tests.runs.packages import digest_of
from tests.runs.reached import all_functions
from tests.runs.recorded import BRANCH, OF_CHOSEN, RECORDED, OfCase, Recording, those
from tests.runs.shares import all_files, measured

_TIMES: Final = 2
_DEAR: Final = 10.0
"""In seconds. A dearer case is chosen only for what nothing cheaper reaches at all."""
_STAYS: Final = 2.0
"""A case that is chosen already stays until another costs less than half of it."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Choose what `make test` runs")
    parser.add_argument("--first", action="store_true", help="from any run with --reached, green and whole or not, and without mutations")
    parser.add_argument("--thin", action="store_true", help="leave out, dearest first, what chosen cases reach twice without it")
    parser.add_argument("--compare", action="store_true", help="say what a run with --chosen --reached reached of what the whole reaches")
    given = parser.parse_args(arguments)
    if not RECORDED.exists():
        sys.exit(f"{RECORDED.relative_to(ROOT)} is missing: run pytest with --reached")
    recording = Recording.read(RECORDED)
    if given.compare:
        return _compare(recording, Recording.read(OF_CHOSEN))
    if not given.first and not (recording.green and recording.whole and SEEN.exists()):
        sys.exit("Only a green `make check-all` chooses. `--first` chooses from what there is")
    before = Chosen.read()
    names, cases = recording.numbered()
    seen = SEEN.read_text().splitlines() if SEEN.exists() else ()
    two = two_of_each(cases, before)
    now = chosen_of(recording, cases, {*(thinned(two, cases) if given.thin else two), *seen}, before)
    now.write()
    seconds = sum(one.seconds for one in now.files.values())
    _say(f"Wrote {LIST.name}: {now.chosen} of {now.among} cases, which took {seconds:.0f} of {_seconds(recording):.0f} s of all workers.")
    found = {*those(names, _union(cases))}
    functions = {name for name in found if BRANCH not in name}
    _say(f"They reach {len(functions)} functions and {len(found) - len(functions)} branches of core.")
    _say(f"{len(all_functions() - functions)} functions are reached by no case in its own process, and stay outside.")
    gone = before.gone(cases.keys(), before.files) if recording.whole else ()
    for case in gone:
        _say(f"{case} was listed and is gone. Commit the new list.")
    return 1 if gone else 0


def chosen_of(recording: Recording, cases: Mapping[str, OfCase], chosen: Collection[str], before: Chosen) -> Chosen:
    """The list of these cases, beside all cases of the files that run whole."""
    digests = {file: digest for worker in recording.workers for file, digest in worker.digests.items()}
    among: dict[str, list[str]] = {file: [] for file in all_files()}
    for case in cases:
        among.setdefault(case.partition("::")[0], []).append(case)
    shared: dict[str, float] = {}
    for worker in recording.workers:
        for file, spent in worker.seconds.items():
            shared[file] = shared.get(file, 0.0) + spent
    files = {}
    for file, some in among.items():
        whole = is_whole(file)
        here = some if whole else [case for case in some if case in chosen]
        if file not in digests:
            # Nothing of it ran.
            files[file] = before.files.get(file) or _unknown(file, whole=whole)
            continue
        files[file] = Listed(
            digest=digests[file],
            seconds=sum(cases[case].seconds for case in here) + (shared.get(file, 0.0) if here else 0.0),
            cases=None if whole else [case.partition("::")[2] for case in here],
        )
    counted = sum(len(among[file]) if one.cases is None else len(one.cases) for file, one in files.items())
    return Chosen(files=files, chosen=counted, among=len(cases))


def _unknown(file: str, *, whole: bool) -> Listed:
    return Listed(digest=digest_of([file]), seconds=measured().get(file, 0.0) if whole else 0.0, cases=None if whole else [])


def two_of_each(cases: Mapping[str, OfCase], before: Chosen) -> Sequence[str]:
    """The cases that are among the two cheapest of something that they reach."""
    once = twice = 0
    found = []
    listed = {f"{file}::{case}" for file, one in before.files.items() for case in one.cases or ()}
    for name in sorted(cases, key=lambda name: (cases[name].price / (_STAYS if name in listed else 1), name)):
        reached = cases[name].reached
        if cases[name].passed and reached & ~(once if cases[name].price > _DEAR else twice):
            found.append(name)
            twice |= once & reached
            once |= reached
    return found


def thinned(chosen: Sequence[str], cases: Mapping[str, OfCase]) -> Collection[str]:
    """Without the cases, dearest first, of which everything is reached by two others."""
    numbers = range(max((cases[name].reached.bit_length() for name in chosen), default=0))
    times = Counter(number for name in chosen for number in those(numbers, cases[name].reached))
    kept = {*chosen}
    for name in sorted(chosen, key=lambda name: (-cases[name].price, name)):
        reached = [*those(numbers, cases[name].reached)]
        if all(times[number] > _TIMES for number in reached):
            kept.remove(name)
            times.subtract(reached)
    return kept


def _union(cases: Mapping[str, OfCase]) -> int:
    reached = 0
    for case in cases.values():
        reached |= case.reached if case.passed else 0
    return reached


def _seconds(recording: Recording) -> float:
    return sum(sum(worker.seconds.values()) + sum(case.seconds for case in worker.cases.values()) for worker in recording.workers)


def _compare(whole: Recording, part: Recording) -> int:
    of_whole, of_part = (set(those(names, _union(cases))) for names, cases in (whole.numbered(), part.numbered()))
    for title, are_branches in (("functions", False), ("branches of core", True)):
        all_of_them = {name for name in of_whole if (BRANCH in name) is are_branches}
        missed = sorted(all_of_them - of_part)
        share = 100 * (1 - len(missed) / max(1, len(all_of_them)))
        _say(f"{title}: {len(all_of_them) - len(missed)} of {len(all_of_them)}, {share:.1f} %. Missed:")
        for name in missed:
            _say(f"  {name}")
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
