"""Huge pages: what a serving process reads at each request lies on few large pages of memory.

Python's objects lie all over the heap, on tens of thousands of pages of 4 KiB. A processor knows where few of these are, and looks the
others up in memory; in a virtual machine, twice. Of pages of 2 MiB, it knows nearly all.
"""

import ctypes
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

# MADV_COLLAPSE of <linux/mman.h>, from Linux 6.1 on. An earlier kernel refuses it.
_COLLAPSE: Final = 25
_SIZE: Final = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
_MAPS: Final = Path("/proc/self/maps")
# A mapping that is writable, private, and of no file: the heap, and what was mapped without a name or with one that was given to it.
_ANONYMOUS: Final = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw-p [0-9a-f]+ 00:00 0 *(?:\[heap\]|\[anon:.*\])?$", re.MULTILINE)


def gather() -> None:
    """Copies what this process has in memory into huge pages. Where nothing is in memory, nothing is made, so the process hardly gets
    larger. Takes some milliseconds of a processor for each page, and may run beside the event loop. Where the system cannot do it, nothing
    happens.
    """
    if not sys.platform.startswith("linux"):
        return
    with suppress(OSError, ValueError, AttributeError):
        size = int(_SIZE.read_text())
        library = ctypes.CDLL(None)
        library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        for start in places(_MAPS.read_text(), size):
            # One by one: of many at once, Linux makes none after some of the failures.
            library.madvise(start, size, _COLLAPSE)


def places(maps: str, size: int) -> Iterator[int]:
    """The addresses in `/proc/self/maps` where a page of this size fits into memory of no file."""
    for start, end in _ANONYMOUS.findall(maps):
        first = -(-int(start, 16) // size) * size
        yield from range(first, int(end, 16) - size + 1, size)
