"""Organizations' looks in PostgreSQL. `adapters/postgres/branding.py` reads the parts of a look that pages and mails show."""

from typing import Final

from adapters.postgres.statements import first, first_made
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import LogoId, OrganizationId
from core.domain.tenancy.branding import Logo, OrganizationLook
from core.frozen import Frozen


class LookRows(OnStatements):
    """Implements `ports.tenancy.branding.LookStore`."""

    async def find(self, organization: OrganizationId) -> OrganizationLook | None:
        return first(await self._statements.ask(OrganizationLook, _GET, {"id": organization}))

    async def logo(self, digest: str) -> Logo | None:
        return first_made(
            await self._statements.ask(_Logo, _LOGO, {"digest": storable_text(digest)}), lambda row: Logo(row.media_type, row.content)
        )

    async def save(self, organization: OrganizationId, look: OrganizationLook) -> None:
        parameters = {
            "id": organization,
            "logo_url": None if look.logo_url is None else storable_text(look.logo_url),
            "primary_color": look.primary_color,
            "help_url": look.help_url,
            "privacy_url": look.privacy_url,
            "terms_url": look.terms_url,
        }
        await self._statements.tell(_SAVE, parameters)

    async def replace_logo(self, organization: OrganizationId, logo: Logo | None, id: LogoId) -> None:  # noqa: A002 - the noun's own word
        await self._statements.tell(_POINT, {"organization": organization, "digest": None if logo is None else logo.digest})
        if logo is None:
            await self._statements.tell("delete from logos where org_id = %(organization)s", {"organization": organization})
        else:
            await self._statements.tell(
                _KEEP,
                {
                    "id": id,
                    "organization": organization,
                    "digest": logo.digest,
                    "media_type": logo.media_type,
                    "content": logo.content,
                },
            )


class _Logo(Frozen):
    media_type: str
    content: bytes


_GET: Final = "select logo_url, primary_color, help_url, privacy_url, terms_url, logo_digest from organizations where id = %(id)s"

_SAVE: Final = """
    update organizations
       set logo_url = %(logo_url)s, primary_color = %(primary_color)s, help_url = %(help_url)s, privacy_url = %(privacy_url)s,
           terms_url = %(terms_url)s
     where id = %(id)s
"""

_POINT: Final = "update organizations set logo_digest = %(digest)s where id = %(organization)s"

_KEEP: Final = """
    insert into logos (id, org_id, digest, media_type, content, created_at)
    values (%(id)s, %(organization)s, %(digest)s, %(media_type)s, %(content)s, now())
        on conflict (org_id) do update
       set id = excluded.id, digest = excluded.digest, media_type = excluded.media_type, content = excluded.content,
           created_at = excluded.created_at
"""

# Several organizations and providers may have the same logo; any of the rows will do.
_LOGO: Final = """
    select logos.media_type, logos.content
      from logos
      join organizations on organizations.id = logos.org_id
     where logos.digest = %(digest)s and organizations.status = 'active'
 union all
    select logo_media_type, logo
      from further_providers
     where logo_digest = %(digest)s
     limit 1
"""
