"""A request to redeem a code has begun, and has read what it needs. It waits for the account, or for the browser's session, while a fact
ends that would have kept it out. It opens nothing.

The lock is the weakest for which the request waits. Where the endpoint that ends the fact locks the account itself, the request waits for
this endpoint, which ends the code as well. So the row of such a fact ends in the database besides, beside the code: the request must not
rest on the code alone. Only so can the fact end while the request waits for the browser's session, because the request holds the account.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final, LiteralString

import pytest
import trio

from core.domain.secrets import Password
from tests.http.client import Received
from tests.http.federation.relying import Application, claims_of
from tests.http.federation.resources.agents import READ
from tests.http.signing_in import PASSWORD
from tests.security.gaps.meeting import APPROVE, GapScene, outcome

GRANT: Final = (400, "invalid_grant")
CLIENT: Final = (401, "invalid_client")
CLOSED: Final = (403, "access_denied")
TARGET: Final = (400, "invalid_target")
UNAUTHORIZED: Final = (400, "unauthorized_client")
PROOF: Final = (400, "invalid_dpop_proof")

World = Callable[[GapScene, Application | None], Awaitable[str]]


@dataclass(frozen=True)
class EndOfRedemption:
    """How a fact ends, in which world, and what the application is answered. `row` ends it where the endpoint locks the account itself,
    and where time does.
    """

    act: Callable[[GapScene], Awaitable[object]] | None
    world: World = GapScene.plain
    answer: tuple[int, str] = GRANT
    row: LiteralString = ""
    ends_code: bool = False


ENDS: Final[dict[str, EndOfRedemption]] = {
    "the secret is revoked": EndOfRedemption(GapScene.secret_revoked, answer=CLIENT),
    "the service is deleted": EndOfRedemption(GapScene.service_deleted, answer=CLIENT),
    "the organization is suspended": EndOfRedemption(GapScene.suspended, answer=CLOSED),
    "the organization is deleted": EndOfRedemption(GapScene.organization_deleted, answer=CLIENT),
    "the consent is taken back": EndOfRedemption(GapScene.consent_taken_back, row="delete from consents", ends_code=True),
    "the membership ends, for which nobody was asked": EndOfRedemption(
        GapScene.membership_ended, GapScene.of_trusted, row="delete from memberships where role = 'member'", ends_code=True
    ),
    "the membership ends, which the application asks for": EndOfRedemption(
        GapScene.membership_ended, GapScene.of_member, row="delete from memberships where role = 'member'", ends_code=True
    ),
    "the service wants members alone": EndOfRedemption(lambda m: m.set_service(m.shop, sign_in_policy="members")),
    "the service is trusted no longer": EndOfRedemption(lambda m: m.set_service(m.shop, trusted=False), GapScene.of_trusted),
    "the role is taken": EndOfRedemption(
        GapScene.role_taken, GapScene.of_holder, row="delete from relations where service_id is not null", ends_code=True
    ),
    "the API ends": EndOfRedemption(GapScene.api_ended, GapScene.of_api, TARGET),
    "the API admits others": EndOfRedemption(lambda m: m.set_api(admits="named", admitted_services=[]), GapScene.of_api, TARGET),
    "the consent at the API is taken back": EndOfRedemption(
        GapScene.api_taken_back, GapScene.of_api, row="delete from resource_consents", ends_code=True
    ),
    "a scope at the API is refused": EndOfRedemption(
        None, GapScene.of_api, row=f"update resource_consents set scopes = '{{{READ}}}', withheld = '{{{APPROVE}}}'"
    ),
    "terms are due": EndOfRedemption(GapScene.terms_due),
    "the service becomes an agent": EndOfRedemption(lambda m: m.set_service(m.shop, is_agent=True), GapScene.of_api),
    "agents are forbidden": EndOfRedemption(lambda m: m.set_rules(agents="forbidden"), GapScene.of_agent),
    "the agent's consent has come to its end": EndOfRedemption(
        None,
        GapScene.of_agent,
        row="update resource_consents set granted_at = granted_at - interval '9 days', expires_at = now() - interval '1 day'",
    ),
    "the service binds its tokens": EndOfRedemption(lambda m: m.set_service(m.shop, dpop_bound_access_tokens=True), answer=PROOF),
    "the service holds FAPI 2.0": EndOfRedemption(GapScene.fapi2_held, GapScene.of_keyed, CLIENT, ends_code=True),
    "a proxy stands before the service": EndOfRedemption(None, answer=UNAUTHORIZED, row="update all_services set service_type = 'proxy'"),
    "the account is deactivated": EndOfRedemption(GapScene.deactivated, row="update users set deactivated_at = now()", ends_code=True),
    "the provider's word counts no more for a membership that others have listed": EndOfRedemption(
        None, GapScene.of_listed, row="update users set address_vouched_by = 'another/provider' where email = 'ada@example.org'"
    ),
    "the browser's session has come to its end": EndOfRedemption(None, row="update sessions set ends_at = now() - interval '1 hour'"),
    "the browser's session has rested too long": EndOfRedemption(None, row="update sessions set expires_at = now() - interval '1 hour'"),
    "the person signs out": EndOfRedemption(GapScene.signed_out, row="update sessions set revoked_at = now()"),
    "the password is changed": EndOfRedemption(GapScene.password_changed, row="delete from authorization_codes", ends_code=True),
}
OF_PUBLIC: Final[dict[str, EndOfRedemption]] = {
    "the service is deleted": EndOfRedemption(lambda m: m.service_deleted(m.page)),
    "the organization is suspended": EndOfRedemption(GapScene.suspended),
    "the organization is deleted": EndOfRedemption(GapScene.organization_deleted),
    "the service binds its tokens": EndOfRedemption(lambda m: m.set_service(m.page, dpop_bound_access_tokens=True)),
    "the service wants members alone": EndOfRedemption(lambda m: m.set_service(m.page, sign_in_policy="members")),
    "the consent is taken back": EndOfRedemption(lambda m: m.consent_taken_back(m.page), row="delete from consents", ends_code=True),
}


def gaps(ends: dict[str, EndOfRedemption]) -> list[tuple[str, str, str]]:
    """Each fact with each lock, and how it ends: by an act beside the lock, by one that locks the account, or by its row."""
    found = []
    for name, end in ends.items():
        if end.act is not None:
            found.append((name, "account", "act"))
        if end.act is not None and not end.row:
            found.append((name, "browser", "act"))
        # Nobody else can change an account that the request holds.
        found += [(name, lock, "row") for lock in ("account", "browser") if end.row and (lock == "account" or "users" not in end.row)]
    return found


async def refused(meeting: GapScene, application: Application, end: EndOfRedemption, lock: str, how: str) -> None:
    hashed = await meeting.postern.identity.passwords.hash(Password(PASSWORD))
    meeting.people.change("update users set password_hash = %s where id = %s", hashed, meeting.ada.user)
    code = await end.world(meeting, application)
    meeting.log.remember(code)
    ask = partial(meeting.redeem, application, code)
    held = meeting.browsers if lock == "browser" else meeting.holding_account if "users" in end.row else meeting.account
    if how == "row" or end.act is None:
        answer = await meeting.behind(held, ask, end.row)
    else:
        act = partial(end.act, meeting)
        answer = await (meeting.before_the_end_of(act, ask) if end.row else meeting.behind(held, ask, act))
    assert outcome(answer) == end.answer
    meeting.left_nothing()
    codes = meeting.people.rows("select redeemed_at, session_id from authorization_codes")
    ended = (end.ends_code and how == "act") or "authorization_codes" in end.row
    assert codes == ([] if ended else [{"redeemed_at": None, "session_id": None}])


@pytest.mark.parametrize(("name", "lock", "how"), gaps(ENDS))
async def test_an_application_with_a_secret_gets_nothing(meeting: GapScene, name: str, lock: str, how: str) -> None:
    end = ENDS[name]
    await refused(meeting, meeting.helper if end.world is GapScene.of_agent else meeting.shop, end, lock, how)


@pytest.mark.parametrize(("name", "lock", "how"), gaps(OF_PUBLIC))
async def test_an_application_that_was_met_before_gets_nothing(meeting: GapScene, name: str, lock: str, how: str) -> None:
    """A statement of its own has met the application: it has no secret, or signs assertions."""
    await refused(meeting, meeting.page, OF_PUBLIC[name], lock, how)


async def test_a_service_that_changes_its_profile_beside_a_redemption_waits_for_nobody(meeting: GapScene) -> None:
    """The service's row is held. The request has used its code, and waits for this row to count its first user. So the code is no longer
    one of those that end with the profile: the request was first.
    """
    code = await meeting.of_keyed()
    answer = await meeting.before_the_end_of(meeting.fapi2_held, partial(meeting.redeem, meeting.shop, code))
    meeting.kept(answer.ok())
    (opened,) = meeting.opened()
    (used,) = meeting.people.rows("select session_id from authorization_codes")
    assert used["session_id"] == opened["id"]


async def test_a_code_that_ends_with_the_profile_opens_nothing(meeting: GapScene) -> None:
    """The other order: the endpoint has the code's row. It sends its deletion together with its commit, so here the rows change by
    themselves. Nobody else takes a code's row without the account.
    """
    code = await meeting.plain()
    held = "select from authorization_codes where service_id = %s for update", meeting.shop.service.id
    ends = "with held as (update all_services set profile = 'fapi2' where slug = 'shop') delete from authorization_codes"
    assert outcome(await meeting.behind(held, partial(meeting.redeem, meeting.shop, code), ends)) == CLIENT
    meeting.left_nothing()


@pytest.mark.parametrize("lock", ["account", "browser"])
async def test_a_permission_that_is_taken_meanwhile_is_no_scope(meeting: GapScene, lock: str) -> None:
    code = await meeting.of_api()
    meeting.log.remember(code)
    held = meeting.browsers if lock == "browser" else meeting.account
    answer = await meeting.behind(held, partial(meeting.redeem, meeting.shop, code), meeting.permission_taken)
    assert meeting.kept(answer.ok())["scope"].split() == ["openid", READ]


@pytest.mark.parametrize("lock", ["account", "browser"])
async def test_bounds_of_sessions_that_are_set_meanwhile_bound_this_one(meeting: GapScene, lock: str) -> None:
    """The numbers stand in the new session's row, and the hours count from the sign-in, which is two hours old."""
    code = await meeting.code(meeting.shop, auth_time=meeting.postern.foundation.clock.now() - timedelta(hours=2))

    async def bounds() -> None:
        await meeting.set_rules(most_sessions=3)
        await meeting.set_service(meeting.shop, most_sessions=2, session_lifetime_hours=1)

    held = meeting.browsers if lock == "browser" else meeting.account
    answer = await meeting.behind(held, partial(meeting.redeem, meeting.shop, code), bounds)
    tokens = meeting.kept(answer.ok())
    (opened,) = meeting.opened()
    assert (opened["most"], opened["most_in_service"]) == (3, 2)
    assert (await meeting.client.get("/api/user", token=tokens["access_token"])).status == 401


