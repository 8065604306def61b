"""The walk over every declared route as every kind of caller: only what the declaration allows gets in."""

from collections.abc import Awaitable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from core.domain.federation.oauth.oidc import INTROSPECTION_ENDPOINT, REVOCATION_ALIAS, REVOCATION_ENDPOINT
from core.domain.identifiers import DeviceId, SessionId, UserId
from core.domain.identity.callers import Caller
from core.domain.identity.sign_in import preauthentication_claims
from core.domain.mail import Email
from core.domain.record.events import Actor
from core.domain.services.api_keys import Permission
from core.domain.tenancy.roles import Capability
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.application import PosternApplication, build_application
from entrypoints.http.machinery.accepts import Form
from entrypoints.http.machinery.answers import EMPTY_OBJECT, EmptyObject
from entrypoints.http.machinery.callers import (
    ANYONE,
    BUYER,
    CLIENT,
    DIRECTORY,
    LEAVING,
    MEMBER,
    MEMBER_IN_PERSON,
    MEMBER_OF_INACTIVE,
    OPENID_SESSION,
    OWN_PERSON,
    OWN_USER,
    OWNER_IN_PERSON,
    OWNER_IN_PERSON_OF_INACTIVE,
    PERSON,
    PLATFORM_OWNER,
    PREAUTHENTICATED,
    SIGNAL_RECEIVER,
    USER,
    USER_IN_PERSON,
    USER_OF_INACTIVE,
    CallerRule,
    able,
    key,
    key_by_either_header,
    key_with_body,
)
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import Endpoint, Endpoints, endpoint, parameters
from entrypoints.http.machinery.fields import OrganizationPath
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.routes import ROUTES
from tests.http.client import Client, Received
from tests.http.conftest import SETTINGS
from tests.http.people import BASE_URL, People, Person
from tests.http.tenants import Tenants

# Rules for members of the organization that the path names. No caller here is a member; `test_member_authorization.py` walks as members.
ABLE_IN_PERSON = tuple(able(capability, impersonated=False) for capability in Capability)
IN_PERSON_RULES = (MEMBER_IN_PERSON, OWNER_IN_PERSON, OWNER_IN_PERSON_OF_INACTIVE, *ABLE_IN_PERSON)
MEMBER_RULES = (
    MEMBER,
    MEMBER_OF_INACTIVE,
    *(able(capability, impersonated=True) for capability in Capability),
    *IN_PERSON_RULES,
)
# Rules for the servers of a service. No bearer token here is a key; `test_key_authorization.py` walks with keys.
KEY_RULES = tuple(map(key, Permission))
KEY_RULES_WITH_BODY = tuple(map(key_with_body, Permission))
KEY_RULES_BY_EITHER_HEADER = tuple(map(key_by_either_header, Permission))
EVERY_KEY_RULE = frozenset((*KEY_RULES, *KEY_RULES_WITH_BODY, *KEY_RULES_BY_EITHER_HEADER))


def stand_in(rule: CallerRule) -> Endpoint:
    """An endpoint that lets the walk try a rule before any real route uses the rule."""
    name = rule.name.replace(".", "-").replace("_", "-").replace(":", "-")

    if rule in MEMBER_RULES:

        @endpoint.get(f"/stand-in/{{org_slug}}/{name}", caller=rule, limit=UNLIMITED, tags=("operations",))
        async def in_organization(_call: Call[None, None, OrganizationPath], _postern: Postern) -> EmptyObject:
            return EMPTY_OBJECT

        return in_organization

    @endpoint.get(f"/stand-in/{name}", caller=rule, limit=UNLIMITED, tags=("operations",))
    async def anywhere(_call: Call, _postern: Postern) -> EmptyObject:
        return EMPTY_OBJECT

    return anywhere


STAND_INS = [stand_in(rule) for rule in (USER_OF_INACTIVE, PERSON, OWN_PERSON, *MEMBER_RULES, *KEY_RULES)]
# Endpoints that end the caller's session come last.
WALKED = sorted([*ROUTES, *STAND_INS], key=lambda one: (one.caller is LEAVING, one.path == "/api/user/lock"))
SERVED = Endpoints(WALKED)
# The organization that paths name. It is active, and no caller belongs to it.
HOUSE_SLUG = "house"

Refusal = tuple[int, str]
UNAUTHORIZED, EXPIRED, INVALID = (401, "UNAUTHORIZED"), (401, "TOKEN_EXPIRED"), (401, "JWT_ERROR")
FORBIDDEN, NOT_ACTIVE = (403, "FORBIDDEN"), (403, "ORGANIZATION_NOT_ACTIVE")
OF_SESSIONS = (USER, USER_IN_PERSON, USER_OF_INACTIVE, OWN_USER, PERSON, OWN_PERSON, PLATFORM_OWNER, BUYER, *MEMBER_RULES)
RULES = (
    *OF_SESSIONS,
    LEAVING,
    PREAUTHENTICATED,
    *KEY_RULES,
    key_by_either_header(Permission.READ_USERS),
    key_with_body(Permission.VERIFY_USER_KEYS),
)


