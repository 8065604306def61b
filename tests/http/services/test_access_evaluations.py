"""Access evaluations in the form of OpenID AuthZEN, by the rights that a service gives."""

from typing import Any, Final
from uuid import uuid4

from tests.http.client import Received, refused
from tests.http.identity.test_sign_in import last_trips
from tests.http.people import BASE_URL, Person
from tests.http.services.governing import BAD_REQUEST, FORBIDDEN, Government

SHOP: Final = {"type": "service", "id": "shop"}


async def ask(government: Government, path: str, body: Any, *, key: str | None = None) -> Received:
    headers = [("x-api-key", key or government.key)]
    return await government.client.request("POST", f"/access/v1/{path}", body=body, headers=headers)


def user(person: Person) -> dict[str, str]:
    return {"type": "user", "id": str(person.user)}


def question(person: Person, action: str = "read", resource: Any = SHOP) -> dict[str, Any]:
    return {"subject": user(person), "action": {"name": action}, "resource": resource}


async def reader(government: Government) -> str:
    """The shop's end user may read, by the assignment that this returns."""
    await government.permission("read", "write")
    await government.role("editor", ["read"])
    return await government.assigned("editor", user_id=str(government.end_user.user))


async def test_a_decision_says_which_assignment_decides(government: Government) -> None:
    assignment = await reader(government)
    by_id = {"type": "service", "id": str(government.shop.id)}
    for resource in (SHOP, by_id):
        answer = await ask(government, "evaluation", {**question(government.end_user, resource=resource), "context": {"time": "now"}})
        assert answer.ok() == {"decision": True, "context": {"reason": "role", "role": "editor", "assignment_id": assignment}}
    assert last_trips(government.log) == 2
    no = (await ask(government, "evaluation", question(government.end_user, "write"))).ok()
    assert no == {"decision": False, "context": {"reason": "no_role"}}


async def test_whatever_is_unknown_is_a_no_and_no_error(government: Government) -> None:
    await reader(government)
    end_user = government.end_user
    for asked, reason in (
        (question(end_user, "nothing"), "unknown_permission"),
        (question(end_user, resource={"type": "service", "id": "other"}), "unknown_resource"),
        (question(end_user, resource={"type": "document", "id": "shop"}), "unknown_resource"),
        (question(government.stranger), "unknown_subject"),
        ({**question(end_user), "subject": {"type": "group", "id": str(end_user.user)}}, "unknown_subject"),
        ({**question(end_user), "subject": {"type": "user", "id": "alice@example.org"}}, "unknown_subject"),
        ({**question(end_user), "subject": {"type": "user", "id": str(uuid4())}}, "unknown_subject"),
    ):
        assert (await ask(government, "evaluation", asked)).ok() == {"decision": False, "context": {"reason": reason}}
    assert (await ask(government, "evaluation", [])).status == 400
    assert (await ask(government, "evaluation", {"subject": "ada"})).status == 400


def lacking(body: dict[str, Any], *members: str) -> list[tuple[dict[str, Any], str]]:
    """The body without one of the members, each with the member's name. A member `subject.id` is the `id` of `subject`."""
    cut: list[tuple[dict[str, Any], str]] = []
    for member in members:
        outer, _, inner = member.partition(".")
        rest = {name: value for name, value in body[outer].items() if name != inner}
        cut.append(({**body, outer: rest} if inner else {name: value for name, value in body.items() if name != outer}, member))
    return cut


MEMBERS: Final = ("subject", "subject.type", "subject.id", "action", "action.name", "resource", "resource.type", "resource.id")


def is_named(answer: Received, member: str) -> bool:
    """Whether the answer is a 400 whose text names the member and the place that it is missing in."""
    assert refused(answer) == BAD_REQUEST, answer.body
    said = answer.json()["error"]
    return all(word in said for word in member.split("."))


