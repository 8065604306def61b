"""What a hash has left on a thread's heap goes back to the system.

The GNU C library keeps a freed block for the next allocation of the same thread: after the first hash, 19 MiB for each thread that has ever
hashed. While passwords come, that is right. A limit that gave each block back at once costs two fifths of the hashing rate, since the
system clears every page that it gives. So a thread gives back when it has had nothing to do for a while.

`malloc_trim` leaves the end of a thread's heap as it is, and that is where the block lies. Freeing a block there with a small limit
shrinks the heap. Elsewhere than with this library nothing happens.
"""

import ctypes
from contextlib import suppress
from functools import cache
from typing import Any, Final

# The names of `mallopt`, in <malloc.h>.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
# The library's own limit grows up to this with the blocks that it has seen, and no more once one of the limits is set.
_FROM_THE_HEAP: Final = 32 << 20
_KEPT_WHEN_RESTING: Final = 128 << 10
# More than any hash of ours leaves: whatever stays below it stays on the heap between two hashes.
_KEPT_WHEN_BUSY: Final = 256 << 20
# Large enough that freeing it looks at the heap's end, and small enough to come from the heap.
_PROBE: Final = 100 << 10


def give_back() -> None:
    """For the calling thread alone. Takes well under a millisecond, and no lock that others hold for long."""
    library = _library()
    if library is None:
        return
    library.mallopt(_MMAP_THRESHOLD, _FROM_THE_HEAP)
    library.mallopt(_TRIM_THRESHOLD, _KEPT_WHEN_RESTING)
    library.free(library.malloc(_PROBE))
    library.mallopt(_TRIM_THRESHOLD, _KEPT_WHEN_BUSY)


@cache
def _library() -> Any:
    with suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        library.malloc.restype = ctypes.c_void_p
        library.malloc.argtypes = [ctypes.c_size_t]
        library.free.restype = None
        library.free.argtypes = [ctypes.c_void_p]
        # Only the GNU C library has it.
        _ = library.gnu_get_libc_version
        return library
    return None
