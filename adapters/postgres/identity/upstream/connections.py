"""Directories: what an answer finds, answers that wait for their browser, refused passwords, tests, and the recorder."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

import msgspec
import trio
from psycopg.types.json import Jsonb

from adapters.postgres.columns import Columns, IdRow, listed, storable, storable_text
from adapters.postgres.driver.pipeline import LAST_WORD
from adapters.postgres.identity.addresses import proved_domains
from adapters.postgres.identity.upstream.ways import ldap_settings, saml_settings
from adapters.postgres.statements import OnPool, OnTransaction, ask, first, first_made, tell
from core.domain.identifiers import (
    ConnectionAnswerId,
    OrganizationId,
    ServiceId,
    SessionId,
    UpstreamProviderId,
    UserId,
)
from core.domain.identity.flows import Prompt, SignInRequirements
from core.domain.identity.sessions import PLATFORM, Context
from core.domain.identity.upstream.connection_tests import (
    MOST_EXCHANGES,
    Check,
    CheckName,
    CheckState,
    ConnectionExchange,
    ConnectionTest,
    NewConnectionTest,
)
from core.domain.identity.upstream.connections import ProviderKind, private_key_context
from core.domain.identity.upstream.directories import (
    AskedDirectory,
    AskedPassword,
    ConnectedDirectory,
    NewAnswer,
    SealedKey,
    answer_context,
)
from core.domain.identity.upstream.directory_visits import DirectoryVisit
from core.domain.identity.upstream.further_sign_ins import PostedAnswer
from core.domain.identity.upstream.ldap.settings import bind_password_context
from core.domain.identity.upstream.sign_in import REPEATABLE, SealedClient, used
from core.frozen import Frozen, values_of

_AT_ONCE: Final = 100


DIRECTORY: Final = Columns(
    ConnectedDirectory,
    "upstream_providers",
    named={"organization": "org_id"},
    # The organization has two of these, several columns make a client and a key, and a cache parses the settings.
    apart=("organization_slug", "is_active_organization", "settings", "ldap", "client", "key", "next_key", "former_key"),
)


def _directory(columns: dict[str, Any]) -> ConnectedDirectory:
    """Returns the directory of a row that has the columns of `_DIRECTORY`. Further columns stay in the dictionary."""
    take = columns.pop
    return DIRECTORY.taken(
        columns,
        client=_client(columns, take("client_id"), take("sealed_client_secret"), take("sealed_bind_password")),
        settings=saml_settings(take("saml")),
        ldap=ldap_settings(take("ldap")),
        key=_key(take("certificate"), take("sealed_private_key")),
        next_key=_key(take("next_certificate"), take("next_sealed_private_key")),
        former_key=_key(take("former_certificate"), take("former_sealed_private_key")),
        organization_slug=take("organization_slug"),
        is_active_organization=take("is_active_organization"),
    )


def _client(columns: Mapping[str, Any], client_id: str | None, secret: bytes | None, password: bytes | None) -> SealedClient:
    provider, issuer = UpstreamProviderId(columns["id"]), columns["issuer"]
    if client_id is not None and secret is not None:
        return SealedClient(client_id=client_id, sealed_secret=secret, context=f"upstream_providers.sealed_client_secret:{provider}")
    if columns["kind"] == ProviderKind.LDAP:
        # While there is no bind password, nothing is opened.
        return SealedClient(client_id=issuer, sealed_secret=password or b"", context=bind_password_context(provider))
    # The table lets no provider be without a client's secret and without a private key.
    return SealedClient(client_id=issuer, sealed_secret=columns["sealed_private_key"], context=private_key_context(provider))


def _key(certificate: str | None, sealed: bytes | None) -> SealedKey | None:
    return None if certificate is None or sealed is None else SealedKey(certificate, sealed)


def _found(**columns: Any) -> ConnectedDirectory:
    return _directory(columns)


def _asked(*, prompt: str | None, max_age: int | None, **columns: Any) -> AskedDirectory:
    wanted = SignInRequirements(prompt=None if prompt is None else Prompt(prompt), max_age=max_age)
    return AskedDirectory(directory=_directory(columns), wanted=wanted, **columns)


def _asked_password(
    *, domains: list[str] | None, application_organization: UUID | None, application_service: UUID | None, **columns: Any
) -> AskedPassword:
    application = PLATFORM
    if application_organization is not None and application_service is not None:
        application = Context(OrganizationId(application_organization), "", ServiceId(application_service), "")
    return AskedPassword(directory=_directory(columns), domains=frozenset(domains or ()), application=application, **columns)


class _Proved(Frozen):
    domains: list[str] | None


class _Redeemed(Frozen):
    id: UUID
    sealed_answer: bytes


def _checks(kept: Sequence[Mapping[str, Any]]) -> Sequence[Check]:
    return [Check(**{**one, "name": CheckName(one["name"]), "state": CheckState(one["state"])}) for one in kept]


def _kept_checks(checks: Sequence[Check]) -> Jsonb:
    return Jsonb([check.stored() for check in checks])


EXCHANGE: Final = Columns(
    ConnectionExchange,
    "connection_exchanges",
    named={"provider": "upstream_provider_id", "message": "message_id"},
    turned={"checks": (_checks, _kept_checks)},
)


class PostgresConnections(OnPool):
    """Implements `ConnectionLookup` and `ConnectionExchangeStore` of `ports.identity.upstream`."""

    async def directory(self, provider: UpstreamProviderId) -> ConnectedDirectory | None:
        return first(await ask(self._pool, _found, _FIND, {"provider": provider}))

    async def asked(self, provider: UpstreamProviderId, state_digest: bytes) -> AskedDirectory | None:
        parameters = {
            "provider": provider,
            "key": str(provider),
            "digest": state_digest,
            "used": used(state_digest),
            "lasts": REPEATABLE,
        }
        return first(await ask(self._pool, _asked, _ASKED, parameters))

    async def asked_password(self, provider: UpstreamProviderId, state_digest: bytes, browser: bytes) -> AskedPassword | None:
        parameters = {"provider": provider, "key": str(provider), "digest": state_digest, "browser": browser}
        return first(await ask(self._pool, _asked_password, _ASKED_PASSWORD, parameters))

    async def proved_domains(self, organization: OrganizationId) -> frozenset[str]:
        (row,) = await ask(self._pool, _Proved, _PROVED, {"organization": organization})
        return frozenset(row.domains or ())

    async def keep(self, answer: NewAnswer) -> bool:
        return bool(await ask(self._pool, IdRow, _KEEP, values_of(answer)))

    async def redeem(self, provider: UpstreamProviderId, code_digest: bytes) -> tuple[bytes, str] | None:
        return first_made(
            await ask(self._pool, _Redeemed, _REDEEM, {"provider": provider, "code": code_digest}),
            lambda row: (row.sealed_answer, answer_context(ConnectionAnswerId(row.id))),
        )

    async def exchanges(self, organization: OrganizationId, provider: UpstreamProviderId) -> Sequence[ConnectionExchange] | None:
        parameters = {"organization": organization, "provider": provider, "most": MOST_EXCHANGES}
        return listed(await ask(self._pool, EXCHANGE.found, _EXCHANGES, parameters))

    async def test(self, digest: bytes) -> ConnectionTest | None:
        return first(await ask(self._pool, ConnectionTest, _FIND_TEST, {"digest": digest}))

    async def begin_test(self, digest: bytes, browser: bytes, now: datetime) -> ConnectionTest | None:
        return first(await ask(self._pool, ConnectionTest, _BEGIN_TEST, {"digest": digest, "browser": browser, "now": now}))

    async def add(self, exchanges: Sequence[ConnectionExchange]) -> None:
        for begin in range(0, len(exchanges), _AT_ONCE):
            part = exchanges[begin : begin + _AT_ONCE]
            counted, others = [one for one in part if one.last_at is not None], [one for one in part if one.last_at is None]
            if counted:
                await tell(self._pool, _COUNT_EXCHANGES, {"exchanges": Jsonb([_as_json(one) for one in counted])})
            if others:
                providers = list(dict.fromkeys(one.provider for one in others))
                await tell(self._pool, _ADD_EXCHANGES, {"exchanges": Jsonb([_as_json(one) for one in others])})
                await tell(self._pool, _TRIM_EXCHANGES, {"providers": providers, "most": MOST_EXCHANGES})


class ConnectionTestRows(OnTransaction):
    """Implements `ports.identity.upstream.ConnectionTestStore`."""

    async def add(self, test: NewConnectionTest) -> None:
        await self._transaction.tell(_END_TESTS, {"provider": test.provider})
        await self._transaction.tell(_ADD_TEST, values_of(test) | values_of(test.starter))

    async def finish(self, digest: bytes, *, succeeded: bool, sealed_result: bytes, now: datetime, expires_at: datetime) -> bool:
        parameters = {"digest": digest, "succeeded": succeeded, "result": sealed_result, "now": now, "expires_at": expires_at}
        return bool(await self._transaction.ask(IdRow, _FINISH_TEST, parameters))


class _Session(Frozen):
    session_id: UUID
    user_id: UUID


class DirectorySessionRows(OnTransaction):
    """Implements `ports.identity.upstream.DirectorySessionStore`."""

    async def keep(self, session: SessionId, visit: DirectoryVisit, now: datetime) -> None:
        parameters = {
            "session": session,
            "provider": visit.provider,
            "name": visit.name_digest,
            "index": storable_text(visit.session_index),
            "context": storable_text(visit.context_class),
            "issued_at": visit.issued_at,
            "now": now,
        }
        await self._transaction.tell(_KEEP_SESSION, parameters)

    async def of_name(
        self, provider: UpstreamProviderId, name_digest: bytes, indexes: Sequence[str], asked_at: datetime
    ) -> Sequence[tuple[SessionId, UserId]]:
        parameters = {
            "provider": provider,
            "name": name_digest,
            "indexes": [storable_text(one) for one in indexes] or None,
            "asked_at": asked_at,
        }
        rows = await self._transaction.ask(_Session, _SESSIONS_OF_NAME, parameters)
        return [(SessionId(row.session_id), UserId(row.user_id)) for row in rows]


def _as_json(one: ConnectionExchange) -> Any:
    return storable(msgspec.to_builtins(one))


_DIRECTORY: Final = """
           providers.id, providers.org_id as organization, organizations.slug as organization_slug, providers.kind, providers.state,
           providers.enabled, organizations.status = 'active' as is_active_organization, providers.name, providers.issuer,
           providers.saml::text as saml, providers.ldap::text as ldap, providers.profile_mapping, providers.scopes, providers.client_id,
           providers.sealed_client_secret, providers.certificate, providers.sealed_private_key, providers.sealed_bind_password,
           providers.next_certificate, providers.next_sealed_private_key, providers.former_certificate,
           providers.former_sealed_private_key
           """

_OF_PROVIDER: Final = """
      from upstream_providers as providers
      join organizations on organizations.id = providers.org_id
     where providers.id = %(provider)s"""

_FIND: Final[LiteralString] = f"select {_DIRECTORY} {_OF_PROVIDER}"

_ASKED: Final[LiteralString] = f"""
    select {_DIRECTORY},
           exists (
               select from oauth_states where digest = %(digest)s and provider = %(key)s and expires_at > now()
           ) as is_asked,
           exists (
               select from oauth_states where digest = %(used)s and provider = %(key)s and used_at > now() - %(lasts)s
           ) as was_asked,
           (
               select tests.id
                 from connection_tests as tests
                where tests.digest = %(digest)s and tests.upstream_provider_id = providers.id and tests.begun_at is not null
                  and tests.expires_at > now()
           ) as test,
           led.wanted ->> 'prompt' as prompt, (led.wanted ->> 'max_age')::bigint as max_age, led.created_at as began
      from upstream_providers as providers
      join organizations on organizations.id = providers.org_id
      left join lateral (
                select flows.wanted, flows.created_at
                  from oauth_states
                  join flows on flows.id = oauth_states.flow_id
                 where oauth_states.digest = %(digest)s and oauth_states.provider = %(key)s
           ) as led on true
     where providers.id = %(provider)s
