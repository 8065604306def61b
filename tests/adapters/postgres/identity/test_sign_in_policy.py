"""Who may sign in to a service: statements decide it as the domain does, and all of them by one fragment."""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Final
from uuid import UUID

import psycopg
import pytest

import adapters.postgres
from adapters.postgres.federation.authorization_codes import PostgresCodeRedemption
from adapters.postgres.federation.authorizations import PostgresEncounters
from adapters.postgres.federation.given_sessions import PostgresGivenSessions
from adapters.postgres.identity.refresh_tokens import PostgresRefreshTokens
from adapters.postgres.identity.sign_in_policy import admits
from adapters.postgres.tenancy.callers import PostgresCallers
from core.domain.email import Email
from core.domain.errors import Forbidden
from core.domain.federation.authorization_codes import Claim, Opening, Redeemed
from core.domain.federation.authorization_steps import Progress, Step, next_step, require_open
from core.domain.federation.authorizations import AuthorizationRequest
from core.domain.federation.redirects import Recipient
from core.domain.federation.saml.configurations import NameIdFormat
from core.domain.federation.saml.messages import NameId
from core.domain.federation.scopes import OPENID
from core.domain.identifiers import (
    ClientId,
    EventId,
    LoginEventId,
    OrganizationId,
    SamlCertificateId,
    SamlSessionId,
    ServiceId,
    SessionId,
    UserId,
)
from core.domain.identity.callers import Caller, require_admitted
from core.domain.identity.refresh_tokens import Holder, RefreshOutcome, refresh_outcome
from core.domain.identity.sign_in import open_context
from core.domain.services.services import SignInPolicy
from core.domain.tenancy.sign_in_rules import grace_is_over
from core.frozen import Frozen
from ports.federation.saml.configurations import Entering, NotEntered
from tests.adapters.postgres.conftest import Store

ACME, APP, CLIENT = OrganizationId(UUID(int=1)), ServiceId(UUID(int=2)), ClientId(UUID(int=3))
ADA, BROWSER, GIVEN = UserId(UUID(int=4)), SessionId(UUID(int=5)), SessionId(UUID(int=6))
CERTIFICATE, CALLBACK, AUDIENCE = SamlCertificateId(UUID(int=7)), "https://app.example.com/callback", "https://app.example.com/saml"
CODE, SECRET, TOKEN, SUCCESSOR, BY = (bytes([number]) * 32 for number in range(5))
HOLDER: Final = Holder(CLIENT, APP)

_WORLD: Final = f"""
    insert into all_organizations (id, slug, name, status, mfa_grace_days, created_at, updated_at)
    values ('{ACME}', 'acme', 'Acme', 'active', 0, now(), now());
    insert into all_services (id, org_id, slug, name, service_type, client_id, redirect_uris, created_at, updated_at)
    values ('{APP}', '{ACME}', 'app', 'App', 'web', '{CLIENT}', array['{CALLBACK}'], now(), now());
    insert into client_secrets (id, service_id, prefix, digest, created_at)
    values (gen_random_uuid(), '{APP}', 'x', '\\x{SECRET.hex()}', now());
    insert into users (id, email, email_key, email_verified_at, created_at)
    values ('{ADA}', 'ada@example.org', 'ada@example.org', now(), now());
    insert into sessions (id, user_id, created_at, last_seen_at, expires_at)
    values ('{BROWSER}', '{ADA}', now(), now(), now() + interval '1 day');
    insert into consents (id, user_id, service_id, scopes, granted_at, saml_entity_id)
    values (gen_random_uuid(), '{ADA}', '{APP}', array['openid'], now(), '{AUDIENCE}');
    insert into saml_configurations (service_id, enabled, entity_id, acs_url, created_at, updated_at)
    values ('{APP}', true, '{AUDIENCE}', '{CALLBACK}', now(), now());
    insert into saml_certificates (id, service_id, state, certificate, sealed_private_key, valid_from, valid_until, created_at)
    values ('{CERTIFICATE}', '{APP}', 'active', 'PEM', '\\x00', now(), now() + interval '1 day', now());
"""

# What a look may change, as it was before.
_AGAIN: Final = f"""
    delete from memberships;
    delete from authorization_codes;
    delete from sessions where id <> '{BROWSER}';
    insert into sessions (id, user_id, organization_id, service_id, parent_id, depth, scopes, created_at, last_seen_at, expires_at)
    values ('{GIVEN}', '{ADA}', '{ACME}', '{APP}', '{BROWSER}', 1, array['openid'], now(), now(), now() + interval '1 day');
    insert into refresh_tokens (digest, session_id, created_at) values ('\\x{TOKEN.hex()}', '{GIVEN}', now());
    insert into authorization_codes (id, digest, service_id, user_id, parent_id, redirect_uri, scopes, auth_time, authenticated_by,
                                     created_at, expires_at)
    values (gen_random_uuid(), '\\x{CODE.hex()}', '{APP}', '{ADA}', '{BROWSER}', '{CALLBACK}', array['openid'], now(), array['pwd'],
            now(), now() + interval '1 minute');
    insert into service_users (service_id, user_id, org_id, created_at, own_since) values ('{APP}', '{ADA}', '{ACME}', now(), now())
        on conflict do nothing;
"""


