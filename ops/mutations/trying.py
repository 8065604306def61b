"""Tries mutations within one process of pytest that has collected all tests near any of them: `pytest -p ops.mutations.trying`.

Each mutation has a child of its own, which exchanges the code of the changed functions, runs the tests that are near, and ends at the first
that fails. To start Python and to collect takes longer than most of these tests.
"""

import gc
import importlib
import json
import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import pytest

from ops.mutations.places import ROOT, Mutation

# Lines of JSON: the mutations to try, and what came of them.
WANTED: Final = "POSTERN_MUTATIONS"
FOUND: Final = "POSTERN_MUTATIONS_FOUND"
Place = tuple[str, int]


class Unapplied(Exception):
    """The change reaches no function and no text of the module."""


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Trying(os.environ[WANTED], os.environ[FOUND]))


class _Trying:
    def __init__(self, wanted: str, found: str) -> None:
        self._wanted = [json.loads(line) for line in Path(wanted).read_text(encoding="utf-8").splitlines()]
        self._found = Path(found)
        self._failed: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        # The collector of garbage has to see the functions.
        gc.unfreeze()
        for one in self._wanted:
            number = os.fork()
            if not number:
                self._try(session, Mutation(**one["mutation"]), one["near"])
                os._exit(0)
            os.waitpid(number, 0)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.append(report.nodeid)

    def _try(self, session: pytest.Session, mutation: Mutation, near: Sequence[str]) -> None:
        try:
            apply(mutation)
            ran = self._run(session, [item for item in session.items if _is_among(item.nodeid, near)])
            said: Mapping[str, Any] = {"caught": self._failed[:1], "ran": ran}
        except Unapplied:
            said = {"unapplied": True}
        except BaseException:  # noqa: BLE001 - the child tells it and ends
            said = {"broken": traceback.format_exc()[-2000:]}
        with self._found.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"mutation": str(mutation), **said}) + "\n")

    def _run(self, session: pytest.Session, items: Sequence[pytest.Item]) -> int:
        for number, item in enumerate(items):
            following = items[number + 1] if number + 1 < len(items) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                session._setupstate.teardown_exact(None)  # noqa: SLF001 - the child stops in the middle
                return number + 1
        return len(items)


def _is_among(case: str, near: Sequence[str]) -> bool:
    file = case.partition("::")[0]
    return any(file == one or file.startswith(f"{one}/") for one in near)


def apply(mutation: Mutation) -> None:
    """Exchanges the code of the functions that differ, and the texts and numbers of the module that differ. Raises `Unapplied`."""
    path = str(ROOT / mutation.file)
    now = compile((ROOT / mutation.file).read_text(encoding="utf-8"), path, "exec")
    then = compile(mutation.mutated(), path, "exec")
    before, after = dict(_codes(now)), dict(_codes(then))
    changed = {place for place in before if place in after and _differs(before[place], after[place])}
    module = importlib.import_module(mutation.file.removesuffix(".py").replace("/", "."))
    done = 0
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__.co_filename == path:
            place = (one.__code__.co_qualname, one.__code__.co_firstlineno)
            if place in changed:
                one.__code__ = after[place]
                done += 1
    if not changed:
        done = _exchange_values(module, then)
    if not done:
        raise Unapplied


def _exchange_values(module: ModuleType, then: CodeType) -> int:
    """A text of SQL, or a limit. What other modules have made of it at their import stays as it was."""
    other = ModuleType(f"{module.__name__}_mutated")
    other.__file__ = module.__file__
    sys.modules[other.__name__] = other
    exec(then, vars(other))  # noqa: S102 - a module of ours
    done = 0
    for name, value in vars(other).items():
        if isinstance(value, str | int | float) and not name.startswith("__") and vars(module).get(name, value) != value:
            former = vars(module)[name]
            setattr(module, name, value)
            done += 1
            # Whoever imported the name has the former value.
            for another in list(sys.modules.values()):
                if isinstance(former, str) and vars(another).get(name) is former:
                    setattr(another, name, value)
    return done


def _codes(code: CodeType) -> Iterator[tuple[Place, CodeType]]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield (constant.co_qualname, constant.co_firstlineno), constant
            yield from _codes(constant)


def _differs(one: CodeType, other: CodeType) -> bool:
    def told(code: CodeType) -> tuple[object, ...]:
        return code.co_code, code.co_names, [constant for constant in code.co_consts if not isinstance(constant, CodeType)]

    return told(one) != told(other)
