"""The caller behind a bearer token: each claim that must be right, and the final decision by the database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from core.domain.errors import Forbidden, NotFound, OrganizationNotActive, TokenExpired, TokenInvalid, Unauthorized
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, SessionId, UserId
from core.domain.identity.callers import NOT_A_MEMBER, Caller, Participation
from core.domain.identity.guards.hook_verdicts import AskingDoor, HookVerdict
from core.domain.mail import Email
from core.domain.secrets import Token
from core.domain.tenancy.members import IN_A_SERVICE, NOT_YOUR_ORGANIZATION, Member, OrganizationSnapshot
from core.domain.tenancy.roles import BuiltInRole, Capability
from core.frozen import replace
from core.usecases.tenancy.callers import Callers

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
USER, SESSION, OTHER = (UUID(f"0199d3a0-0000-7000-8000-00000000000{number}") for number in range(3))
GOOD: dict[str, Any] = {"sub": str(USER), "sid": str(SESSION), "aud": "platform", "token_use": "access", "amr": ["pwd", "otp"]}


@dataclass
class CallerPorts:
    """The ports of `Callers`, each answering as it is told: what they do themselves is tested where they live."""

    claims: Mapping[str, Json] = field(default_factory=lambda: GOOD)
    failure: Exception | None = None
    live: bool = True
    stored: dict[str, Any] = field(default_factory=dict)
    standing: OrganizationSnapshot | None = None
    asked: list[tuple[SessionId, UserId]] = field(default_factory=list)
    marks: list[tuple[SessionId, datetime]] = field(default_factory=list)

    async def verify_access(self, token: str) -> Mapping[str, Json]:
        assert token == "the token"
        if self.failure is not None:
            raise self.failure
        return self.claims

    async def find(self, session: SessionId, user: UserId) -> Caller | None:
        self.asked.append((session, user))
        return Caller(user, Email("ada@example.org"), session, is_platform_owner=True, **self.stored) if self.live else None

    async def find_in_service(self, session: SessionId, user: UserId) -> Caller | None:
        return await self.find(session, user)

    async def find_for_userinfo(self, session: SessionId, user: UserId) -> Caller | None:
        return await self.find(session, user)

    async def find_member(self, session: SessionId, user: UserId, slug: str) -> tuple[Caller, OrganizationSnapshot | None] | None:
        assert slug == "acme"
        caller = await self.find(session, user)
        return None if caller is None else (caller, self.standing)

    async def find_browser(self, digest: bytes) -> Caller | None:
        assert digest == Token("cookie").digest()
        return await self.find(SessionId(SESSION), UserId(USER))

    async def find_browsers(self, asked: Sequence[bytes]) -> Mapping[bytes, Caller]:
        found = [await self.find_browser(digest) for digest in asked]
        return {digest: caller for digest, caller in zip(asked, found, strict=True) if caller is not None}

    async def find_browser_member(self, digest: bytes, slug: str) -> tuple[Caller, OrganizationSnapshot | None] | None:
        assert digest == Token("cookie").digest()
        return await self.find_member(SessionId(SESSION), UserId(USER), slug)

    async def find_acting(self, digest: bytes, opener: bytes) -> Caller | None:
        assert opener == Token("own").digest()
        return await self.find_browser(digest)

    async def find_acting_member(self, digest: bytes, opener: bytes, slug: str) -> tuple[Caller, OrganizationSnapshot | None] | None:
        assert opener == Token("own").digest()
        return await self.find_browser_member(digest, slug)

    def seen(self, session: SessionId, at: datetime) -> None:
        self.marks.append((session, at))

    def now(self) -> datetime:
        return NOW

    async def ask(self, door: AskingDoor) -> HookVerdict:
        raise AssertionError(door)

    async def resolve(self, participation: Participation = Participation.ACTIVE) -> Caller:
        return await Callers(self, self, self, self, self).resolve("the token", participation)

    async def resolve_member(self, participation: Participation = Participation.ACTIVE) -> Member:
        return await Callers(self, self, self, self, self).resolve_member("the token", "acme", participation)


async def test_a_good_token_of_a_live_session_is_its_caller() -> None:
    scene = CallerPorts()
    assert await scene.resolve() == Caller(
        user=UserId(USER),
        email=Email("ada@example.org"),
        session=SessionId(SESSION),
        is_platform_owner=True,
        authentication_methods=("pwd", "otp"),
    )
    assert scene.asked == [(SESSION, USER)]
    assert scene.marks == [(SESSION, NOW)]


@pytest.mark.parametrize(
    ("claims", "organization", "service"),
    [
        ({"org": "acme", "aud": "org:acme"}, "acme", ""),
        ({"org": "acme", "service": "shop", "aud": "service:acme/shop"}, "acme", "shop"),
        ({"org": "", "service": "", "aud": "platform"}, "", ""),
    ],
)
async def test_the_context_of_the_token_becomes_the_callers(claims: dict[str, str], organization: str, service: str) -> None:
    stored = {"organization": organization, "service": service, "role": "member", "organization_is_active": True}
    caller = await CallerPorts({**GOOD, **claims}, stored=stored).resolve()
    assert (caller.organization, caller.service) == (organization, service)


async def test_an_impersonation_names_its_impersonator() -> None:
    stored = {"impersonator": UserId(OTHER)}
    caller = await CallerPorts({**GOOD, "token_use": "impersonation", "impersonator": str(OTHER)}, stored=stored).resolve()
    assert (caller.user, caller.impersonator) == (USER, OTHER)


@pytest.mark.parametrize(
    ("claims", "stored"),
    [
        ({}, {"organization": "acme"}),
        ({"org": "acme", "aud": "org:acme"}, {}),
        ({"org": "acme", "aud": "org:acme"}, {"organization": "other"}),
        ({"org": "acme", "aud": "org:acme"}, {"organization": "acme", "service": "shop"}),
        ({"org": "acme", "service": "shop", "aud": "service:acme/shop"}, {"organization": "acme"}),
        ({}, {"impersonator": UserId(OTHER)}),
        ({"token_use": "impersonation", "impersonator": str(OTHER)}, {}),
        ({"token_use": "impersonation", "impersonator": str(OTHER)}, {"impersonator": UserId(USER)}),
    ],
)
async def test_a_token_of_another_context_than_its_session_is_invalid(claims: dict[str, str], stored: dict[str, Any]) -> None:
    scene = CallerPorts({**GOOD, **claims}, stored={"role": "owner", "organization_is_active": True, **stored})
    with pytest.raises(TokenInvalid):
        await scene.resolve()
    assert scene.marks == []


ACME = {**GOOD, "org": "acme", "aud": "org:acme"}
SHOP = {**GOOD, "org": "acme", "service": "shop", "aud": "service:acme/shop"}


async def test_a_person_who_has_left_the_organization_is_forbidden() -> None:
    scene = CallerPorts(ACME, stored={"organization": "acme", "organization_is_active": True})
    for participation in Participation:
        with pytest.raises(Forbidden) as refused:
            await scene.resolve(participation)
        assert type(refused.value) is Forbidden
    assert scene.marks == []


async def test_an_organization_that_is_not_active_lets_in_only_where_that_does_not_matter() -> None:
    scene = CallerPorts(ACME, stored={"organization": "acme", "role": "owner"})
    with pytest.raises(OrganizationNotActive):
        await scene.resolve()
    assert (await scene.resolve(Participation.MEMBER)).role == "owner"


async def test_an_end_user_of_a_service_need_not_be_a_member_but_its_organization_be_active() -> None:
    stored = {"organization": "acme", "service": "shop"}
    assert (await CallerPorts(SHOP, stored={**stored, "organization_is_active": True}).resolve()).role == ""
    with pytest.raises(OrganizationNotActive):
        await CallerPorts(SHOP, stored=stored).resolve()


async def test_the_name_of_a_session_to_be_ended_needs_no_database() -> None:
    scene = CallerPorts({**GOOD, "token_use": "impersonation", "impersonator": str(OTHER)}, live=False)
    assert await Callers(scene, scene, scene, scene, scene).signed("the token") == (SESSION, USER, OTHER)
    assert scene.asked == []


async def test_a_token_may_keep_silent_about_the_methods() -> None:
    claims = {name: value for name, value in GOOD.items() if name != "amr"}
    assert (await CallerPorts(claims).resolve()).authentication_methods == ()


@pytest.mark.parametrize(
    "changed",
    [
        {"token_use": "mfa_preauth"},
        {"token_use": None},
        {"token_use": ["access"]},
        {"token_use": "access", "impersonator": str(OTHER)},
        {"token_use": "impersonation"},
        {"token_use": "impersonation", "impersonator": "somebody"},
        {"sid": None},
        {"sid": 5},
        {"sid": f"{{{SESSION}}}"},
        {"sid": str(SESSION).upper()},
        {"sid": SESSION.hex},
        {"sub": f"urn:uuid:{USER}"},
        {"sub": ""},
        {"aud": None},
        {"aud": ["platform"]},
        {"aud": "org:acme"},
        {"org": "acme", "aud": "platform"},
        {"org": "acme", "aud": "org:other"},
        {"org": "acme", "service": "shop", "aud": "org:acme"},
        {"service": "shop", "aud": "service:/shop"},
        {"org": 5},
        {"org": "acme", "service": ["shop"]},
        {"amr": "pwd"},
        {"scope": ["openid"]},
    ],
)
async def test_a_token_that_says_anything_else_is_invalid(changed: dict[str, Any]) -> None:
    scene = CallerPorts({name: value for name, value in {**GOOD, **changed}.items() if value is not None})
    with pytest.raises(TokenInvalid):
        await scene.resolve()
    assert scene.marks == []


@pytest.mark.parametrize("failure", [TokenExpired(), TokenInvalid()])
async def test_what_the_verifier_refuses_is_refused_before_the_database_is_asked(failure: Exception) -> None:
    scene = CallerPorts(failure=failure)
    with pytest.raises(type(failure)):
        await scene.resolve()
    assert scene.asked == []


async def test_a_session_that_has_ended_is_refused_and_not_marked_as_seen() -> None:
    scene = CallerPorts(live=False)
    with pytest.raises(Unauthorized) as refused:
        await scene.resolve()
    assert type(refused.value) is Unauthorized
    assert scene.marks == []


ORGANIZATION = OrganizationId(UUID(int=7))
ADMIN = OrganizationSnapshot(ORGANIZATION, "acme", organization_is_active=True, role="admin", relations=frozenset({"admin"}))
OF_ACME = {"organization": "acme", "role": "admin", "organization_is_active": True}


async def test_a_member_is_a_caller_with_what_their_relations_allow() -> None:
    scene = CallerPorts(standing=ADMIN)
    member = await scene.resolve_member()
    assert (member.organization, member.organization_slug, member.organization_is_active) == (ORGANIZATION, "acme", True)
    assert (member.user, member.role, member.capabilities, member.is_owner) == (USER, "admin", BuiltInRole.ADMIN.capabilities, False)
    assert member.caller.authentication_methods == ("pwd", "otp")
    assert scene.asked == [(SESSION, USER)]
    assert scene.marks == [(SESSION, NOW)]


async def test_what_a_member_may_do_comes_of_the_relations_and_not_of_the_roles_name() -> None:
    standing = replace(ADMIN, role="auditor", relations=frozenset({"holder", "audit_logs.view", "services.view", "something of later"}))
    member = await CallerPorts(standing=standing).resolve_member()
    assert member.capabilities == {Capability.AUDIT_LOGS_VIEW, Capability.SERVICES_VIEW}
    assert member.may(Capability.AUDIT_LOGS_VIEW)
    member.require(Capability.AUDIT_LOGS_VIEW)
    with pytest.raises(Forbidden):
        member.require(Capability.ROLES_MANAGE)
    named = await CallerPorts(standing=replace(ADMIN, role="owner", relations=frozenset({"member"}))).resolve_member()
    assert (named.is_owner, named.capabilities) == (True, BuiltInRole.MEMBER.capabilities)


@pytest.mark.parametrize(
    "standing", [replace(ADMIN, role=""), replace(ADMIN, relations=frozenset()), replace(ADMIN, role="", relations=frozenset())]
)
async def test_without_membership_or_without_relations_nobody_is_a_member(standing: OrganizationSnapshot) -> None:
    scene = CallerPorts(standing=standing)
    for participation in Participation:
        with pytest.raises(Forbidden) as refused:
            await scene.resolve_member(participation)
        assert (type(refused.value), refused.value.message) == (Forbidden, NOT_A_MEMBER)
    assert scene.marks == []


async def test_a_token_for_the_organization_opens_it_and_one_for_another_does_not() -> None:
    scene = CallerPorts(ACME, stored=OF_ACME, standing=ADMIN)
    assert (await scene.resolve_member()).caller.organization == "acme"
    other = {**ACME, "org": "globex", "aud": "org:globex"}
    with pytest.raises(Forbidden) as refused:
        await CallerPorts(other, stored={**OF_ACME, "organization": "globex"}, standing=ADMIN).resolve_member()
    assert refused.value.message == NOT_YOUR_ORGANIZATION


async def test_an_organization_that_does_not_exist_is_not_found_with_a_token_for_another_either() -> None:
    other = {**ACME, "org": "globex", "aud": "org:globex"}
    with pytest.raises(NotFound):
        await CallerPorts(other, stored={**OF_ACME, "organization": "globex"}).resolve_member()


async def test_a_token_for_a_service_administers_nothing_not_even_for_an_owner() -> None:
    standing = replace(ADMIN, role="owner", relations=frozenset({"owner"}))
    scene = CallerPorts(SHOP, stored={**OF_ACME, "service": "shop"}, standing=standing)
    with pytest.raises(Forbidden) as refused:
        await scene.resolve_member()
    assert refused.value.message == IN_A_SERVICE


async def test_an_organization_that_does_not_exist_is_not_found() -> None:
    scene = CallerPorts()
    with pytest.raises(NotFound):
        await scene.resolve_member()
    assert scene.marks == []


async def test_members_of_an_organization_that_is_not_active_get_in_only_where_that_does_not_matter() -> None:
    scene = CallerPorts(standing=replace(ADMIN, organization_is_active=False))
    with pytest.raises(OrganizationNotActive):
        await scene.resolve_member()
    assert scene.marks == []
    assert (await scene.resolve_member(Participation.MEMBER)).organization_is_active is False


async def test_nobody_is_a_member_by_a_session_that_has_ended() -> None:
    scene = CallerPorts(live=False, standing=ADMIN)
    with pytest.raises(Unauthorized):
        await scene.resolve_member()
    assert scene.marks == []


async def test_nobody_is_a_member_by_a_token_of_another_context_than_its_session() -> None:
    for claims, stored in ((ACME, {}), (GOOD, OF_ACME), (ACME, {**OF_ACME, "service": "shop"})):
        with pytest.raises(TokenInvalid):
            await CallerPorts(claims, stored=stored, standing=ADMIN).resolve_member()


@pytest.mark.parametrize("live", [True, False])
async def test_a_browser_is_known_by_its_cookie_and_seen(live: bool) -> None:
    scene = CallerPorts(live=live)
    caller = await Callers(scene, scene, scene, scene, scene).resolve_browser(Token("cookie"))
    assert (caller is not None) is live
    assert scene.marks == ([(SESSION, NOW)] if live else [])