async def test_a_question_that_lacks_something_is_refused_by_its_name(government: Government) -> None:
    """A no would let a mistake of the caller look like a decision."""
    await reader(government)
    whole = question(government.end_user)
    for body, member in lacking(whole, *MEMBERS):
        assert is_named(await ask(government, "evaluation", body), member)
        assert is_named(await ask(government, "evaluations", body), member)
        # Of one among several, the answer says of which. The others are decided, unless a member of a member is missing.
        answer = await ask(government, "evaluations", {"evaluations": [whole, body, whole]})
        if "." in member:
            assert is_named(answer, member)
            assert "evaluations[1]" in answer.json()["error"]
        else:
            error = {"status": 400, "message": f"evaluations[1].{member}: is missing"}
            first, lacks, last = answer.ok()["evaluations"]
            assert first["decision"] is last["decision"] is True
            assert lacks == {"decision": False, "context": {"reason": "incomplete", "error": error}}
    for body, member in lacking(whole, "action", "action.name", "resource", "resource.type", "resource.id", "subject", "subject.type"):
        assert is_named(await ask(government, "search/subject", body), member)
    for body, member in lacking(whole, "subject", "subject.type", "subject.id", "resource", "resource.type", "resource.id"):
        assert is_named(await ask(government, "search/action", body), member)
    # An empty one is none, and null is none.
    for empty in ("", None):
        assert is_named(await ask(government, "evaluation", {**whole, "action": {"name": empty}}), "action.name")
    assert is_named(await ask(government, "evaluations", {**whole, "subject": None}), "subject")
    nothings: list[dict[str, Any]] = [{}, {"evaluations": []}]
    for nothing in nothings:
        assert is_named(await ask(government, "evaluations", nothing), "subject")
    # The request says for all what none of them needs to say.
    parts = {"evaluations": [{}, {"action": {"name": "write"}}]}
    assert [one["decision"] for one in (await ask(government, "evaluations", {**whole, **parts})).ok()["evaluations"]] == [True, False]
    lacking_all = (await ask(government, "evaluations", {"evaluations": [{}]})).ok()
    assert lacking_all["evaluations"][0]["context"]["error"]["message"] == "evaluations[0].subject: is missing"
    # A no ends the others where the request says so, also this one.
    ending = {"evaluations": [{}, whole], "options": {"evaluations_semantic": "deny_on_first_deny"}}
    assert len((await ask(government, "evaluations", ending)).ok()["evaluations"]) == 1
    # What a search looks for, it needs not say.
    asked = {"subject": {"type": "user"}, "action": {"name": "read"}, "resource": SHOP}
    assert (await ask(government, "search/subject", asked)).status == 200
    assert (await ask(government, "search/action", {"subject": user(government.end_user), "resource": SHOP})).status == 200


async def test_a_key_may_come_as_a_bearer_token(government: Government) -> None:
    await reader(government)
    whole, headers = question(government.end_user), [("authorization", f"Bearer {government.key}")]
    for path in ("evaluation", "evaluations", "search/subject", "search/action"):
        answer = await government.client.request("POST", f"/access/v1/{path}", body=whole, headers=headers)
        assert answer.json() == (await ask(government, path, whole)).ok()
    both = [*headers, ("x-api-key", government.key)]
    answer = await government.client.request("POST", "/access/v1/evaluation", body=whole, headers=both)
    assert refused(answer) == BAD_REQUEST
    assert "not in both" in answer.json()["error"]
    # The same permission is needed, of the same service.
    government.people.change("update api_keys set permissions = '{write:users}'")
    assert refused(await government.client.request("POST", "/access/v1/evaluation", body=whole, headers=headers)) == FORBIDDEN
    government.people.change("delete from api_keys")
    gone = await government.client.request("POST", "/access/v1/evaluation", body=whole, headers=headers)
    assert gone.status == 401
    assert "Bearer" in (gone.header("www-authenticate") or "")


async def test_a_bearer_token_is_a_key_there_alone(government: Government) -> None:
    """Elsewhere the service interface takes `X-Api-Key` alone, and nothing else that is a bearer token elsewhere opens the four."""
    headers = [("authorization", f"Bearer {government.key}")]
    for method, path in (("GET", "/api/service/info"), ("GET", "/api/service/users"), ("POST", "/access/v1/search/resource")):
        assert (await government.client.request(method, path, headers=headers)).status == 401
    whole = question(government.end_user)
    token = await government.tenants.token_in(government.end_user, government.shop)
    for shown in (
        f"Bearer {token}",
        f"Basic {government.key}",
        f"Bearer {government.key}, Bearer {government.key}",
        f"Bearer {government.key}x",
        f"Bearer sk_{'x' * 300}",
        "Bearer sk_é",
        "Bearer",
        "Bearer pto_x",
    ):
        answer = await government.client.request("POST", "/access/v1/evaluation", body=whole, headers=[("authorization", shown)])
        assert answer.status == 401, shown


async def test_several_at_once(government: Government) -> None:
    await reader(government)
    parts = [{"action": {"name": "read"}}, {"action": {"name": "write"}}, {"action": {"name": "read"}}]
    base = {"subject": user(government.end_user), "resource": SHOP, "evaluations": parts}
    for semantic, decisions in (
        (None, [True, False, True]),
        ("execute_all", [True, False, True]),
        ("deny_on_first_deny", [True, False]),
        ("permit_on_first_permit", [True]),
    ):
        body = base if semantic is None else {**base, "options": {"evaluations_semantic": semantic}}
        answer = (await ask(government, "evaluations", body)).ok()
        assert [one["decision"] for one in answer["evaluations"]] == decisions
    assert last_trips(government.log) == 2
    # Without a list it is one question.
    one = (await ask(government, "evaluations", question(government.end_user))).ok()
    assert (one["decision"], one["context"]["reason"], "evaluations" in one) == (True, "role", False)
    assert (await ask(government, "evaluations", {**base, "evaluations": [{}] * 51})).status == 400
    assert (await ask(government, "evaluations", {**base, "options": {"evaluations_semantic": "some"}})).status == 400