@pytest.mark.parametrize("lock", ["account", "browser"])
async def test_what_is_told_is_told_as_it_is_by_then(meeting: GapScene, lock: str) -> None:
    """Her role is what it is when the application gets it. Her name is the account's, which a request that waits for the browser holds."""
    meeting.tenants.join(meeting.ada, meeting.acme, "admin")
    code = await meeting.code(meeting.shop, scopes="openid profile organization")
    ask = partial(meeting.redeem, meeting.shop, code)
    if lock == "account":
        renamed = partial(meeting.request, "PATCH", "/api/user", {"name": "Augusta"}, by=meeting.ada)
        claims = claims_of(meeting.kept((await meeting.before_the_end_of(renamed, ask)).ok())["id_token"])
        assert claims["name"] == "Augusta"
    else:
        # The endpoint that changes her role locks her account.
        demoted = "update memberships set role = 'member' where role = 'admin'"
        claims = claims_of(meeting.kept((await meeting.behind(meeting.browsers, ask, demoted)).ok())["id_token"])
        assert claims["organization"]["role"] == "member"


@pytest.mark.parametrize("lock", ["account", "browser"])
async def test_what_she_has_bought_is_told_as_it_is_by_then(meeting: GapScene, lock: str) -> None:
    plan = meeting.subscribed()
    code = await meeting.plain()
    held = meeting.browsers if lock == "browser" else meeting.account
    renamed = partial(meeting.done, "PATCH", f"{meeting.path(meeting.shop)}/plans/{plan}", {"name": "Gold"})
    answer = await meeting.behind(held, partial(meeting.redeem, meeting.shop, code), renamed)
    assert claims_of(meeting.kept(answer.ok())["access_token"])["plan"] == "Gold"