class Kinds:
    """A bearer token for each kind of caller. The names of the methods are the kinds."""

    def __init__(self, people: People, postern: Postern) -> None:
        self._people = people
        self._postern = postern
        self._tenants = Tenants(postern, people)
        self._tenants.add(HOUSE_SLUG)

    async def token(self, kind: str) -> str | None:
        made: Awaitable[str | None] = getattr(self, kind)()
        return await made

    async def no_token(self) -> str | None:
        return None

    async def garbage(self) -> str | None:
        return "garbage"

    async def empty(self) -> str | None:
        return ""

    async def huge(self) -> str | None:
        return "x" * 10_000

    async def expired(self) -> str | None:
        return await self._people.token(self._people.add(), at=self._postern.foundation.clock.now() - timedelta(hours=1))

    async def pre_auth(self) -> str | None:
        now = self._postern.foundation.clock.now()
        claims = preauthentication_claims(
            UserId(self._people.add().user),
            str(self._postern.foundation.ids.new()),
            issuer=BASE_URL,
            now=now,
            expires_at=now + timedelta(minutes=1),
        )
        return await self._postern.foundation.token_signer.sign_access(claims)

    async def pre_auth_for_the_platform(self) -> str | None:
        return await self._people.token(self._people.add(), token_use="mfa_preauth")

    async def id_token(self) -> str | None:
        return await self._people.token(self._people.add(), token_use=None)

    async def other_issuer(self) -> str | None:
        return await self._people.token(self._people.add(), iss="https://evil.example")

    async def other_audience(self) -> str | None:
        return await self._people.token(self._people.add(), aud="service:acme/app")

    async def odd_session(self) -> str | None:
        return await self._people.token(self._people.add(), sid="{not-an-id}")

    async def revoked_session(self) -> str | None:
        person = self._people.add()
        self._people.change("update sessions set revoked_at = now() where id = %s", person.session)
        return await self._people.token(person)

    async def expired_session(self) -> str | None:
        person = self._people.add()
        self._people.change("update sessions set expires_at = now() where id = %s", person.session)
        return await self._people.token(person)

    async def session_that_lasted_long_enough(self) -> str | None:
        person = self._people.add()
        self._people.change("update sessions set ends_at = now() where id = %s", person.session)
        return await self._people.token(person)

    async def revoked_device(self) -> str | None:
        person, device = self._people.add(), DeviceId(self._postern.foundation.ids.new())
        self._people.change(
            "insert into devices (id, user_id, name, device_type, last_used_at, created_at, updated_at)"
            " values (%s, %s, 'X', 'cli', now(), now(), now())",
            device,
            person.user,
        )
        self._people.change("update sessions set device_id = %s where id = %s", device, person.session)
        user = UserId(person.user)
        elsewhere = Caller(user, Email(person.email), SessionId(self._postern.foundation.ids.new()), is_platform_owner=False)
        await self._postern.identity.devices.revoke(elsewhere, device, Actor(user))
        return await self._people.token(person)

    async def deactivated_user(self) -> str | None:
        person = self._people.add()
        self._people.change("update users set deactivated_at = now() where id = %s", person.user)
        return await self._people.token(person)

    async def deleted_user(self) -> str | None:
        person = self._people.add()
        self._people.change("delete from users where id = %s", person.user)
        return await self._people.token(person)

    async def session_of_another(self) -> str | None:
        one, other = self._people.add("one@example.org"), self._people.add("other@example.org")
        return await self._people.token(one, sid=str(other.session))

    async def user(self) -> str | None:
        return await self._people.token(self._people.add())

    async def user_who_claims_to_own(self) -> str | None:
        return await self._people.token(self._people.add(), is_platform_owner=True)

    async def platform_owner(self) -> str | None:
        return await self._people.token(self._people.add(platform_owner=True))

    async def demoted_platform_owner(self) -> str | None:
        person = self._people.add(platform_owner=True)
        self._people.change("update users set is_platform_owner = false where id = %s", person.user)
        return await self._people.token(person, is_platform_owner=True)

    async def member(self) -> str | None:
        return await self._member("acme", "active")

    async def member_of_suspended(self) -> str | None:
        return await self._member("suspended", "suspended")

    async def member_of_pending(self) -> str | None:
        return await self._member("pending", "pending")

    async def platform_owner_in_suspended(self) -> str | None:
        return await self._member("halted", "suspended", platform_owner=True)

    async def member_who_left(self) -> str | None:
        person = self._people.add()
        self._organization(person, "left", "active")
        self._people.change("delete from memberships where user_id = %s", person.user)
        return await self._in_organization(person, "left")

    async def member_of_deleted(self) -> str | None:
        person = self._people.add()
        self._organization(person, "gone", "active")
        self._people.change("delete from organizations where slug = 'gone'")
        return await self._in_organization(person, "gone")

    async def member_of_one_being_deleted(self) -> str | None:
        token = await self._member("going", "active")
        self._people.change("update all_organizations set deleted_at = now() where slug = 'going'")
        return token

    async def in_a_service(self) -> str | None:
        return await self._in_a_service("serving")

    async def in_a_service_of_suspended(self) -> str | None:
        token = await self._in_a_service("halting")
        self._people.change("update organizations set status = 'suspended' where slug = 'halting'")
        return token

    async def in_a_deleted_service(self) -> str | None:
        token = await self._in_a_service("closing")
        self._people.change("delete from services where org_id = (select id from organizations where slug = 'closing')")
        return token

    async def hides_its_service(self) -> str | None:
        """A token that names no service, although its session is in one."""
        service = self._tenants.service(self._tenants.add("hiding"), "app")
        person = self._tenants.session(self._people.add(), service)
        return await self._in_organization(person, "hiding")

    async def claims_another_organization(self) -> str | None:
        person = self._people.add()
        self._organization(person, "mine", "active")
        self._organization(self._people.add(), "theirs", "active")
        return await self._in_organization(person, "theirs")

    async def claims_no_organization(self) -> str | None:
        person = self._people.add()
        self._organization(person, "own", "active")
        return await self._people.token(person)

    async def impersonated(self) -> str | None:
        return await self._impersonated(*self._impersonation())

    async def impersonated_by_a_demoted_owner(self) -> str | None:
        owner, person = self._impersonation()
        self._people.change("update users set is_platform_owner = false where id = %s", owner.user)
        return await self._impersonated(owner, person)

    async def impersonated_by_a_deactivated_owner(self) -> str | None:
        owner, person = self._impersonation()
        self._people.change("update users set deactivated_at = now() where id = %s", owner.user)
        return await self._impersonated(owner, person)

    async def impersonated_by_a_deleted_owner(self) -> str | None:
        owner, person = self._impersonation()
        self._people.change("delete from users where id = %s", owner.user)
        return await self._impersonated(owner, person)

    async def impersonated_and_deactivated(self) -> str | None:
        owner, person = self._impersonation()
        self._people.change("update users set deactivated_at = now() where id = %s", person.user)
        return await self._impersonated(owner, person)

    async def impersonated_and_promoted(self) -> str | None:
        owner, person = self._impersonation()
        self._people.change("update users set is_platform_owner = true where id = %s", person.user)
        return await self._impersonated(owner, person)

    async def impersonated_for_an_hour(self) -> str | None:
        owner, person = self._impersonation()
        self._people.change("update sessions set ends_at = now() where id = %s", person.session)
        return await self._impersonated(owner, person)

    async def impersonation_without_impersonator(self) -> str | None:
        return await self._people.token(self._impersonation()[1], token_use="impersonation")

    async def impersonation_that_hides(self) -> str | None:
        """A token that names no impersonator, although its session is an impersonation."""
        return await self._people.token(self._impersonation()[1])

    async def impersonation_in_an_own_session(self) -> str | None:
        return await self._impersonated(self._people.add(platform_owner=True), self._people.add())

    async def impersonation_by_another(self) -> str | None:
        return await self._impersonated(self._people.add(platform_owner=True), self._impersonation()[1])

    def _organization(self, person: Person, slug: str, status: str) -> None:
        organization = self._postern.foundation.ids.new()
        self._people.change(
            "insert into organizations (id, slug, name, status, created_at, updated_at) values (%s, %s, 'X', %s, now(), now())",
            organization,
            slug,
            status,
        )
        self._people.change(
            "insert into memberships (id, org_id, user_id, role, created_at) values (%s, %s, %s, 'member', now())",
            organization,
            organization,
            person.user,
        )
        self._people.change("update sessions set organization_id = %s where id = %s", organization, person.session)

    async def _member(self, slug: str, status: str, *, platform_owner: bool = False) -> str:
        person = self._people.add(platform_owner=platform_owner)
        self._organization(person, slug, status)
        return await self._in_organization(person, slug)

    async def _in_organization(self, person: Person, slug: str) -> str:
        return await self._people.token(person, org=slug, aud=f"org:{slug}")

    async def _in_a_service(self, slug: str) -> str:
        return await self._tenants.token_in(self._people.add(), self._tenants.service(self._tenants.add(slug), "app"))

    def _impersonation(self) -> tuple[Person, Person]:
        owner, person = self._people.add(platform_owner=True), self._people.add()
        self._people.change(
            "update sessions set impersonator_id = %s, impersonation_id = %s where id = %s",
            owner.user,
            self._postern.foundation.ids.new(),
            person.session,
        )
        return owner, person

    async def _impersonated(self, owner: Person, person: Person) -> str:
        return await self._people.token(person, token_use="impersonation", impersonator=str(owner.user))


Expected = Mapping[CallerRule, Refusal]
"""By rule; what is not there gets in."""


def everywhere(refusal: Refusal) -> Expected:
    return dict.fromkeys(RULES, refusal)


