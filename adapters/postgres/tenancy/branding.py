"""Organizations' looks in PostgreSQL. `adapters/postgres/branding.py` reads the parts of a look that pages and mails show."""

from typing import Final

from adapters.postgres.statements import first_made
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import OnStatements
from core.domain.branding import look_of
from core.domain.identifiers import LogoId, OrganizationId
from core.domain.tenancy.branding import Logo, LookPicture, OrganizationLook
from core.frozen import Frozen, values_of


class LookRows(OnStatements):
    """Implements `ports.tenancy.organizations.LookStore`."""

    async def find(self, organization: OrganizationId) -> OrganizationLook | None:
        return first_made(await self._statements.ask(_Kept, _GET, {"id": organization}), _Kept.organization_look)

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
            "look": look.look.as_text(),
        }
        await self._statements.tell(_SAVE, parameters)

    async def replace_picture(
        self,
        organization: OrganizationId,
        kind: LookPicture,
        picture: Logo | None,
        id: LogoId,  # noqa: A002 - the noun's own word
    ) -> None:
        parameters = {
            "id": id,
            "organization": organization,
            "kind": kind.value,
            "digest": None if picture is None else picture.digest,
            "media_type": None if picture is None else picture.media_type,
            "content": None if picture is None else picture.content,
        }
        if kind is LookPicture.LOGO:
            await self._statements.tell(_POINT, parameters)
            await self._statements.tell(_REMOVE_LOGO if picture is None else _KEEP_LOGO, parameters)
        else:
            await self._statements.tell(_REMOVE if picture is None else _KEEP, parameters)


class _Kept(Frozen):
    logo_url: str | None
    primary_color: str | None
    help_url: str | None
    privacy_url: str | None
    terms_url: str | None
    logo_digest: str | None
    look: str | None

    def organization_look(self) -> OrganizationLook:
        return OrganizationLook(**{**values_of(self), "look": look_of(self.look)})


class _Logo(Frozen):
    media_type: str
    content: bytes


_GET: Final = "select logo_url, primary_color, help_url, privacy_url, terms_url, logo_digest, look from organizations where id = %(id)s"

_SAVE: Final = """
    update organizations
       set logo_url = %(logo_url)s, primary_color = %(primary_color)s, help_url = %(help_url)s, privacy_url = %(privacy_url)s,
           terms_url = %(terms_url)s, look = %(look)s
     where id = %(id)s
"""

_POINT: Final = "update organizations set logo_digest = %(digest)s where id = %(organization)s"

_REMOVE_LOGO: Final = "delete from logos where org_id = %(organization)s"

_KEEP_LOGO: Final = """
    insert into logos (id, org_id, digest, media_type, content, created_at)
    values (%(id)s, %(organization)s, %(digest)s, %(media_type)s, %(content)s, now())
        on conflict (org_id) do update
       set id = excluded.id, digest = excluded.digest, media_type = excluded.media_type, content = excluded.content,
           created_at = excluded.created_at
"""

_REMOVE: Final = "delete from look_pictures where org_id = %(organization)s and kind = %(kind)s"

_KEEP: Final = """
    insert into look_pictures (id, org_id, kind, digest, media_type, content, created_at)
    values (%(id)s, %(organization)s, %(kind)s, %(digest)s, %(media_type)s, %(content)s, now())
        on conflict (org_id, kind) do update
       set id = excluded.id, digest = excluded.digest, media_type = excluded.media_type, content = excluded.content,
           created_at = excluded.created_at
"""

# Several organizations, services and providers may have the same picture; any of the rows will do.
_LOGO: Final = """
    select logos.media_type, logos.content
      from logos
      join organizations on organizations.id = logos.org_id
     where logos.digest = %(digest)s and organizations.status = 'active'
 union all
    select look_pictures.media_type, look_pictures.content
      from look_pictures
      join organizations on organizations.id = look_pictures.org_id
     where look_pictures.digest = %(digest)s and organizations.status = 'active'
 union all
    select service_logos.media_type, service_logos.content
      from service_logos
      join services on services.id = service_logos.service_id
      join organizations on organizations.id = services.org_id
     where service_logos.digest = %(digest)s and organizations.status = 'active'
 union all
    select logo_media_type, logo
      from further_providers
     where logo_digest = %(digest)s
     limit 1
"""