async def test_the_actions_of_a_user(government: Government) -> None:
    await reader(government)
    await government.role("writer", ["write", "read"])
    await government.assigned("writer", user_id=str(government.end_user.user))
    asked = {"subject": user(government.end_user), "resource": SHOP}
    answer = (await ask(government, "search/action", asked)).ok()
    assert answer == {"results": [{"name": "read"}, {"name": "write"}], "page": {"next_token": ""}}
    # The page stands first (section 8.3).
    assert list(answer) == ["page", "results"]
    for nobody in ({**asked, "subject": user(government.stranger)}, {**asked, "resource": {"type": "service", "id": "other"}}):
        assert (await ask(government, "search/action", nobody)).ok()["results"] == []


async def test_the_subjects_of_an_action(government: Government) -> None:
    await reader(government)
    team = [government.user(email=f"u{number}@user.example") for number in range(60)]
    await government.role("teams", ["write"])
    government.team("alpha", *(government.tenants.join(one, government.acme) for one in team))
    await government.assigned("teams", team="alpha")
    asked = {"subject": {"type": "user"}, "action": {"name": "write"}, "resource": SHOP}
    first = (await ask(government, "search/subject", asked)).ok()
    assert len(first["results"]) == 50
    rest = (await ask(government, "search/subject", {**asked, "page": {"token": first["page"]["next_token"]}})).ok()
    assert rest["page"] == {"next_token": ""}
    found = [one["id"] for one in (*first["results"], *rest["results"])]
    assert sorted(found) == sorted(str(one.user) for one in team)
    assert len(set(found)) == len(found)
    # Whoever is barred has nothing, and nobody has what does not exist.
    government.people.change("update users set deactivated_at = now() where id = %s", team[0].user)
    government.people.change("update service_users set own_since = now(), first_login_at = now() where user_id = %s", team[0].user)
    again = (await ask(government, "search/subject", asked)).ok()
    assert str(team[0].user) not in {one["id"] for one in again["results"]}
    for nothing in (
        {**asked, "action": {"name": "nothing"}},
        {**asked, "subject": {"type": "group"}},
        {**asked, "resource": {"type": "x", "id": "shop"}},
    ):
        assert (await ask(government, "search/subject", nothing)).ok()["results"] == []
    assert refused(await ask(government, "search/subject", {**asked, "page": {"token": "x"}})) == BAD_REQUEST


async def test_a_search_agrees_with_each_decision(government: Government) -> None:
    """Also where the service asks for a role, and for people whom it has only listed."""
    await reader(government)
    government.asks_for_roles()
    government.people.change("update users set deactivated_at = now() where id = %s", government.member.user)
    people = [government.end_user, government.tenants.uses(government.member, government.shop), government.user(email="more@user.example")]
    asked = {"subject": {"type": "user"}, "action": {"name": "read"}, "resource": SHOP}
    found = {one["id"] for one in (await ask(government, "search/subject", asked)).ok()["results"]}
    for person in people:
        decision = (await ask(government, "evaluation", question(person))).ok()["decision"]
        assert decision == (str(person.user) in found)


async def test_resources_are_not_known_here(government: Government) -> None:
    assert (await ask(government, "search/resource", question(government.end_user))).status == 501


async def test_a_key_asks_about_its_own_service_alone(government: Government) -> None:
    await reader(government)
    other = government.tenants.service(government.acme, "other")
    asked = question(government.end_user, resource={"type": "service", "id": str(other.id)})
    assert (await ask(government, "evaluation", asked)).ok()["context"] == {"reason": "unknown_resource"}
    assert (await government.client.request("POST", "/access/v1/evaluation", body=question(government.end_user))).status == 401
    government.people.change("update api_keys set permissions = '{write:users}'")
    assert refused(await ask(government, "evaluation", question(government.end_user))) == FORBIDDEN


async def test_the_configuration_names_what_there_is(government: Government) -> None:
    told = (await government.client.get("/.well-known/authzen-configuration")).ok()
    assert told == {
        "policy_decision_point": BASE_URL,
        "access_evaluation_endpoint": f"{BASE_URL}/access/v1/evaluation",
        "access_evaluations_endpoint": f"{BASE_URL}/access/v1/evaluations",
        "search_subject_endpoint": f"{BASE_URL}/access/v1/search/subject",
        "search_action_endpoint": f"{BASE_URL}/access/v1/search/action",
    }
