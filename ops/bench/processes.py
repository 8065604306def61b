"""Reads from /proc about a process and its descendants: processor time, resident memory, open descriptors."""

import os
import signal
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class _Entry:
    pid: int
    name: str
    state: str
    parent: int
    ticks: int


def _entry(pid: int) -> _Entry | None:
    with suppress(OSError):
        before, _, after = (_PROC / str(pid) / "stat").read_text().rpartition(")")
        fields = after.split()
        return _Entry(pid, before.partition("(")[2], fields[0], int(fields[1]), int(fields[11]) + int(fields[12]))
    return None


def tree(root: int, *, without: str | None = "postgres") -> list[int]:
    """The process and its descendants, the process first. `without` leaves out a program and its descendants."""
    children: dict[int, list[_Entry]] = defaultdict(list)
    for directory in _PROC.iterdir():
        if directory.name.isdigit() and (entry := _entry(int(directory.name))) is not None and entry.state != "Z":
            children[entry.parent].append(entry)
    found = [root]
    for pid in found:
        found += [child.pid for child in children[pid] if child.name != without]
    return found


def cpu_seconds(pids: Sequence[int]) -> float:
    """User and system time so far, of all threads. The kernel counts in hundredths of a second, so measure over seconds."""
    return sum(entry.ticks for pid in pids if (entry := _entry(pid)) is not None) / _TICKS


def thread_seconds(pids: Iterable[int], *, at_first_ones_priority: bool = False) -> Mapping[int, float]:
    """Processor time so far of each thread of these processes, in nanoseconds. It can leave out the threads with another priority than the
    first thread of their process, such as Postern's hashing threads.
    """
    found = {}
    for pid in pids:
        with suppress(OSError):
            first = _niceness(_PROC / str(pid))
            for thread in (_PROC / str(pid) / "task").iterdir():
                with suppress(OSError):
                    if not at_first_ones_priority or _niceness(thread) == first:
                        found[int(thread.name)] = int((thread / "schedstat").read_text().split()[0]) / 1e9
    return found


def spent(before: Mapping[int, float], after: Mapping[int, float]) -> float:
    """The seconds of the threads that exist afterwards. A thread that began meanwhile counts from zero."""
    return sum(seconds - before.get(thread, 0.0) for thread, seconds in after.items())


def _niceness(task: Path) -> int:
    return int((task / "stat").read_text().rpartition(")")[2].split()[16])


def resident_megabytes(pid: int) -> float:
    return _memory(pid, "VmRSS")


def peak_megabytes(pid: int) -> float:
    """The peak of resident memory, since the start or since `forget_peak`."""
    return _memory(pid, "VmHWM")


def forget_peak(pid: int) -> None:
    """Makes the peak begin anew with this call."""
    (_PROC / str(pid) / "clear_refs").write_text("5")


def _memory(pid: int, name: str) -> float:
    for line in (_PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    return 0.0


def descriptors(pid: int) -> int:
    return sum(1 for _ in (_PROC / str(pid) / "fd").iterdir())


def is_alive(pid: int) -> bool:
    entry = _entry(pid)
    return entry is not None and entry.state != "Z"


def send(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
