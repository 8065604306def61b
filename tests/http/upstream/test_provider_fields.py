"""The claims of an organization's own provider go into the organization's fields at each sign-in, as its mapping says."""

from typing import Any, Final

from tests.http.client import refused
from tests.http.people import Person
from tests.http.upstream.scene import UpstreamScene

FIELDS: Final = "/api/organizations/acme/profile-fields"


async def declare(scene: UpstreamScene, owner: Person, key: str, kind: str = "text", *writers: str, **more: Any) -> None:
    body = {"key": key, "label": key, "kind": kind, "written_by": list(writers or ("provider",)), **more}
    assert (await scene.request("POST", FIELDS, body, by=owner)).status == 201


async def change(scene: UpstreamScene, owner: Person, provider: str, mapping: dict[str, str]) -> tuple[int, Any]:
    path = f"/api/organizations/acme/upstream-providers/{provider}"
    answer = await scene.request("PATCH", path, {"profile_mapping": mapping}, by=owner)
    return answer.status, answer.json()


def kept(scene: UpstreamScene, person: Person) -> dict[str, Any]:
    rows = scene.people.rows(
        "select jsonb_object_agg(fields.key, profile_values.values -> fields.id::text) as told from profile_values"
        " join profile_fields as fields on profile_values.values ? fields.id::text where user_id = %s",
        person.user,
    )
    return dict(rows[0]["told"] or {})


async def enter(scene: UpstreamScene, provider: str, **claims: Any) -> str:
    scene.sits(word="own", **claims)
    answer = await scene.go(scene.browser(), "?org=acme", word=provider)
    assert answer.status == 303, answer.body
    return answer.header("location") or ""


async def test_mapped_claims_are_kept_at_each_sign_in_and_mistakes_let_people_in(scene: UpstreamScene) -> None:
    ada, owner = scene.verified(), scene.resident(scene.acme, "owner")
    scene.tenants.join(ada, scene.acme)
    provider = await scene.own_provider()
    for key, kind in (("department", "text"), ("grade", "number"), ("groups", "list")):
        await declare(scene, owner, key, kind)
    await declare(scene, owner, "locked", "text", "administrator")
    mapping = {"dept": "department", "level": "grade", "https://idp.example/groups": "groups", "other": "locked", "x": "no_such_field"}
    status, shown = await change(scene, owner, provider, mapping)
    assert (status, shown["profile_mapping"]) == (200, mapping)
    assert await enter(scene, provider, dept="Sales", level=3, **{"https://idp.example/groups": ["a", "b"]}) == "/ui"
    assert kept(scene, ada) == {"department": "Sales", "grade": 3, "groups": ["a", "b"]}
    # Wrong values and fields that providers do not write are left out. A claim that is missing changes nothing.
    assert await enter(scene, provider, dept={"a": 1}, level=4, other="x", x="y") == "/ui"
    assert await enter(scene, provider, level=10**400) == "/ui"
    assert kept(scene, ada) == {"department": "Sales", "grade": 4, "groups": ["a", "b"]}
    lines = scene.log.events("provider_values_ignored")
    assert [line["keys"] for line in lines] == [["department", "locked", "no_such_field"], ["grade"]]
    told = [one["details"] for one in scene.audited("user.fields.updated")]
    assert told == [{"keys": ["department", "grade", "groups"], "written_by": "provider"}, {"keys": ["grade"], "written_by": "provider"}]


async def test_without_a_tie_or_a_mapping_nothing_is_kept(scene: UpstreamScene) -> None:
    scene.verified()
    owner = scene.resident(scene.acme, "owner")
    provider = await scene.own_provider()
    await declare(scene, owner, "department")
    await enter(scene, provider, department="Sales")
    assert (await change(scene, owner, provider, {"department": "department"}))[0] == 200
    await enter(scene, provider, department="Sales")
    assert scene.people.rows("select user_id from profile_values") == []


async def test_a_mapping_has_limits(scene: UpstreamScene) -> None:
    owner = scene.resident(scene.acme, "owner")
    provider = await scene.own_provider()
    for wrong in (
        {"": "department"},
        {"a": "Not A Key"},
        {"a": "department", "b": "department"},
        {"a" * 201: "department"},
        {f"claim{number}": f"field_{number}" for number in range(51)},
    ):
        path = f"/api/organizations/acme/upstream-providers/{provider}"
        assert refused(await scene.request("PATCH", path, {"profile_mapping": wrong}, by=owner)) == (400, "BAD_REQUEST")
