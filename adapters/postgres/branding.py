"""The looks of organizations, from PostgreSQL."""

from typing import Final, LiteralString

from adapters.postgres.statements import ask, first_made
from adapters.postgres.transaction import OnPool
from core.domain.branding import Branding, branding
from core.frozen import Frozen


class _Looks(Frozen):
    name: str
    logo_digest: str | None
    primary_color: str | None


class PostgresBrandings(OnPool):
    """Implements `ports.branding.Brandings`."""

    async def find(self, organization: str) -> Branding | None:
        return first_made(
            await ask(self._pool, _Looks, _FIND, {"slug": organization}), lambda row: branding(row.name, row.logo_digest, row.primary_color)
        )


def links_of(organizations: LiteralString) -> LiteralString:
    """The links at the foot of an organization's pages, as `branding` takes them: null for the many organizations without any."""
    of = organizations
    return f"""
           case when coalesce({of}.help_url, {of}.privacy_url, {of}.terms_url) is not null
                then array[{of}.help_url, {of}.privacy_url, {of}.terms_url] end"""


# Before an organization is approved, its name may be misleading, because anyone can choose one. So mails do not show the name.
_FIND: Final = "select name, logo_digest, primary_color from organizations where slug = %(slug)s and status = 'active'"
