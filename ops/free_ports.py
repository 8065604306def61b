"""Ports for servers that tests and measurements start.

The kernel gives the ports of its own range also to outgoing connections. A port that it once named as free is often taken when the server
starts, seconds later. The ports here lie below that range, and no two callers on this machine get the same one soon after each other.
"""

import fcntl
import os
import random
import socket
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

_PORTS: Final = range(20_000, 32_000)
_LAST: Final = Path(tempfile.gettempdir()) / f"postern-last-port-{os.getuid()}"


def free_port() -> int:
    with os.fdopen(os.open(_LAST, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+", encoding="ascii") as last:
        fcntl.flock(last, fcntl.LOCK_EX)
        port = int(last.read() or random.choice(_PORTS))
        while not _is_free(port := _PORTS.start + (port + 1 - _PORTS.start) % len(_PORTS)):
            pass
        last.seek(0)
        last.write(str(port))
        return port


def _is_free(port: int) -> bool:
    with suppress(OSError), socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tried.bind(("127.0.0.1", port))
        return True
    return False