"""

_ASKED_PASSWORD: Final[LiteralString] = f"""
    select {_DIRECTORY},
           states.digest is not null as is_asked,
           exists (
               select from connection_tests as tests
                where tests.digest = %(digest)s and tests.upstream_provider_id = providers.id and tests.browser_digest = %(browser)s
                  and tests.begun_at is not null and tests.finished_at is null and tests.expires_at > now()
           ) as test,
           {proved_domains("providers.org_id")} as domains,
           applications.id as application_organization, flows.service_id as application_service
      from upstream_providers as providers
      join organizations on organizations.id = providers.org_id
      left join oauth_states as states
             on states.digest = %(digest)s and states.provider = %(key)s and states.browser_digest = %(browser)s
            and states.expires_at > now()
      left join flows on flows.id = states.flow_id
      left join organizations as applications
             on applications.slug = flows.wanted ->> 'organization' and applications.status = 'active'
     where providers.id = %(provider)s and providers.kind = 'ldap'
"""

_PROVED: Final[LiteralString] = f"select {proved_domains('%(organization)s::uuid')} as domains"

_KEEP: Final = """
    insert into connection_answers (id, upstream_provider_id, code_digest, assertion_digest, sealed_answer, waits_until, expires_at)
    select %(id)s, upstream_providers.id, %(code_digest)s, %(assertion_digest)s, %(sealed)s, %(waits_until)s, %(expires_at)s
      from upstream_providers
     where upstream_providers.id = %(provider)s
        on conflict (upstream_provider_id, assertion_digest) do nothing
 returning id
