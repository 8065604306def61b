"""Own texts in PostgreSQL. `adapters/postgres/texts/own_texts.py` reads what pages and mails show."""

from collections.abc import Sequence
from typing import Final, LiteralString

from adapters.postgres.arrays import array
from adapters.postgres.columns import Columns
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import OrganizationId, OwnTextId
from core.domain.tenancy.texts import KeptText
from core.domain.texts.own_texts import INSTALLATION_TEXTS_TOPIC
from core.frozen import Frozen

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