class Case(Frozen):
    """Who comes, and to what. A membership is `own`, `listed` by the organization, or empty for somebody who is no member."""

    policy: SignInPolicy
    membership: str
    organization_is_active: bool
    account_is_active: bool
    asks_second_factor: bool

    def conditions(self) -> Mapping[str, bool]:
        """All that may keep somebody out, in the words of the domain. People here have no second factor."""
        now = datetime.now(UTC)
        due = now if self.asks_second_factor and self.membership else None
        return {
            "policy": self.policy.admits(is_member=bool(self.membership)),
            "organization": self.organization_is_active,
            "account": self.account_is_active,
            "second factor": not grace_is_over(due, now),
        }


CASES: Final = [Case(*one) for one in product(SignInPolicy, ("", "listed", "own"), (True, False), (True, False), (True, False))]


def arrange(connection: psycopg.Connection, case: Case) -> None:
    connection.execute(_AGAIN.encode())
    if case.membership:
        connection.execute(
            b"insert into memberships (id, org_id, user_id, role, created_at, own_since)"
            b" values (gen_random_uuid(), %s, %s, 'member', now(), case when %s then now() end)",
            [ACME, ADA, case.membership == "own"],
        )
    connection.execute(
        b"update all_organizations set status = %s, mfa_required_since = case when %s then now() end",
        ["active" if case.organization_is_active else "suspended", case.asks_second_factor],
    )
    connection.execute(b"update all_services set sign_in_policy = %s", [case.policy.value])
    connection.execute(b"update users set deactivated_at = case when %s then null else now() end", [case.account_is_active])


async def _confirms(store: Store) -> bool:
    """The last look before a session."""
    async with store.unit_of_work() as uow:
        confirmed = await uow.sign_ins.confirm_since(ADA, datetime.now(UTC), APP)
    return confirmed is not None and _is_quiet(lambda: open_context(confirmed.destination))


async def _calls(store: Store) -> bool:
    """Each request in the service. The organization is looked at apart: some may be made while it is suspended."""
    caller = await PostgresCallers(store.pool).find_in_service(GIVEN, ADA)
    if caller is None:
        return False
    return _is_quiet(lambda: require_admitted(is_admitted=caller.is_admitted, owes_second_factor=caller.owes_second_factor))


async def _refreshes(store: Store) -> bool:
    presented = await PostgresRefreshTokens(store.pool).rotate(TOKEN, SUCCESSOR, BY, datetime.now(UTC), HOLDER)
    assert presented is not None
    return refresh_outcome(presented, BY, datetime.now(UTC), HOLDER) is RefreshOutcome.GRANTED


async def _is_told_of(store: Store) -> bool:
    """An application asks about an access token of its own. Whether its organization is active is asked of the application."""
    found = await PostgresGivenSessions(store.pool).find(CLIENT, SECRET, GIVEN, ADA)
    return found is not None and found[1] is not None


async def _is_told_of_refresh_token(store: Store) -> bool:
    given = await PostgresGivenSessions(store.pool).find_by_refresh_token(TOKEN)
    return given is not None and given.is_open


async def _is_asked_nothing(store: Store) -> bool:
    """A request for a code, from a browser that has just been looked up with its account."""
    caller = Caller(ADA, Email("ada@example.org"), BROWSER, is_platform_owner=False)
    encounter = await PostgresEncounters(store.pool).find(CLIENT, caller)
    assert encounter is not None
    request = AuthorizationRequest(client_id=CLIENT, recipient=Recipient(CALLBACK), scopes=(OPENID,))
    progress = Progress(asked_membership=True)
    step = next_step(request, encounter.application, encounter.signed_in, progress, datetime.now(UTC))
    return step is Step.DONE and _is_quiet(lambda: require_open(request, encounter.application))


async def _redeems(store: Store) -> bool:
    """A code for a session, by a client that shows a secret. The second factor was asked for before the code was made."""
    opening = Opening(
        session=SessionId(store.ids.new()),
        refresh_digest=store.ids.new().bytes,
        login_event=LoginEventId(store.ids.new()),
        event=EventId(store.ids.new()),
        lifetime=timedelta(days=1),
        address=None,
        user_agent=None,
    )
    claim = Claim(digest=CODE, redirect_uri=CALLBACK, code_challenge=None, proof=b"proof")
    found = await PostgresCodeRedemption(store.pool).redeem_with_secret(claim, CLIENT, SECRET, opening, datetime.now(UTC))
    return found is not None and isinstance(found[1], Redeemed)


