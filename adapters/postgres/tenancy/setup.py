"""Setup links and their drafts in PostgreSQL, and who may test a connection."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString

from adapters.postgres.branding import branded, bring, dress_of
from adapters.postgres.columns import AnswerRow, Columns, IdRow, storable_address, storable_text
from adapters.postgres.identity.factors.mfa import grace_is_over, second_factor_due_in
from adapters.postgres.statements import OnPool, OnStatements, ask, first, first_made, only
from adapters.postgres.tenancy.roles import RELATED, RELATIONS_OF_MEMBER
from adapters.postgres.tenancy.upstream_providers import PROVIDER, provider_of
from core.domain.identifiers import ConnectionTestId, OrganizationId, SetupDraftId, SetupLinkId, UpstreamProviderId
from core.domain.tenancy.roles import BuiltInRole, Capability, capabilities_of, relations_with
from core.domain.tenancy.setup import LONGEST_USER_AGENT, KnownSetupLink, SetupDraft, SetupDraftState, SetupLink, SetupPurpose
from core.domain.tenancy.upstream_providers import UpstreamProvider
from core.frozen import Frozen, replace
from ports.tenancy.connections import ListedSetupLink, UsedBy

# A word of a later release means nothing here.
LINK: Final = Columns(
    SetupLink,
    "setup_links",
    named={"organization": "org_id"},
    texts=("name",),
    turned={
        "purposes": (
            lambda words: tuple(purpose for purpose in SetupPurpose if purpose.value in words),
            lambda purposes: [purpose.value for purpose in purposes],
        ),
        "used_from": (str, storable_address),
    },
)
# The rest of a draft follows from its connection, too.
DRAFT: Final = Columns(
    SetupDraft,
    "setup_drafts",
    named={"organization": "org_id", "link": "link_id", "provider": "upstream_provider_id"},
    apart=("has_credentials", "state", "tested_at", "activated_at"),
    texts=("subject", "came"),
)


class _Known(Frozen, kw_only=True):
    """What is known of a link besides itself."""

    browser_digest: bytes | None
    organization_slug: str
    organization_is_active: bool
    organization_name: str
    logo_digest: str | None
    primary_color: str | None
    dress: list[str | None] | None
    relations: list[str]
    owes_second_factor: bool
    is_platform_owner: bool

    def known(self, link: SetupLink) -> KnownSetupLink:
        return KnownSetupLink(
            # A maker who is no longer an owner may not let anything become active by itself.
            replace(link, activates=link.activates and BuiltInRole.OWNER in self.relations),
            self.browser_digest,
            self.organization_slug,
            self.organization_is_active,
            branded(self.organization_name, self.logo_digest, self.primary_color, self.dress),
            self._capabilities(link),
        )

    def _capabilities(self, link: SetupLink) -> frozenset[Capability]:
        if link.by_platform:
            return frozenset(Capability) if self.is_platform_owner else frozenset()
        return frozenset() if self.owes_second_factor else capabilities_of(self.relations)


def _known(**columns: Any) -> KnownSetupLink:
    link = LINK.taken(columns)
    return _Known(**columns).known(link)


def _draft(*, state: str, **columns: Any) -> SetupDraft:
    return DRAFT.row(state=SetupDraftState(state), **columns)


class _Kept(Frozen):
    sealed_credentials: bytes | None
    digest: bytes | None


class SetupLinkRows(OnStatements):
    """Implements `ports.tenancy.connections.SetupLinkStore`.

    A link carries a token; the row has only the token's digest.
    """

    async def find(self, link: SetupLinkId) -> KnownSetupLink | None:
        return await self._known(_FIND, {"id": link})

    async def find_by_token(self, digest: bytes) -> KnownSetupLink | None:
        return await self._known(_FIND_BY_TOKEN, {"digest": digest})

    async def find_by_connection(self, provider: UpstreamProviderId, browser: bytes) -> SetupLinkId | None:
        return first_made(
            await self._statements.ask(IdRow, _FIND_BY_CONNECTION, {"provider": provider, "browser": browser}),
            lambda row: SetupLinkId(row.id),
        )

    async def list(self, organization: OrganizationId) -> Sequence[ListedSetupLink]:
        links = await self._statements.ask(LINK.row, _LIST, {"organization": organization})
        by_link: dict[SetupLinkId, list[SetupDraft]] = {}
        for draft in await self._statements.ask(_draft, _DRAFTS_OF_ORGANIZATION, {"organization": organization}):
            by_link.setdefault(draft.link, []).append(draft)
        connections = await self._connections(organization)
        return [ListedSetupLink(link, by_link.get(link.id, []), connections) for link in links]

    async def find_listed(self, organization: OrganizationId, link: SetupLinkId) -> ListedSetupLink | None:
        rows = await self._statements.ask(LINK.row, _GET, {"organization": organization, "id": link})
        return ListedSetupLink(rows[0], await self.drafts(link), await self._connections(organization)) if rows else None

    async def _connections(self, organization: OrganizationId) -> Mapping[UpstreamProviderId, UpstreamProvider]:
        return {provider.id: provider for provider in await self._statements.ask(provider_of, _CONNECTIONS, {"organization": organization})}

    async def drafts(self, link: SetupLinkId) -> Sequence[SetupDraft]:
        return await self._statements.ask(_draft, _DRAFTS, {"link": link})

    async def hold_organization(self, organization: OrganizationId) -> bool:
        return bool(await self._statements.ask(IdRow, _HOLD_ORGANIZATION, {"organization": organization}))

    async def hold(self, link: SetupLinkId) -> KnownSetupLink | None:
        await self._statements.tell(_HOLD_ORGANIZATION_OF, {"id": link})
        return await self._known(_FIND, {"id": link})

    async def add(self, link: SetupLink, digest: bytes) -> int | None:
        return first(await self._statements.ask_in_order(int, _ADD, {**LINK.values(link), "digest": digest}))

    async def own(self, link: SetupLinkId, browser: UsedBy, at: datetime) -> SetupLink | None:
        parameters = {
            "id": link,
            "digest": browser.digest,
            "name": storable_text(browser.name),
            "address": browser.address,
            "user_agent": None if browser.user_agent is None else storable_text(browser.user_agent[:LONGEST_USER_AGENT]),
            "at": at,
        }
        return await self._link(_OWN, parameters)

    async def release(self, organization: OrganizationId, link: SetupLinkId) -> SetupLink | None:
        return await self._link(_RELEASE, {"organization": organization, "id": link})

    async def revoke(self, organization: OrganizationId, link: SetupLinkId, at: datetime) -> SetupLink | None:
        return await self._link(_REVOKE, {"organization": organization, "id": link, "at": at})

    async def finish(self, link: SetupLinkId, at: datetime) -> None:
        await self._statements.tell(_FINISH, {"id": link, "at": at})

    async def drop_drafts(self, link: SetupLinkId) -> None:
        await self._statements.tell(_DROP_DRAFTS, {"link": link})

    async def is_being_set_up(self, provider: UpstreamProviderId, now: datetime) -> bool:
        return only(await self._statements.ask(AnswerRow, _IS_BEING_SET_UP, {"provider": provider, "now": now})).yes

    async def will_activate(self, provider: UpstreamProviderId, now: datetime) -> bool:
        return only(await self._statements.ask(AnswerRow, _WILL_ACTIVATE, {"provider": provider, "now": now})).yes

    async def find_draft(self, organization: OrganizationId, draft: SetupDraftId) -> SetupDraft | None:
        return first(await self._statements.ask(_draft, _DRAFT, {"organization": organization, "id": draft}))

    async def credentials(self, draft: SetupDraftId) -> tuple[bytes | None, bytes | None]:
        (row,) = await self._statements.ask(_Kept, _CREDENTIALS, {"id": draft})
        return row.sealed_credentials, row.digest

    async def save_draft(self, draft: SetupDraft, *, sealed: bytes | None = None, digest: bytes | None = None) -> None:
        await self._statements.tell(
            _SAVE_DRAFT,
            {
                **DRAFT.values(draft),
                "keeps_credentials": draft.has_credentials,
                "sealed_credentials": sealed,
                "digest": digest,
                "state": draft.state.value,
                "tested_at": draft.tested_at,
                "activated_at": draft.activated_at,
            },
        )

    async def remove_draft(self, draft: SetupDraftId) -> None:
        await self._statements.tell("delete from setup_drafts where id = %(id)s", {"id": draft})

    async def seen(self, digest: bytes, at: datetime) -> bool:
        return bool(await self._statements.ask(IdRow, _SEEN, {"digest": digest, "at": at}))

    async def _known(self, statement: LiteralString, parameters: Mapping[str, Any]) -> KnownSetupLink | None:
        row = first(await self._statements.ask(dict[str, Any], statement, parameters))
        if row is None:
            return None
        await bring(self._statements, row["dress"])
        return _known(**row)

    async def _link(self, statement: LiteralString, parameters: Mapping[str, Any]) -> SetupLink | None:
        return first(await self._statements.ask(LINK.row, statement, parameters))


_LINK: Final = """setup_links.id, setup_links.org_id, setup_links.name, setup_links.prefix, setup_links.purposes, setup_links.activates,
           setup_links.by_platform, setup_links.mailed_to, setup_links.expires_at, setup_links.created_by, setup_links.created_at,
           setup_links.used_by, setup_links.used_at, host(setup_links.used_from) as used_from, setup_links.used_with,
           setup_links.finished_at, setup_links.revoked_at"""

# A connection has a state of its own, which its test and the console change, too. What once was active counts as active here for good.
_DRAFT_COLUMNS: Final[LiteralString] = f"""
    select {DRAFT.names}, setup_drafts.sealed_credentials is not null as has_credentials,
           case when upstream_providers.id is null or setup_drafts.state = 'active' then setup_drafts.state
                when upstream_providers.state = 'active' or upstream_providers.activated_at is not null then 'active'
                when upstream_providers.state = 'draft' then 'draft'
                when setup_drafts.state = 'waiting' then 'waiting'
                else 'tested' end as state,
           coalesce(upstream_providers.tested_at, setup_drafts.tested_at) as tested_at,
           coalesce(setup_drafts.activated_at, upstream_providers.activated_at) as activated_at
      from setup_drafts
      left join upstream_providers on upstream_providers.id = setup_drafts.upstream_provider_id
