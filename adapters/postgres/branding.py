"""Branding and custom texts of organizations, as pages and mails show them."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, LiteralString

import trio

from adapters.postgres.columns import storable_text
from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import OnPool, Statements, Transaction, ask, first
from adapters.postgres.ties import IS_OWN_USE, is_own_member
from core.domain.branding import Branding, Dress, branding
from core.domain.identifiers import UserId
from core.domain.languages import Language
from core.domain.texts.own_texts import NO_OWN_TEXTS, ApprovalRules, InstallationWords, OwnTexts, shown_texts
from core.domain.texts.rules import without_links
from core.frozen import Frozen, names_of
from ports.texts import LentBranding

MOST_BYTES: Final = 8 * 1024 * 1024
# What a text takes besides its characters: the text itself, its key and their place in the mapping. What a set takes besides its texts.
_AROUND: Final = 160
_AROUND_SET: Final = 500
_DIGEST: Final = names_of(Dress).index("texts_digest")


class KeptTexts:
    """The texts that were shown last, up to a number of bytes. A page holds the texts that it shows, so it does not matter to the page
    whether they are kept.

    Caches custom texts by their digest. What has a digest never changes, so a process keeps the texts that it has read, and pages and mails
    of an organization whose texts are cached cost no statement.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._sets: OrderedDict[str, tuple[OwnTexts, int]] = OrderedDict()
        self._bytes = 0
        self._asked: dict[str, trio.Event] = {}

    def find(self, digest: str) -> OwnTexts | None:
        kept = self._sets.get(digest)
        if kept is None:
            return None
        self._sets.move_to_end(digest)
        return kept[0]

    def keep(self, texts: OwnTexts) -> None:
        size = _AROUND_SET + sum(_AROUND + 4 * len(text) for one in texts.by_language.values() for text in one.values())
        if texts.digest in self._sets:
            return
        self._sets[texts.digest] = texts, size
        self._bytes += size
        while self._bytes > self._most:
            _, (_, freed) = self._sets.popitem(last=False)
            self._bytes -= freed

    async def bring(self, asked: Pool | Statements | Transaction, dress: Sequence[str | None] | None) -> None:
        """Afterwards the texts of this dress are kept, and `branded` has them. Nothing is asked for what is kept, or by an organization
        without texts. If the organization has changed its texts a moment ago, nothing is kept: the page shows ours once.
        """
        digest = None if dress is None else dress[_DIGEST]
        if digest is None or digest in self._sets:
            return
        if isinstance(asked, Transaction):
            # Others must not wait for a transaction, and a transaction must not wait for those who wait for a connection.
            self._keep_rows(digest, await asked.ask(_Text, _OF_DIGEST, {"digest": digest}))
            return
        while (under_way := self._asked.get(digest)) is not None:
            await under_way.wait()
            if digest in self._sets:
                return
        ended = self._asked[digest] = trio.Event()
        try:
            pool = asked if isinstance(asked, Pool) else asked.pool
            self._keep_rows(digest, await ask(pool, _Text, _OF_DIGEST, {"digest": digest}))
        finally:
            del self._asked[digest]
            ended.set()

    def branded(self, name: str, logo_digest: str | None, color: str | None, dress: Sequence[str | None] | None) -> Branding:
        """The branding with its texts, if they are kept."""
        digest = None if dress is None else dress[_DIGEST]
        texts = None if digest is None else self.find(digest)
        return branding(name, logo_digest, color, dress, texts or NO_OWN_TEXTS)

    def _keep_rows(self, digest: str, rows: Sequence["_Text"]) -> None:
        # Also where nothing of them is shown, or every page would ask again.
        if rows:
            self.keep(OwnTexts(digest, _by_language(rows)))


class _Text(Frozen):
    language: str
    key: str
    text: str
    unlinked: bool


def _by_language(rows: Iterable[_Text]) -> Mapping[Language, Mapping[str, str]]:
    """Rows of languages that this release does not speak stay where they are, and so does everything that must not be shown."""
    texts: dict[Language, dict[str, str]] = {}
    for row in rows:
        if (language := Language.of(row.language)) is not None:
            texts.setdefault(language, {})[row.key] = without_links(row.text) if row.unlinked else row.text
    return {language: shown for language, own in texts.items() if (shown := shown_texts(own))}


class _Words(Frozen):
    digest: str | None
    mails: bool
    pages: bool
    texts: Sequence[Mapping[str, Any]] | None


class PostgresInstallationWords:
    """Implements `ports.texts.InstallationWordsLookup`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def get(self) -> InstallationWords:
        row = first(await ask(self._pool, _Words, _OF_INSTALLATION))
        if row is None:
            return InstallationWords()
        texts = _by_language(_Text(**one) for one in row.texts or ())
        digest = row.digest or ""
        return InstallationWords(OwnTexts(digest, texts) if digest and texts else NO_OWN_TEXTS, ApprovalRules(row.mails, row.pages))


KEPT_TEXTS: Final = KeptTexts()
bring: Final = KEPT_TEXTS.bring
branded: Final = KEPT_TEXTS.branded

# Of several organizations with equal texts, any. A deleted one loses its texts in batches, and has its digest meanwhile.
_OF_DIGEST: Final = """
    select language, key, text, unlinked
      from organization_texts
     where org_id = (select id from organizations where texts_digest = %(digest)s limit 1)
"""

_OF_INSTALLATION: Final = """
    select (select digest from installation_texts) as digest,
           coalesce((select mails from text_approval_rules), true) as mails,
           coalesce((select pages from text_approval_rules), false) as pages,
           (
               select json_agg(json_build_object('language', language, 'key', key, 'text', text, 'unlinked', unlinked))
                 from organization_texts
                where org_id is null
           ) as texts
"""


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
        return None if row is None else await self._branded(row)

    async def find_for(self, organization: str, user: UserId) -> LentBranding | None:
        row = first(await ask(self._pool, _Lent, _FIND_FOR, {"slug": storable_text(organization), "user": user}))
        return None if row is None else LentBranding(await self._branded(row), row.is_own)

    async def _branded(self, row: _Looks) -> Branding:
        await bring(self._pool, row.dress)
        return branded(row.name, row.logo_digest, row.primary_color, row.dress)


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
