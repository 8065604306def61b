"""The looks of organizations, from PostgreSQL."""

from typing import Final, LiteralString

from adapters.postgres.statements import ask, first
from adapters.postgres.storable import storable_text
from adapters.postgres.texts.own_texts import bring, worn
from adapters.postgres.ties import IS_OWN_USE, is_own_member
from adapters.postgres.transaction import OnPool
from core.domain.branding import Branding
from core.domain.identifiers import UserId
from core.frozen import Frozen
from ports.texts import LentBranding


class _Looks(Frozen):
    name: str
    logo_digest: str | None
    primary_color: str | None
    dress: list[str | None] | None


class _Lent(_Looks):
    is_own: bool


class PostgresBrandings(OnPool):
    """Implements `ports.texts.Brandings`."""

    async def find(self, organization: str) -> Branding | None:
        row = first(await ask(self._pool, _Looks, _FIND, {"slug": storable_text(organization)}))
        return None if row is None else await self._worn(row)

    async def find_for(self, organization: str, user: UserId) -> LentBranding | None:
        row = first(await ask(self._pool, _Lent, _FIND_FOR, {"slug": storable_text(organization), "user": user}))
        return None if row is None else LentBranding(await self._worn(row), row.is_own)

    async def _worn(self, row: _Looks) -> Branding:
        await bring(self._pool, row.dress)
        return worn(row.name, row.logo_digest, row.primary_color, row.dress)


def dress_of(organizations: LiteralString) -> LiteralString:
    """What an organization wears besides name, logo and colour, as `branding` takes it: null for the many organizations without any."""
    of = organizations
    return f"""
           case when coalesce({of}.help_url, {of}.privacy_url, {of}.terms_url, {of}.look, {of}.languages, {of}.texts_digest) is not null
                then array[{of}.help_url, {of}.privacy_url, {of}.terms_url, {of}.look, {of}.languages, {of}.texts_digest,
                           {of}.approved_texts] end"""


# Before an organization is approved, its name may be misleading, because anyone can choose one. So mails do not show the name.
_FIND: Final = f"""
    select name, logo_digest, primary_color, {dress_of("organizations")} as dress
      from organizations
     where slug = %(slug)s and status = 'active'
"""

_FIND_FOR: Final[LiteralString] = f"""
    select name, logo_digest, primary_color, {dress_of("organizations")} as dress,
           {is_own_member("organizations.id", "%(user)s")}
           or exists (
               select from service_users
                where service_users.org_id = organizations.id and service_users.user_id = %(user)s and {IS_OWN_USE}
               offset 0
           ) as is_own
      from organizations
     where slug = %(slug)s and status = 'active'
"""
