"""One code or token, many times: at once, again, and by whoever has stolen it."""

from collections import Counter
from functools import partial
from typing import Final

import pytest

from core.domain.identity.refresh_tokens import GRACE
from tests.http.cast import all_at_once
from tests.http.federation.relying import CHALLENGE, claims_of
from tests.security.gaps.meeting import GapScene, outcome

AT_ONCE: Final = 50
GRANT: Final = (400, "invalid_grant")


@pytest.mark.parametrize("kind", ["shop", "page"])
async def test_of_fifty_that_bring_one_code_one_is_let_in(meeting: GapScene, kind: str) -> None:
    application = meeting.shop if kind == "shop" else meeting.page
    code = await meeting.plain(application)
    answers = await all_at_once(*[partial(meeting.redeem, application, code)] * AT_ONCE)
    assert Counter(map(outcome, answers)) == {(200, "tokens"): 1, GRANT: AT_ONCE - 1}
    (winner,) = [meeting.kept(answer.json()) for answer in answers if answer.status == 200]
    (opened,) = meeting.opened()
    assert (str(opened["id"]), opened["revoked_at"]) == (claims_of(winner["access_token"])["sid"], None)
    counts = [len(meeting.people.rows(f"select from {table}")) for table in ("refresh_tokens", "login_events", "service_users")]
    assert counts == [1, 1, 1]


@pytest.mark.parametrize("kind", ["shop", "page"])
async def test_a_code_that_comes_back_ends_its_session(meeting: GapScene, kind: str) -> None:
    """Fifty bring it with another proof. One of them finds a session to end, and reports the theft."""
    application = meeting.shop if kind == "shop" else meeting.page
    code = await meeting.plain(application)
    tokens = meeting.kept((await meeting.redeem(application, code)).ok())
    meeting.people.change("update authorization_codes set redeemed_at = redeemed_at - %s", 2 * GRACE)
    answers = await all_at_once(*[partial(meeting.redeem, application, code, code_verifier=CHALLENGE)] * AT_ONCE)
    assert Counter(map(outcome, answers)) == {GRANT: AT_ONCE}
    assert [row["revoked_at"] is None for row in meeting.opened()] == [False]
    assert len(meeting.audited("security.authorization_code.reused")) == 1
    assert outcome(await meeting.refresh(application, tokens["refresh_token"])) == GRANT


async def test_fifty_that_bring_one_token_get_one_successor(meeting: GapScene) -> None:
    tokens = await meeting.signed_in(meeting.shop)
    answers = await all_at_once(*[partial(meeting.refresh, meeting.shop, tokens["refresh_token"])] * AT_ONCE)
    assert len({meeting.kept(answer.ok())["refresh_token"] for answer in answers}) == 1
    assert len(meeting.people.rows("select from refresh_tokens")) == 2


async def test_a_token_that_comes_back_ends_its_session(meeting: GapScene) -> None:
    tokens = await meeting.signed_in(meeting.shop)
    again = meeting.kept((await meeting.refresh(meeting.shop, tokens["refresh_token"])).ok())
    meeting.people.change("update refresh_tokens set rotated_at = rotated_at - %s where rotated_at is not null", 2 * GRACE)
    answers = await all_at_once(*[partial(meeting.refresh, meeting.shop, tokens["refresh_token"])] * AT_ONCE)
    assert Counter(map(outcome, answers)) == {GRANT: AT_ONCE}
    assert len(meeting.audited("security.refresh_token.reused")) == 1
    assert outcome(await meeting.refresh(meeting.shop, again["refresh_token"])) == GRANT