"""

_REDEEM: Final = """
    with waiting as (
             select id, sealed_answer
               from connection_answers
              where code_digest = %(code)s and upstream_provider_id = %(provider)s and sealed_answer is not null and waits_until > now()
                for update
         )
    update connection_answers
       set sealed_answer = null
      from waiting
     where connection_answers.id = waiting.id
 returning waiting.id, waiting.sealed_answer
"""

# A stranger decides how often something counted comes: it stands beside the newest, and pushes none of them out.
_EXCHANGES: Final[LiteralString] = f"""
    select {EXCHANGE.names_in("recent")}
      from upstream_providers as providers
      left join lateral (
                (
                    select *
                      from connection_exchanges
                     where connection_exchanges.upstream_provider_id = providers.id and last_at is null
                     order by id desc
                     limit %(most)s
                )
                union all
                select *
                  from connection_exchanges
                 where connection_exchanges.upstream_provider_id = providers.id and last_at is not null
            ) as recent on true
     where providers.id = %(provider)s and providers.org_id = %(organization)s
     order by coalesce(recent.last_at, recent.created_at) desc, recent.id desc
"""

# A certificate that signed an answer has its own note, because exchanges go after a while.
_ADD_EXCHANGES: Final = """
    with signing as (
             insert into connection_certificates (upstream_provider_id, fingerprint, signed_at)
             select upstream_providers.id, told.certificate, max(told.created_at)
               from jsonb_to_recordset(%(exchanges)s) as told (provider uuid, certificate text, created_at timestamptz)
               join upstream_providers on upstream_providers.id = told.provider
              where told.certificate <> ''
              group by upstream_providers.id, told.certificate
              order by upstream_providers.id, told.certificate
                 on conflict (upstream_provider_id, fingerprint) do update
                set signed_at = excluded.signed_at
              where connection_certificates.signed_at < excluded.signed_at
         )
    insert into connection_exchanges (id, upstream_provider_id, kind, succeeded, fault, reason, advice, checks, certificate, message_id,
                                      in_response_to, created_at)
    select told.id, upstream_providers.id, told.kind, told.succeeded, told.fault, told.reason, told.advice, told.checks, told.certificate,
           told.message, told.in_response_to, told.created_at
      from jsonb_to_recordset(%(exchanges)s)
        as told (id uuid, provider uuid, kind text, succeeded boolean, fault text, reason text, advice text, checks jsonb,
                 certificate text, message text, in_response_to text, created_at timestamptz)
      join upstream_providers on upstream_providers.id = told.provider
        on conflict do nothing