def with_session(refusals: Expected) -> Expected:
    """A token of ours that names a session. It can sign out and no more, it awaits no second factor, and its holder is no member of the
    path's organization.
    """
    return {**dict.fromkeys((BUYER, *MEMBER_RULES), FORBIDDEN), **refusals, PREAUTHENTICATED: INVALID}


ENDED = with_session(dict.fromkeys(OF_SESSIONS, UNAUTHORIZED))
NOT_OF_ITS_SESSION = with_session(dict.fromkeys(OF_SESSIONS, INVALID))
USERS = with_session({PLATFORM_OWNER: FORBIDDEN})
OF_INACTIVE = with_session(dict.fromkeys((USER, USER_IN_PERSON, OWN_USER, PLATFORM_OWNER), NOT_ACTIVE))
# A user's token gets an application no further than to routes of the application's own service.
IN_A_SERVICE = with_session(dict.fromkeys((OWN_USER, PERSON, OWN_PERSON, PLATFORM_OWNER), FORBIDDEN))

EXPECTED: dict[str, Expected] = {
    "no_token": everywhere(UNAUTHORIZED),
    "garbage": everywhere(INVALID),
    "empty": everywhere(INVALID),
    "huge": everywhere(INVALID),
    "expired": everywhere(EXPIRED),
    "pre_auth": dict.fromkeys((*OF_SESSIONS, LEAVING), INVALID),
    "pre_auth_for_the_platform": dict.fromkeys((*OF_SESSIONS, LEAVING), INVALID),
    "id_token": everywhere(INVALID),
    "other_issuer": everywhere(INVALID),
    "other_audience": everywhere(INVALID),
    "odd_session": everywhere(INVALID),
    "impersonation_without_impersonator": everywhere(INVALID),
    "revoked_session": ENDED,
    "expired_session": ENDED,
    "session_that_lasted_long_enough": ENDED,
    "revoked_device": ENDED,
    "deactivated_user": ENDED,
    "deleted_user": ENDED,
    "session_of_another": ENDED,
    "member_of_deleted": ENDED,
    "impersonated_by_a_demoted_owner": ENDED,
    "impersonated_by_a_deactivated_owner": ENDED,
    "impersonated_by_a_deleted_owner": ENDED,
    "impersonated_and_deactivated": ENDED,
    "impersonated_and_promoted": ENDED,
    "impersonated_for_an_hour": ENDED,
    "impersonation_that_hides": NOT_OF_ITS_SESSION,
    "impersonation_in_an_own_session": NOT_OF_ITS_SESSION,
    "impersonation_by_another": NOT_OF_ITS_SESSION,
    "claims_another_organization": NOT_OF_ITS_SESSION,
    "claims_no_organization": NOT_OF_ITS_SESSION,
    "member_who_left": with_session(dict.fromkeys(OF_SESSIONS, FORBIDDEN)),
    "member_of_suspended": OF_INACTIVE,
    "member_of_pending": OF_INACTIVE,
    "platform_owner_in_suspended": OF_INACTIVE,
    "impersonated": with_session(dict.fromkeys((USER_IN_PERSON, OWN_USER, OWN_PERSON, PLATFORM_OWNER), FORBIDDEN)),
    "member_of_one_being_deleted": ENDED,
    "in_a_deleted_service": ENDED,
    "hides_its_service": NOT_OF_ITS_SESSION,
    "in_a_service": IN_A_SERVICE,
    "in_a_service_of_suspended": {**IN_A_SERVICE, **dict.fromkeys((USER, USER_IN_PERSON, OWN_USER, PLATFORM_OWNER, BUYER), NOT_ACTIVE)},
    "user": USERS,
    "user_who_claims_to_own": USERS,
    "demoted_platform_owner": USERS,
    "member": USERS,
    "platform_owner": with_session({}),
}


# The declaration lets these people in, and only the use case looks at the organization. No caller here is its member.
REFUSED_LATER = {"POST /api/organizations/{org_slug}/select": FORBIDDEN}
# Also for whoever owes the organization a second factor, and where it is suspended: `tests/http/tenancy/test_ownership.py` asks as others.
FOUND_LATER = {"POST /api/organizations/{org_slug}/ownership"}


async def call(client: Client, one: Endpoint, token: str | None) -> Received:
    path = one.path
    for name in parameters(path):
        path = path.replace(f"{{{name}}}", HOUSE_SLUG if name == "org_slug" else "0199d3a0-0000-7000-8000-000000000001")
    body: Any = {} if one.body_type is not None and not isinstance(one.accepts, Form) else None
    if one.caller is PREAUTHENTICATED and token is None:
        # The pre-auth token may stand in the body, so the server reads the body before it refuses a caller without token.
        body = {"code": "123456"}
    return await client.request(one.method, path, body=body, token=token)


@pytest.fixture
def walker(postern: Postern) -> Client:
    # Every step of the walk comes from one address.
    return Client(PosternApplication(postern, replace(SETTINGS, rate_limits=False), SERVED))


@pytest.fixture
def kinds(people: People, postern: Postern) -> Kinds:
    return Kinds(people, postern)


# One database for all kinds: the walk takes less time than a fixture for each kind.
async def test_every_kind_of_caller_gets_in_exactly_where_declared(walker: Client, kinds: Kinds) -> None:
    for kind, expected in EXPECTED.items():
        token = await kinds.token(kind)
        for one in WALKED:
            answer = await call(walker, one, token)
            if one.caller is CLIENT:
                # No bearer token is a client; `tests/http/federation/test_clients.py` asks as clients. The server tells first what a body
                # lacks.
                lacks = token is None or one.path in {INTROSPECTION_ENDPOINT, REVOCATION_ENDPOINT, REVOCATION_ALIAS}
                assert answer.status == (400 if lacks else 401), f"{kind} at {one}"
                continue
            if one.caller is SIGNAL_RECEIVER:
                # No session's token is an application's own; `tests/http/federation/signals/test_streams.py` asks with those.
                assert answer.status == 401, f"{kind} at {one}"
                continue
            if one.caller is DIRECTORY:
                # No session's token is a directory's token; `tests/http/federation/scim/test_scim_tokens.py` asks as directories.
                assert (answer.status, answer.json()["status"], answer.header("www-authenticate")) == (401, 401, "Bearer"), (
                    f"{kind} at {one}"
                )
                continue
            refusal = UNAUTHORIZED if one.caller in EVERY_KEY_RULE else expected.get(one.caller) or REFUSED_LATER.get(str(one))
            if one.caller is OPENID_SESSION:
                # None of these sessions was given to an application.
                refusal = expected.get(USER) or FORBIDDEN
            if refusal is None:
                assert answer.status not in {401, 403}, f"{kind} at {one}"
                assert answer.status < 500, f"{kind} at {one}"
            else:
                assert (answer.status, answer.error_code) == refusal, f"{kind} at {one}"
                challenge = answer.header("www-authenticate") or ""
                assert (answer.status == 401) == (bool(challenge) and "insufficient_scope" not in challenge), f"{kind} at {one}"
                assert not challenge or challenge.startswith("ApiKey" if one.caller in EVERY_KEY_RULE else "Bearer"), f"{kind} at {one}"


def test_the_walk_knows_every_kind_and_every_rule() -> None:
    made = {name for name, value in vars(Kinds).items() if not name.startswith("_") and name != "token" and callable(value)}
    assert made == set(EXPECTED)
    assert {one.caller for one in WALKED} == {*RULES, ANYONE, CLIENT, DIRECTORY, OPENID_SESSION, SIGNAL_RECEIVER}


