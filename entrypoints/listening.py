"""The sockets that a server listens on, bound before all else, the descriptors that it may have, and the certificate and key of HTTPS,
checked before the start.
"""

import errno
import os
import resource
import socket
import ssl
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

import structlog
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509 import Certificate, load_pem_x509_certificates

from entrypoints.failures import StartFailed
from entrypoints.settings import Settings, SettingsError
from entrypoints.settings_forms import Address

_CERTIFICATE: Final = "POSTERN_TLS_CERTIFICATE"
_KEY: Final = "POSTERN_TLS_KEY"
# The limit that is set when there is no hard limit. Some programs that we start go through all descriptors up to the limit, one by one.
_MOST_DESCRIPTORS: Final = 1 << 20
# OPEN_MAX of <sys/syslimits.h>.
_DESCRIPTORS_OF_MACOS: Final = 10_240

log = structlog.get_logger()


def require_pair(certificate: Path, key: Path) -> None:
    """Raises `SettingsError`, which names the faulty setting."""
    _require_certificates(certificate)
    _require_key(key)
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise SettingsError(f"{_KEY}: the key in {key} does not belong to the first certificate in {certificate}") from None
        reason = (error.reason or type(error).__name__).replace("_", " ").lower()
        raise SettingsError(f"{_CERTIFICATE} or {_KEY} cannot be used: {reason}") from None


def valid_between(certificate: Path) -> tuple[datetime, datetime]:
    """The validity of the server's own certificate, which is the first in the file. Raises `SettingsError`."""
    own = _require_certificates(certificate)[0]
    return own.not_valid_before_utc, own.not_valid_after_utc


def _require_certificates(file: Path) -> list[Certificate]:
    try:
        return load_pem_x509_certificates(_content(_CERTIFICATE, file))
    except ValueError:
        raise SettingsError(f"{_CERTIFICATE}: the file {file} has no certificate in PEM form, or a damaged one") from None


def _require_key(file: Path) -> None:
    content = _content(_KEY, file)
    try:
        load_pem_private_key(content, None)
    except TypeError:
        # Without this, OpenSSL would ask for the passphrase on the terminal, and wait.
        raise SettingsError(f"{_KEY}: the key in {file} is encrypted; give one without a passphrase") from None
    except (ValueError, UnsupportedAlgorithm):
        raise SettingsError(f"{_KEY}: the file {file} has no private key in PEM form, or a damaged one") from None


def _content(setting: str, file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise SettingsError(f"{setting}: the file {file} cannot be read: {error.strerror}") from None


# The kernel caps the backlog at net.core.somaxconn. If another process holds the socket too, connections that wait in the backlog survive
# the process that should have accepted them.
_BACKLOG: Final = 4096


def listen(address: Address, count: int = 1, *, setting: str = "POSTERN_BIND") -> Sequence[socket.socket]:
    """`count` listening sockets on the address of this setting; the kernel spreads connections among them. Raises `StartFailed`."""
    if address.path is not None:
        return [_listen_on_path(address.path)] * count
    try:
        family, _, _, _, place = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise StartFailed(f"{setting} names a host that does not resolve: {address.host} ({error.strerror})") from None
    if count > 1 and sys.platform != "linux":
        # macOS has SO_REUSEPORT, but gives every connection to the socket that was bound last.
        raise StartFailed(
            "--processes needs Linux, which spreads connections over several sockets; elsewhere, serve from one process, or on unix:/path"
        )
    first = _bound(family, place, address, setting, shared=False)
    if count == 1:
        return [first]
    # The first socket does not share the port, so its `bind` fails when another program uses the port. A sharing socket would not fail.
    place = (place[0], first.getsockname()[1], *place[2:])
    first.close()
    return [_bound(family, place, address, setting, shared=True) for _ in range(count)]


def release(address: Address, sockets: Sequence[socket.socket]) -> None:
    for one in sockets:
        one.close()
    if address.path is not None:
        with suppress(FileNotFoundError):
            address.path.unlink()


def with_real_port(settings: Settings, sockets: Sequence[socket.socket]) -> Settings:
    """The settings with the port that the kernel chose for port 0. The base URL contains that port."""
    if settings.bind.path is not None:
        return settings
    return replace(settings, bind=Address(settings.bind.host, sockets[0].getsockname()[1]))


def _bound(family: int, place: tuple[object, ...], address: Address, setting: str, *, shared: bool) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            # A socket on [::] accepts IPv4 as well, whatever the machine's default is.
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        made.bind(place)
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        if error.errno == errno.EADDRINUSE:
            raise StartFailed(f"{address} is in use by another program; choose another address with {setting}") from None
        raise StartFailed(f"Cannot listen on {address}: {error.strerror}") from None
    return made


def _listen_on_path(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_stale(path)
        made.bind(os.fspath(path))
        # A proxy in front runs as another user. The directory's permissions and the socket's group decide which users may connect.
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
    """Removes the socket file of a process that was killed. A socket on which a process answers is not stale."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise StartFailed(f"Cannot listen on unix:{path}: this path exists and is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except OSError:
            pass
    raise StartFailed(f"unix:{path} is in use by another program; choose another address with POSTERN_BIND")


def raise_descriptor_limit() -> None:
    """Every connection is a descriptor. The usual soft limit of 1024 only protects programs that use select(2)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        # macOS reports no limit, but no process there may have more than OPEN_MAX descriptors.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, _DESCRIPTORS_OF_MACOS), hard))
        log.warning("descriptor_limit_not_raised", wanted=wanted, limit=resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def require_certificate(settings: Settings) -> None:
    """Raises `SettingsError` when the certificate or its key cannot be used."""
    if settings.tls_certificate is not None and settings.tls_key is not None:
        require_pair(settings.tls_certificate, settings.tls_key)