"""

_COUNT_EXCHANGES: Final = """
    insert into connection_exchanges as counted (id, upstream_provider_id, kind, succeeded, fault, reason, advice, checks, certificate,
                                                 message_id, in_response_to, created_at, times, last_at)
    select told.id, upstream_providers.id, told.kind, told.succeeded, told.fault, told.reason, told.advice, told.checks, told.certificate,
           told.message, told.in_response_to, told.created_at, told.times, told.last_at
      from jsonb_to_recordset(%(exchanges)s)
        as told (id uuid, provider uuid, kind text, succeeded boolean, fault text, reason text, advice text, checks jsonb,
                 certificate text, message text, in_response_to text, created_at timestamptz, times integer, last_at timestamptz)
      join upstream_providers on upstream_providers.id = told.provider
     order by told.id
        on conflict (id) do update
       set times = counted.times + excluded.times, last_at = greatest(counted.last_at, excluded.last_at), fault = excluded.fault,
           reason = excluded.reason, advice = excluded.advice
"""

# The statement skips rows that another process removes at this moment.
_TRIM_EXCHANGES: Final = """
    with past as materialized (
             select older.id
               from unnest(%(providers)s::uuid[]) as these (provider)
              cross join lateral (
                        select id
                          from connection_exchanges
                         where upstream_provider_id = these.provider and last_at is null
                         order by id desc
                        offset %(most)s
                    ) as older
         )
    delete from connection_exchanges
     where id = any (array(
               select connection_exchanges.id from connection_exchanges join past using (id) for update of connection_exchanges skip locked
           ))
