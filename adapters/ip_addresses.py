"""Looks up IP addresses in the operator's files: their location, and whether they belong to a VPN or proxy."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog
import trio

from core.domain.identity.devices import Location, Spot
from core.domain.identity.guards.traffic import ListedNetworks, Network

if TYPE_CHECKING:
    from maxminddb import Reader

log = structlog.get_logger()


_CACHED: Final = 2048
_POLE: Final = 90
_LONGEST_NAME: Final = 100
_COUNTRY_CODE: Final = 2


class LocationDatabaseUnusable(Exception):
    """The file is missing, unreadable, or not in MaxMind's format."""


class NoLocations:
    """Implements `ports.identity.sign_in.Locations` for an installation without a database file."""

    async def find(self, address: str | None) -> Location | None:  # noqa: ARG002 - the port's
        return None


class MaxMindLocations:
    """Implements `ports.identity.sign_in.Locations` with a database file in MaxMind's format, which the operator names. The look-up uses no
    network. The file is mapped into memory: processes share its pages, and the kernel loads a page when it is needed.
    """

    def __init__(self, reader: "Reader") -> None:
        self._reader = reader
        self._version = reader.metadata().ip_version
        # A look-up runs in a thread, because it may have to read a page from the disk. One thread is enough.
        self._limiter = trio.CapacityLimiter(1)
        self._cached = lru_cache(maxsize=_CACHED)(self._read)

    async def find(self, address: str | None) -> Location | None:
        parsed = _address(address)
        if parsed is None:
            return None
        return await trio.to_thread.run_sync(self._cached, parsed, limiter=self._limiter)

    def _read(self, address: IPv4Address | IPv6Address) -> Location | None:
        if address.version > self._version:
            return None
        from maxminddb import InvalidDatabaseError  # noqa: PLC0415 - loaded with the reader

        try:
            record = self._reader.get(address)
        except (InvalidDatabaseError, ValueError) as error:
            # Part of the file is damaged. A sign-in without a known place is better than no sign-in.
            log.warning("location_database_damaged", error=str(error))
            return None
        return _location(record)


@contextmanager
def locations(file: Path | None) -> Iterator[NoLocations | MaxMindLocations]:
    """Raises `LocationDatabaseUnusable`."""
    if file is None:
        yield NoLocations()
        return
    import maxminddb  # noqa: PLC0415 - it takes half a megabyte, and most installations have no such file

    try:
        reader = maxminddb.open_database(file)
    except OSError as error:
        raise LocationDatabaseUnusable(error.strerror or str(error)) from None
    except (maxminddb.InvalidDatabaseError, ValueError) as error:
        raise LocationDatabaseUnusable("it is not in MaxMind's format") from error
    with reader:
        yield MaxMindLocations(reader)


def _address(text: str | None) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address((text or "").partition("%")[0])
    except ValueError:
        return None


def _location(record: object) -> Location | None:
    """Reads a record of MaxMind's City and Country databases, free or paid. Other databases have the country and the city in the same
    places, or do not have them at all.
    """
    country = _inner(record, "country", "iso_code") or _inner(record, "registered_country", "iso_code")
    city = _inner(record, "city", "names", "en")
    if country is not None:
        country = country.upper() if len(country) == _COUNTRY_CODE else None
    return Location(country, city and city[:_LONGEST_NAME], _spot(record)) if country or city else None


def _spot(record: object) -> Spot | None:
    found = record.get("location") if isinstance(record, Mapping) else None
    if not isinstance(found, Mapping):
        return None
    latitude, longitude = found.get("latitude"), found.get("longitude")
    if not (isinstance(latitude, float | int) and isinstance(longitude, float | int)):
        return None
    # What is no number at all compares with none.
    if not (abs(latitude) <= _POLE and abs(longitude) <= 2 * _POLE):
        return None
    return round(latitude * 10), round(longitude * 10)


def _inner(record: object, *names: str) -> str | None:
    for name in names:
        record = record.get(name) if isinstance(record, Mapping) else None
    return record if isinstance(record, str) and record else None


class ProxyListUnusable(Exception):
    """The file cannot be read, or has a line that is not a network."""


class ListedProxies:
    """Implements `ports.identity.sign_in.Proxies`.

    Networks that the operator lists as VPNs and proxies. Users who come from such a network hide their location.
    """

    def __init__(self, networks: Sequence[Network]) -> None:
        self._given = bool(networks)
        self._listed = ListedNetworks(networks)

    def contain(self, address: str | None) -> bool | None:
        if not self._given or address is None:
            return None
        try:
            parsed = ip_address(address.partition("%")[0])
        except ValueError:
            return None
        return self._listed.contain(parsed.version, int(parsed), int(parsed))


_COMMENT: Final = "#"


def read_networks(file: Path) -> list[Network]:
    """One network or address on each line. Text after a `#` is a comment. Raises `ProxyListUnusable`."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ProxyListUnusable(error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise ProxyListUnusable("it is not text") from None
    networks: list[Network] = []
    for number, line in enumerate(lines, 1):
        text = line.partition(_COMMENT)[0].strip()
        if text:
            try:
                networks.append(ip_network(text, strict=False))
            except ValueError:
                raise ProxyListUnusable(f"line {number} is no network") from None
    return networks
