"""Agents: a person lets one act for them at one API, until a date, and shuts it out again."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
import trio

from adapters.postgres.federation.consents import ConsentRows
from core.domain.identity.sessions import AGENTS_FORBIDDEN
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.federation.arriving import left, told
from tests.http.federation.devices import CODE
from tests.http.federation.relying import CALLBACK, REVOKE, claims_of, oauth
from tests.http.federation.resources.agents import READ, Agents
from tests.http.federation.resources.asking import BILLS, ORDERS
from tests.http.people import People, Person
from tests.http.signing_in import unlimited
from tests.meanwhile import meanwhile
from tests.patience import PATIENCE

GRANTS: Final = "/api/organizations/acme/agent-grants"
ALL_GRANTS: Final = "/api/organizations/acme/services/helper/agent-grants"
INACTIVE: Final = {"active": False}
WRITE: Final = "orders:write"
DENIED: Final = "access_denied"


@pytest.fixture
def agents(postern: Postern, people: People, log: CapturedLog) -> Agents:
    return Agents(postern, people, unlimited(postern), log)


async def refusals(agents: Agents, *reasons: str) -> None:
    """Waits until these refusals of the agent are kept."""
    owner = agents.resident(agents.acme, "owner")
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: agents.postern.federation.refusal_recorder.run(task_status=task_status))
        with trio.fail_after(PATIENCE):
            found: list[Any] = []
            while sorted(one["reason"] for one in found) != sorted(reasons):
                await trio.sleep(0.05)
                found = (await agents.request("GET", "/api/organizations/acme/services/helper/refusals", by=owner)).ok()["refusals"]
        nursery.cancel_scope.cancel()


def refused_in(tab: Any) -> dict[str, str]:
    return dict(told(tab.shown, CALLBACK))


async def is_shut_out(agents: Agents, tokens: dict[str, Any]) -> None:
    """Neither its refresh token nor its access token is good, and the person is asked again."""
    assert oauth(await agents.refresh(agents.helper, tokens["refresh_token"])) == (400, "invalid_grant")
    assert await agents.introspect(agents.desk, tokens["access_token"]) == INACTIVE
    assert await agents.introspect(agents.helper, tokens["refresh_token"]) == INACTIVE
    assert refused_in(await agents.asks(prompt="none"))["error"] in {"consent_required", DENIED}


async def test_a_person_lets_an_agent_act_for_them(agents: Agents) -> None:
    api = agents.api()
    tab = await agents.asks()
    for words in (
        "Allow Helper to act on your behalf?",
        "is an AI agent of",
        "Orders",
        "See your orders",
        "Order in your name",
        "For how long?",
        ORDERS,
    ):
        assert words in tab.page.text, words
    for days in ("1 day", "7 days", "30 days", "90 days", "You can revoke access at any time", "Until "):
        assert days in tab.page.text
    code = left(await tab.send(answer="allow", scopes=[f"{api} {READ}"]), CALLBACK)["code"]
    tokens = agents.kept((await agents.redeem(agents.helper, code)).ok())
    assert (tokens["scope"], tokens["expires_in"], "id_token" in tokens) == (READ, 300, False)
    claims = claims_of(tokens["access_token"])
    assert (claims["sub"], claims["act"], claims["aud"]) == (str(agents.ada.user), {"sub": agents.helper.client_id}, ORDERS)
    assert claims["exp"] - claims["iat"] == 300
    told_of_it = await agents.introspect(agents.desk, tokens["access_token"])
    assert (told_of_it["active"], told_of_it["sub"], told_of_it["act"]) == (True, str(agents.ada.user), {"sub": agents.helper.client_id})
    assert abs(agents.grant()["expires_at"] - datetime.now(UTC) - timedelta(days=30)) < timedelta(minutes=5)
    refreshed = agents.kept((await agents.refresh(agents.helper, tokens["refresh_token"])).ok())
    assert claims_of(refreshed["access_token"])["act"] == {"sub": agents.helper.client_id}
    of_refresh = await agents.introspect(agents.helper, refreshed["refresh_token"])
    assert (of_refresh["active"], of_refresh["act"]) == (True, {"sub": agents.helper.client_id})
    # Without a question, while the consent lives.
    again = told(await agents.browser().request("GET", agents.address(agents.helper, prompt="none", scope=READ)), CALLBACK)
    assert (await agents.redeem(agents.helper, again["code"])).status == 200


@pytest.mark.parametrize("days", [1, 7, 90])
async def test_it_ends_on_the_chosen_day(agents: Agents, days: int) -> None:
    agents.api()
    tokens = await agents.let_in(days=days)
    end = agents.grant()["expires_at"]
    assert abs(end - datetime.now(UTC) - timedelta(days=days)) < timedelta(minutes=5)
    (session,) = agents.people.rows("select ends_at, parent_id from sessions where id = %s", agents.session())
    # The session hangs on no browser, and lasts at most as long as any session.
    assert (session["ends_at"] <= end, session["parent_id"]) == (True, None)
    (given, *_) = agents.audited("user.consent.given")
    assert (given["details"]["agent"], given["actor_id"]) == (agents.helper.client_id, agents.ada.user)
    assert datetime.fromisoformat(given["details"]["expires_at"]) == end
    agents.age(days)
    await is_shut_out(agents, tokens)
    assert "Allow Helper to act on your behalf?" in (await agents.asks()).page.text


async def test_an_agent_acts_at_one_api_and_learns_nothing(agents: Agents) -> None:
    agents.api()
    agents.api(BILLS)
    answer = refused_in(await agents.asks(ORDERS, BILLS))
    assert (answer["error"], "an agent acts at one API" in answer["error_description"]) == ("invalid_target", True)
    address = agents.address(agents.helper).partition("&resource=")[0]
    assert told(await agents.browser().request("GET", address), CALLBACK)["error"] == "invalid_target"
    tokens = await agents.let_in()
    assert tokens["scope"] == f"{READ} {WRITE}"
    assert (await agents.userinfo(tokens["access_token"])).status == 401
    assert (await agents.client.get("/api/user", token=tokens["access_token"])).status == 401
    await refusals(agents, "agent_target", "agent_target")


async def test_the_api_learns_the_address_and_the_agent_does_not(agents: Agents) -> None:
    agents.api()
    tokens = await agents.let_in()
    for asking, name, username in (
        (agents.helper, "access_token", None),
        (agents.helper, "refresh_token", None),
        (agents.desk, "access_token", agents.ada.email),
        (agents.desk, "refresh_token", agents.ada.email),
    ):
        told_of_it = await agents.introspect(asking, tokens[name])
        assert (told_of_it["active"], told_of_it.get("username")) == (True, username), (asking.client_id, name)
    # The same token, when an ordinary application asks about its own, and when an agent stands for the API.
    of_shop = agents.kept(await agents.tokens())["access_token"]
    agents.switch(agents.desk)
    for asking, username in ((agents.shop, agents.ada.email), (agents.desk, None)):
        told_of_it = await agents.introspect(asking, of_shop)
        assert (told_of_it["active"], told_of_it.get("username")) == (True, username), asking.client_id


async def test_trust_lets_no_agent_act(agents: Agents) -> None:
    agents.api()
    member = agents.resident(agents.acme, "member")
    agents.people.change("update users set email_verified_at = now() where id = %s", member.user)
    for application, asked in ((agents.shop, False), (agents.helper, True)):
        agents.people.change("update all_services set trusted = true where id = %s", application.service.id)
        tab = await agents.asks(application=application, person=member)
        assert tab.place.startswith("/ui/consent") is asked
    assert refused_in(await agents.asks(person=member, prompt="none"))["error"] == "consent_required"
    assert agents.kept(await agents.let_in(person=member))["scope"]


async def test_its_own_tokens_act_for_nobody(agents: Agents) -> None:
    agents.api()
    claims = claims_of((await agents.own(agents.helper, resource=ORDERS, scope=READ)).ok()["access_token"])
    assert (claims["sub"], "act" in claims) == (agents.helper.client_id, False)


async def test_a_device_is_no_way_in_for_an_agent(agents: Agents) -> None:
    agents.api()
    answer = await agents.ask(CODE, {"client_id": agents.helper.client_id, "scope": READ, "resource": ORDERS})
    assert oauth(answer) == (400, "unauthorized_client")
    assert agents.people.rows("select from device_codes") == []


async def test_an_organization_forbids_agents(agents: Agents) -> None:
    agents.api()
    tokens = await agents.let_in()
    owner = agents.resident(agents.acme, "owner", "boss")
    rules = "/api/organizations/acme/sign-in-rules"

    async def change(word: str) -> None:
        assert (await agents.request("PATCH", rules, {"agents": word}, by=owner)).ok()["agents"] == word

    await change("forbidden")
    answer = await agents.refresh(agents.helper, tokens["refresh_token"])
    assert (oauth(answer), answer.json()["error_description"]) == ((400, "invalid_grant"), AGENTS_FORBIDDEN)
    refused = refused_in(await agents.asks())
    assert (refused["error"], refused["error_description"]) == (DENIED, AGENTS_FORBIDDEN)
    assert await agents.introspect(agents.desk, tokens["access_token"]) == INACTIVE
    await refusals(agents, "agents_forbidden", "agents_forbidden")
    # What was allowed before does not come back.
    await change("allowed")
    await is_shut_out(agents, tokens)
    assert agents.kept(await agents.let_in())["scope"]
    (forbade, allowed) = agents.audited("organization.sign_in_rules.updated")
    assert (forbade["details"]["new_agents"], allowed["details"]["old_agents"]) == ("forbidden", "forbidden")


async def test_an_application_becomes_an_agent(agents: Agents) -> None:
    """What the ordinary application had ends at once: it was let in without an end, and learned who the person is."""
    agents.api()
    agents.switch(agents.helper, on=False)
    owner = agents.resident(agents.acme, "owner", "boss")
    service = "/api/organizations/acme/services/helper"
    at_api = agents.kept(await agents.tokens(application=agents.helper))
    plain = await agents.signed_in(agents.helper)
    assert claims_of(at_api["access_token"]).get("act") is None
    changed = (await agents.request("PATCH", service, {"is_agent": True}, by=owner)).ok()
    assert changed["is_agent"] is True
    for tokens in (at_api, plain):
        assert oauth(await agents.refresh(agents.helper, tokens["refresh_token"])) == (400, "invalid_grant")
        assert await agents.introspect(agents.desk, tokens["access_token"]) == INACTIVE
        assert (await agents.userinfo(tokens["access_token"])).status == 401
    assert (await agents.client.get("/api/user", token=plain["access_token"])).status == 401
    assert refused_in(await agents.asks(prompt="none"))["error"] == "consent_required"
    tokens = await agents.let_in()
    # And back: the person let an agent act, and no ordinary application.
    (await agents.request("PATCH", service, {"is_agent": False}, by=owner)).ok()
    assert oauth(await agents.refresh(agents.helper, tokens["refresh_token"])) == (400, "invalid_grant")
    assert await agents.introspect(agents.desk, tokens["access_token"]) == INACTIVE
    # Nor does an access token of before it was an agent live again: not at userinfo, nor anywhere of ours.
    for one in (at_api, plain):
        assert (await agents.userinfo(one["access_token"])).status == 401
        assert await agents.introspect(agents.helper, one["access_token"]) == INACTIVE
    assert (await agents.client.get("/api/user", token=plain["access_token"])).status == 401
    assert refused_in(await agents.asks(prompt="none"))["error"] == "consent_required"
    assert "Allow Helper to access your account?" in (await agents.asks()).page.text
    assert agents.kept(await agents.tokens(application=agents.helper))["scope"]
    (entry, *_) = agents.audited("service.updated")
    assert (entry["details"]["old_is_agent"], entry["details"]["is_agent"]) == (False, True)


async def test_the_last_answer_counts_for_all_of_the_agent(agents: Agents) -> None:
    api = agents.api()
    wide = await agents.let_in()
    tab = await agents.asks(scope=READ, prompt="consent")
    # The page shows what the agent may do already beside what it asks for.
    assert "Order in your name" in tab.page.text
    left(await tab.send(answer="allow", scopes=[f"{api} {READ}"]), CALLBACK)
    assert agents.grant()["scopes"] == [READ]
    assert oauth(await agents.refresh(agents.helper, wide["refresh_token"])) == (400, "invalid_grant")
    assert await agents.introspect(agents.desk, wide["access_token"]) == INACTIVE


async def test_the_person_sees_their_agents_and_ends_one(agents: Agents) -> None:
    api = agents.api()
    agents.kept(await agents.tokens())
    tokens = await agents.let_in()
    tab = await agents.browser().tab().open("/ui/applications")
    for words in ("Helper AI agent of", "it acts on your behalf and can:", "See your orders", "Expires", "last access"):
        assert words in tab.page.text, words
    (number,) = [place for place, form in enumerate(tab.page.forms) if form.action.endswith("/revoke")]
    await tab.send(number)
    assert tab.place == "/ui/applications?done=api_revoked"
    assert ("Helper" in tab.page.text, "Shop" in tab.page.text) == (False, True)
    await is_shut_out(agents, tokens)
    (entry,) = agents.audited("user.consent.revoked")
    assert (entry["details"]["agent"], entry["details"]["resource"]) == (agents.helper.client_id, ORDERS)
    assert agents.people.rows("select from resource_consents where resource_id = %s and id is not null", api) == []


async def test_both_names_stand_in_what_an_agent_causes(agents: Agents, log: CapturedLog) -> None:
    agents.api()
    tokens = await agents.let_in()
    (signed_in,) = [one for one in agents.told() if one["name"] == "user.login.success"]
    assert (signed_in["actor_id"], signed_in["details"]["agent"]) == (agents.ada.user, agents.helper.client_id)
    tokens = agents.kept((await agents.refresh(agents.helper, tokens["refresh_token"])).ok())
    lines = [line for line in log.entries if line.get("route") == "/auth/token"]
    assert {(line["user"], line["agent"]) for line in lines} == {(str(agents.ada.user), agents.helper.client_id)}
    # It gives its own token back; another client's has no effect.
    assert (await agents.ask(REVOKE, {"token": tokens["refresh_token"], **agents.shop.posted})).status == 200
    assert (await agents.introspect(agents.helper, tokens["refresh_token"]))["active"]
    assert (await agents.ask(REVOKE, {"token": tokens["refresh_token"], **agents.helper.posted})).status == 200
    ended = [one for one in (*agents.told(), *agents.told("audit_log")) if one["name"] == "user.logout"]
    assert {one["details"]["agent"] for one in ended} == {agents.helper.client_id}
    assert oauth(await agents.refresh(agents.helper, tokens["refresh_token"])) == (400, "invalid_grant")


def looking_after(agents: Agents) -> tuple[Person, Person]:
    """Who may end what people let agents do, and who may not."""
    return agents.resident(agents.acme, "admin"), agents.resident(agents.acme, "member")


async def test_administrators_see_and_end_grants(agents: Agents) -> None:
    agents.api()
    other = agents.people.add("bob@example.org")
    agents.people.change("update users set email_verified_at = now() where id = %s", other.user)
    tokens = {person.user: await agents.let_in(person=person) for person in (agents.ada, other)}
    admin, member = looking_after(agents)
    found = (await agents.request("GET", GRANTS, by=admin)).ok()
    assert [one["email"] for one in found["grants"]] == ["bob@example.org", "ada@example.org"]
    of_ada = (await agents.request("GET", f"{GRANTS}?user_id={agents.ada.user}&service_id={agents.helper.service.id}", by=admin)).ok()
    (grant,) = of_ada["grants"]
    assert {name: grant[name] for name in ("client_id", "identifier", "api", "scopes", "service_slug")} == {
        "client_id": agents.helper.client_id,
        "identifier": ORDERS,
        "api": "Orders",
        "scopes": [READ, WRITE],
        "service_slug": "helper",
    }
    assert grant["last_used_at"] is not None
    assert (await agents.request("GET", f"{GRANTS}/{grant['id']}", by=admin)).ok() == grant
    assert (await agents.request("DELETE", f"{GRANTS}/{grant['id']}", by=member)).status == 403
    # Another organization finds nothing.
    stranger = agents.resident(agents.globex, "owner")
    for method in ("GET", "DELETE"):
        answer = await agents.request(method, f"/api/organizations/globex/agent-grants/{grant['id']}", by=stranger)
        assert answer.status == 404
    assert (await agents.request("GET", "/api/organizations/globex/agent-grants", by=stranger)).ok()["grants"] == []
    assert (await agents.request("DELETE", f"{GRANTS}/{grant['id']}", by=admin)).status == 204
    assert (await agents.request("DELETE", f"{GRANTS}/{grant['id']}", by=admin)).status == 404
    await is_shut_out(agents, tokens[agents.ada.user])
    (entry,) = agents.audited("user.consent.revoked")
    assert (entry["actor_id"], entry["details"]["user_id"], entry["details"]["agent"]) == (
        admin.user,
        str(agents.ada.user),
        agents.helper.client_id,
    )
    assert (await agents.introspect(agents.desk, tokens[other.user]["access_token"]))["active"]


async def test_a_grant_that_ends_meanwhile_is_gone(agents: Agents, monkeypatch: pytest.MonkeyPatch) -> None:
    """The person takes everything back between the administrator's look and the end."""
    agents.api()
    await agents.let_in()
    admin, _ = looking_after(agents)
    path = f"{GRANTS}/{agents.grant()['id']}"

    def take_back() -> None:
        agents.people.change("delete from consents")
        agents.people.change("update sessions set revoked_at = now() where scopes is not null")

    meanwhile(monkeypatch, ConsentRows, "find_grant", take_back)
    assert (await agents.request("DELETE", path, by=admin)).status == 404
    assert agents.audited("user.consent.revoked") == []