"""

_TEST: Final = """
           tests.id, providers.id as provider, providers.org_id as organization, organizations.slug as organization_slug,
           providers.name, tests.digest,
           tests.browser_digest, tests.settings_digest, tests.finished_at, tests.succeeded, tests.sealed_result"""

_OF_TEST: Final = """
      join upstream_providers as providers on providers.id = tests.upstream_provider_id
      join organizations on organizations.id = providers.org_id and organizations.status = 'active'"""

_FIND_TEST: Final[LiteralString] = f"""
    select {_TEST} from connection_tests as tests {_OF_TEST} where tests.digest = %(digest)s and tests.expires_at > now()
"""

_BEGIN_TEST: Final[LiteralString] = f"""
    with begun as (
             update connection_tests
                set browser_digest = %(browser)s, begun_at = coalesce(begun_at, %(now)s)
              where digest = %(digest)s and expires_at > now() and finished_at is null
                and (browser_digest is null or browser_digest = %(browser)s)
          returning *
         )
  select {_TEST} from begun as tests {_OF_TEST}
"""

_END_TESTS: Final = "delete from connection_tests where upstream_provider_id = %(provider)s and finished_at is null"

_ADD_TEST: Final = """
    insert into connection_tests (id, upstream_provider_id, digest, settings_digest, session_id, management_key_id, setup_link_id,
                                  created_at, expires_at)
    values (%(id)s, %(provider)s, %(digest)s, %(settings_digest)s, %(session)s, %(key)s, %(link)s, %(created_at)s, %(expires_at)s)
"""

_FINISH_TEST: Final = """
    update connection_tests
       set finished_at = %(now)s, succeeded = %(succeeded)s, sealed_result = %(result)s, expires_at = %(expires_at)s
     where digest = %(digest)s and finished_at is null and begun_at is not null and expires_at > now()
 returning id
"""

_KEEP_SESSION: Final = """
    insert into directory_sessions (session_id, upstream_provider_id, name_digest, session_index, context_class, issued_at,
                                    created_at)
    values (%(session)s, %(provider)s, %(name)s, %(index)s, %(context)s, %(issued_at)s, %(now)s)
        on conflict (session_id) do update
       set upstream_provider_id = excluded.upstream_provider_id, name_digest = excluded.name_digest, session_index = excluded.session_index,
           context_class = excluded.context_class, issued_at = excluded.issued_at, created_at = excluded.created_at