async def _enters_by_saml(store: Store) -> bool:
    """With an assertion. The second factor was asked for before."""
    entering = Entering(
        session_index=SamlSessionId(store.ids.new()),
        service=APP,
        user=ADA,
        session=BROWSER,
        name_id=NameId(text="ada", format=NameIdFormat.PERSISTENT),
        login_event=LoginEventId(store.ids.new()),
        certificate=CERTIFICATE,
        audience=AUDIENCE,
        acs_url=CALLBACK,
        encryption_certificate=None,
        address=None,
        user_agent=None,
        at=datetime.now(UTC),
    )
    try:
        async with store.unit_of_work() as uow:
            await uow.saml.enter(entering, None)
            await uow.commit()
    except NotEntered:
        return False
    return True


async def _outlasts_membership(store: Store) -> bool:
    """The session of an application of whose organization the person is no member any more."""
    async with store.unit_of_work() as uow:
        await uow.members.remove(ACME, ADA)
        await uow.commit()
    (row,) = await store.query("select revoked_at from sessions where id = %(id)s", {"id": GIVEN})
    return row["revoked_at"] is None


def _is_quiet(look: Callable[[], object]) -> bool:
    try:
        look()
    except Forbidden:
        return False
    return True


# Each statement that decides, and what it decides by. It leaves the rest to somebody who has just looked, or will.
LOOKS: Final[Mapping[Callable[[Store], Awaitable[bool]], frozenset[str]]] = {
    _confirms: frozenset({"policy", "organization", "account", "second factor"}),
    _calls: frozenset({"policy", "account", "second factor"}),
    _refreshes: frozenset({"policy", "organization", "account", "second factor"}),
    _is_told_of: frozenset({"policy", "account", "second factor"}),
    _is_told_of_refresh_token: frozenset({"policy", "account", "second factor"}),
    _is_asked_nothing: frozenset({"policy", "organization", "second factor"}),
    _redeems: frozenset({"policy", "organization", "account"}),
    _enters_by_saml: frozenset({"policy", "organization", "account"}),
}


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.__name__.strip("_"))
async def test_a_statement_admits_those_whom_the_domain_admits(store: Store, look: Callable[[Store], Awaitable[bool]]) -> None:
    faults = []
    with psycopg.connect(store.url, autocommit=True) as connection:
        connection.execute(_WORLD.encode())
        for case in CASES:
            arrange(connection, case)
            conditions = case.conditions()
            if await look(store) is not all(conditions[name] for name in LOOKS[look]):
                faults.append(case)
    assert faults == []


@pytest.mark.parametrize("policy", SignInPolicy)
async def test_a_session_outlasts_the_membership_where_the_domain_admits_strangers(store: Store, policy: SignInPolicy) -> None:
    with psycopg.connect(store.url, autocommit=True) as connection:
        connection.execute(_WORLD.encode())
        arrange(connection, Case(policy, "own", organization_is_active=True, account_is_active=True, asks_second_factor=False))
    assert await _outlasts_membership(store) is policy.admits(is_member=False)


# The column's name in a text of ours, and why it stands there. What decides includes the fragment, and says nothing else of the column.
_KEEPS_OR_TELLS: Final = {
    "adapters/postgres/services/services.py": "a service is kept, and told",
    "adapters/postgres/federation/authorizations.py": "the domain decides what is left to do for a request",
    "adapters/postgres/identity/sign_in.py": "the last look holds the service's row, and decides of that by the fragment",
    "adapters/postgres/tenancy/callers.py": "the look at a caller reads the service's row once, and decides of that by the fragment",
    "adapters/postgres/upkeep/personal_data.py": "it says nothing of a person",
    "adapters/postgres/identity/sign_in_policy.py": "the fragment",
}
_COMPARED: Final = re.compile(r"sign_in_policy\s*(?:=\s*'|<>|!=|is\s|in\s*\(|~|like)|'(?:anyone|members)'", re.IGNORECASE)


def _sources() -> Iterator[tuple[str, str]]:
    (folder,) = adapters.postgres.__path__
    for file in Path(folder).rglob("*.py"):
        yield f"adapters/postgres/{file.relative_to(folder).as_posix()}", file.read_text()


def test_no_statement_decides_it_by_itself() -> None:
    told = {name for name, text in _sources() if "sign_in_policy" in text.replace("identity.sign_in_policy", "")}
    assert told == set(_KEEPS_OR_TELLS)
    decided = {name for name, text in _sources() if _COMPARED.search(text)}
    assert decided == {"adapters/postgres/identity/sign_in_policy.py"}
    assert _COMPARED.search(admits("false"))
    assert not _COMPARED.search("update services set sign_in_policy = %(sign_in_policy)s")
