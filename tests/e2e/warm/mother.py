"""The mother of warm processes: she has imported the product, and forks once for each command that a test starts.

Each request is one line of JSON on the socket that is her standard input, with the three standard descriptors of the command beside it. She
answers with the number of the new process. When the tests close their end, she ends.
"""

import gc
import io
import json
import os
import pkgutil
import signal
import socket
import sys
import tempfile
from array import array
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import entrypoints.cli
from entrypoints.cli import main

_LONGEST: Final = 1 << 20
_STANDARD: Final = 3
_STANDARD_ERROR: Final = 2
# Whoever ignores a signal hands that on. Otherwise Python begins with these.
_HEARD: Final[dict[str, Any]] = {
    "SIGINT": signal.default_int_handler,
    "SIGTERM": signal.SIG_DFL,
    "SIGHUP": signal.SIG_DFL,
    "SIGQUIT": signal.SIG_DFL,
}


def import_commands() -> None:
    for module in pkgutil.walk_packages(entrypoints.cli.__path__, "entrypoints.cli."):
        import_module(module.name)


def serve(control: socket.socket) -> Sequence[str] | None:
    """Returns in each new process, with the words of its command; in the mother herself when nobody asks any more."""
    while True:
        sent, descriptors = _received(control)
        if not sent:
            return None
        asked = json.loads(sent)
        told, tell = os.pipe()
        wait, go = os.pipe()
        between = os.fork()
        if between == 0:
            if os.fork() > 0:
                # Now the process is a child of the tests, which asked to inherit it.
                os._exit(0)
            for descriptor in (told, go):
                os.close(descriptor)
            control.close()
            _become(asked, descriptors)
            os.write(tell, str(os.getpid()).encode())
            os.close(tell)
            os.read(wait, 1)
            os.close(wait)
            return [str(word) for word in asked["words"]]
        os.close(tell)
        os.close(wait)
        os.waitpid(between, 0)
        number = os.read(told, 16)
        for descriptor in (told, go, *descriptors):
            os.close(descriptor)
        control.sendall(number or b"0")


def _received(control: socket.socket) -> tuple[bytes, list[int]]:
    sent, ancillary, _, _ = control.recvmsg(_LONGEST, socket.CMSG_SPACE(_STANDARD * array("i").itemsize))
    descriptors = array("i")
    for _, _, content in ancillary:
        descriptors.frombytes(content)
    while sent and not sent.endswith(b"\n"):
        more = control.recv(_LONGEST)
        if not more:
            return b"", []
        sent += more
    return sent, list(descriptors)


def _become(asked: dict[str, Any], descriptors: Sequence[int]) -> None:
    """Makes this process what `python -m` would have started: its descriptors, group, directory and environment."""
    if asked["process_group"] >= 0:
        os.setpgid(0, asked["process_group"])
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin, sys.stdout, sys.stderr = _opened(0, "r", sys.stdin), _opened(1, "w", sys.stdout), _opened(2, "w", sys.stderr)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]  # they are not final here
    for name, default in _HEARD.items():
        signal.signal(getattr(signal, name), signal.SIG_IGN if name in asked["ignored"] else default)
    os.chdir(asked["directory"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    tempfile.tempdir = None
    sys.argv = [str(main.__file__), *asked["words"]]


def _opened(number: int, mode: str, like: Any) -> io.TextIOWrapper:
    unbuffered = like.write_through
    return io.TextIOWrapper(
        open(number, f"{mode}b", 0 if unbuffered else -1, closefd=False),
        encoding=like.encoding,
        errors=like.errors,
        newline="\n",
        line_buffering=mode == "w" and not unbuffered and (number == _STANDARD_ERROR or os.isatty(number)),
        write_through=unbuffered,
    )


if __name__ == "__main__":
    import_commands()
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=os.dup(0)) as connection:
        words = serve(connection)
    if words is not None:
        sys.exit(main.main(words))