"""

# Both times are by the directory's clock, and some directories tell no parts of a second.
_SESSIONS_OF_NAME: Final = """
    select directory_sessions.session_id, sessions.user_id
      from directory_sessions
      join sessions on sessions.id = directory_sessions.session_id
     where directory_sessions.upstream_provider_id = %(provider)s and directory_sessions.name_digest = %(name)s
       and (%(indexes)s::text[] is null or directory_sessions.session_index = any (%(indexes)s::text[]))
       and sessions.revoked_at is null and sessions.expires_at > now()
       and date_trunc('second', coalesce(directory_sessions.issued_at, directory_sessions.created_at)) <= %(asked_at)s
     order by directory_sessions.session_id
     limit 100
"""


class PostgresDirectoryFailures(OnPool):
    """Implements `ports.identity.upstream.DirectoryFailureStore`."""

    async def begin(self, person: UUID, provider: UpstreamProviderId, *, most: int, now: datetime, until: datetime) -> bool:
        parameters = {"id": person, "provider": provider, "most": most, "now": now, "until": until}
        return bool(await ask(self._pool, IdRow, _BEGIN, parameters))

    async def end(self, person: UUID, *, was_wrong: bool, was_right: bool, until: datetime) -> None:
        with trio.CancelScope(shield=True, relative_deadline=LAST_WORD):
            await tell(self._pool, _END, {"id": person, "wrong": was_wrong, "right": was_right, "until": until})


# The directory counts anew when nobody has failed for a whole window, and so do we: from the last password on.
_BEGIN: Final = """
    insert into directory_failures as counted (id, upstream_provider_id, failures, under_way, expires_at)
    select %(id)s, upstream_providers.id, 0, 1, %(until)s from upstream_providers where upstream_providers.id = %(provider)s
        on conflict (id) do update
       set failures = case when counted.expires_at <= %(now)s then 0 else counted.failures end,
           under_way = case when counted.expires_at <= %(now)s then 1 else counted.under_way + 1 end,
           expires_at = excluded.expires_at
     where counted.expires_at <= %(now)s or counted.failures + counted.under_way < %(most)s
 returning id
"""

_END: Final = """
    update directory_failures
       set failures = case when %(right)s then 0 when %(wrong)s then failures + 1 else failures end,
           under_way = greatest(under_way - 1, 0),
           expires_at = %(until)s
     where id = %(id)s
"""


class _Waiting(Frozen):
    id: UUID
    sealed_answer: bytes


class PostgresPostedAnswers(OnPool):
    """Implements `ports.identity.upstream.PostedAnswerStore`."""

    async def keep(self, answer: PostedAnswer) -> bool:
        return bool(await ask(self._pool, IdRow, _POSTED_ANSWER_KEEP, values_of(answer)))

    async def redeem(self, provider: str, code_digest: bytes, state_digest: bytes) -> tuple[UUID, bytes] | None:
        parameters = {"provider": provider, "code": code_digest, "state": state_digest}
        rows = await ask(self._pool, _Waiting, _POSTED_ANSWER_REDEEM, parameters)
        return (rows[0].id, rows[0].sealed_answer) if rows else None


_POSTED_ANSWER_KEEP: Final = """
    insert into posted_answers (id, provider, code_digest, state_digest, sealed_answer, expires_at)
    select %(id)s, oauth_states.provider, %(code_digest)s, %(state_digest)s, %(sealed)s, %(expires_at)s
      from oauth_states
      join further_providers on further_providers.key = oauth_states.provider and further_providers.settings @> '{"posts_answer": true}'
     where oauth_states.digest = %(state_digest)s and oauth_states.provider = %(provider)s and oauth_states.expires_at > now()
        on conflict (state_digest) do update
       set id = excluded.id, code_digest = excluded.code_digest, sealed_answer = excluded.sealed_answer, expires_at = excluded.expires_at
 returning id
"""

_POSTED_ANSWER_REDEEM: Final = """
    delete from posted_answers
     where code_digest = %(code)s and provider = %(provider)s and state_digest = %(state)s and expires_at > now()
 returning id, sealed_answer
"""