"""

_OWES_SECOND_FACTOR: Final[LiteralString] = grace_is_over(second_factor_due_in("wanted.id", "users.id"))

# `users` is empty for a maker who is gone or deactivated, so that such a maker stands in no relation to the organization.
_KNOWN: Final[LiteralString] = f"""
    select {LINK.names}, setup_links.browser_digest, wanted.slug as organization_slug, wanted.status = 'active' as organization_is_active,
           wanted.name as organization_name, wanted.logo_digest, wanted.primary_color, {dress_of("wanted")} as dress,
           case when users.id is null then '{{}}'::text[] else {RELATIONS_OF_MEMBER} end as relations,
           case when users.id is null then false else {_OWES_SECOND_FACTOR} end as owes_second_factor,
           coalesce(users.is_platform_owner, false) as is_platform_owner
      from setup_links
      join organizations as wanted on wanted.id = setup_links.org_id
      left join lateral (
                select users.id, users.is_platform_owner
                  from users
                 where users.id = setup_links.created_by and users.deactivated_at is null
                 limit 1
           ) as users on true
"""

_FIND_BY_CONNECTION: Final = """
    select setup_links.id
      from setup_drafts
      join setup_links on setup_links.id = setup_drafts.link_id
     where setup_drafts.upstream_provider_id = %(provider)s and setup_links.browser_digest = %(browser)s
