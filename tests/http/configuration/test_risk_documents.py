"""Rules for risk in documents: by slugs, in shadow first, and with the exceptions of people left alone."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

import pytest
import trio

from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.client import refused
from tests.http.configuration.test_configuration_endpoints import ACME, PLATFORM, DocumentShops, of_acme
from tests.http.people import People, Person
from tests.http.signing_in import unlimited

PLACE: Final = "/organizations/acme/risk_policies"
RULES: Final = f"{ACME}/risk-policies"
LATER: Final = "2099-01-01T00:00:00Z"
OFFICE: Final = {"kind": "network", "value": "203.0.113.0/24", "ends_at": LATER}


def rule(action: str = "refuse", **when: Any) -> dict[str, Any]:
    return {"id": str(uuid4()), "name": f"Rule {action}", "when": when or {"networks": ["192.0.2.0/24"]}, "action": action, "counts": False}


def of_rules(*policies: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return of_acme(risk_policies={"policies": list(policies), **more})


class RiskDocuments(DocumentShops):
    async def rules(self, by: Person | None = None) -> dict[str, Any]:
        return dict((await self.request("GET", RULES, None, by=by)).ok())

    async def exported(self) -> dict[str, Any]:
        document = (await self.request("GET", f"{ACME}/configuration", None)).ok()["document"]
        return dict(document["organizations"]["acme"]["risk_policies"])

    async def applied(self, document: Any, **more: Any) -> list[str]:
        """The places of what was done. Nothing may be refused."""
        answer = (await self.send("apply", document, **more)).ok()
        assert answer["refused"] == []
        return [one["place"] for one in answer["done"]]

    async def refusal(self, document: Any, **more: Any) -> tuple[str, str, str]:
        """The place, the code and the words of the only change, which is refused."""
        answer = (await self.send("apply", document, **more)).ok()
        (one,) = answer["refused"]
        assert answer["done"] == []
        return one["place"], one["code"], one["message"]


@pytest.fixture
def shops(postern: Postern, people: People, log: CapturedLog) -> RiskDocuments:
    return RiskDocuments(postern, people, unlimited(postern), log)


async def test_what_is_read_is_what_a_plan_finds_and_names_stand_for_ids(shops: RiskDocuments) -> None:
    assert await shops.exported() == {"policies": [], "exceptions": []}
    first, second = rule("nothing", services=["shop", "app"]), rule("refuse", from_hour=22, until_hour=6)
    written = of_acme(
        teams={"helpers": {"name": "Helpers"}},
        risk_policies={
            "policies": [first, second],
            "exceptions": [{"kind": "team", "value": "helpers", "ends_at": "2099-01-01T02:00:00+02:00"}, OFFICE],
        },
    )
    assert await shops.applied(written) == ["/organizations/acme/teams/helpers", PLACE]
    (entry,) = shops.audited("organization.risk_policies.updated")
    assert len(entry["details"]["document"]) == 64
    (team,) = shops.people.rows("select id from teams")
    stored = await shops.rules()
    assert set(stored["policies"][0]["when"]["services"]) == {str(shops.shop.id), str(shops.app.id)}
    assert [one["value"] for one in stored["exceptions"]] == [str(team["id"]), "203.0.113.0/24"]
    exported = await shops.exported()
    assert [one["when"] for one in exported["policies"]] == [{"services": ["app", "shop"]}, {"from_hour": 22, "until_hour": 6}]
    assert exported["exceptions"] == [{"kind": "team", "value": "helpers", "ends_at": LATER}, OFFICE]
    for document in (written, of_acme(risk_policies=exported)):
        assert (await shops.send("plan", document)).ok()["changes"] == []
    # What is gone keeps its id, and the rest can be changed all the same.
    shops.people.change("delete from teams")
    exported = await shops.exported()
    assert exported["exceptions"][0]["value"] == str(team["id"])
    assert (await shops.send("plan", of_acme(risk_policies=exported))).ok()["changes"] == []
    assert await shops.applied(of_acme(risk_policies={"exceptions": [*exported["exceptions"], {**OFFICE, "value": "198.51.100.1"}]}))
    assert (await shops.rules())["policies"] == stored["policies"]


async def test_a_rule_stands_in_shadow_first_and_again_after_a_change(shops: RiskDocuments) -> None:
    one = rule()
    counting = {**one, "counts": True}
    place, code, words = await shops.refusal(of_rules(counting))
    assert (place, code) == (PLACE, "BAD_REQUEST")
    assert "policies[0].counts: save the risk policy as report-only first" in words
    assert await shops.exported() == {"policies": [], "exceptions": []}
    await shops.applied(of_rules(one))
    assert await shops.applied(of_rules(counting)) == [PLACE]
    assert (await shops.rules())["count_since"] is not None
    changed = {**counting, "when": {"networks": ["198.51.100.0/24"]}}
    assert "save the risk policy as report-only first" in (await shops.refusal(of_rules(changed)))[2]
    # What the document leaves out stays: the rule goes on counting.
    assert await shops.applied(of_acme(risk_policies={"exceptions": [OFFICE]})) == [PLACE]
    assert [one["counts"] for one in (await shops.rules())["policies"]] == [True]
    assert "removing an exception early applies" in (await shops.refusal(of_acme(risk_policies={"exceptions": []})))[2]


async def test_a_document_says_no_moment_and_moves_none(shops: RiskDocuments) -> None:
    """Since when a rule counts is what a mailed link is measured by: whoever sends the rule again must not make it younger."""
    one = rule()
    for counts in (False, True):
        await shops.applied(of_rules({**one, "counts": counts}))

    def moments() -> list[str]:
        (row,) = shops.people.rows("select risk_policies from all_organizations where slug = 'acme'")
        return [one["counts_since"] for one in row["risk_policies"] if one["counts"]]

    (since,) = moments()
    exported = await shops.exported()
    assert exported["policies"] == [{**one, "counts": True}]
    assert (await shops.send("plan", of_acme(risk_policies=exported))).ok()["changes"] == []
    other = {**rule("passkey", new_device=True), "counts": False}
    assert await shops.applied(of_rules(other, {**one, "counts": True})) == [PLACE]
    assert moments() == [since]


@pytest.mark.parametrize(
    ("held", "says"),
    [
        ({"policies": [{**rule(), "when": {}}]}, "policies[0].when: the risk policy applies to everyone"),
        ({"policies": [rule(), {**rule(), "name": "Second"}]}, "comes first"),
        ({"policies": [rule(countries=["XX"])]}, "policies[0].when.countries: XX is not a country"),
        ({"policies": [rule(services=["none"])]}, "policies[0].when.services: there is no application «none»"),
        ({"exceptions": [{"kind": "team", "value": "none", "ends_at": LATER}]}, "exceptions[0].value: there is no team «none»"),
        ({"exceptions": [{**OFFICE, "value": "nowhere"}]}, "exceptions[0].value: nowhere is not an IP address or a network"),
        ({"exceptions": [{**OFFICE, "ends_at": "2020-01-01T00:00:00Z"}]}, "exceptions[0].ends_at: is in the past"),
    ],
)
async def test_what_the_endpoint_refuses_is_refused_in_its_words(shops: RiskDocuments, held: Mapping[str, Any], says: str) -> None:
    place, code, words = await shops.refusal(of_acme(risk_policies=held))
    assert (place, code) == (PLACE, "BAD_REQUEST")
    assert says in words


async def test_a_document_names_no_people_and_leaves_their_exceptions(shops: RiskDocuments) -> None:
    person = {"kind": "person", "value": str(shops.admin.user), "ends_at": LATER}
    (fault,) = await shops.problems(of_acme(risk_policies={"exceptions": [person]}))
    assert fault == f"{PLACE}: exceptions[0].kind: must be one of network, team"
    (fault,) = await shops.problems(of_rules({**rule(), "surprise": 1}))
    assert fault.startswith(f"{PLACE}: policies[0]")
    assert (await shops.request("PUT", RULES, {"policies": [], "exceptions": [person]})).status == 200
    assert await shops.exported() == {"policies": [], "exceptions": []}
    await shops.applied(of_rules(rule(), exceptions=[OFFICE]))
    assert [one["kind"] for one in (await shops.rules())["exceptions"]] == ["network", "person"]
    await shops.applied(of_acme(risk_policies={"exceptions": []}))
    assert [one["value"] for one in (await shops.rules())["exceptions"]] == [str(shops.admin.user)]


async def test_another_organizations_rules_and_ids_stay_out_of_reach(shops: RiskDocuments) -> None:
    theirs = shops.people.rows("select id from services where org_id = %s", shops.globex.id)
    assert theirs
    for named in (str(theirs[0]["id"]), str(shops.shop.id)):
        assert "there is no application" in (await shops.refusal(of_rules(rule(services=[named]))))[2]
    shops.people.change(
        "insert into teams (id, org_id, slug, name, created_at, updated_at)"
        " values (gen_random_uuid(), %s, 'theirs', 'Theirs', now(), now())",
        shops.globex.id,
    )
    (team,) = shops.people.rows("select id from teams")
    for named in ("theirs", str(team["id"])):
        exception = {"kind": "team", "value": named, "ends_at": LATER}
        assert "there is no team" in (await shops.refusal(of_acme(risk_policies={"exceptions": [exception]})))[2]
    other = {"postern": 1, "organizations": {shops.globex.slug: {"risk_policies": {"policies": [rule()]}}}}
    assert "only this organization's own people" in (await shops.problems(other))[0]
    assert refused(await shops.send("apply", other)) == (400, "BAD_REQUEST")
    # An id of theirs that the endpoint has taken reads as the id, and tells no name.
    foreign = rule(services=[str(theirs[0]["id"])])
    assert (await shops.request("PUT", RULES, {"policies": [foreign]})).status == 200
    assert (await shops.exported())["policies"][0]["when"]["services"] == [str(theirs[0]["id"])]


async def test_the_capability_and_the_proof_of_the_endpoint_are_asked_for(shops: RiskDocuments) -> None:
    narrow = shops.resident(shops.acme, shops.tenants.role(shops.acme, "narrow", [Capability.SETTINGS_MANAGE]))
    assert (await shops.problems(of_rules(rule()), by=narrow))[0].startswith(PLACE)
    seen = (await shops.request("GET", f"{ACME}/configuration", None, by=narrow)).ok()["document"]["organizations"]["acme"]
    assert "risk_policies" not in seen
    key = await shops.key(Capability.SETTINGS_MANAGE, Capability.RISK_POLICIES_MANAGE)
    assert "it needs the capability connections.manage" in (await shops.problems(of_rules(rule()), key=key))[0]
    able = await shops.key(Capability.SETTINGS_MANAGE, Capability.RISK_POLICIES_MANAGE, Capability.CONNECTIONS_MANAGE)
    assert await shops.applied(of_rules(rule()), key=able) == [PLACE]
    shops.stale(shops.owner)
    assert (await shops.refusal(of_rules(rule())))[:2] == (PLACE, "REAUTHENTICATION_REQUIRED")


async def test_two_documents_at_once_end_as_one_after_the_other_would(shops: RiskDocuments) -> None:
    rules = [rule(), rule("passkey")]
    answers: list[Any] = []

    async def apply(one: Mapping[str, Any]) -> None:
        answers.append((await shops.send("apply", of_rules(one))).ok())

    async with trio.open_nursery() as nursery:
        for one in rules:
            nursery.start_soon(apply, one)
    assert [one["refused"] for one in answers] == [[], []]
    assert [one["id"] for one in (await shops.rules())["policies"]] in [[one["id"]] for one in rules]
    assert len(shops.audited("organization.risk_policies.updated")) == 2


async def test_platform_owners_set_the_rules_of_the_installation(shops: RiskDocuments) -> None:
    boss = shops.people.add(platform_owner=True)
    one = rule("tell_owners", roles=["platform_owner"])
    document = {"postern": 1, "platform": {"risk_policies": {"policies": [one], "exceptions": [OFFICE]}}}
    place = "/platform/risk_policies"
    assert await shops.applied(document, by=boss, place=PLATFORM) == [place]
    shown = (await shops.request("GET", f"{PLATFORM}/configuration", None, by=boss)).ok()
    assert shown["document"]["platform"]["risk_policies"] == {"policies": [one], "exceptions": [OFFICE]}
    assert [one["place"] for one in shown["managed"]] == [place]
    assert (await shops.send("plan", document, by=boss, place=PLATFORM)).ok()["changes"] == []
    for wrong, says in (
        ({"policies": [{**one, "action": "refuse", "counts": True}]}, "save the risk policy as report-only first"),
        ({"policies": [rule(roles=["owner"])]}, "support only the roles platform_owner and none"),
        ({"policies": [rule(services=["shop"])]}, "there is no application «shop»"),
        ({"exceptions": [{"kind": "team", "value": "x", "ends_at": LATER}]}, "there is no team «x»"),
    ):
        tree = {"postern": 1, "platform": {"risk_policies": wrong}}
        at, code, words = await shops.refusal(tree, by=boss, place=PLATFORM)
        assert (at, code, says in words) == (place, "BAD_REQUEST", True), words
    assert "only platform owners" in (await shops.problems(document))[0]
