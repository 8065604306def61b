"""What /proc says about a process and all it started: processor time, resident memory, open descriptors."""

import os
import signal
from collections import defaultdict
from collections.abc import Sequence
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
    """The process and all that it started, itself first. `without` leaves out a program, and what that one started."""
    children: dict[int, list[_Entry]] = defaultdict(list)
    for directory in _PROC.iterdir():
        if directory.name.isdigit() and (entry := _entry(int(directory.name))) is not None and entry.state != "Z":
            children[entry.parent].append(entry)
    found = [root]
    for pid in found:
        found += [child.pid for child in children[pid] if child.name != without]
    return found


def cpu_seconds(pids: Sequence[int]) -> float:
    """User and system time so far, all threads. In steps of a hundredth of a second: measure over seconds."""
    return sum(entry.ticks for pid in pids if (entry := _entry(pid)) is not None) / _TICKS


def resident_megabytes(pid: int) -> float:
    return _memory(pid, "VmRSS")


def peak_megabytes(pid: int) -> float:
    """The most that was ever resident, or since `forget_peak`."""
    return _memory(pid, "VmHWM")


def forget_peak(pid: int) -> None:
    """From now on the peak is what is most from now on."""
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
