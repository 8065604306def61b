"""The names of claims, and what is left out of a long token."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import core.usecases
from core.domain.claims import (
    LONGEST_ACCESS_TOKEN,
    MOST_GROUPS,
    RESERVED,
    ClaimPlace,
    ClaimSource,
    DescribedPerson,
    OrganizationPart,
    ServiceClaim,
    ServiceFacts,
    StandardProfile,
    ToldClaim,
    WithheldClaim,
    is_reserved,
    largest,
    service_told,
)
from core.domain.federation.logouts import DueNotice, logout_claims
from core.domain.federation.oauth.clients import RegisteredClient
from core.domain.federation.oauth.exchanges import TokenExchange, subject_of
from core.domain.federation.oauth.grants import Granted, client_claims
from core.domain.federation.oauth.oidc import PERSON_CLAIMS, id_claims
from core.domain.federation.oauth.resources import SCOPES
from core.domain.federation.signals import DueSignal, signal_claims
from core.domain.formats import Json
from core.domain.identifiers import (
    ClientId,
    ClientSecretId,
    ImpersonationId,
    OrganizationId,
    ResourceServerId,
    ServiceId,
    SessionId,
    SignalStreamId,
    UserId,
)
from core.domain.identity.proofs import Proved
from core.domain.identity.sessions import ActingClient, Application, Context, Impersonated, OpenedSession, Session, access_claims
from core.domain.identity.sign_in import preauthentication_claims
from core.domain.mail import Email
from core.domain.secrets import Token
from core.domain.services.services import ServiceType
from core.domain.tokens import TokenAlgorithm, TokenAudience
from core.frozen import replace

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
ISSUER = "https://id.example"
LATER = timedelta(minutes=15)
CLIENT = ClientId(str(UUID(int=3)))
CONTEXT = Context(OrganizationId(UUID(int=4)), "acme", ServiceId(UUID(int=5)), "shop")
SESSION = Session(
    *(SessionId(UUID(int=1)), UserId(UUID(int=2)), NOW, NOW, NOW + timedelta(days=1), NOW + timedelta(days=1)),
    context=CONTEXT,
    proved=Proved(NOW, NOW),
)
TEAMS = [f"team-{number:03}" for number in range(MOST_GROUPS + 5)]
AUDIENCE = TokenAudience(ResourceServerId(UUID(int=8)), "https://api.example.org", ("orders:read",))
REGISTERED = RegisteredClient(
    client=CLIENT,
    context=CONTEXT,
    service=ServiceId(UUID(int=5)),
    organization=OrganizationId(UUID(int=4)),
    organization_is_active=True,
    service_type=ServiceType.WEB,
    id_token_algorithm=TokenAlgorithm.RS256,
    access_token_algorithm=TokenAlgorithm.ES256,
    keys=None,
    has_secret=True,
    secret=ClientSecretId(UUID(int=1)),
)
SIGNAL = DueSignal(
    id=UUID(int=7),
    attempts=0,
    event=None,
    user=UserId(UUID(int=1)),
    stream=SignalStreamId(UUID(int=8)),
    transaction="t",
    happened_at=NOW,
    queued_at=NOW,
    details={},
)
FACTS = ServiceFacts(roles=["editor"], permissions=["pages.write"], teams=TEAMS, role="member")
OPENED = OpenedSession(SESSION, Email("ada@example.org"), True, Token("refresh"), application=Application(CLIENT, SCOPES), facts=FACTS)
PROFILE = StandardProfile(name="a", given_name="b", family_name="c", username="d", picture="e", zoneinfo="UTC", language="en", updated_at=1)


def _access(opened: OpenedSession) -> dict[str, Json]:
    return dict(access_claims(opened, issuer=ISSUER, token_id="t", now=NOW, lifetime=LATER))


def _id(opened: OpenedSession) -> dict[str, Json]:
    granted = Granted(opened, True, "member", "nonce", PROFILE)
    return dict(id_claims(granted, client=CLIENT, access_token=Token("a"), issuer=ISSUER, now=NOW, expires_at=NOW + LATER))


def test_every_name_of_every_token_is_reserved() -> None:
    """A service's own claim must never stand in a token beside a claim of ours of the same name."""
    impersonated = replace(OPENED, session=replace(SESSION, impersonated=Impersonated(ImpersonationId(UUID(int=6)), SESSION.user)))
    long = replace(OPENED, facts=replace(FACTS, permissions=["x" * 4000], teams=["y" * 4000], roles=["z" * 4000]))
    long = replace(long, facts=replace(long.facts, claims=[ServiceClaim("c", ClaimSource.CONSTANT, "c" * 4000, tuple(ClaimPlace))]))
    tokens = (
        *(_access(OPENED), _access(impersonated), _access(long), _id(OPENED), _id(long)),
        preauthentication_claims(SESSION.user, "t", issuer=ISSUER, now=NOW, expires_at=NOW, state="s"),
        client_claims(REGISTERED, AUDIENCE, issuer=ISSUER, token_id="t", now=NOW, lifetime=LATER),
        _exchanged().claims(ISSUER, "t"),
        signal_claims(SIGNAL, client=CLIENT, issuer=ISSUER),
        logout_claims(DueNotice(SESSION.id, SESSION.user, id=UUID(int=7), attempts=1), client=CLIENT, issuer=ISSUER, token_id="t", now=NOW),
    )
    names = {name for token in tokens for name in token}
    assert set(PERSON_CLAIMS) <= names
    assert {"roles_truncated", "groups_truncated", "permissions_truncated", "claims_truncated", "events", "state", "act"} <= names
    assert {name for name in names if not is_reserved(name)} == set()


