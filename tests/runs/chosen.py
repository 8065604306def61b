"""`--chosen`: the part of the tests that `make test` runs, which `tests/chosen.txt` lists (docs/decisions/0252-a-chosen-part.md).

`ops/runs/chosen.py` has the form of the list. A file of tests that is new, or has another digest, runs whole. A listed case that is gone is
named in the end.

Such a run has not seen the whole. So it writes no `checked.json`, `seconds.json` or `reached`, and gives nothing a second try.
"""

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from ops.runs.chosen import LIST, Chosen
from tests.places import ROOT
from tests.runs.packages import digest_of, is_narrowed
from tests.runs.shares import FILES, SECONDS, all_files, measured, shares

STARTING: Final = 60.0
"""How many seconds a run takes beside its cases: PostgreSQL, the workers, what they import."""
_CASES: Final = "chosen"
_NAMED_AT_MOST: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run of the chosen part does."""

    cases: Mapping[str, Sequence[str] | None]
    """By file. None stands for all cases."""
    seconds: Mapping[str, float]
    changed: Sequence[str]
    """The files that run whole because they are new, or other than when their cases were chosen."""

    @classmethod
    def of(cls, chosen: Chosen, files: Sequence[str], whole_seconds: Mapping[str, float]) -> "Plan":
        changed = [file for file in files if file not in chosen.files or chosen.files[file].digest != digest_of([file])]
        same = {file: chosen.files[file] for file in files if file not in set(changed)}
        return cls(
            cases={**dict.fromkeys(changed), **{file: one.cases for file, one in same.items() if one.cases is None or one.cases}},
            seconds={**whole_seconds, **{file: one.seconds for file, one in same.items()}},
            changed=changed,
        )

    def longest(self, workers: int) -> float:
        return max(sum(self.seconds.get(file, 1.0) for file in share) for share in shares([*self.cases], self.seconds, workers))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--chosen", action="store_true", help=f"run the cases of {LIST.name}, and files of tests that are new or changed")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        if _CASES in worker:
            config.pluginmanager.register(_Part(json.loads(worker[_CASES])))
    elif config.option.chosen:
        given = config.option
        if given.packages or given.seconds or given.coverage:
            raise pytest.UsageError("--chosen runs a part. --packages, --seconds and --coverage say something about the whole")
        chosen = Chosen.read()
        plan = Plan.of(chosen, all_files(), measured())
        config.pluginmanager.register(_Choosing(chosen, plan), "chosen")
        if not given.numprocesses:
            config.pluginmanager.register(_Part(plan.cases))
        if not given.collectonly:
            # The first words of the run. Whatever pytest says itself comes after PostgreSQL has started.
            sys.stdout.write("\n".join([*beginning(chosen, plan, given.numprocesses or 1), ""]))
            sys.stdout.flush()


def beginning(chosen: Chosen, plan: Plan, workers: int) -> Sequence[str]:
    """What the run says first: what it does, and how long that takes."""
    minutes = max(1, round((plan.longest(workers) + STARTING) / 60))
    counted = f"{chosen.chosen} of {chosen.among} cases"
    lines = [
        f"This runs a chosen part of the tests, {counted}: two for each function of Postern and each branch of core,",
        "the rules of the house, and the walks over who may do what. `make check` runs every test, as CI does.",
        f"It takes about {minutes} {'minute' if minutes == 1 else 'minutes'} on two processors.",
    ]
    if not chosen.files:
        lines[:2] = [f"{LIST.name} lists nothing yet, so this runs every test."]
    elif plan.changed:
        more = len(plan.changed) - _NAMED_AT_MOST
        named = [*plan.changed[:_NAMED_AT_MOST], *([f"and {more} more"] if more > 0 else [])]
        lines.append(f"Files of tests that are new or changed run whole: {', '.join(named)}.")
    return lines


class _Part:
    """Collects the planned files, and of these the chosen cases."""

    def __init__(self, cases: Mapping[str, Sequence[str] | None]) -> None:
        self._cases = {file: None if some is None else frozenset(some) for file, some in cases.items()}

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        if not (collection_path.name.startswith("test_") and collection_path.suffix == ".py" and collection_path.is_relative_to(ROOT)):
            return None
        return None if collection_path.relative_to(ROOT).as_posix() in self._cases else True

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if self._is_chosen(item.nodeid)]

    def _is_chosen(self, case: str) -> bool:
        file, _, name = case.partition("::")
        chosen = self._cases.get(file)
        return chosen is None or name in chosen


class _Choosing:
    """Hands the plan to the workers, and says in the end which listed cases are gone."""

    def __init__(self, chosen: Chosen, plan: Plan) -> None:
        self._chosen, self._plan = chosen, plan
        self._collected: set[str] = set()

    def planned(self) -> tuple[Collection[str], Mapping[str, float]]:
        return self._plan.cases.keys(), self._plan.seconds

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput[_CASES] = json.dumps(self._plan.cases)
        node.workerinput[FILES] = list(self._plan.cases)
        node.workerinput[SECONDS] = dict(self._plan.seconds)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self._collected |= set(ids)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._collected |= {item.nodeid for item in session.items}

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        files: Collection[str] = self._chosen.files
        if is_narrowed(terminalreporter.config):
            files = {case.partition("::")[0] for case in self._collected}
        for case in self._chosen.gone(self._collected, files) if self._collected else ():
            terminalreporter.write_line(f"{case} is listed in {LIST.name} and is gone.", yellow=True)
