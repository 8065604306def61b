"""Starts `postern` in processes of their own that need not import the product first, which takes one to two seconds of processor time.

A process from here is real: it has its own number, signals, standard descriptors, environment and exit status, and it is our child. Only
Python's start and the imports were done before, by the mother that forked it (mother.py). Whatever differs in just those starts a cold
process, as everybody else does: another checkout, and variables that Python or a library reads at its start.
`tests/entrypoints/test_cold_commands.py` starts each command cold.
"""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Final

from tests.places import ROOT

COMMAND: Final = (sys.executable, "-m", "entrypoints.cli.main")
_MOTHER: Final = "tests.e2e.warm.mother"
_READ_AT_THE_START: Final = ("PYTHON", "LANG", "LC_", "LD_", "MALLOC_", "OPENSSL", "PROMETHEUS", "SSL_", "TZ", "GLIBC", "COV")
_SET_CHILD_SUBREAPER: Final = 36
# Group, groups, user, mask, and whether in a session of its own.
_OF_THIS_USER: Final = [None, None, None, -1, False]


class PosternProcess(subprocess.Popen[Any]):
    """Like `subprocess.Popen`, and warm where it may be."""

    def _execute_child(
        self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, cwd: Any, env: Any, *rest: Any
    ) -> None:
        _, _, shell, *ends = rest[:9]
        _, *of_another_user, process_group = rest[9:]
        plain = (executable, preexec_fn, close_fds, tuple(pass_fds), shell) == (None, None, True, (), False)
        if not (plain and of_another_user == _OF_THIS_USER and may_be_warm(args, cwd, env)):
            super()._execute_child(args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest)  # type: ignore[misc]  # private
            return
        try:
            # The child's ends of the pipes; -1 stands for our own descriptor.
            standard = [own if end == -1 else end for own, end in enumerate((ends[0], ends[3], ends[5]))]
            self.pid = _mother().bear(args[len(COMMAND) :], os.environ if env is None else env, standard, process_group)
            self._child_created = True
        finally:
            self._close_pipe_fds(*ends)  # type: ignore[attr-defined]  # private


def run(words: Sequence[str], *, env: Mapping[str, str], given: str, patience: float, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Like `subprocess.run` with the output captured."""
    pipe = subprocess.PIPE
    with PosternProcess(words, env=env, cwd=cwd, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            out, err = process.communicate(given, patience)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def may_be_warm(words: Sequence[str], cwd: Any, env: Mapping[str, str] | None) -> bool:
    return (
        sys.platform == "linux"
        and tuple(words[: len(COMMAND)]) == COMMAND
        and Path(cwd or Path.cwd()) == ROOT
        and (env is None or _read_at_the_start(env) == _read_at_the_start(os.environ))
    )


def _read_at_the_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_READ_AT_THE_START)}


class _Mother:
    def __init__(self) -> None:
        self._lock = Lock()
        self._control, hers = socket.socketpair()
        with hers:
            # Whoever waits for her would wait until the tests end. She ends when our end of the pair closes.
            self._process = subprocess.Popen([sys.executable, "-m", _MOTHER], cwd=ROOT, stdin=hers.fileno(), env=_without_settings())

    def bear(self, words: Sequence[str], environment: Mapping[str, str], standard: Sequence[int], process_group: int) -> int:
        asked = {
            "words": list(words),
            "environment": dict(environment),
            "directory": str(ROOT),
            "process_group": process_group,
            "ignored": [one.name for one in signal.Signals if signal.getsignal(one) is signal.SIG_IGN],
        }
        descriptors = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", standard))
        line = json.dumps(asked).encode() + b"\n"
        with self._lock:
            _inherit_orphans(True)
            try:
                sent = self._control.sendmsg([line], [descriptors])
                self._control.sendall(line[sent:])
                number = int(self._control.recv(16) or 0)
            finally:
                _inherit_orphans(False)
        assert number > 0, "the mother of the warm processes is gone"
        return number


@cache
def _mother() -> _Mother:
    return _Mother()


def _without_settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("POSTERN_")}


def _inherit_orphans(whether: bool) -> None:
    """Only while the mother forks. Otherwise servers that tests leave behind would become our children, and nobody would wait for them."""
    with suppress(AttributeError):
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, int(whether), 0, 0, 0)