async def test_administrators_end_all_of_an_agent(agents: Agents) -> None:
    agents.api()
    tokens = await agents.let_in()
    admin, member = looking_after(agents)
    assert (await agents.request("DELETE", ALL_GRANTS, by=member)).status == 403
    assert (await agents.request("DELETE", ALL_GRANTS.replace("helper", "shop"), by=admin)).status == 400
    assert (await agents.request("DELETE", ALL_GRANTS.replace("helper", "none"), by=admin)).status == 404
    assert (await agents.request("DELETE", ALL_GRANTS, by=admin)).status == 204
    await is_shut_out(agents, tokens)
    assert (await agents.request("GET", GRANTS, by=admin)).ok()["grants"] == []
    (entry,) = agents.audited("service.agent.ended")
    assert (entry["actor_id"], entry["details"]["agent"]) == (admin.user, agents.helper.client_id)
    assert agents.kept(await agents.let_in())["scope"]


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("en", ("Allow Helper to act on your behalf?", "For how long?", "AI agent of")),
        ("de", ("Helper erlauben, in Ihrem Namen zu handeln?", "Wie lange?", "KI-Agent von")),
        ("fr", ("Autoriser Helper à agir en votre nom", "Pour combien de temps", "Agent IA de")),
        ("es", ("¿Permitir que Helper actúe en su nombre?", "¿Por cuánto tiempo?", "Agente de IA de")),
    ],
)
async def test_the_pages_speak_the_persons_language(agents: Agents, language: str, words: tuple[str, str, str]) -> None:
    agents.api()
    title, until, agent_of = words
    tab = await agents.asks(ui_locales=language)
    assert title in tab.page.text
    assert until in tab.page.text
    agents.people.change("update users set language = %s where id = %s", language, agents.ada.user)
    await agents.let_in()
    assert agent_of in (await agents.browser().tab().open("/ui/applications")).page.text
