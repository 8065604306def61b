"""Reads all people and groups of a directory by LDAP."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from core.domain.identity.upstream.ldap.answers import LdapSite
from core.domain.identity.upstream.ldap.reading import LdapGroup, LdapMarks, LdapPerson


class LdapReading(Protocol):
    """Every method raises `LdapFailed`. No unit of work may be open meanwhile."""

    async def marks(self, site: LdapSite) -> LdapMarks: ...

    def identities(self, site: LdapSite) -> AsyncIterator[Sequence[bytes]]:
        """Pages of the identities of all people."""

    def people(self, site: LdapSite, attributes: Sequence[str], since: LdapMarks | None) -> AsyncIterator[Sequence[LdapPerson]]:
        """Pages of people with these attributes. With `since`, only those who have changed."""

    async def groups(self, site: LdapSite) -> Sequence[LdapGroup]:
        """Those in the base, by the settings' group attribute."""
