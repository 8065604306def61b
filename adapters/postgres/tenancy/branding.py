"""Looks, own texts, notices and languages of organizations. `adapters/postgres/branding.py` reads what pages and mails show."""

from collections.abc import Sequence
from typing import Any, Final, LiteralString

from adapters.postgres.columns import Columns, array, storable_text
from adapters.postgres.statements import OnStatements, first, first_made
from core.domain.branding import look_of
from core.domain.identifiers import LogoId, OrganizationId, OwnTextId
from core.domain.languages import kept_languages, restored_languages
from core.domain.tenancy.branding import Logo, LookPicture, OrganizationLook
from core.domain.tenancy.texts import KeptText, NoticeTimes, SpokenLanguages
from core.domain.texts.own_texts import INSTALLATION_TEXTS_TOPIC
from core.frozen import Frozen, replace

LOOK: Final = Columns(OrganizationLook, "organizations", apart=("look",), texts=("logo_url",), derived=("logo_digest",))


def _kept(*, look: str | None, **columns: Any) -> OrganizationLook:
    return LOOK.row(look=look_of(look), **columns)


class LookRows(OnStatements):
    """Implements `ports.tenancy.organizations.LookStore`."""

    async def find(self, organization: OrganizationId) -> OrganizationLook | None:
        return first(await self._statements.ask(_kept, _GET, {"id": organization}))

    async def logo(self, digest: str) -> Logo | None:
        return first(await self._statements.ask(Logo, _LOGO, {"digest": storable_text(digest)}))

    async def save(self, organization: OrganizationId, look: OrganizationLook) -> None:
        await self._statements.tell(_SAVE, {**LOOK.values(look), "id": organization, "look": look.look.as_text()})

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


_GET: Final[LiteralString] = f"select {LOOK.names}, look from organizations where id = %(id)s"

_SAVE: Final[LiteralString] = f"update organizations set {LOOK.changes()}, look = %(look)s where id = %(id)s"

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


OWN_TEXT: Final = Columns(KeptText, "organization_texts", named={"organization": "org_id"}, texts=("text", "based_on"))


class _Host(Frozen):
    host: str


class _Spoken(Frozen):
    language: str


class OwnTextRows(OnStatements):
    """Implements `ports.tenancy.organizations.OwnTextStore`."""

    async def list(self, organization: OrganizationId | None) -> Sequence[KeptText]:
        if organization is None:
            return await self._statements.ask(OWN_TEXT.row, _LIST_INSTALLATION)
        return await self._statements.ask(OWN_TEXT.row, _LIST, {"organization": organization})

    async def hosts(self, organization: OrganizationId) -> Sequence[str]:
        return [row.host for row in await self._statements.ask(_Host, _HOSTS, {"organization": organization})]

    async def put(self, texts: Sequence[KeptText]) -> None:
        for text in texts:
            await self._statements.tell(_PUT_INSTALLATION if text.organization is None else _PUT, OWN_TEXT.values(text))

    async def remove(self, texts: Sequence[OwnTextId]) -> None:
        if texts:
            await self._statements.tell(
                "delete from organization_texts where id = any (%(texts)s::uuid[])", {"texts": array([str(text) for text in texts])}
            )

    async def languages(self) -> Sequence[str]:
        return [row.language for row in await self._statements.ask(_Spoken, _LANGUAGES)]

    async def claim_uncompared(self, language: str, version: str, limit: int) -> Sequence[KeptText]:
        return await self._statements.ask(OWN_TEXT.row, _CLAIM, {"language": language, "version": version, "limit": limit})

    async def mark_compared(self, texts: Sequence[OwnTextId], outdated: Sequence[OwnTextId], version: str) -> None:
        parameters = {"texts": array(map(str, texts)), "outdated": array(map(str, outdated)), "version": version}
        await self._statements.tell(_MARK, parameters)

    async def save_digest(self, organization: OrganizationId | None, digest: str | None) -> None:
        if organization is not None:
            await self._statements.tell(_SAVE_DIGEST, {"organization": organization, "digest": digest})
            return
        if digest is not None:
            await self._statements.tell(_SAVE_INSTALLATION, {"digest": digest})
        else:
            await self._statements.tell("delete from installation_texts")
        self._statements.ring(INSTALLATION_TEXTS_TOPIC)


_LIST: Final[LiteralString] = f"""
    select {OWN_TEXT.names} from organization_texts where org_id = %(organization)s order by language, key
"""

