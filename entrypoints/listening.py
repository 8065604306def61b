"""The sockets that a server listens on, bound before anything else is started: an address in use is found out at once."""

import errno
import os
import socket
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from entrypoints.failures import StartFailed
from entrypoints.settings import Settings
from entrypoints.settings_forms import Address

# The kernel cuts it to net.core.somaxconn. What waits here survives the process that was to accept it, when its socket is held elsewhere.
_BACKLOG: Final = 4096


def listen(address: Address, count: int = 1) -> Sequence[socket.socket]:
    """`count` listening sockets on one address, among which the kernel spreads the connections. Raises `StartFailed`."""
    if address.path is not None:
        return [_listen_on_path(address.path)] * count
    try:
        family, _, _, _, place = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise StartFailed(f"POSTERN_BIND names a host that cannot be found: {address.host} ({error.strerror})") from None
    first = _bound(family, place, address, shared=False)
    if count == 1:
        return [first]
    # The first one was alone on the port, so nobody else is there: sockets that share would not have told us.
    place = (place[0], first.getsockname()[1], *place[2:])
    first.close()
    return [_bound(family, place, address, shared=True) for _ in range(count)]


def release(address: Address, sockets: Sequence[socket.socket]) -> None:
    for one in sockets:
        one.close()
    if address.path is not None:
        with suppress(FileNotFoundError):
            address.path.unlink()


def with_real_port(settings: Settings, sockets: Sequence[socket.socket]) -> Settings:
    """Port 0 has become a port by now; the base URL is made from it."""
    if settings.bind.path is not None:
        return settings
    return replace(settings, bind=Address(settings.bind.host, sockets[0].getsockname()[1]))


def _bound(family: int, place: tuple[object, ...], address: Address, *, shared: bool) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            # [::] takes IPv4 as well, whatever the machine's default is.
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        made.bind(place)
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        if error.errno == errno.EADDRINUSE:
            raise StartFailed(f"{address} is in use by another program; POSTERN_BIND chooses another address") from None
        raise StartFailed(f"Cannot listen on {address}: {error.strerror}") from None
    return made


def _listen_on_path(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_stale(path)
        made.bind(os.fspath(path))
        # A proxy in front runs as another user; the directory and its group say who may come.
        path.chmod(0o660)
        made.listen(_BACKLOG)
    except StartFailed:
        made.close()
        raise
    except OSError as error:
        made.close()
        raise StartFailed(f"Cannot listen on unix:{path}: {error.strerror or error}") from None
    return made


def _remove_stale(path: Path) -> None:
    """A killed predecessor leaves its socket behind. One that somebody answers on is not stale."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise StartFailed(f"Cannot listen on unix:{path}: there is something else at this path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except OSError:
            pass
    raise StartFailed(f"unix:{path} is in use by another program; POSTERN_BIND chooses another address")