@pytest.mark.parametrize("header", ["Basic YTpi", "Token x", "bearer", "Bearer\u00e9", "x"])
async def test_another_scheme_is_no_authentication(client: Client, header: str) -> None:
    answer = await client.get("/api/user", headers=[("authorization", header)])
    assert answer.status == 401
    assert answer.error_code in {"UNAUTHORIZED", "JWT_ERROR"}


async def test_the_scheme_is_read_in_any_case_and_two_headers_are_no_token(client: Client, people: People) -> None:
    token = await people.token(people.add())
    assert (await client.get("/api/user", headers=[("authorization", f"bEARER  {token}")])).status == 200
    twice = [("authorization", f"Bearer {token}"), ("authorization", f"Bearer {token}")]
    assert (await client.get("/api/user", headers=twice)).status == 401


async def test_a_revoked_session_ends_with_the_next_request(client: Client, people: People) -> None:
    person = people.add()
    token = await people.token(person)
    assert (await client.get("/api/user", token=token)).status == 200
    people.change("update sessions set revoked_at = now() where id = %s", person.session)
    assert (await client.get("/api/user", token=token)).status == 401


async def test_while_the_database_is_away_nobody_is_let_in(lonely_client: Client, people: People) -> None:
    token = await people.token(people.add())
    assert (await lonely_client.get("/api/user", token=token)).status == 503


HOUSE = tuple(ROUTES)


@pytest.mark.parametrize("one", HOUSE, ids=str)
def test_every_endpoint_says_what_it_is_and_where_it_belongs(one: Endpoint) -> None:
    assert one.summary
    assert not one.summary.endswith(".")
    assert one.tags
    assert set(one.caller.refuses) <= set(one.refusals)
    assert not set(one.stated_refusals) & set(one.caller.refuses), "what the caller rule refuses need not be stated"
    # SCIM has names of its own.
    assert one.caller is DIRECTORY or one.path == one.path.lower()


OPEN = {
    "GET /.well-known/authzen-configuration",
    "GET /.well-known/change-password",
    "GET /.well-known/passkey-endpoints",
    "GET /.well-known/webauthn",
    "GET /.well-known/security.txt",
    "GET /.well-known/ssf-configuration",
    "GET /favicon.ico",
    "GET /robots.txt",
    "GET /.well-known/oauth-authorization-server",
    "GET /.well-known/openid-configuration",
    "GET /.well-known/audit-export-keys.json",
    "GET /.well-known/jwks.json",
    "GET /auth/verify-email",
    "GET /health",
    "GET /health/live",
    "GET /health/ready",
    "GET /invitations/accept",
    "GET /metrics",
    "GET /saml/{org_slug}/{service_slug}/metadata",
    "GET /saml/sp/{connection_id}",
    "POST /api/auth/forgot-password",
    "POST /api/auth/lookup-email",
    "POST /api/auth/magic-link",
    "POST /api/auth/passkeys",
    "POST /api/auth/passkeys/options",
    "POST /api/auth/login",
    "POST /api/auth/refresh",
    "POST /api/auth/register",
    "POST /api/auth/resend-verification",
    "POST /api/auth/reset-password",
    "POST /api/invitations/accept",
    "POST /api/invitations/decline",
    "POST /auth/device/verify",
    "POST /oauth/register",
    "POST /webhooks/billing",
}


def test_nothing_else_is_open_to_anyone() -> None:
    assert {str(one) for one in HOUSE if one.caller is ANYONE} == OPEN


# Endpoints for the person alone, closed to an impersonator.
OWN = {
    "DELETE /api/user/devices/{device_id}",
    "DELETE /api/user/mfa",
    "DELETE /api/user/passkeys/{passkey_id}",
    "DELETE /api/user/picture",
    "GET /api/user/devices",
    "GET /api/user/devices/{device_id}",
    "GET /api/user/mfa/status",
    "GET /api/user/passkeys",
    "GET /api/user/profile",
    "PATCH /api/user",
    "PATCH /api/user/devices/{device_id}",
    "PATCH /api/user/passkeys/{passkey_id}",
    "PATCH /api/user/profile",
    "POST /api/user/change-password",
    "POST /api/user/mfa/backup-codes/regenerate",
    "POST /api/user/mfa/passkeys",
    "POST /api/user/mfa/setup",
    "POST /api/user/mfa/verify",
    "POST /api/user/passkeys",
    "POST /api/user/passkeys/options",
    "POST /api/user/lock",
    "GET /api/user/requests",
    "POST /api/user/requests/{request_id}/allow",
    "POST /api/user/requests/{request_id}/refuse",
    "POST /api/user/requests/{request_id}/block",
    "GET /api/user/blocked-clients",
    "DELETE /api/user/blocked-clients/{service_id}",
    "POST /api/user/set-password",
    "PUT /api/user/picture",
}


def test_what_is_the_persons_own_affair() -> None:
    assert {str(one) for one in HOUSE if one.caller is OWN_USER} == OWN


