"""Reading whole directories that speak LDAP, in order to keep in step with them."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from core.domain.identity.upstream.ldap.answers import LdapSite
from core.domain.identity.upstream.ldap.reading import LdapGroup, LdapMarks, LdapPerson


class LdapReading(Protocol):
    """Every method opens a connection of its own, and raises `LdapFailed`, also for an answer that is not whole. No unit of work may be
    open meanwhile. Somebody without exactly one usable identity is nobody, here as at a sign-in. Two people may have one identity.
    """

    async def marks(self, site: LdapSite) -> LdapMarks:
        """What the next run begins from, if this is called before the run reads. All are None where the directory tells no changes."""

    def identities(self, site: LdapSite) -> AsyncIterator[Sequence[bytes]]:
        """Everybody whom the filter finds, in pages."""

    def people(self, site: LdapSite, attributes: Sequence[str], since: LdapMarks | None) -> AsyncIterator[Sequence[LdapPerson]]:
        """In pages: those who have changed since the marks; some of them may not have. Everybody without marks, and where the marks are
        another controller's.
        """

    async def groups(self, site: LdapSite) -> Sequence[LdapGroup]:
        """Those below the base, and those that people name in the attribute of groups. Empty when the settings name no such attribute."""
