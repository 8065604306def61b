"""Attacks on agents. What people, administrators and organizations may do about them is in
`tests/http/federation/resources/test_agents.py`;
here are tampered forms and requests, tokens at the wrong door, and the races of every end with two hundred requests.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final
from uuid import UUID

import pytest
from psycopg.types.json import Jsonb

from core.domain.identifiers import ResourceServerId, ServiceId, UserId
from core.domain.record.events import Actor
from core.domain.secrets import Token
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.cast import all_at_once
from tests.http.client import Received
from tests.http.federation.arriving import left, told
from tests.http.federation.relying import CALLBACK, REVOKE, claims_of, oauth
from tests.http.federation.resources.agents import READ, Agents
from tests.http.federation.resources.asking import BILLS, ORDERS
from tests.http.people import People
from tests.http.signing_in import unlimited

database_url, postern, people = http.database_url, http.postern, http.people
RACERS: Final = 200
_INACTIVE: Final = {"active": False}
WRITE: Final = "orders:write"


@pytest.fixture
def agents(postern: Postern, people: People, log: CapturedLog) -> Agents:
    return Agents(postern, people, unlimited(postern), log)


@pytest.mark.parametrize("days", ["0", "-1", "2", "91", "36500", "30 ", "3e1", "thirty"])
async def test_no_form_sets_another_end(agents: Agents, days: str) -> None:
    agents.api()
    tab = await (await agents.asks()).send(answer="allow", days=days)
    assert tab.status in {400, 422}
    assert agents.people.rows("select from resource_consents") == []
    assert agents.people.rows("select from authorization_codes") == []


async def test_two_ends_in_one_form_are_none(agents: Agents) -> None:
    agents.api()
    tab = await (await agents.asks()).send(answer="allow", days=["7", "90"])
    assert tab.status in {400, 422}
    assert agents.people.rows("select from resource_consents") == []


async def test_nothing_ticked_lets_nobody_in(agents: Agents) -> None:
    api = agents.api()
    other = agents.api(BILLS, scopes=[{"name": "bills:pay", "description": "Pay bills"}])
    for ticked in ([], [f"{api} bills:pay"], [f"{other} bills:pay"], ["orders:read"], [f"{other} {READ}"]):
        tab = await (await agents.asks()).send(answer="allow", scopes=ticked)
        answer = left(tab, CALLBACK)
        assert answer["error"] == "access_denied", ticked
    assert agents.people.rows("select from resource_consents") == []


async def test_a_form_ticks_no_more_than_was_asked(agents: Agents) -> None:
    api = agents.api()
    bills = agents.api(BILLS, scopes=[{"name": "bills:pay", "description": "Pay bills"}])
    tab = await agents.asks(scope=READ)
    ticked = [f"{api} {READ}", f"{api} {WRITE}", f"{bills} bills:pay"]
    code = left(await tab.send(answer="allow", scopes=ticked), CALLBACK)["code"]
    assert agents.kept((await agents.redeem(agents.helper, code)).ok())["scope"] == READ
    assert [row["scopes"] for row in agents.people.rows("select scopes from resource_consents")] == [[READ]]


async def test_one_agent_has_one_api(agents: Agents) -> None:
    """Two at authorize, another one at the token endpoint, none at all, and twice the same."""
    agents.api()
    agents.api(BILLS)
    assert told((await agents.asks(ORDERS, BILLS)).shown, CALLBACK)["error"] == "invalid_target"
    assert (await agents.asks(ORDERS, ORDERS)).place.startswith("/ui/consent")
    code = await agents.allowed(ORDERS, application=agents.helper, scope=READ)
    assert oauth(await agents.redeem(agents.helper, code, resource=BILLS)) == (400, "invalid_target")
    tokens = agents.kept((await agents.redeem(agents.helper, code)).ok())
    for fields in ({"resource": BILLS}, {"scope": f"{READ} {WRITE}"}, {"scope": "openid"}, {"scope": "offline_access"}):
        answer = await agents.refresh(agents.helper, tokens["refresh_token"], **fields)
        assert oauth(answer)[1] in {"invalid_target", "invalid_scope"}, fields
    # A session that got a second API by other means acts nowhere.
    agents.people.change("update sessions set audiences = audiences || audiences where id = %s", agents.session())
    assert oauth(await agents.refresh(agents.helper, tokens["refresh_token"])) == (400, "invalid_grant")
    assert await agents.introspect(agents.desk, tokens["access_token"]) == _INACTIVE


async def test_an_agents_token_opens_nothing_of_ours(agents: Agents) -> None:
    agents.api()
    tab = await agents.asks(scope=f"openid profile email organization roles groups offline_access {READ}")
    for words in ("View your email address", "Recognize you", "your role"):
        assert words not in tab.page.text
    tokens = agents.kept((await agents.redeem(agents.helper, left(await tab.send(answer="allow"), CALLBACK)["code"])).ok())
    assert (tokens["scope"], "id_token" in tokens) == (READ, False)
    assert not {"email", "name", "plan", "is_platform_owner"} & claims_of(tokens["access_token"]).keys()
    token = tokens["access_token"]
    assert (await agents.userinfo(token)).status == 401
    for path in ("/api/user", "/api/organizations", "/api/organizations/acme"):
        assert (await agents.client.get(path, token=token)).status == 401
    answer = await agents.client.post("/api/auth/refresh", {"refresh_token": tokens["refresh_token"]})
    assert answer.status == 401
    assert (await agents.introspect(agents.desk, token))["active"]


async def test_one_persons_consent_is_nobody_elses(agents: Agents) -> None:
    agents.api()
    await agents.let_in()
    eve = agents.people.add("eve@example.org")
    agents.people.change("update users set email_verified_at = now() where id = %s", eve.user)
    assert told((await agents.asks(person=eve, prompt="none")).shown, CALLBACK)["error"] == "consent_required"
    # Nor another agent's, and no form of one person is good for another.
    other = agents.application(agents.acme, "second", secret=True)
    agents.switch(other)
    assert told((await agents.asks(application=other, prompt="none")).shown, CALLBACK)["error"] == "consent_required"
    mine, theirs = await agents.asks(prompt="consent"), await agents.asks(person=eve)
    tab = await mine.send(answer="allow", flow=theirs.page.forms[0].fields["flow"])
    assert tab.status >= 400
    assert len(agents.people.rows("select from resource_consents")) == 1


async def test_a_code_from_before_the_end_opens_nothing_after_it(agents: Agents) -> None:
    agents.api()
    for act in (partial(agents.age, 40), agents.forbid, partial(agents.people.change, "update all_services set agent_since = now()")):
        agents.forbid("allowed")
        agents.people.change("update all_services set agent_since = null")
        code = left(await (await agents.asks(prompt="consent")).send(answer="allow"), CALLBACK)["code"]
        act()
        assert oauth(await agents.redeem(agents.helper, code)) == (400, "invalid_grant")
    assert agents.people.rows("select from sessions where scopes is not null") == []


async def test_an_ordinary_consent_lets_no_agent_act(agents: Agents) -> None:
    """Between the page and the code, and between the code and its redemption, the application becomes an agent."""
    agents.api()
    agents.switch(agents.helper, on=False)
    tab = await agents.asks()
    agents.switch(agents.helper)
    answer = left(await tab.send(answer="allow"), CALLBACK)
    assert agents.grant()["expires_at"] is not None
    assert agents.kept((await agents.redeem(agents.helper, answer["code"])).ok())["expires_in"] == 300
    agents.people.change("delete from consents")
    agents.switch(agents.helper, on=False)
    code = await agents.allowed(ORDERS, application=agents.helper)
    agents.switch(agents.helper)
    assert oauth(await agents.redeem(agents.helper, code)) == (400, "invalid_grant")


_Act = Callable[[Agents, UUID], Awaitable[Any]]


async def _person(agents: Agents, api: UUID) -> None:
    user = UserId(agents.ada.user)
    await agents.postern.federation.consents.revoke_resource(user, ServiceId(agents.helper.service.id), ResourceServerId(api), Actor(user))


async def _administrator(agents: Agents, _api: UUID) -> None:
    path = f"/api/organizations/acme/agent-grants/{agents.grant()['id']}"
    assert (await agents.request("DELETE", path, by=agents.resident(agents.acme, "admin"))).status == 204


async def _all_of_it(agents: Agents, _api: UUID) -> None:
    path = "/api/organizations/acme/services/helper/agent-grants"
    assert (await agents.request("DELETE", path, by=agents.resident(agents.acme, "admin"))).status == 204


async def _forbidden(agents: Agents, _api: UUID) -> None:
    owner, path = agents.resident(agents.acme, "owner"), "/api/organizations/acme/sign-in-rules"
    assert (await agents.request("PATCH", path, {"agents": "forbidden"}, by=owner)).status == 200


async def _forbidden_and_allowed_again(agents: Agents, api: UUID) -> None:
    await _forbidden(agents, api)
    owner, path = agents.resident(agents.acme, "owner", "again"), "/api/organizations/acme/sign-in-rules"
    assert (await agents.request("PATCH", path, {"agents": "allowed"}, by=owner)).status == 200


async def _suspended(agents: Agents, _api: UUID) -> None:
    agents.people.change("update all_organizations set status = 'suspended' where id = %s", agents.acme.id)


async def _deleted(agents: Agents, _api: UUID) -> None:
    owner = agents.resident(agents.acme, "owner")
    assert (await agents.request("DELETE", "/api/organizations/acme/services/helper", by=owner)).status in {200, 202, 204}


async def _api_deleted(agents: Agents, api: UUID) -> None:
    owner = agents.resident(agents.acme, "owner")
    assert (await agents.request("DELETE", f"/api/organizations/acme/resource-servers/{api}", by=owner)).status == 204


async def _over(agents: Agents, _api: UUID) -> None:
    agents.age(40)


async def _membership(agents: Agents, _api: UUID) -> None:
    """The agent is for members alone, and Ada is one no longer."""
    owner = agents.resident(agents.acme, "owner")
    assert (await agents.request("POST", f"/api/organizations/acme/members/{agents.ada.user}", by=owner)).status == 200


_ACTS: Final[dict[str, _Act]] = {
    "the person": _person,
    "an administrator": _administrator,
    "an administrator, for everybody": _all_of_it,
    "the organization forbids agents": _forbidden,
    "the organization forbids and allows them": _forbidden_and_allowed_again,
    "the organization is suspended": _suspended,
    "the application is deleted": _deleted,
    "the API is deleted": _api_deleted,
    "the day has come": _over,
    "the membership ends": _membership,
}


@pytest.mark.parametrize("act", _ACTS)
async def test_two_hundred_refreshes_race_with_the_end(agents: Agents, act: str) -> None:
    """Whoever is quicker: at the next look, each token of each of them is over."""
    api = agents.api()
    if act == "the membership ends":
        agents.people.change("update all_services set sign_in_policy = 'members' where id = %s", agents.helper.service.id)
        agents.tenants.join(agents.ada, agents.acme, "member")
    await agents.let_in()
    refresh_tokens = _sessions(agents)
    answers: list[Received] = []

    async def refresh(token: Token) -> None:
        answers.append(await agents.refresh(agents.helper, token.reveal()))

    half = RACERS // 2
    racers = [partial(refresh, token) for token in refresh_tokens]
    await all_at_once(*racers[:half], partial(_ACTS[act], agents, api), *racers[half:])
    assert len(answers) == RACERS
    won = [agents.kept(answer.json()) for answer in answers if answer.status == 200]
    if act != "the organization is suspended":
        asked = [(await agents.introspect(agents.desk, tokens["access_token"])) for tokens in won]
        assert asked == [_INACTIVE] * len(won)
    again = [(await agents.refresh(agents.helper, tokens["refresh_token"])).status for tokens in won]
    assert [status for status in again if status == 200] == []
    late = [(await agents.refresh(agents.helper, token.reveal())).status for token in refresh_tokens[:10]]
    assert [status for status in late if status == 200] == []


async def test_two_hundred_refreshes_race_with_the_agent_that_gives_its_token_back(agents: Agents) -> None:
    agents.api()
    tokens = await agents.let_in()
    answers: list[Received] = []

    async def refresh() -> None:
        answers.append(await agents.refresh(agents.helper, tokens["refresh_token"]))

    async def give_back() -> None:
        assert (await agents.ask(REVOKE, {"token": tokens["access_token"], **agents.helper.posted})).status == 200

    await all_at_once(*[refresh] * (RACERS // 2), give_back, *[refresh] * (RACERS // 2))
    won = {answer.json()["refresh_token"] for answer in answers if answer.status == 200}
    agents.log.remember(*won)
    for token in (*won, tokens["refresh_token"]):
        assert oauth(await agents.refresh(agents.helper, token)) == (400, "invalid_grant")
    assert await agents.introspect(agents.desk, tokens["access_token"]) == _INACTIVE


def _sessions(agents: Agents) -> list[Token]:
    """As many sessions of Ada's agent as the consent allows."""
    tokens = [agents.postern.foundation.secrets.token() for _ in range(RACERS)]
    agents.log.remember(*(token.reveal() for token in tokens))
    (kept,) = agents.people.rows("select audiences from sessions where id = %s", agents.session())
    for token in tokens:
        session = agents.tenants.session(agents.ada, agents.helper.service).session
        agents.people.change("update sessions set scopes = '{}', audiences = %s where id = %s", Jsonb(kept["audiences"]), session)
        agents.people.change("insert into refresh_tokens (digest, session_id, created_at) values (%s, %s, now())", token.digest(), session)
    return tokens