"""

_FIND: Final[LiteralString] = f"{_KNOWN} where setup_links.id = %(id)s"

_FIND_BY_TOKEN: Final[LiteralString] = f"{_KNOWN} where setup_links.digest = %(digest)s"

# An organization has few enough links to show them all.
_LIST: Final[LiteralString] = f"""
    select {LINK.names} from setup_links where org_id = %(organization)s order by created_at desc, id desc
"""

_GET: Final[LiteralString] = f"select {LINK.names} from setup_links where id = %(id)s and org_id = %(organization)s"

_DRAFTS: Final[LiteralString] = f"{_DRAFT_COLUMNS} where setup_drafts.link_id = %(link)s order by setup_drafts.id"

_DRAFTS_OF_ORGANIZATION: Final[LiteralString] = f"{_DRAFT_COLUMNS} where setup_drafts.org_id = %(organization)s order by setup_drafts.id"

_DRAFT: Final[LiteralString] = f"{_DRAFT_COLUMNS} where setup_drafts.id = %(id)s and setup_drafts.org_id = %(organization)s"

_CONNECTIONS: Final[LiteralString] = f"""
    select {PROVIDER}
      from upstream_providers
     where org_id = %(organization)s and id in (select upstream_provider_id from setup_drafts where setup_drafts.org_id = %(organization)s)
"""


def _being_set_up(link: LiteralString) -> LiteralString:
    """`link` is a condition on the link."""
    return f"""
    select exists (
               select
                 from setup_drafts
                 join setup_links on setup_links.id = setup_drafts.link_id
                 join upstream_providers on upstream_providers.id = setup_drafts.upstream_provider_id
                where setup_drafts.upstream_provider_id = %(provider)s and setup_drafts.state not in ('waiting', 'active')
                  and upstream_providers.state <> 'active' and upstream_providers.activated_at is null
                  and setup_links.revoked_at is null and setup_links.finished_at is null and setup_links.expires_at > %(now)s
                  and {link}
           ) as yes
    """


_IS_BEING_SET_UP: Final = _being_set_up("true")

_WILL_ACTIVATE: Final = _being_set_up("setup_links.activates")

_CREDENTIALS: Final = "select sealed_credentials, digest from setup_drafts where id = %(id)s"

_HOLD_ORGANIZATION: Final = "select id from organizations where id = %(organization)s and status = 'active' for no key update"

_HOLD_ORGANIZATION_OF: Final = """
    select from organizations where id = (select org_id from setup_links where setup_links.id = %(id)s) for no key update
