"""Memory in huge pages: where they fit, and that the system makes them."""

import mmap

import pytest

from adapters.huge_pages import gather, places
from tests.huge_pages import huge_kilobytes

PAGE = 2 << 20
MAPS = """\
55d6a4400000-55d6a4a00000 r--p 00000000 08:01 1234                       /usr/bin/python3.11
55d6a4a00000-55d6a4e00000 rw-p 00600000 08:01 1234                       /usr/bin/python3.11
55d6a5100000-55d6a5700000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000400000 rw-p 00000000 00:00 0 
7f0000400000-7f0000800000 ---p 00000000 00:00 0 
7f0000800000-7f0000900000 rw-p 00000000 00:00 0 
7f0000bff000-7f0001201000 rw-p 00000000 00:00 0                          [anon: glibc: malloc arena]
7f0002000000-7f0002400000 rw-s 00000000 00:01 77                         /dev/zero (deleted)
7f0003000000-7f0003400000 rwxp 00000000 00:00 0 
7ffc8f200000-7ffc8f600000 rw-p 00000000 00:00 0                          [stack]
"""  # noqa: W291 - as Linux writes them


def test_pages_fit_into_memory_that_is_writable_and_of_no_file() -> None:
    assert list(places(MAPS, PAGE)) == [
        *(0x55D6A5200000, 0x55D6A5400000),
        *(0x7F0000000000, 0x7F0000200000),
        *(0x7F0000C00000, 0x7F0000E00000, 0x7F0001000000),
    ]


def test_what_is_in_memory_is_copied_into_huge_pages_and_stays_what_it_was() -> None:
    with mmap.mmap(-1, 4 * PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as trial:
        trial[:] = b"x" * len(trial)
        try:
            trial.madvise(25)
        except OSError:
            pytest.skip("this kernel has no MADV_COLLAPSE, or no huge pages")
    with mmap.mmap(-1, 4 * PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as kept:
        kept[:] = b"kept" * (len(kept) // 4)
        before = huge_kilobytes()
        gather()
        assert huge_kilobytes() >= before + 3 * PAGE // 1024
        assert kept[:] == b"kept" * (len(kept) // 4)