_LIST_INSTALLATION: Final[LiteralString] = f"""
    select {OWN_TEXT.names} from organization_texts where org_id is null order by language, key
"""

_HOSTS: Final = """
    select domain as host from domains where org_id = %(organization)s and verified_at is not null
     union
    select domain as host from domain_routes where org_id = %(organization)s and verified_at is not null
"""

_INSERT: Final = """
    insert into organization_texts (id, org_id, key, language, text, based_on, unlinked, updated_at)
    values (%(id)s, %(organization)s, %(key)s, %(language)s, %(text)s, %(based_on)s, %(unlinked)s, %(updated_at)s)
"""

_UPDATE: Final = """
        do update
       set text = excluded.text, based_on = excluded.based_on, unlinked = excluded.unlinked, updated_at = excluded.updated_at,
           outdated = false, compared_with = ''
"""

_PUT: Final[LiteralString] = f"{_INSERT} on conflict (org_id, key, language) where org_id is not null {_UPDATE}"

_PUT_INSTALLATION: Final[LiteralString] = f"{_INSERT} on conflict (key, language) where org_id is null {_UPDATE}"

# The recursion reads each language once from an index, however many texts there are.
_LANGUAGES: Final = """
    with recursive spoken (language) as (
             (select language from organization_texts order by language limit 1)
              union all
             select (select language from organization_texts where language > spoken.language order by language limit 1)
               from spoken
              where spoken.language is not null
         )
  select language from spoken where language is not null
"""

# Nobody waits for the comparison, and it waits for nobody. An index finds what is before the version, and what is behind it.
_CLAIM: Final[LiteralString] = f"""
    with before as (
             select id from organization_texts where language = %(language)s and compared_with < %(version)s
              order by compared_with limit %(limit)s for update skip locked
         ),
         behind as (
             select id from organization_texts where language = %(language)s and compared_with > %(version)s
              order by compared_with limit %(limit)s for update skip locked
         )
  select {OWN_TEXT.names} from organization_texts where id in (select id from before union all select id from behind limit %(limit)s)
"""

_MARK: Final = """
    update organization_texts
       set compared_with = %(version)s, outdated = id = any (%(outdated)s::uuid[])
     where id = any (%(texts)s::uuid[])
"""

_SAVE_DIGEST: Final = "update organizations set texts_digest = %(digest)s where id = %(organization)s"

_SAVE_INSTALLATION: Final = """
    insert into installation_texts (digest) values (%(digest)s) on conflict (only_row) do update set digest = excluded.digest
"""


class _Look(Frozen):
    look: str | None


class NoticeRows(OnStatements):
    """Implements `ports.tenancy.organizations.NoticeStore`."""

    async def find(self, organization: OrganizationId) -> NoticeTimes | None:
        rows = await self._statements.ask(_Look, _FIND, {"id": organization})
        return first_made(rows, lambda row: NoticeTimes.of(look_of(row.look)))

    async def save(self, organization: OrganizationId, times: NoticeTimes) -> None:
        # Written by `Look`, as every change of the looks is: equal looks are equal texts, and a move takes no other form.
        rows = await self._statements.ask(_Look, _FIND, {"id": organization})
        begins, ends = times.stored()
        for row in rows:
            look = replace(look_of(row.look), notice_from=begins, notice_until=ends)
            await self._statements.tell(_NOTICE_SAVE, {"id": organization, "look": look.as_text()})


_FIND: Final = "select look from organizations where id = %(id)s"
_NOTICE_SAVE: Final = "update organizations set look = %(look)s where id = %(id)s"


class _KeptLanguages(Frozen):
    languages: str | None


class SpokenLanguageRows(OnStatements):
    """Implements `ports.tenancy.organizations.SpokenLanguageStore`."""

    async def find(self, organization: OrganizationId) -> SpokenLanguages | None:
        return first_made(
            await self._statements.ask(_KeptLanguages, "select languages from organizations where id = %(id)s", {"id": organization}),
            lambda row: SpokenLanguages(restored_languages(row.languages)),
        )

    async def save(self, organization: OrganizationId, spoken: SpokenLanguages) -> None:
        parameters = {"id": organization, "languages": kept_languages(spoken.languages)}
        await self._statements.tell("update organizations set languages = %(languages)s where id = %(id)s", parameters)