# The declarations of all other endpoints. A change that loosens or tightens a declaration must change this table too.
WHO: dict[str, set[str]] = {
    CLIENT.name: {
        "POST /auth/revoke",
        "POST /auth/device/code",
        "POST /auth/token",
        "POST /oauth/introspect",
        "POST /oauth/par",
        "POST /oauth/bc-authorize",
        "POST /oauth/revoke",
        "POST /oauth/token",
    },
    SIGNAL_RECEIVER.name: {
        *(f"{method} /ssf/streams" for method in ("GET", "POST", "PATCH", "PUT", "DELETE")),
        *("GET /ssf/status", "POST /ssf/status", "POST /ssf/verification", "POST /ssf/poll/{stream_id}"),
    },
    OPENID_SESSION.name: {
        "GET /oauth/userinfo",
        "POST /oauth/userinfo",
    },
    USER_IN_PERSON.name: {
        "DELETE /api/user/identities/{provider}",
        "GET /api/provider-token/{provider}",
        "POST /api/user/identities/{provider}/link",
    },
    PERSON.name: {
        "GET /api/invitations",
        "GET /api/organizations",
    },
    OWN_PERSON.name: {
        "DELETE /api/privacy/forget/{user_id}",
        "GET /api/privacy/export/{user_id}",
        "GET /api/privacy/requests/{request_id}",
        "POST /api/auth/reauthenticate",
        "POST /api/auth/reauthenticate/options",
        "POST /api/organizations",
        "POST /api/organizations/{org_slug}/ownership",
        "POST /api/organizations/{org_slug}/select",
        "GET /api/user/terms",
        "POST /api/user/terms",
    },
    MEMBER_OF_INACTIVE.name: {
        "GET /api/organizations/{org_slug}",
    },
    MEMBER.name: {
        "GET /api/organizations/{org_slug}/analytics/failed-logins",
        "GET /api/organizations/{org_slug}/analytics/login-trends",
        "GET /api/organizations/{org_slug}/analytics/logins-by-provider",
        "GET /api/organizations/{org_slug}/analytics/logins-by-service",
        "GET /api/organizations/{org_slug}/analytics/recent-logins",
        "GET /api/organizations/{org_slug}/branding",
        "GET /api/organizations/{org_slug}/languages",
        "GET /api/organizations/{org_slug}/notice",
        "GET /api/organizations/{org_slug}/texts",
        "GET /api/organizations/{org_slug}/profile-fields",
        "GET /api/organizations/{org_slug}/roles",
        "GET /api/organizations/{org_slug}/roles/{role_id}",
        # It finds the kinds that the member may list.
        "GET /api/organizations/{org_slug}/search",
        # The use case asks for `org.members.manage` or `end_users.manage`, by the kind of person.
        "GET /api/organizations/{org_slug}/users/{user_id}/profile",
    },
    MEMBER_IN_PERSON.name: {
        "PATCH /api/organizations/{org_slug}/users/{user_id}/profile",
    },
    BUYER.name: {
        "POST /api/organizations/{org_slug}/services/{service_slug}/checkout",
    },
    OWNER_IN_PERSON.name: {
        "DELETE /api/organizations/{org_slug}/services/{service_slug}",
        "PATCH /api/organizations/{org_slug}/members/{user_id}",
        "PATCH /api/organizations/{org_slug}/scim/settings",
        "POST /api/organizations/{org_slug}/billing/portal",
        "POST /api/organizations/{org_slug}/management-keys/{key_id}/adopt",
        "POST /api/organizations/{org_slug}/proposals/{proposal_id}/apply",
        "POST /api/organizations/{org_slug}/setup-links/{link_id}/drafts/{draft_id}/activate",
        "POST /api/organizations/{org_slug}/transfer-ownership",
        "POST /api/organizations/{org_slug}/services/{service_slug}/provisioning/runs/{run_id}/go-on",
        "POST /api/organizations/{org_slug}/services/{service_slug}/provisioning/runs/{run_id}/leave",
        "PUT /api/organizations/{org_slug}/services/{service_slug}/signals",
        "DELETE /api/organizations/{org_slug}/services/{service_slug}/signals",
        "DELETE /api/organizations/{org_slug}/services/{service_slug}/provisioning",
        "POST /api/organizations/{org_slug}/services/{service_slug}/provisioning/activate",
        "POST /api/organizations/{org_slug}/services/{service_slug}/provisioning/end",
        "PUT /api/organizations/{org_slug}/hooks/sign-in",
        "DELETE /api/organizations/{org_slug}/hooks/sign-in",
        "POST /api/organizations/{org_slug}/hooks/sign-in/rotate-secret",
        "POST /api/organizations/{org_slug}/hooks/sign-in/count",
        "POST /api/organizations/{org_slug}/hooks/sign-in/shadow",
        "POST /api/organizations/{org_slug}/hooks/sign-in/try",
        "PUT /api/organizations/{org_slug}/terms",
        "DELETE /api/organizations/{org_slug}/terms",
        "DELETE /api/organizations/{org_slug}/upstream-providers/{provider_id}/certificate/waiting/{fingerprint}",
        "POST /api/organizations/{org_slug}/upstream-providers/{provider_id}/activate",
        "PUT /api/organizations/{org_slug}/upstream-providers/{provider_id}/assertions",
        "POST /api/organizations/{org_slug}/upstream-providers/{provider_id}/succeed",
        "POST /api/organizations/{org_slug}/upstream-providers/{provider_id}/certificate/waiting/{fingerprint}",
        "POST /api/organizations/{org_slug}/upstream-providers/{provider_id}/runs/{run_id}/go-on",
        "POST /api/organizations/{org_slug}/upstream-providers/{provider_id}/runs/{run_id}/leave",
        "POST /api/organizations/{org_slug}/upstream-providers/{provider_id}/runs/{run_id}/take-over",
        "POST /api/organizations/{org_slug}/upstream-providers/{provider_id}/runs/{run_id}/keep",
        "POST /api/organizations/{org_slug}/upstream-providers/{provider_id}/runs/{run_id}/end",
    },
    OWNER_IN_PERSON_OF_INACTIVE.name: {
        "DELETE /api/organizations/{org_slug}",
    },
    Capability.SETTINGS_MANAGE: {
        "DELETE /api/organizations/{org_slug}/proposals/{proposal_id}",
        "GET /api/organizations/{org_slug}/proposals",
        "GET /api/organizations/{org_slug}/proposals/{proposal_id}",
        "DELETE /api/organizations/{org_slug}/setup-links/{link_id}",
        "GET /api/organizations/{org_slug}/setup-links",
        "GET /api/organizations/{org_slug}/setup-links/{link_id}",
        "GET /api/organizations/{org_slug}/domain",
        "GET /api/organizations/{org_slug}/domain-routes",
        "GET /api/organizations/{org_slug}/configuration",
        "POST /api/organizations/{org_slug}/configuration/plan",
        "GET /api/organizations/{org_slug}/expiries",
        "GET /api/organizations/{org_slug}/todos",
        "GET /api/organizations/{org_slug}/oauth-credentials/{provider}",
        "GET /api/organizations/{org_slug}/mail-budget",
        "GET /api/organizations/{org_slug}/sign-in-rules",
        "GET /api/organizations/{org_slug}/smtp",
        "GET /api/organizations/{org_slug}/offboarding-deadline",
        "GET /api/organizations/{org_slug}/terms",
        "GET /api/organizations/{org_slug}/upstream-providers",
        "GET /api/organizations/{org_slug}/upstream-providers/{provider_id}/exchanges",
        "GET /api/organizations/{org_slug}/upstream-providers/{provider_id}/runs",
        "GET /api/organizations/{org_slug}/upstream-providers/{provider_id}/runs/{run_id}",
        "GET /api/organizations/{org_slug}/upstream-providers/{provider_id}/runs/{run_id}/people",
        "PATCH /api/organizations/{org_slug}",
        "PATCH /api/organizations/{org_slug}/branding",
        "PATCH /api/organizations/{org_slug}/languages",
        "PUT /api/organizations/{org_slug}/notice",
        *("PATCH /api/organizations/{org_slug}/texts", "PUT /api/organizations/{org_slug}/texts"),
        "PUT /api/organizations/{org_slug}/branding/logo",
        "DELETE /api/organizations/{org_slug}/branding/logo",
        *(
            f"{method} /api/organizations/{{org_slug}}/branding/{picture}"
            for method in ("PUT", "DELETE")
            for picture in ("dark-logo", "favicon", "background")
        ),
    },
    f"{Capability.SETTINGS_MANAGE}_in_person": {
        "DELETE /api/organizations/{org_slug}/profile-fields/{key}",
        "PATCH /api/organizations/{org_slug}/profile-fields/{key}",
        "POST /api/organizations/{org_slug}/profile-fields",
        "POST /api/organizations/{org_slug}/proposals",
        "POST /api/organizations/{org_slug}/setup-links",
        "POST /api/organizations/{org_slug}/setup-links/{link_id}/release",
        "DELETE /api/organizations/{org_slug}/domain",
        "DELETE /api/organizations/{org_slug}/domain-routes/{domain_id}",
        "PATCH /api/organizations/{org_slug}/domain-routes/{domain_id}",
        "POST /api/organizations/{org_slug}/domain-routes",
        "POST /api/organizations/{org_slug}/domain-routes/{domain_id}/verify",
        "DELETE /api/organizations/{org_slug}/oauth-credentials/{provider}",
        "DELETE /api/organizations/{org_slug}/smtp",
        "PUT /api/organizations/{org_slug}/offboarding-deadline",
        "DELETE /api/organizations/{org_slug}/offboarding-deadline",
        "DELETE /api/organizations/{org_slug}/upstream-providers/{provider_id}",
        "DELETE /api/organizations/{org_slug}/upstream-providers/{provider_id}/certificate/former",
        "POST /api/organizations/{org_slug}/configuration/apply",
        "POST /api/organizations/{org_slug}/domain",
        "POST /api/organizations/{org_slug}/domain/verify",
        "POST /api/organizations/{org_slug}/oauth-credentials/{provider}",
        "POST /api/organizations/{org_slug}/smtp",
        "POST /api/organizations/{org_slug}/smtp/test",
        "GET /api/organizations/{org_slug}/texts/preview",
        "POST /api/organizations/{org_slug}/mails/{mail}/send-to-me",
        "PATCH /api/organizations/{org_slug}/sign-in-rules",
        "PATCH /api/organizations/{org_slug}/upstream-providers/{provider_id}",
        "POST /api/organizations/{org_slug}/upstream-providers",
        "POST /api/organizations/{org_slug}/upstream-providers/{provider_id}/assertions/check",
        "POST /api/organizations/{org_slug}/upstream-providers/{provider_id}/certificate",
        "POST /api/organizations/{org_slug}/upstream-providers/{provider_id}/metadata",
        "POST /api/organizations/{org_slug}/upstream-providers/{provider_id}/runs",
        "POST /api/organizations/{org_slug}/upstream-providers/{provider_id}/test",
    },
    Capability.ROLES_MANAGE: {
        "DELETE /api/organizations/{org_slug}/roles/{role_id}",
    },
    f"{Capability.ROLES_MANAGE}_in_person": {
        "PATCH /api/organizations/{org_slug}/roles/{role_id}",
        "POST /api/organizations/{org_slug}/roles",
    },
    Capability.MEMBERS_VIEW: {
        "GET /api/organizations/{org_slug}/members",
        "GET /api/organizations/{org_slug}/members/{user_id}",
        "GET /api/organizations/{org_slug}/teams",
        "GET /api/organizations/{org_slug}/teams/{team_slug}",
        "GET /api/organizations/{org_slug}/teams/{team_slug}/members",
    },
    Capability.MEMBERS_MANAGE: {
        "GET /api/organizations/{org_slug}/invitations",
        "GET /api/organizations/{org_slug}/join-requests",
        "POST /api/organizations/{org_slug}/invitations/{invitation_id}",
        "POST /api/organizations/{org_slug}/members/{user_id}",
        "DELETE /api/organizations/{org_slug}/members/{user_id}/sessions",
        "DELETE /api/organizations/{org_slug}/teams/{team_slug}",
        "DELETE /api/organizations/{org_slug}/teams/{team_slug}/members/{user_id}",
    },
    f"{Capability.MEMBERS_MANAGE}_in_person": {
        "POST /api/organizations/{org_slug}/invitations",
        "POST /api/organizations/{org_slug}/invitations/{invitation_id}/accept",
        "POST /api/organizations/{org_slug}/join-requests/{request_id}/approve",
        "POST /api/organizations/{org_slug}/join-requests/{request_id}/decline",
        "DELETE /api/organizations/{org_slug}/members/{user_id}/mfa",
        "POST /api/organizations/{org_slug}/members/{user_id}/lock",
        "PATCH /api/organizations/{org_slug}/teams/{team_slug}",
        "POST /api/organizations/{org_slug}/teams",
        "PUT /api/organizations/{org_slug}/teams/{team_slug}/members/{user_id}",
    },
    Capability.END_USERS_VIEW: {
        "GET /api/organizations/{org_slug}/agent-grants",
        "GET /api/organizations/{org_slug}/agent-grants/{grant_id}",
        "GET /api/organizations/{org_slug}/users",
        "GET /api/organizations/{org_slug}/users/{user_id}",
        "GET /api/organizations/{org_slug}/services/{service_slug}/user-keys",
        "GET /api/organizations/{org_slug}/services/{service_slug}/user-keys/{user_key_id}",
    },
    Capability.END_USERS_MANAGE: {
        "DELETE /api/organizations/{org_slug}/services/{service_slug}/user-keys/{user_key_id}",
        "DELETE /api/organizations/{org_slug}/agent-grants/{grant_id}",
        "DELETE /api/organizations/{org_slug}/services/{service_slug}/agent-grants",
        "DELETE /api/organizations/{org_slug}/users/{user_id}/sessions",
    },
    f"{Capability.END_USERS_MANAGE}_in_person": {"POST /api/organizations/{org_slug}/users/{user_id}/lock"},
    Capability.SERVICES_VIEW: {
        "GET /api/organizations/{org_slug}/services",
        "GET /api/organizations/{org_slug}/services/{service_slug}",
        "GET /api/organizations/{org_slug}/services/{service_slug}/api-keys",
        "GET /api/organizations/{org_slug}/services/{service_slug}/api-keys/{api_key_id}",
        "GET /api/organizations/{org_slug}/services/{service_slug}/claims",
        "GET /api/organizations/{org_slug}/services/{service_slug}/client-secrets",
        "GET /api/organizations/{org_slug}/services/{service_slug}/permissions",
        "GET /api/organizations/{org_slug}/services/{service_slug}/plans",
        "GET /api/organizations/{org_slug}/services/{service_slug}/roles",
        "GET /api/organizations/{org_slug}/services/{service_slug}/roles/{role_slug}",
        "GET /api/organizations/{org_slug}/services/{service_slug}/saml",
        "GET /api/organizations/{org_slug}/services/{service_slug}/saml/certificate",
        "GET /api/organizations/{org_slug}/services/{service_slug}/proxy",
        "GET /api/organizations/{org_slug}/services/{service_slug}/proxy/preview",
        "GET /api/organizations/{org_slug}/services/{service_slug}/signals",
        "GET /api/organizations/{org_slug}/services/{service_slug}/user-key-settings",
        "GET /api/organizations/{org_slug}/resource-servers",
        "GET /api/organizations/{org_slug}/resource-servers/{resource_id}",
        "GET /api/organizations/{org_slug}/trusted-issuers",
        "GET /api/organizations/{org_slug}/trusted-issuers/{rule_id}",
    },
    f"{Capability.SERVICES_CREATE}_in_person": {
        "POST /api/organizations/{org_slug}/resource-servers",
        "POST /api/organizations/{org_slug}/services",
    },
    Capability.SERVICES_MANAGE: {
        "DELETE /api/organizations/{org_slug}/services/{service_slug}/api-keys/{api_key_id}",
        "DELETE /api/organizations/{org_slug}/services/{service_slug}/claims/{claim_id}",
        "DELETE /api/organizations/{org_slug}/services/{service_slug}/client-secrets/{client_secret_id}",
        "DELETE /api/organizations/{org_slug}/services/{service_slug}/assignments/{assignment_id}",
        "DELETE /api/organizations/{org_slug}/services/{service_slug}/permissions/{permission_key}",
        "DELETE /api/organizations/{org_slug}/services/{service_slug}/plans/{plan_id}",
        "DELETE /api/organizations/{org_slug}/services/{service_slug}/roles/{role_slug}",
        "DELETE /api/organizations/{org_slug}/services/{service_slug}/saml",
        "GET /api/organizations/{org_slug}/services/{service_slug}/refusals",
        "GET /api/organizations/{org_slug}/resource-servers/{resource_id}/refusals",
        "GET /api/organizations/{org_slug}/services/{service_slug}/saml/exchanges",
        "GET /api/organizations/{org_slug}/services/{service_slug}/assignments",
        "GET /api/organizations/{org_slug}/services/{service_slug}/logout-notices",
        "GET /api/organizations/{org_slug}/services/{service_slug}/access",
        "GET /api/organizations/{org_slug}/services/{service_slug}/token-preview",
        "GET /api/organizations/{org_slug}/users/{user_id}/sign-in-verdicts",
        "PATCH /api/organizations/{org_slug}/services/{service_slug}",
        "PUT /api/organizations/{org_slug}/services/{service_slug}/logo",
        "DELETE /api/organizations/{org_slug}/services/{service_slug}/logo",
        "PATCH /api/organizations/{org_slug}/services/{service_slug}/plans/{plan_id}",
        "POST /api/organizations/{org_slug}/services/{service_slug}/plans",
    },
    f"{Capability.SERVICES_MANAGE}_in_person": {
        "DELETE /api/organizations/{org_slug}/resource-servers/{resource_id}",
        "PATCH /api/organizations/{org_slug}/resource-servers/{resource_id}",
        "POST /api/organizations/{org_slug}/resource-servers/{resource_id}/ask-approval",
        "POST /api/organizations/{org_slug}/resource-servers/{resource_id}/verify",
        "DELETE /api/organizations/{org_slug}/trusted-issuers/{rule_id}",
        "PATCH /api/organizations/{org_slug}/trusted-issuers/{rule_id}",
        "POST /api/organizations/{org_slug}/trusted-issuers",
        "POST /api/organizations/{org_slug}/services/{service_slug}/api-keys",
        "PATCH /api/organizations/{org_slug}/services/{service_slug}/claims/{claim_id}",
        "POST /api/organizations/{org_slug}/services/{service_slug}/claims",
        "POST /api/organizations/{org_slug}/services/{service_slug}/client-secrets",
        "PATCH /api/organizations/{org_slug}/services/{service_slug}/permissions/{permission_key}",
        "PATCH /api/organizations/{org_slug}/services/{service_slug}/proxy",
        "PATCH /api/organizations/{org_slug}/services/{service_slug}/user-key-settings",
        "PATCH /api/organizations/{org_slug}/services/{service_slug}/roles/{role_slug}",
        "POST /api/organizations/{org_slug}/services/{service_slug}/assignments",
        "POST /api/organizations/{org_slug}/services/{service_slug}/permissions",
        "POST /api/organizations/{org_slug}/services/{service_slug}/roles",
        "POST /api/organizations/{org_slug}/services/{service_slug}/saml",
        "POST /api/organizations/{org_slug}/services/{service_slug}/saml/certificate",
        "POST /api/organizations/{org_slug}/services/{service_slug}/saml/certificate/activate",
        "POST /api/organizations/{org_slug}/services/{service_slug}/saml/metadata",
    },
    Capability.WEBHOOKS_MANAGE: {
        "DELETE /api/organizations/{org_slug}/webhooks/{webhook_id}",
        "GET /api/organizations/{org_slug}/hooks/sign-in",
        "GET /api/organizations/{org_slug}/hooks/sign-in/exchanges",
        "GET /api/organizations/{org_slug}/webhooks",
        "GET /api/organizations/{org_slug}/webhooks/event-types",
        "GET /api/organizations/{org_slug}/webhooks/{webhook_id}",
        "GET /api/organizations/{org_slug}/services/{service_slug}/signals/streams/{stream_id}/deliveries",
        "POST /api/organizations/{org_slug}/services/{service_slug}/signals/streams/{stream_id}/verification",
        "GET /api/organizations/{org_slug}/webhooks/{webhook_id}/deliveries",
        "POST /api/organizations/{org_slug}/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver",
        "POST /api/organizations/{org_slug}/webhooks/{webhook_id}/replay",
        "POST /api/organizations/{org_slug}/webhooks/{webhook_id}/test",
    },
    "scim": {str(one) for one in ROUTES if one.path.startswith("/scim/")},
    f"{Capability.WEBHOOKS_MANAGE}_in_person": {
        "PATCH /api/organizations/{org_slug}/webhooks/{webhook_id}",
        "POST /api/organizations/{org_slug}/webhooks",
        "POST /api/organizations/{org_slug}/webhooks/{webhook_id}/rotate-secret",
    },
    Capability.INTEGRATIONS_MANAGE: {
        "GET /api/organizations/{org_slug}/services/{service_slug}/provisioning",
        "DELETE /api/organizations/{org_slug}/management-keys/{key_id}",
        "GET /api/organizations/{org_slug}/management-keys",
        "GET /api/organizations/{org_slug}/management-keys/{key_id}",
        "DELETE /api/organizations/{org_slug}/scim-tokens/{token_id}",
        "GET /api/organizations/{org_slug}/scim-tokens",
        "GET /api/organizations/{org_slug}/scim/exchanges",
        "GET /api/organizations/{org_slug}/scim/settings",
        "DELETE /api/organizations/{org_slug}/siem",
        "GET /api/organizations/{org_slug}/siem",
        "POST /api/organizations/{org_slug}/siem/test",
    },
    f"{Capability.INTEGRATIONS_MANAGE}_in_person": {
        "PUT /api/organizations/{org_slug}/services/{service_slug}/provisioning",
        "GET /api/organizations/{org_slug}/services/{service_slug}/provisioning/preview/{user_id}",
        "POST /api/organizations/{org_slug}/services/{service_slug}/provisioning/stop",
        "GET /api/organizations/{org_slug}/services/{service_slug}/provisioning/exchanges",
        "GET /api/organizations/{org_slug}/users/{user_id}/provisioning",
        "GET /api/organizations/{org_slug}/services/{service_slug}/provisioning/people",
        "POST /api/organizations/{org_slug}/services/{service_slug}/provisioning/people/{user_id}/try-again",
        "GET /api/organizations/{org_slug}/services/{service_slug}/provisioning/runs",
        "POST /api/organizations/{org_slug}/services/{service_slug}/provisioning/runs",
        "GET /api/organizations/{org_slug}/services/{service_slug}/provisioning/runs/{run_id}",
        "GET /api/organizations/{org_slug}/services/{service_slug}/provisioning/runs/{run_id}/people",
        "POST /api/organizations/{org_slug}/management-keys",
        "POST /api/organizations/{org_slug}/scim-tokens",
        "POST /api/organizations/{org_slug}/siem",
    },
    Capability.RISK_POLICIES_MANAGE: {
        "GET /api/organizations/{org_slug}/risk-policies",
    },
    f"{Capability.RISK_POLICIES_MANAGE}_in_person": {
        "PUT /api/organizations/{org_slug}/risk-policies",
    },
    Capability.RISK_EVENTS_VIEW: {
        "GET /api/organizations/{org_slug}/risk-events",
        "GET /api/organizations/{org_slug}/risk-policies/report",
    },
    f"{Capability.AUDIT_LOGS_VIEW}_in_person": {"POST /api/organizations/{org_slug}/users/{user_id}/offboarding/evidence"},
    Capability.AUDIT_LOGS_VIEW: {
        "GET /api/organizations/{org_slug}/audit-log",
        "GET /api/organizations/{org_slug}/audit-log/event-types",
        "GET /api/organizations/{org_slug}/audit-log/{entry_id}",
        "GET /api/organizations/{org_slug}/audit-log/{entry_id}/receivers",
        "GET /api/organizations/{org_slug}/users/{user_id}/offboarding",
        "GET /api/organizations/{org_slug}/sign-ins",
    },
    Permission.READ_USERS: {
        "GET /api/service/users",
        "GET /api/service/users/{user_id}",
        "GET /api/service/users/{user_id}/rights",
        "POST /api/service/check",
        "POST /access/v1/evaluation",
        "POST /access/v1/evaluations",
        "POST /access/v1/search/action",
        "POST /access/v1/search/resource",
        "POST /access/v1/search/subject",
    },
    Permission.WRITE_USERS: {
        "PATCH /api/service/users/{user_id}",
        "POST /api/service/users",
    },
    Permission.DELETE_USERS: {
        "DELETE /api/service/users/{user_id}",
    },
    Permission.READ_SUBSCRIPTIONS: {
        "GET /api/service/subscriptions",
        "GET /api/service/subscriptions/{user_id}",
    },
    Permission.WRITE_SUBSCRIPTIONS: {
        "PATCH /api/service/subscriptions/{user_id}",
        "POST /api/service/subscriptions",
    },
    Permission.DELETE_SUBSCRIPTIONS: {
        "DELETE /api/service/subscriptions/{user_id}",
    },
    Permission.READ_ANALYTICS: {
        "GET /api/service/analytics",
    },
    Permission.READ_SERVICE: {
        "GET /api/service/info",
    },
    Permission.WRITE_SERVICE: {
        "PATCH /api/service/info",
    },
    Permission.READ_USER_KEYS: {
        "GET /api/service/user-keys",
        "GET /api/service/user-keys/{user_key_id}",
    },
    Permission.WRITE_USER_KEYS: {
        "DELETE /api/service/user-keys/{user_key_id}",
        "POST /api/service/user-keys",
    },
    Permission.VERIFY_USER_KEYS: {
        "POST /api/service/user-keys/verify",
    },
    PLATFORM_OWNER.name: {
        "DELETE /api/platform/profile-fields/{key}",
        "GET /api/platform/configuration",
        "POST /api/platform/configuration/apply",
        "POST /api/platform/configuration/plan",
        "GET /api/platform/profile-fields",
        "GET /api/platform/users/{user_id}/profile",
        "PATCH /api/platform/profile-fields/{key}",
        "PATCH /api/platform/users/{user_id}/profile",
        "POST /api/platform/profile-fields",
        "DELETE /api/platform/organizations/{org_id}",
        "DELETE /api/platform/owners/{user_id}",
        "DELETE /api/platform/users/{user_id}/mfa",
        "GET /api/platform/analytics/overview",
        "GET /api/platform/expiries",
        "GET /api/platform/search",
        *(f"{method} /api/platform/organizations/{{org_id}}/setup-links" for method in ("GET", "POST")),
        *(f"{method} /api/platform/organizations/{{org_id}}/setup-links/{{link_id}}" for method in ("DELETE", "GET")),
        "POST /api/platform/organizations/{org_id}/setup-links/{link_id}/release",
        "GET /api/platform/resource-servers",
        "GET /api/platform/provider-presets",
        *(f"{method} /api/platform/providers" for method in ("GET", "POST")),
        *(f"{method} /api/platform/providers/{{key}}" for method in ("GET", "PATCH", "DELETE")),
        *(f"{method} /api/platform/providers/{{key}}/logo" for method in ("PUT", "DELETE")),
        "POST /api/platform/providers/{key}/activate",
        *(f"{method} /api/platform/resource-servers/{{resource_id}}/approval" for method in ("DELETE", "POST")),
        "DELETE /api/platform/management-keys/{key_id}",
        "GET /api/platform/management-keys",
        "GET /api/platform/management-keys/{key_id}",
        "POST /api/platform/management-keys",
        "POST /api/platform/management-keys/{key_id}/adopt",
        "GET /api/platform/mfa/metrics",
        "GET /api/platform/mfa/suspicious",
        "GET /api/platform/organizations",
        "GET /api/platform/organizations/{org_id}",
        "GET /api/platform/tiers",
        "GET /api/platform/users/search",
        "GET /api/platform/users/{user_id}/mfa/status",
        "PATCH /api/platform/organizations/{org_id}/tier",
        "POST /api/platform/impersonate/{user_id}",
        "POST /api/platform/organizations/{org_id}/activate",
        "POST /api/platform/organizations/{org_id}/approve",
        "POST /api/platform/organizations/{org_id}/reject",
        "POST /api/platform/organizations/{org_id}/suspend",
        "POST /api/platform/owners",
        *("GET /api/platform/audit-log", "GET /api/platform/audit-log/{entry_id}"),
        *("GET /api/platform/jobs", "POST /api/platform/jobs/{job_id}/retry"),
        *("GET /api/platform/mail-budgets", "POST /api/platform/mail-budgets"),
        "DELETE /api/platform/mail-budgets/{budget_id}/exception",
        *(
            "GET /api/platform/hooks/sign-in",
            "PUT /api/platform/hooks/sign-in",
            "DELETE /api/platform/hooks/sign-in",
            "GET /api/platform/hooks/sign-in/exchanges",
        ),
        *(f"POST /api/platform/hooks/sign-in/{act}" for act in ("rotate-secret", "count", "shadow", "try")),
        *("GET /api/platform/risk-policies", "PUT /api/platform/risk-policies", "GET /api/platform/risk-policies/report"),
        "GET /api/platform/risk-events",
        *("GET /api/platform/signing-keys", "POST /api/platform/signing-keys/rotate"),
        "GET /api/platform/settings",
        *("GET /api/platform/text-rules", "PUT /api/platform/text-rules", "GET /api/platform/text-approvals"),
        *(f"{method} /api/platform/organizations/{{org_id}}/texts/approval" for method in ("POST", "DELETE")),
        *("GET /api/platform/texts", "GET /api/platform/texts/preview", "PATCH /api/platform/texts", "PUT /api/platform/texts"),
        *("GET /api/platform/terms", "PUT /api/platform/terms", "DELETE /api/platform/terms"),
        *(f"POST /api/platform/users/{{user_id}}/{act}" for act in ("activate", "deactivate", "lock")),
    },
}


def test_who_may_what_in_an_organization_in_a_service_and_on_the_platform() -> None:
    rest = {ANYONE.name, USER.name, OWN_USER.name, LEAVING.name, PREAUTHENTICATED.name}
    declared: dict[str, set[str]] = {}
    for one in HOUSE:
        if one.caller.name not in rest:
            declared.setdefault(one.caller.name, set()).add(str(one))
    assert declared == WHO


def test_every_route_of_an_organization_a_service_or_the_platform_asks_for_its_own() -> None:
    for one in HOUSE:
        if "{org_slug}" in one.path and str(one) not in REFUSED_LATER.keys() | FOUND_LATER | OPEN:
            assert one.caller in (BUYER, *MEMBER_RULES), one
        if one.path.startswith("/api/platform/"):
            assert one.caller is PLATFORM_OWNER, one
        assert one.path.startswith(("/api/service/", "/access/v1/")) == (one.caller in EVERY_KEY_RULE), one


async def test_no_two_endpoints_share_an_operation_id(lonely_postern: Postern) -> None:
    names = [one.handler.__name__ for one in build_application(lonely_postern, SETTINGS).endpoints if one.tags]
    assert len(names) == len(set(names))
