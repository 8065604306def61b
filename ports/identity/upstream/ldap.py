"""Directories that speak LDAP."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.identifiers import UpstreamProviderId
from core.domain.identity.upstream.ldap.answers import LdapAnswer, LdapEntry, LdapSite
from core.domain.identity.upstream.ldap.surveys import LdapSurvey
from core.domain.secrets import Secret
from core.frozen import Frozen


class LdapFound(Frozen):
    """Who has a name at a directory."""

    entries: Sequence[LdapEntry]
    """At most two: that there are two is enough to know."""
    host: str
    base: str
    is_more: bool = False
    """The directory has more than these, or has stopped before it looked at everybody."""


class LdapDirectories(Protocol):
    """Every method opens connections of its own, in a few seconds at most, and raises `LdapFailed`. No unit of work may be open
    meanwhile.
    """

    async def look(self, site: LdapSite) -> None:
        """Whether one of the hosts answers, in TLS. Nothing is said there."""

    async def search(self, site: LdapSite, name: str, attributes: Sequence[str]) -> LdapFound:
        """Those who have this name in one of the sign-in attributes, with these attributes."""

    async def prove(self, site: LdapSite, host: str, dn: str, password: Secret) -> LdapAnswer:
        """One bind as this entry, at the host that has found it, in a connection that does nothing else."""

    async def survey(self, provider: UpstreamProviderId, site: LdapSite, attributes: Sequence[str]) -> LdapSurvey:
        """Asks every host, and reads at the first what a test tells about. A process makes one at a time of a connection."""