def _exchanged() -> TokenExchange:
    claims = _access(OPENED) | {"client_id": CLIENT}
    return TokenExchange(
        session=SESSION.id,
        subject=subject_of(claims, REGISTERED),
        client=REGISTERED,
        audience=AUDIENCE,
        acting=ActingClient(CLIENT, ActingClient(CLIENT)),
        created_at=NOW,
        ends_at=NOW + LATER,
    )


def test_no_other_code_signs_tokens() -> None:
    """Whoever adds a token adds it to the test above. A token of a management key has no claims of services."""
    folder = Path(next(iter(core.usecases.__path__)))
    signing = {str(one.relative_to(folder)) for one in folder.rglob("*.py") if re.search(r"signer\.sign_", one.read_text())}
    assert signing == {
        "federation/grants.py",
        "federation/identity_assertions.py",
        "federation/logouts.py",
        "federation/signal_polls.py",
        "federation/signals.py",
        "identity/sessions.py",
        "identity/sign_in/sign_in_results.py",
        "tenancy/management_keys.py",
    }


def test_names_that_look_like_ours_are_reserved_and_others_are_free() -> None:
    assert all(map(is_reserved, RESERVED))
    assert all(map(is_reserved, ("Roles", "ORG", "org_admin", "organisation", "service_level", "Sub", "typ", "Typ", "sub_id")))
    free = ("phone_number", "birthdate", "nickname", "gender", "address", "department", "https://claims.example/roles", "rolesX", "")
    assert not any(map(is_reserved, free))


def test_a_long_access_token_loses_permissions_then_groups_then_claims_then_roles() -> None:
    claims = [ServiceClaim("extra", ClaimSource.CONSTANT, "c" * 200, (ClaimPlace.ACCESS_TOKEN,))]
    claims.append(ServiceClaim("may", ClaimSource.PERMISSIONS, None, (ClaimPlace.ACCESS_TOKEN,)))
    facts = ServiceFacts(roles=["r" * 200], permissions=["p" * 200], teams=["t" * 200], claims=claims, role="member")
    left_out: list[set[str]] = []
    for step in range(5):
        grown = replace(
            facts,
            permissions=["p" * (200 if step < 1 else 3500)],
            teams=["t" * (200 if step < 2 else 3500)],
            claims=[replace(claims[0], argument="c" * (200 if step < 3 else 3500)), claims[1]],
            roles=["r" * (200 if step < 4 else 3500)],
        )
        said = _access(replace(OPENED, facts=grown))
        left_out.append({"entitlements", "may", "groups", "extra", "roles"} - set(said))
        for marker, gone in (
            *(("permissions_truncated", "entitlements"), ("groups_truncated", "groups")),
            *(("claims_truncated", "extra"), ("roles_truncated", "roles")),
        ):
            assert (said.get(marker) is True) is (gone in left_out[-1])
        assert len(str(said)) < LONGEST_ACCESS_TOKEN
    permissions = {"entitlements", "may"}
    assert left_out == [
        *(set(), permissions, {*permissions, "groups"}),
        *({*permissions, "groups", "extra"}, {*permissions, "groups", "extra", "roles"}),
    ]


def test_the_largest_claims_come_first() -> None:
    assert largest({"a": 1, "b": "x" * 50, "c": ["x"] * 5, "d": 1, "e": 1, "f": 1})[:2] == ["b", "c"]


def test_only_a_member_has_a_role_to_tell_of_the_organization() -> None:
    def told(role: str) -> object:
        claim = ServiceClaim("rank", ClaimSource.ORGANIZATION, OrganizationPart.ROLE.value, (ClaimPlace.USERINFO,))
        person = DescribedPerson(
            user=SESSION.user,
            email=OPENED.email,
            email_is_verified=True,
            organization=CONTEXT.organization,
            organization_slug="acme",
            role=role,
            facts=ServiceFacts(claims=[claim]),
        )
        return service_told(ClaimPlace.USERINFO, person, SCOPES)

    assert told("admin") == [ToldClaim("rank", "admin", ClaimSource.ORGANIZATION)]
    assert told("") == [WithheldClaim("rank", ClaimSource.ORGANIZATION, "The person is not a member of the organization")]