"""

_ADD: Final[LiteralString] = f"""
    insert into setup_links ({LINK.into("digest")}) values ({LINK.inserted("digest")})
        on conflict (prefix) do nothing
 returning (select count(*) from setup_links as others where others.org_id = %(organization)s) as before
"""

_OWN: Final[LiteralString] = f"""
    update setup_links
       set browser_digest = %(digest)s, used_by = %(name)s, used_at = %(at)s, used_from = %(address)s, used_with = %(user_agent)s
     where id = %(id)s and browser_digest is null and revoked_at is null and finished_at is null and expires_at > %(at)s
 returning {LINK.names}
"""

_RELEASE: Final[LiteralString] = f"""
    update setup_links
       set browser_digest = null, used_by = null, used_at = null, used_from = null, used_with = null
     where id = %(id)s and org_id = %(organization)s and browser_digest is not null and revoked_at is null
 returning {LINK.names}
"""

_REVOKE: Final[LiteralString] = f"""
    update setup_links
       set revoked_at = %(at)s
     where id = %(id)s and org_id = %(organization)s and revoked_at is null
 returning {LINK.names}
"""

_FINISH: Final = "update setup_links set finished_at = %(at)s where id = %(id)s and finished_at is null"

# A draft whose connection was ever active stays, as what it is.
_DROP_DRAFTS: Final = """
    delete from setup_drafts
     where link_id = %(link)s and state <> 'active'
       and not exists (
               select
                 from upstream_providers
                where upstream_providers.id = setup_drafts.upstream_provider_id
                  and (upstream_providers.state = 'active' or upstream_providers.activated_at is not null)
           )
"""

# A directory's first request stays what it is: `seen` alone writes it.
_SAVE_DRAFT: Final[LiteralString] = f"""
    insert into setup_drafts as existing ({DRAFT.into("sealed_credentials", "digest", "state", "tested_at", "activated_at")})
    values ({DRAFT.inserted("sealed_credentials", "digest", "state", "tested_at", "activated_at")})
        on conflict (id) do update
       set {DRAFT.replaced("id", "link", "organization", "purpose", "first_request_at", "created_at")},
           sealed_credentials = case when %(keeps_credentials)s then coalesce(excluded.sealed_credentials, existing.sealed_credentials) end,
           digest = case when excluded.state <> 'active' then coalesce(excluded.digest, existing.digest) end,
           state = excluded.state, tested_at = excluded.tested_at, activated_at = excluded.activated_at
"""

_SEEN: Final = """
    update setup_drafts
       set first_request_at = coalesce(first_request_at, %(at)s)
     where digest = %(digest)s and state <> 'active'
 returning id
"""


class PostgresTestStarters(OnPool):
    """Implements `ports.tenancy.connections.TestStarters`."""

    async def may_go_on(self, test: ConnectionTestId) -> bool:
        rows = await ask(self._pool, AnswerRow, _MAY_GO_ON, {"test": test, "may": relations_with(Capability.SETTINGS_MANAGE)})
        return any(row.yes for row in rows)


# A test asks the directory with the organization's password, so it ends with the session, key or link that has started it, and with the
# right of whoever is behind that. The holder of a set-up link has no other right than the link.
_STILL_MAY: Final[LiteralString] = f"""
                   users.deactivated_at is null
               and exists (select from ({RELATED}) as related where related.relation = any(%(may)s))
"""
_MAY_GO_ON: Final[LiteralString] = f"""
    select (
               coalesce(tests.session_id, tests.management_key_id, tests.setup_link_id) is null
            or exists (
                   select
                     from sessions
                     join users on users.id = sessions.user_id
                     join organizations as wanted on wanted.id = providers.org_id
                    where sessions.id = tests.session_id and sessions.revoked_at is null and sessions.expires_at > now() and {_STILL_MAY}
               )
            or exists (
                   select
                     from management_keys
                     join users on users.id = coalesce(management_keys.adopted_by, management_keys.created_by)
                     join organizations as wanted on wanted.id = providers.org_id
                    where management_keys.id = tests.management_key_id and management_keys.expires_at > now() and {_STILL_MAY}
               )
            or exists (
                   select
                     from setup_links
                    where setup_links.id = tests.setup_link_id and setup_links.revoked_at is null and setup_links.expires_at > now()
               )
           ) as yes
      from connection_tests as tests
      join upstream_providers as providers on providers.id = tests.upstream_provider_id
     where tests.id = %(test)s
"""
