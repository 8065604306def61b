"""Sign-ins that somebody waits for: a page behind "Add the application" shows the first one that comes from the same browser, and until
then the mistakes. The page looks again and again for ten minutes, and each person waits on one page at a time.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from core.domain.identifiers import AuthorizationRefusalId, AwaitedSignInId, OrganizationId, SessionId, UserId
from core.frozen import Frozen

LASTS: Final = timedelta(minutes=10)
MOST_MISTAKES: Final = 5
"""The newest refused requests that a page shows."""


class NewAwaitedSignIn(Frozen, kw_only=True):
    id: AwaitedSignInId
    user: UserId
    session: SessionId
    """The browser's session. Requests of other browsers, and of other accounts in the same browser, do not show."""
    organization: OrganizationId
    service_slug: str
    began_at: datetime

    @property
    def ends_at(self) -> datetime:
        return self.began_at + LASTS


class AwaitedPage(NamedTuple):
    """The page that looks. Only its own person, in the session in which it began, sees anything."""

    id: AwaitedSignInId
    user: UserId
    session: SessionId


class ArrivedSignIn(Frozen):
    """The session that the application got, in the browser session that waits."""

    user: UserId
    at: datetime
    scopes: Sequence[str]


class AwaitedSignIn(Frozen, kw_only=True):
    """What a page has seen so far."""

    organization: OrganizationId
    service_slug: str
    ends_at: datetime
    mistakes: Sequence[AuthorizationRefusalId]
    """The newest first."""
    arrived: ArrivedSignIn | None

    def is_over(self, now: datetime) -> bool:
        return self.arrived is not None or now >= self.ends_at


def may_be_added_by_a_press(address: str) -> bool:
    """Whether a page may offer to register the address by a press: http on this machine alone. Any site can send the browser that waits to
    us with an address of its own, in the application's name. Whoever is to register such an address has to type it, and reads it before.
    """
    try:
        place = urlsplit(address)
        host, _ = place.hostname or "", place.port
    except ValueError:
        return False
    if place.scheme != "http" or "@" in place.netloc or "\\" in address:
        return False
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
