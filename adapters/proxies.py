"""Networks that the operator lists as VPNs and proxies. People who come from such a network hide their place."""

from collections.abc import Sequence
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Final

from core.domain.identity.guards.traffic import ListedNetworks, Network


class ProxyListUnusable(Exception):
    """The file cannot be read, or has a line that is not a network."""


class ListedProxies:
    """Implements `ports.identity.sign_in.Proxies`."""

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
