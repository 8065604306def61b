"""Tries mutations within one process of pytest that has collected all tests near any of them: `pytest -p ops.mutations.trying`.

Each mutation has a child of its own, which exchanges the code of the changed functions, runs the tests that are near, and ends at the first
that fails. To start Python and to collect takes longer than most of these tests.
"""

import gc
import importlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cache
from itertools import zip_longest
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import pytest

from ops.mutations.places import ROOT, Mutation
from ops.patience import PATIENCE
from ops.runs.chosen import Chosen, is_whole

# Lines of JSON: the mutations to try, and what came of them.
WANTED: Final = "MUTATIONS_WANTED"
FOUND: Final = "MUTATIONS_FOUND"
CHOSEN: Final = "chosen"
"""In what is wanted: whether the chosen cases are asked, too. In what was found: which of them saw it."""
# What no test sees in this time counts as unseen.
MOST_SECONDS: Final = 150
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
            mutation, began = Mutation(**one["mutation"]), time.monotonic()
            items = [item for place in one["near"] for item in session.items if _is_of(item.nodeid, place)]
            said = self._in_a_child(session, mutation, items)
            if one.get(CHOSEN) and said.get("caught"):
                by_chosen = self._in_a_child(session, mutation, [item for item in items if is_chosen(item.nodeid)])
                said = {**said, CHOSEN: by_chosen.get("caught", "")}
            with self._found.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"mutation": str(mutation), **said}) + "\n")
            print(f"{time.monotonic() - began:4.0f} s  {mutation}", flush=True)
        return True

    def _in_a_child(self, session: pytest.Session, mutation: Mutation, items: Sequence[pytest.Item]) -> Mapping[str, Any]:
        answer = self._found.with_suffix(".answer")
        number = os.fork()
        if not number:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(MOST_SECONDS + 2 * round(PATIENCE))
            session.config.pluginmanager.unregister(name="terminalreporter")
            answer.write_text(json.dumps(self._tried(mutation, items)), encoding="utf-8")
            os._exit(0)
        _, status = os.waitpid(number, 0)
        if status:
            # A loop without end is seen: any run of the tests would end there. Tests that wait end by themselves.
            late = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
            return {"caught": "it hangs"} if late else {"broken": f"the child ended with {status}"}
        return dict(json.loads(answer.read_text(encoding="utf-8")))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.append(report.nodeid)

    def _tried(self, mutation: Mutation, items: Sequence[pytest.Item]) -> Mapping[str, Any]:
        try:
            apply(mutation)
            self._run(items)
        except Unapplied:
            return {"unapplied": True}
        except BaseException:  # noqa: BLE001 - the child tells it and ends
            return {"broken": traceback.format_exc()[-2000:]}
        return {"caught": "".join(self._failed[:1])}

    def _run(self, items: Sequence[pytest.Item]) -> None:
        until = time.monotonic() + MOST_SECONDS
        for item, following in zip_longest(items, items[1:]):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed or time.monotonic() > until:
                item.session._setupstate.teardown_exact(None)  # noqa: SLF001 - the child stops in the middle
                return


def is_chosen(case: str) -> bool:
    """Whether `make test` runs the case, while its file is as it was."""
    file, _, name = case.partition("::")
    listed = _chosen().files.get(file)
    return is_whole(file) or (listed is not None and (listed.cases is None or name in listed.cases))


@cache
def _chosen() -> Chosen:
    return Chosen.read()


def _is_of(case: str, place: str) -> bool:
    """Whether the case is of this file or folder of tests."""
    return case.startswith((f"{place}::", f"{place}/"))


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
    if not done:
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
        former = vars(module).get(name)
        if name.startswith("__") or not (_is_plain(value) and _is_plain(former)) or value == former:
            continue
        done += 1
        # Whoever imported the name has the former value.
        for another in list(sys.modules.values()):
            if another is module or (not name.startswith("_") and getattr(another, name, None) is former):
                setattr(another, name, value)
    return done


def _is_plain(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_plain, (*value, *value.values())))
    if isinstance(value, tuple | list | set | frozenset):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float | timedelta)


def _codes(code: CodeType) -> Iterator[tuple[Place, CodeType]]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield (constant.co_qualname, constant.co_firstlineno), constant
            yield from _codes(constant)


def _differs(one: CodeType, other: CodeType) -> bool:
    return _told(one) != _told(other)


def _told(code: CodeType) -> tuple[object, ...]:
    """What the code does. A function within it belongs to it: it is made anew at each call. Positions do not count."""
    return code.co_code, code.co_names, [_told(one) if isinstance(one, CodeType) else one for one in code.co_consts]
