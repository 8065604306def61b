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
    dress: list[str | None] | None


class PostgresBrandings(OnPool):
    """Implements `ports.branding.Brandings`."""

    async def find(self, organization: str) -> Branding | None:
        return first_made(
            await ask(self._pool, _Looks, _FIND, {"slug": organization}),
            lambda row: branding(row.name, row.logo_digest, row.primary_color, row.dress),
        )


def dress_of(organizations: LiteralString) -> LiteralString:
    """What an organization wears besides name, logo and colour, as `branding` takes it: null for the many organizations without any."""
    of = organizations
    return f"""
           case when coalesce({of}.help_url, {of}.privacy_url, {of}.terms_url, {of}.look, {of}.languages, {of}.texts_digest) is not null
                then array[{of}.help_url, {of}.privacy_url, {of}.terms_url, {of}.look, {of}.languages, {of}.texts_digest] end"""


# Before an organization is approved, its name may be misleading, because anyone can choose one. So mails do not show the name.
_FIND: Final = f"""
    select name, logo_digest, primary_color, {dress_of("organizations")} as dress
      from organizations
     where slug = %(slug)s and status = 'active'
"""