async def test_the_second_factor_of_the_browsers_session_is_that_of_the_last_moment(meeting: GapScene) -> None:
    """The endpoint of the proof locks the account."""
    code = await meeting.plain()
    proved = "update sessions set second_factor_at = '2026-01-02 03:04+00'"
    meeting.kept((await meeting.behind(meeting.browsers, partial(meeting.redeem, meeting.shop, code), proved)).ok())
    (row,) = meeting.people.rows("select second_factor_at = '2026-01-02 03:04+00' as is_that from sessions where scopes is not null")
    assert row["is_that"]


async def test_of_two_that_bring_the_code_the_one_that_holds_the_account_wins(meeting: GapScene) -> None:
    """The first waits for the browser's session and the second for the first."""
    code = await meeting.plain()
    answers: list[Received] = []

    async def second() -> None:
        answers.append(await meeting.redeem(meeting.shop, code))

    async with trio.open_nursery() as nursery:

        async def begins() -> None:
            nursery.start_soon(second)
            await meeting.people.all_wait(2)

        first = await meeting.behind(meeting.browsers, partial(meeting.redeem, meeting.shop, code), begins)
    meeting.kept(first.ok())
    assert outcome(answers[0]) == GRANT
    assert [row["revoked_at"] for row in meeting.opened()] == [None]
