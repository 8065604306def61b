"""The configuration of a service's claims over HTTP."""

from collections import Counter
from functools import partial
from typing import Any, Final
from uuid import uuid4

import pytest

from core.domain.claims import OrganizationPart
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import all_at_once
from tests.http.client import Received, refused
from tests.http.federation.claims.telling import Telling
from tests.http.people import People, Person
from tests.http.signing_in import unlimited

CONSTANT: Final = {"name": "level", "source": "constant", "argument": 7, "into": ["id_token"]}


class ClaimScene(Telling):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.speaker = self.admin

    async def claims(
        self, method: str, path: str = "", body: Any = None, *, of: str = "shop", by: Person | None = None, at: str = "acme"
    ) -> Received:
        return await self.request(method, f"/api/organizations/{at}/services/{of}/claims{path}", body, by=by)

    async def listed(self) -> list[dict[str, Any]]:
        answer = await self.claims("GET")
        assert answer.status == 200
        listed: list[dict[str, Any]] = answer.json()
        return listed


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> ClaimScene:
    return ClaimScene(postern, people, unlimited(postern), log)


async def test_claims_are_made_changed_and_deleted(scene: ClaimScene) -> None:
    made = (await scene.claims("POST", body=CONSTANT)).ok(201)
    assert {name: made[name] for name in CONSTANT} == CONSTANT
    assert made["person_writes"] is None
    assert await scene.listed() == [made]
    changed = (await scene.claims("PATCH", f"/{made['id']}", {"name": "grade", "into": ["userinfo", "saml"]})).ok()
    assert changed == {**made, "name": "grade", "into": ["userinfo", "saml"]}
    # Nothing changes, so nothing is recorded.
    assert (await scene.claims("PATCH", f"/{made['id']}", {"name": "grade"})).ok() == changed
    changed = (await scene.claims("PATCH", f"/{made['id']}", {"source": "teams", "argument": None})).ok()
    assert (changed["source"], changed["argument"]) == ("teams", None)
    assert (await scene.claims("DELETE", f"/{made['id']}")).status == 204
    assert (await scene.claims("DELETE", f"/{made['id']}")).status == 404
    assert (await scene.claims("PATCH", f"/{made['id']}", {"name": "grade"})).status == 404
    assert await scene.listed() == []
    told, audited = scene.told(), scene.audited("service.claim.%")
    assert [one["name"] for one in told] == [
        *("service.claim.created", "service.claim.updated", "service.claim.updated", "service.claim.deleted")
    ]
    assert [one["action"] for one in audited] == [one["name"] for one in told]
    # A constant may be a secret of the application's, so an event does not tell it.
    assert told[0]["details"] == {
        "service_slug": "shop",
        "claim_id": made["id"],
        "claim": "level",
        "source": "constant",
        "argument": None,
        "into": ["id_token"],
    }
    assert (told[1]["details"]["old_claim"], told[1]["details"]["old_into"]) == ("level", ["id_token"])
    assert {(one["organization_id"], one["target_id"]) for one in audited} == {(scene.acme.id, str(scene.shop.service.id))}


REFUSED: Final[dict[str, dict[str, Any]]] = {
    "no name": {"name": ""},
    "a long name": {"name": "n" * 201},
    "a name with a space": {"name": "cost center"},
    "a name with markup": {"name": "<b>"},
    "a name of a protocol": {"name": "sub"},
    "a name of ours": {"name": "is_platform_owner"},
    "a standard claim that we fill": {"name": "preferred_username"},
    "a name like ours": {"name": "Organization_role"},
    "nowhere": {"into": []},
    "twice the same place": {"into": ["saml", "saml"]},
    "no such place": {"into": ["cookie"]},
    "no such source": {"source": "password"},
    "a constant of nothing": {"argument": None},
    "a large constant": {"argument": "x" * 1023},
    "a large constant of other letters": {"argument": "\N{SNOWMAN}" * 400},
    "a deep constant": {"argument": [[[[[[[1]]]]]]]},
    "a control character": {"argument": "a\x00b"},
    "a control character as a name": {"argument": {"a\nb": 1}},
    "a number that others read otherwise": {"argument": 2**53},
    "a huge number": {"argument": [1e300]},
    "a number of hundreds of digits": {"argument": [10**400]},
    "an object into an assertion": {"argument": {"a": 1}, "into": ["saml"]},
    "lists of lists into an assertion": {"argument": [["a"]], "into": ["id_token", "saml"]},
    "a field without its key": {"source": "person_field", "argument": None},
    "a field that the organization does not have": {"source": "organization_field", "argument": "nickname"},
    "a field that the installation does not have": {"source": "person_field", "argument": "cost_center"},
    "another organization's field": {"source": "organization_field", "argument": "theirs"},
    "no part of the organization": {"source": "organization", "argument": None},
    "no such part": {"source": "organization", "argument": "owner"},
    "an argument that nobody reads": {"source": "roles", "argument": "editor"},
}


async def test_what_is_refused(scene: ClaimScene) -> None:
    scene.field(None, "nickname")
    scene.field(scene.acme, "cost_center")
    scene.field(scene.globex, "theirs")
    kept = (await scene.claims("POST", body={**CONSTANT, "name": "kept"})).ok(201)
    for reason, changes in REFUSED.items():
        assert (await scene.claims("POST", body={**CONSTANT, **changes})).status == 400, reason
        assert (await scene.claims("PATCH", f"/{kept['id']}", changes)).status == 400, reason
    assert (await scene.claims("PATCH", f"/{kept['id']}", {})).status == 400
    assert await scene.listed() == [kept]


