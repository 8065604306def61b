"""A person and a service of an organization, with all that leads from one to the other: what tests need who ask who may sign in, and what
is written of it.
"""

from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

import psycopg

from adapters.postgres.federation.authorization_codes import AuthorizationCodeRows
from adapters.postgres.statements import Statements
from core.domain.federation.oauth.authorization_codes import Claim, Opening, Redeemed
from core.domain.federation.saml.sign_in import PROVIDER
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
from core.domain.identity.login_events import login_event, login_tried
from core.domain.identity.sessions import Context
from core.domain.record.events import Actor
from core.domain.saml import NameId, NameIdFormat
from core.domain.services.services import SignInPolicy
from core.frozen import Frozen
from ports.federation.saml import Entering
from tests.adapters.postgres.conftest import Store

ACME, APP, CLIENT = OrganizationId(UUID(int=1)), ServiceId(UUID(int=2)), ClientId(str(UUID(int=3)))
ADA, BROWSER, GIVEN = UserId(UUID(int=4)), SessionId(UUID(int=5)), SessionId(UUID(int=6))
CERTIFICATE, CALLBACK, AUDIENCE = SamlCertificateId(UUID(int=7)), "https://app.example.com/callback", "https://app.example.com/saml"
BOB, OTHER_APP = UserId(UUID(int=8)), ServiceId(UUID(int=9))
STAFF, NOBODYS, CREW, OTHERS, EDITOR, OF_OTHER = (UUID(int=number) for number in range(10, 16))
CODE, SECRET, TOKEN, SUCCESSOR, BY = (bytes([number]) * 32 for number in range(5))
IN_APP: Final = Context(ACME, "acme", APP, "app")

WORLD: Final = f"""
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
    insert into users (id, email, email_key, created_at) values ('{BOB}', 'bob@example.org', 'bob@example.org', now());
    insert into all_services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)
    values ('{OTHER_APP}', '{ACME}', 'other', 'Other', 'web', gen_random_uuid(), now(), now());
    insert into roles (id, org_id, slug, name, created_at, updated_at)
    values ('{STAFF}', '{ACME}', 'staff', 'Staff', now(), now()), ('{NOBODYS}', '{ACME}', 'nobody', 'Nobody', now(), now());
    insert into teams (id, org_id, slug, name, created_at, updated_at)
    values ('{CREW}', '{ACME}', 'crew', 'Crew', now(), now()), ('{OTHERS}', '{ACME}', 'others', 'Others', now(), now());
    insert into service_roles (id, org_id, service_id, slug, name, created_at, updated_at)
    values ('{EDITOR}', '{ACME}', '{APP}', 'editor', 'Editor', now(), now()),
           ('{OF_OTHER}', '{ACME}', '{OTHER_APP}', 'editor', 'Editor', now(), now());
"""

# What a look may change, as it was before.
_AGAIN: Final = f"""
    delete from relations where service_id is not null;
    update service_roles set given_to_everybody = false;
    delete from team_members;
    update teams set role = null, role_id = null;
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
    """Who comes, and to what. A membership is `own`, `listed` by the organization, or empty for somebody who is no member. A role of the
    service is assigned to the `person`, to a `built-in` or an `own` role of the organization, to a `team`, to a role that a team `carries`,
    or, where it is empty, to others alone; to `everybody` it is given without an assignment.
    """

    policy: SignInPolicy
    membership: str
    assigned: str = ""
    organization_is_active: bool = True
    account_is_active: bool = True
    asks_second_factor: bool = False


def arrange(connection: psycopg.Connection, case: Case) -> None:
    """A browser session, a session that the application was given, its refresh token and a code are there in each case."""
    connection.execute(_AGAIN.encode())
    if case.membership:
        connection.execute(
            b"insert into memberships (id, org_id, user_id, role, created_at, own_since)"
            b" values (gen_random_uuid(), %s, %s, 'member', now(), case when %s then now() end)",
            [ACME, ADA, case.membership == "own"],
        )
    _assign(connection, case.assigned)
    connection.execute(
        b"update all_organizations set status = %s, mfa_required_since = case when %s then now() end",
        ["active" if case.organization_is_active else "suspended", case.asks_second_factor],
    )
    connection.execute(b"update all_services set sign_in_policy = %s", [case.policy.value])
    connection.execute(b"update users set deactivated_at = case when %s then null else now() end", [case.account_is_active])


def _assign(connection: psycopg.Connection, assigned: str) -> None:
    """Others hold the role all the time, and Ada holds a role of another service."""
    subjects: list[tuple[str, object, UUID]] = [
        ("user_id", BOB, EDITOR),
        ("built_in_role", "owner", EDITOR),
        ("role_id", NOBODYS, EDITOR),
        ("team_id", OTHERS, EDITOR),
        ("user_id", ADA, OF_OTHER),
    ]
    match assigned:
        case "person":
            subjects.append(("user_id", ADA, EDITOR))
        case "built-in":
            subjects.append(("built_in_role", "member", EDITOR))
        case "own":
            connection.execute(b"update memberships set role = 'staff', role_id = %s", [STAFF])
            subjects.append(("role_id", STAFF, EDITOR))
        case "team" | "carries":
            connection.execute(
                b"insert into team_members (team_id, org_id, user_id, added_at) values (%s, %s, %s, now())", [CREW, ACME, ADA]
            )
            if assigned == "carries":
                connection.execute(b"update teams set role = 'staff', role_id = %s where id = %s", [STAFF, CREW])
            subjects.append(("team_id", CREW, EDITOR) if assigned == "team" else ("role_id", STAFF, EDITOR))
        case "everybody":
            connection.execute(b"update service_roles set given_to_everybody = true")
    for column, subject, role in subjects:
        connection.execute(
            f"insert into relations (organization_id, {column}, relation, object_type, object_id, id, service_id, created_at)"
            " select org_id, %s, 'holder', 'service_role', id, gen_random_uuid(), service_id, now()"
            " from service_roles where id = %s".encode(),
            [subject, role],
        )


async def redeem(store: Store, actor: Actor) -> bool:
    """The code, for a session of the application, by a client that shows a secret."""
    now = datetime.now(UTC)
    opening = Opening(
        session=SessionId(store.ids.new()),
        refresh_digest=store.ids.new().bytes,
        login=login_event(LoginEventId(store.ids.new()), actor, now, user=None, provider=""),
        event=EventId(store.ids.new()),
        lifetime=timedelta(days=1),
    )
    claim = Claim(digest=CODE, redirect_uri=CALLBACK, code_challenge=None, proof=b"proof")
    found = await AuthorizationCodeRows(Statements(store.pool)).redeem_with_secret(claim, CLIENT, SECRET, opening, now)
    return found is not None and isinstance(found[1], Redeemed)


async def enter(store: Store, actor: Actor) -> bool:
    """With an assertion."""
    now = datetime.now(UTC)
    login = login_event(LoginEventId(store.ids.new()), actor, now, user=ADA, provider=PROVIDER, context=IN_APP)
    entering = Entering(
        session_index=SamlSessionId(store.ids.new()),
        service=APP,
        user=ADA,
        session=BROWSER,
        name_id=NameId(text="ada", format=NameIdFormat.PERSISTENT),
        login=login,
        certificate=CERTIFICATE,
        audience=AUDIENCE,
        acs_url=CALLBACK,
        encryption_certificate=None,
        at=now,
    )
    async with store.unit_of_work() as uow:
        if await uow.saml.enter(entering, None) is None:
            return False
        await uow.record(login_tried(login, actor))
        await uow.commit()
    return True
