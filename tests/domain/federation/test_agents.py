"""Agents: what they may ask for, how long, and what a person's answer about one says."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from core.domain.errors import BadRequest, Forbidden
from core.domain.federation.oauth.authorizations import AuthorizationErrorCode, AuthorizationRefused, AuthorizationRequest, Recipient
from core.domain.federation.oauth.consents import DAYS_OFFERED, NOTHING_ALLOWED, ONE_API, USUAL_DAYS, agent_answer, bounded, grant_end
from core.domain.federation.oauth.resources import OfferedResource, OfferedScope
from core.domain.identifiers import AgentGrantId, ClientId, ResourceServerId
from core.domain.identity.sessions import AGENTS_FORBIDDEN, PLATFORM
from core.domain.identity.sign_in import Destination, open_context
from core.frozen import replace

NOW = datetime(2026, 11, 26, tzinfo=UTC)
ORDERS = "https://api.acme.example/orders"
REQUEST = AuthorizationRequest(
    client_id=ClientId("client"),
    recipient=Recipient("https://app.example/callback"),
    scopes=("openid", "email", "offline_access"),
    resources=(ORDERS,),
    foreign_scopes=("read",),
)
API = ResourceServerId(UUID(int=1))
GRANT = AgentGrantId(UUID(int=2))
OFFERED = OfferedResource(
    id=API,
    identifier=ORDERS,
    name="Orders",
    scopes=[
        OfferedScope("read", "See orders", of_permission=False, is_held=True),
        OfferedScope("write", "Order", of_permission=False, is_held=True),
        OfferedScope("wipe", "Wipe all", of_permission=True, is_held=False),
    ],
)


def test_it_asks_for_one_api_and_nothing_of_ours() -> None:
    for named in ((ORDERS,), (ORDERS, ORDERS)):
        asked = bounded(replace(REQUEST, resources=named), is_agent=True, agents_allowed=True)
        assert (asked.scopes, asked.resources, asked.foreign_scopes) == ((), (ORDERS,), ("read",))

    # An ordinary application asks for what it likes, whatever the rule about agents.
    assert bounded(REQUEST, is_agent=False, agents_allowed=False) is REQUEST


@pytest.mark.parametrize(
    ("named", "allowed", "word", "message"),
    [
        ((), True, AuthorizationErrorCode.INVALID_TARGET, ONE_API),
        ((ORDERS, f"{ORDERS}/"), True, AuthorizationErrorCode.INVALID_TARGET, ONE_API),
        ((ORDERS,), False, AuthorizationErrorCode.ACCESS_DENIED, AGENTS_FORBIDDEN),
        ((), False, AuthorizationErrorCode.ACCESS_DENIED, AGENTS_FORBIDDEN),
    ],
)
def test_what_it_may_not_ask_for(named: tuple[str, ...], allowed: bool, word: AuthorizationErrorCode, message: str) -> None:
    with pytest.raises(AuthorizationRefused) as refused:
        bounded(replace(REQUEST, resources=named), is_agent=True, agents_allowed=allowed)
    assert (refused.value.word, refused.value.message) == (word, message)


def test_a_grant_ends_on_one_of_the_days_that_are_offered() -> None:
    assert grant_end(None, NOW) == NOW + timedelta(days=USUAL_DAYS)
    assert max(DAYS_OFFERED) == 90
    for days in range(-1, 100):
        if days in DAYS_OFFERED:
            assert grant_end(days, NOW) == NOW + timedelta(days=days)
        else:
            with pytest.raises(BadRequest):
                grant_end(days, NOW)


def test_an_answer_is_about_all_that_the_page_shows() -> None:
    allowed_before = replace(OFFERED, allowed=["write"])
    ticked = {(API, "read"), (API, "wipe"), (ResourceServerId(UUID(int=9)), "write")}
    answer = agent_answer(allowed_before, ["read", "wipe"], ticked, GRANT, NOW)
    assert (answer.allowed, answer.withheld, answer.id, answer.expires_at) == (["read"], ["write"], GRANT, NOW)
    assert [one.name for one in allowed_before.shown_for_agent(["read"])] == ["read", "write"]


def test_nothing_ticked_is_a_no_and_nothing_offered_is_not() -> None:
    with pytest.raises(AuthorizationRefused, match=NOTHING_ALLOWED):
        agent_answer(OFFERED, ["read"], (), GRANT, NOW)
    assert agent_answer(replace(OFFERED, scopes=[]), [], (), GRANT, NOW).allowed == []


def test_nobody_signs_in_to_an_agent() -> None:
    assert open_context(Destination(PLATFORM, is_open=True)) == PLATFORM
    with pytest.raises(Forbidden):
        open_context(Destination(PLATFORM, is_open=True, is_agent=True))