async def test_a_constant_holds_any_value_of_json(scene: ClaimScene) -> None:
    constant = [True, False, None, 1.5, "text", {"on": True, "off": None}]
    made = (await scene.claims("POST", body={**CONSTANT, "argument": constant})).ok(201)
    assert made["argument"] == constant
    assert await scene.listed() == [made]


@pytest.mark.parametrize("part", OrganizationPart)
async def test_a_claim_is_made_of_each_part_of_the_organization(scene: ClaimScene, part: OrganizationPart) -> None:
    made = (await scene.claims("POST", body={**CONSTANT, "source": "organization", "argument": part})).ok(201)
    assert (made["source"], made["argument"]) == ("organization", part)
    assert await scene.listed() == [made]


async def test_an_assertion_has_names_of_its_own(scene: ClaimScene) -> None:
    assert (await scene.claims("POST", body={**CONSTANT, "name": "roles", "into": ["saml"]})).status == 201
    assert (await scene.claims("POST", body={**CONSTANT, "name": "https://aws.example/Role", "into": ["saml"]})).status == 201
    assert (await scene.claims("POST", body={**CONSTANT, "name": "groups", "into": ["saml", "id_token"]})).status == 400


async def test_a_field_that_the_person_may_write_is_marked(scene: ClaimScene) -> None:
    scene.field(scene.acme, "cost_center")
    scene.field(scene.acme, "desk", written_by=["administrator", "person"])
    scene.field(None, "desk", scope="profile", written_by=["person"])
    for name, source, key, marked in (
        ("a", "organization_field", "cost_center", False),
        ("b", "organization_field", "desk", True),
        ("c", "person_field", "desk", True),
    ):
        body = {"name": name, "source": source, "argument": key, "into": ["userinfo"]}
        assert (await scene.claims("POST", body=body)).ok(201)["person_writes"] is marked
    assert [one["person_writes"] for one in await scene.listed()] == [False, True, True]
    scene.people.change("delete from profile_fields where key = 'desk'")
    assert [one["person_writes"] for one in await scene.listed()] == [False, None, None]


async def test_of_two_claims_of_one_name_one_is_made(scene: ClaimScene) -> None:
    for _ in range(3):
        made = await all_at_once(*[partial(scene.claims, "POST", body=CONSTANT) for _ in range(4)])
        assert Counter(one.status for one in made) == {201: 1, 409: 3}
        scene.people.change("delete from service_claims where name = 'level'")
    first = (await scene.claims("POST", body=CONSTANT)).ok(201)
    second = (await scene.claims("POST", body={**CONSTANT, "name": "grade"})).ok(201)
    assert (await scene.claims("PATCH", f"/{second['id']}", {"name": "level"})).status == 409
    assert [one["id"] for one in await scene.listed()] == [second["id"], first["id"]]
    # Another service may use the name.
    assert (await scene.claims("POST", body=CONSTANT, of="page")).status == 201


async def test_a_name_is_taken_once_in_each_service(scene: ClaimScene) -> None:
    first = (await scene.claims("POST", body=CONSTANT)).ok(201)
    assert refused(await scene.claims("POST", body={**CONSTANT, "argument": 8})) == (409, "CONFLICT")
    second = (await scene.claims("POST", body={**CONSTANT, "name": "grade"})).ok(201)
    assert refused(await scene.claims("PATCH", f"/{second['id']}", {"name": "level"})) == (409, "CONFLICT")
    assert await scene.listed() == [second, first]
    assert [entry["action"] for entry in scene.audited("service.claim.%")] == ["service.claim.created"] * 2


async def test_a_service_has_at_most_fifty(scene: ClaimScene) -> None:
    for number in range(49):
        scene.claim(scene.shop, f"c{number}", "plan")
    assert Counter(
        one.status
        for one in await all_at_once(*[partial(scene.claims, "POST", body={**CONSTANT, "name": f"n{number}"}) for number in range(3)])
    ) == {201: 1, 400: 2}


async def test_nobody_reaches_the_claims_of_another_organization(scene: ClaimScene) -> None:
    scene.claim(scene.theirs, "theirs", "plan")
    (row,) = scene.people.rows("select id from service_claims")
    stranger = scene.resident(scene.globex, "owner")
    for by, at, status in ((scene.admin, "globex", 403), (stranger, "acme", 403), (scene.admin, "acme", 404)):
        for method, body in (("PATCH", {"name": "mine"}), ("DELETE", None)):
            assert (await scene.claims(method, f"/{row['id']}", body, by=by, at=at)).status == status
    assert (await scene.claims("GET", of="no-such")).status == 404
    assert (await scene.claims("POST", body=CONSTANT, of="no-such")).status == 404
    assert (await scene.claims("GET", by=stranger)).status == 403
    assert await scene.listed() == []
    assert (await scene.claims("DELETE", f"/{uuid4()}")).status == 404
    (kept,) = scene.people.rows("select name from service_claims")
    assert kept["name"] == "theirs"


async def test_members_look_and_managers_of_services_change(scene: ClaimScene) -> None:
    member = scene.resident(scene.acme, "member")
    manager = scene.resident(scene.acme, scene.tenants.role(scene.acme, "apps", [Capability.SERVICES_MANAGE]))
    made = (await scene.claims("POST", body=CONSTANT, by=manager)).ok(201)
    assert (await scene.claims("GET", by=member)).status == 200
    for method, path, body in (("POST", "", CONSTANT), ("PATCH", f"/{made['id']}", {"name": "x"}), ("DELETE", f"/{made['id']}", None)):
        assert (await scene.claims(method, path, body, by=member)).status == 403


async def test_claims_go_with_their_service(scene: ClaimScene) -> None:
    scene.claim(scene.shop, "gone", "plan")
    scene.people.change("delete from all_services where id = %s", scene.shop.service.id)
    assert scene.people.rows("select from service_claims") == []
