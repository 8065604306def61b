"""Front-channel logout (OpenID Connect Front-Channel Logout 1.0): the page of an application that a browser loads in a frame when its
person signs out, so that the application ends its own session there.
"""

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlencode, urlsplit

from core.domain.identifiers import OrganizationId, SessionId
from core.frozen import Frozen

MOST_FRAMES: Final = 10
_ORIGIN: Final = re.compile(r"(?P<scheme>https?)://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::(?P<port>[0-9]+))?(?=[/?]|\Z)")
_USUAL_PORTS: Final = {"https": "443", "http": "80"}


class FrameAddress(Frozen):
    """A session that has ended, and the page with which its application hears of that."""

    session: SessionId
    address: str
    names_session: bool
    organization: OrganizationId
    """That of the application."""

    def read_by(self, issuer: str) -> str:
        """The address as the frame has it."""
        if not self.names_session:
            return self.address
        parts = urlsplit(self.address)
        said = urlencode({"iss": issuer, "sid": str(self.session)})
        return parts._replace(query=f"{parts.query}&{said}" if parts.query else said).geturl()


def origin_of(address: str) -> str | None:
    """Scheme, host and port as browsers compare them, and as the policy of a page names them. None for an address of another scheme."""
    found = _ORIGIN.match(address)
    if found is None:
        return None
    scheme, host, port = found["scheme"], found["host"].lower(), found["port"]
    return f"{scheme}://{host}" if port in {None, _USUAL_PORTS[scheme]} else f"{scheme}://{host}:{port}"


def frames(ended: Iterable[FrameAddress], issuer: str) -> tuple[str, ...]:
    """The addresses of the frames: of the newest sessions first, each address once, and `MOST_FRAMES` at most."""
    newest = sorted(ended, key=lambda one: one.session, reverse=True)
    return tuple(dict.fromkeys(one.read_by(issuer) for one in newest))[:MOST_FRAMES]


def origins(addresses: Iterable[str]) -> tuple[str, ...]:
    """The origins of frames, for the policy of their page."""
    return tuple(dict.fromkeys(origin for address in addresses if (origin := origin_of(address)) is not None))
