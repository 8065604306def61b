"""A request to refresh has begun, and waits for the token's row, or for the session's, while a fact ends that would have kept it out. It
gets nothing, and the token is as it was.

A refresh locks no account, so the endpoint that ends a fact goes on beside the token's row. Many of them end the session too, and wait for
whoever holds its row. There the request waits for the endpoint, and besides the row of the fact ends alone: the request must not rest on
the session alone.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import Any, Final, LiteralString

import pytest

from tests.http.client import Received
from tests.http.federation.relying import Application, claims_of
from tests.http.federation.resources.agents import READ
from tests.http.signing_in import REFRESH
from tests.security.gaps.meeting import APPROVE, GapScene, outcome

GRANT: Final = (400, "invalid_grant")
TARGET: Final = (400, "invalid_target")
SCOPE: Final = (400, "invalid_scope")
World = Callable[[GapScene, Application | None], Awaitable[str]]


async def _old(meeting: GapScene, application: Application | None = None) -> str:
    """A code of a sign-in two hours ago."""
    two_hours = meeting.postern.foundation.clock.now() - timedelta(hours=2)
    return await meeting.code(application or meeting.shop, auth_time=two_hours)


async def _with_factor(meeting: GapScene, application: Application | None = None) -> str:
    """Acme requires a second factor of its members, for whom the grace is over, and Ada has a passkey as one."""
    meeting.people.give_passkey(meeting.ada, second_factor=True)
    meeting.with_second_factor(meeting.boss)
    await meeting.set_rules(mfa_policy="required", mfa_grace_days=0)
    meeting.tenants.join(meeting.ada, meeting.acme)
    # As if the rule and the membership were older than this request.
    meeting.people.change("update organizations set mfa_required_since = now() - interval '1 day' where slug = 'acme'")
    meeting.people.change("update memberships set created_at = now() - interval '1 day'")
    return await meeting.plain(application)


@dataclass(frozen=True)
class Ending:
    """How a fact ends, in which world. `row` ends it where the endpoint ends the session, too, and where time does."""

    act: Callable[[GapScene], Awaitable[object]] | None
    world: World = GapScene.plain
    answer: tuple[int, str] = GRANT
    row: LiteralString = ""
    at_once: bool = False
    """The endpoint ends the session and commits in one round trip, so nobody meets it between."""


ENDS: Final[dict[str, Ending]] = {
    "the session is revoked": Ending(GapScene.all_signed_out, row="update sessions set revoked_at = now() where scopes is not null"),
    "the session has come to its end": Ending(None, row="update sessions set ends_at = now() - interval '1 hour' where scopes is not null"),
    "the session has rested too long": Ending(
        None, row="update sessions set expires_at = now() - interval '1 hour' where scopes is not null"
    ),
    "the sign-in is too old": Ending(lambda m: m.set_rules(session_lifetime_hours=1), _old),
    "the sign-in is too old for the service": Ending(lambda m: m.set_service(m.shop, session_lifetime_hours=1), _old),
    "the account is deactivated": Ending(
        GapScene.deactivated, row="update users set deactivated_at = now() where email = 'ada@example.org'"
    ),
    "the membership ends": Ending(
        GapScene.membership_ended, GapScene.of_member, row="delete from memberships where role = 'member'", at_once=True
    ),
    "the service wants members alone": Ending(lambda m: m.set_service(m.shop, sign_in_policy="members")),
    "the role is taken": Ending(
        GapScene.role_taken, GapScene.of_holder, row="delete from relations where service_id is not null", at_once=True
    ),
    "the organization is suspended": Ending(GapScene.suspended),
    "the organization is deleted": Ending(GapScene.organization_deleted),
    "the service is deleted": Ending(GapScene.service_deleted),
    "the second factor goes": Ending(None, _with_factor, row="delete from passkeys"),
    "terms are due": Ending(GapScene.terms_due),
    "the API ends": Ending(GapScene.api_ended, GapScene.of_api, TARGET),
    "the API admits others": Ending(lambda m: m.set_api(admits="named", admitted_services=[]), GapScene.of_api, TARGET),
    "the consent at the API is taken back": Ending(
        GapScene.api_taken_back, GapScene.of_agent, row="delete from resource_consents where expires_at is not null", at_once=True
    ),
    "the service becomes an agent": Ending(lambda m: m.set_service(m.shop, is_agent=True)),
    "agents are forbidden": Ending(lambda m: m.set_rules(agents="forbidden"), GapScene.of_agent),
    "the agent's consent has come to its end": Ending(
        None,
        GapScene.of_agent,
        row="update resource_consents set granted_at = granted_at - interval '9 days', expires_at = now() - interval '1 day'",
    ),
    "the service binds its tokens": Ending(lambda m: m.set_service(m.shop, dpop_bound_access_tokens=True)),
}


def gaps(ends: dict[str, Ending]) -> list[tuple[str, str, str]]:
    """Each fact with each lock, and how it ends: by an act beside the lock, by one that locks the session, or by its row."""
    found = []
    for name, end in ends.items():
        for lock in ("token", "session"):
            if end.act is not None and not (end.at_once and lock == "session"):
                found.append((name, lock, "act"))
            if end.row and (lock == "session" or end.act is None):
                found.append((name, lock, "row"))
    return found


async def waited(meeting: GapScene, end: Ending, lock: str, how: str, token: str, ask: Callable[[], Awaitable[Received]]) -> Received:
    digest = sha256(token.encode()).digest()
    (row,) = meeting.people.rows("select session_id from refresh_tokens where digest = %s", digest)
    held = meeting.token(digest) if lock == "token" else meeting.session_row(row["session_id"])
    if how == "row" or end.act is None:
        return await meeting.behind(held, ask, end.row)
    act = partial(end.act, meeting)
    return await (meeting.before_the_end_of(act, ask) if end.row and lock == "session" else meeting.behind(held, ask, act))


def is_as_it_was(meeting: GapScene) -> bool:
    rows = meeting.people.rows("select rotated_at from refresh_tokens")
    return rows == [{"rotated_at": None}]


@pytest.mark.parametrize(("name", "lock", "how"), gaps(ENDS))
async def test_an_application_gets_nothing(meeting: GapScene, name: str, lock: str, how: str) -> None:
    end = ENDS[name]
    application = meeting.helper if end.world is GapScene.of_agent else meeting.shop
    tokens = meeting.kept((await meeting.redeem(application, await end.world(meeting, application))).ok())
    ask = partial(meeting.refresh, application, tokens["refresh_token"])
    assert outcome(await waited(meeting, end, lock, how, tokens["refresh_token"], ask)) == end.answer
    assert is_as_it_was(meeting)


@pytest.mark.parametrize("lock", ["token", "session"])
async def test_a_scope_that_the_person_refuses_meanwhile(meeting: GapScene, lock: str) -> None:
    """The permission is taken, or the consent narrowed: what is left is given, and what is named and gone is refused."""
    tokens = meeting.kept((await meeting.redeem(meeting.shop, await meeting.of_api())).ok())
    narrowed = Ending(GapScene.permission_taken)
    named = partial(meeting.refresh, meeting.shop, tokens["refresh_token"], scope=f"{READ} {APPROVE}")
    assert tokens["scope"].split() == ["openid", READ, APPROVE]
    assert outcome(await waited(meeting, narrowed, lock, "act", tokens["refresh_token"], named)) == SCOPE
    assert is_as_it_was(meeting)
    await meeting.done("PATCH", f"{meeting.path(meeting.desk)}/roles/approver", {"permissions": ["approve"]})
    all_of_it = partial(meeting.refresh, meeting.shop, tokens["refresh_token"])
    answer = await waited(meeting, narrowed, lock, "act", tokens["refresh_token"], all_of_it)
    assert meeting.kept(answer.ok())["scope"].split() == ["openid", READ]


@pytest.mark.parametrize("lock", ["token", "session"])
async def test_a_secret_that_is_revoked_after_it_was_shown_counts_for_this_request(meeting: GapScene, lock: str) -> None:
    """The application has authenticated by a statement of its own, before."""
    tokens = await meeting.signed_in(meeting.shop)
    ask = partial(meeting.refresh, meeting.shop, tokens["refresh_token"])
    answer = await waited(meeting, Ending(GapScene.secret_revoked), lock, "act", tokens["refresh_token"], ask)
    again = meeting.kept(answer.ok())
    assert outcome(await meeting.refresh(meeting.shop, again["refresh_token"])) == (401, "invalid_client")


@pytest.mark.parametrize("lock", ["token", "session"])
async def test_a_program_whose_application_gets_a_secret_meanwhile_has_to_show_it(meeting: GapScene, lock: str) -> None:
    """At the path of the API, nobody names an application."""
    tokens = await meeting.signed_in(meeting.page)
    act = Ending(lambda m: m.done("POST", f"{m.path(m.page)}/client-secrets"))
    ask = partial(meeting.client.post, REFRESH, {"refresh_token": tokens["refresh_token"]})
    answer = await waited(meeting, act, lock, "act", tokens["refresh_token"], ask)
    assert (answer.status, answer.error_code) == (401, "UNAUTHORIZED")
    assert is_as_it_was(meeting)


ACTING: Final[dict[str, Ending]] = {
    "the office ends": Ending(
        lambda m: m.done("DELETE", f"/api/platform/owners/{m.other_governor.user}", by=m.governor),
        row="update users set is_platform_owner = false where email = 'other@example.org'",
    ),
    "the account that acts is deactivated": Ending(
        lambda m: m.done("POST", f"/api/platform/users/{m.other_governor.user}/deactivate", {"reason": "x"}, by=m.governor),
        row="update users set deactivated_at = now() where email = 'other@example.org'",
    ),
    "the person becomes a platform owner": Ending(
        lambda m: m.done("POST", "/api/platform/owners", {"user_id": str(m.ada.user)}, by=m.governor),
        row="update users set is_platform_owner = true where email = 'ada@example.org'",
        at_once=True,
    ),
}


@pytest.mark.parametrize(("name", "lock", "how"), gaps(ACTING))
async def test_a_platform_owner_who_acts_for_ada_goes_on_no_more(meeting: GapScene, name: str, lock: str, how: str) -> None:
    begun = await meeting.impersonated()
    ask = partial(meeting.client.post, REFRESH, {"refresh_token": begun["refresh_token"]})
    answer = await waited(meeting, ACTING[name], lock, how, begun["refresh_token"], ask)
    assert (answer.status, answer.error_code) == (401, "UNAUTHORIZED")
    assert is_as_it_was(meeting)


def _claims(tokens: dict[str, Any]) -> dict[str, Any]:
    return claims_of(tokens["id_token"])


@pytest.mark.parametrize("lock", ["token", "session"])
async def test_what_is_told_is_told_as_it_is_by_then(meeting: GapScene, lock: str) -> None:
    meeting.tenants.join(meeting.ada, meeting.acme, "admin")
    tokens = await meeting.signed_in(meeting.shop, scopes="openid profile organization")

    async def changes(_meeting: GapScene) -> None:
        await meeting.done("PATCH", f"/api/organizations/acme/members/{meeting.ada.user}", {"role": "member"})
        (await meeting.request("PATCH", "/api/user", {"name": "Augusta"}, by=meeting.ada)).ok()

    ask = partial(meeting.refresh, meeting.shop, tokens["refresh_token"])
    answer = await waited(meeting, Ending(changes), lock, "act", tokens["refresh_token"], ask)
    claims = _claims(meeting.kept(answer.ok()))
    assert (claims["name"], claims["organization"]["role"]) == ("Augusta", "member")


@pytest.mark.parametrize("lock", ["token", "session"])
async def test_what_she_has_bought_is_told_as_it_is_by_then(meeting: GapScene, lock: str) -> None:
    plan = meeting.subscribed()
    tokens = await meeting.signed_in(meeting.shop)
    renamed = Ending(lambda m: m.done("PATCH", f"{m.path(m.shop)}/plans/{plan}", {"name": "Gold"}))
    ask = partial(meeting.refresh, meeting.shop, tokens["refresh_token"])
    answer = await waited(meeting, renamed, lock, "act", tokens["refresh_token"], ask)
    assert claims_of(meeting.kept(answer.ok())["access_token"])["plan"] == "Gold"


@pytest.mark.parametrize("lock", ["token", "session"])
async def test_a_public_application_that_has_lost_its_credentials_meanwhile(meeting: GapScene, lock: str) -> None:
    """It was public when the request met it, then had a secret, and lost it: by the rows, since the request waits for three requests."""
    tokens = await meeting.signed_in(meeting.page)
    lost = Ending(None, row="update all_services set credential_removed_at = now() where slug = 'page'")
    ask = partial(meeting.refresh, meeting.page, tokens["refresh_token"])
    assert outcome(await waited(meeting, lost, lock, "row", tokens["refresh_token"], ask)) == GRANT
    assert is_as_it_was(meeting)


@pytest.mark.parametrize("lock", ["token", "session"])
async def test_an_application_that_holds_fapi_2_meanwhile_keeps_its_token(meeting: GapScene, lock: str) -> None:
    """By its row: the profile needs keys, which this application does not have."""
    tokens = await meeting.signed_in(meeting.shop)
    ask = partial(meeting.refresh, meeting.shop, tokens["refresh_token"])
    holds = Ending(None, row="update all_services set profile = 'fapi2' where slug = 'shop'")
    answer = await waited(meeting, holds, lock, "row", tokens["refresh_token"], ask)
    assert meeting.kept(answer.ok())["refresh_token"] == tokens["refresh_token"]
    assert is_as_it_was(meeting)


@pytest.mark.parametrize("lock", ["token", "session"])
async def test_a_second_factor_that_is_demanded_meanwhile_counts_from_the_next_look(meeting: GapScene, lock: str) -> None:
    """A demand counts from its own moment, and this request began before. Some requests look again, and then it counts for them."""
    meeting.with_second_factor(meeting.boss)
    meeting.tenants.join(meeting.ada, meeting.acme)
    token = (await meeting.signed_in(meeting.shop))["refresh_token"]
    demanded = Ending(lambda m: m.set_rules(mfa_policy="required", mfa_grace_days=0))
    answer = await waited(meeting, demanded, lock, "act", token, partial(meeting.refresh, meeting.shop, token))
    if answer.status == 200:
        token = meeting.kept(answer.json())["refresh_token"]
    else:
        assert outcome(answer) == GRANT
        assert is_as_it_was(meeting)
    assert outcome(await meeting.refresh(meeting.shop, token)) == GRANT
