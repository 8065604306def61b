"""Fields over HTTP: what an organization, or the installation, keeps of people. Nobody else's answer ever shows a value."""

from typing import Any, Final
from uuid import UUID, uuid4

import pytest

from adapters.postgres.upkeep.purging import PostgresDeletedProfileFields
from core.domain.identifiers import OrganizationId, UserId
from core.domain.secrets import Token
from core.domain.services.api_keys import Permission
from core.domain.tenancy.profile_fields import MOST_FIELDS, purge_job
from core.domain.tenancy.roles import Capability
from core.usecases.jobs import Purge
from core.usecases.tenancy.profile_fields import ProviderValues
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Shops, all_at_once
from tests.http.client import Client, Received, refused
from tests.http.people import People, Person
from tests.http.tenants import UsedService

FIELDS: Final = "/api/organizations/acme/profile-fields"
OWN: Final = "/api/user/profile"
PLATFORM: Final = "/api/platform/profile-fields"
FORBIDDEN, BAD_REQUEST, NOT_FOUND, CONFLICT = (403, "FORBIDDEN"), (400, "BAD_REQUEST"), (404, "NOT_FOUND"), (409, "CONFLICT")


class FieldScene(Shops):
    """Acme and globex, each with an owner and a shop; Ada is a member of acme, Bob uses acme's shop, and Cid belongs to both."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner, self.ada = self.resident(self.acme, "owner"), self.resident(self.acme, "member", "ada")
        self.other_owner = self.resident(self.globex, "owner")
        self.bob, self.cid = self.user(self.shop), self.user(self.shop, self.theirs)
        self.speaker = self.owner
        self.platform = self.people.add("root@example.org", platform_owner=True)

    async def declare(self, key: str, kind: str = "text", *, where: str = FIELDS, by: Person | None = None, **more: Any) -> Received:
        return await self.request("POST", where, {"key": key, "label": key.title(), "kind": kind, **more}, by=by)

    async def keep(self, person: Person, values: dict[str, Any], *, at: str = "acme", by: Person | None = None) -> Received:
        return await self.request("PATCH", f"/api/organizations/{at}/users/{person.user}/profile", {"values": values}, by=by)

    async def kept(self, person: Person, *, at: str = "acme", by: Person | None = None) -> Received:
        return await self.request("GET", f"/api/organizations/{at}/users/{person.user}/profile", by=by)

    async def impersonated(self, person: Person) -> str:
        """The token of a platform owner who acts in the person's name."""
        seen = self.tenants.session(person, self.acme)
        by = (self.platform.user, self.postern.foundation.ids.new())
        self.people.change("update sessions set impersonator_id = %s, impersonation_id = %s where id = %s", *by, seen.session)
        return await self.tenants.token(seen, self.acme, token_use="impersonation", impersonator=str(self.platform.user))

    def key(self, service: UsedService) -> str:
        text = self.postern.foundation.secrets.key("sk").reveal()
        self.people.change(
            "insert into api_keys (id, service_id, name, prefix, digest, permissions, created_by, created_at)"
            " values (%s, %s, 'key', %s, %s, %s, %s, now())",
            self.postern.foundation.ids.new(),
            service.id,
            text[:9],
            Token(text).digest(),
            [str(permission) for permission in Permission],
            self.owner.user,
        )
        return text

    async def own(self, person: Person) -> dict[str | None, Any]:
        answer = await self.request("GET", OWN, by=person)
        return {one["organization"]: one["values"] for one in answer.ok()["profiles"]}

    async def write_own(self, person: Person, values: dict[str, Any], organization: str | None = None) -> Received:
        return await self.request("PATCH", OWN, {"values": values, "organization": organization}, by=person)


@pytest.fixture
def scene(postern: Postern, people: People, client: Client, log: CapturedLog) -> FieldScene:
    return FieldScene(postern, people, client, log)


async def test_a_field_is_declared_read_changed_and_deleted_and_all_of_it_is_on_record(scene: FieldScene) -> None:
    made = (await scene.declare("department", "choice", rule={"choices": ["Sales", " Support "]}, written_by=["person"])).ok(201)
    assert (made["key"], made["label"], made["rule"]["choices"], made["position"]) == ("department", "Department", ["Sales", "Support"], 0)
    second = (await scene.declare("hired", "date")).ok(201)
    assert (second["position"], second["written_by"]) == (1, ["administrator"])
    path = f"{FIELDS}/department"
    changed = (await scene.request("PATCH", path, {"label": "Team", "position": 7, "written_by": ["administrator", "person"]})).ok()
    assert (changed["label"], changed["rule"], changed["written_by"]) == ("Team", made["rule"], ["administrator", "person"])
    listed = (await scene.request("GET", FIELDS, by=scene.ada)).json()
    assert [one["key"] for one in listed] == ["hired", "department"]
    assert (await scene.request("DELETE", path)).status == 204
    assert refused(await scene.request("DELETE", path)) == NOT_FOUND
    assert [one["key"] for one in (await scene.request("GET", FIELDS)).json()] == ["hired"]
    told = [(one["name"], one["details"]["key"]) for one in scene.told() if one["name"].startswith("profile_field")]
    assert told == [
        ("profile_field.created", "department"),
        ("profile_field.created", "hired"),
        ("profile_field.updated", "department"),
        ("profile_field.deleted", "department"),
    ]
    (entry,) = scene.audited("profile_field.updated")
    assert (entry["target_type"], entry["details"]["changed"]) == ("profile_field", ["label", "written_by", "position"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": "1st"},
        {"key": "Upper"},
        {"key": "a" * 51},
        {"label": " "},
        {"label": "x" * 101},
        {"kind": "choice"},
        {"rule": {"choices": ["a"]}},
        {"kind": "choice", "rule": {"choices": ["a", "a"]}},
        {"kind": "choice", "rule": {"choices": ["a", " "]}},
        {"kind": "list", "rule": {"choices": ["x" * 101]}},
        {"kind": "choice", "rule": {"choices": [str(one) for one in range(101)]}},
        {"kind": "number", "rule": {"minimum": 2, "maximum": 1}},
        {"kind": "date", "rule": {"earliest": "2026-02-30"}},
        {"kind": "date", "rule": {"earliest": "2026-03-02", "latest": "2026-03-01"}},
        {"rule": {"min_length": 5, "max_length": 4}},
        {"rule": {"max_length": 1001}},
        {"written_by": []},
        {"position": 1000},
        {"asked_at": "sign_in"},
        {"required": True, "written_by": ["person"]},
    ],
    ids=str,
)
async def test_a_field_that_contradicts_itself_is_refused(scene: FieldScene, wrong: dict[str, Any]) -> None:
    body = {"key": "department", "label": "Department", "kind": "text", **wrong}
    assert refused(await scene.request("POST", FIELDS, body)) == BAD_REQUEST
    assert (await scene.request("GET", FIELDS)).json() == []


async def test_a_field_takes_the_position_it_is_given(scene: FieldScene) -> None:
    assert (await scene.declare("hired", "date", position=7)).ok(201)["position"] == 7
    assert (await scene.declare("grade", "number", position=3)).ok(201)["position"] == 3
    assert [one["key"] for one in (await scene.request("GET", FIELDS)).json()] == ["grade", "hired"]


async def test_a_change_that_changes_nothing_is_not_on_record(scene: FieldScene) -> None:
    made = (await scene.declare("department")).ok(201)
    assert (await scene.request("PATCH", f"{FIELDS}/department", {"label": " Department "})).ok() == made
    assert refused(await scene.request("PATCH", f"{FIELDS}/department", {})) == BAD_REQUEST
    assert scene.audited("profile_field.updated") == []
    assert [one["name"] for one in scene.told()] == ["profile_field.created"]


async def test_only_those_who_manage_the_settings_declare_fields(scene: FieldScene) -> None:
    keeper = scene.resident(scene.acme, scene.tenants.role(scene.acme, "keeper", [Capability.SETTINGS_MANAGE]), "keeper")
    assert (await scene.declare("department", by=keeper)).status == 201
    for stranger in (scene.ada, scene.bob, scene.other_owner, scene.platform):
        assert refused(await scene.declare("other", by=stranger)) == FORBIDDEN
        assert refused(await scene.request("PATCH", f"{FIELDS}/department", {"label": "x"}, by=stranger)) == FORBIDDEN
        assert refused(await scene.request("DELETE", f"{FIELDS}/department", by=stranger)) == FORBIDDEN


async def test_of_many_who_declare_one_key_one_does_and_fifty_is_the_end(scene: FieldScene) -> None:
    answers = await all_at_once(*[lambda: scene.declare("department") for _ in range(10)])
    assert sorted(one.status for one in answers) == [201, *[409] * 9]
    for number in range(MOST_FIELDS - 3):
        (await scene.declare(f"field_{number}")).ok(201)
    answers = await all_at_once(*[lambda name=f"last_{number}": scene.declare(name) for number in range(6)])
    assert sorted(one.status for one in answers) == [201, 201, *[400] * 4]
    # Another organization has its own fifty, and may use the same keys.
    assert (await scene.declare("department", where="/api/organizations/globex/profile-fields", by=scene.other_owner)).status == 201


async def test_the_fifty_first_field_is_refused(scene: FieldScene) -> None:
    scene.people.change(
        "insert into profile_fields (id, org_id, key, label, kind, written_by, created_at, updated_at)"
        " select gen_random_uuid(), %s, 'field_' || n, 'F', 'text', '{administrator}', now(), now() from generate_series(1, %s) as n",
        *(scene.acme.id, MOST_FIELDS),
    )
    assert refused(await scene.declare("one_more")) == BAD_REQUEST
    assert len((await scene.request("GET", FIELDS)).json()) == MOST_FIELDS
    assert scene.audited("profile_field.created") == []


@pytest.mark.parametrize(
    ("kind", "rule", "good", "bad"),
    [
        ("text", {"min_length": 2, "max_length": 3}, ["ab", "  abc "], ["a", "abcd", 1, True, ["ab"], {"a": 1}]),
        ("number", {"minimum": 0, "maximum": 1}, [0, 1, 0.5], [-1, 2, "1", True, [1], 10**400]),
        ("boolean", {}, [True, False], ["yes", 0, []]),
        (
            "date",
            {"earliest": "2026-01-01", "latest": "2026-12-31"},
            ["2026-07-31"],
            ["2025-12-31", "2027-01-01", "2026-02-30", "1.7.26", 20260731],
        ),
        ("choice", {"choices": ["a", "b"]}, ["a"], ["c", "A", ["a"]]),
        ("list", {"max_length": 2}, [["ab", "c"]], [["abc"], ["a", " "]]),
        ("list", {"max_items": 2, "choices": ["a", "b"]}, [["a"], ["b", "a"]], [["c"], ["a", "a"], ["a", "b", "a"], "a", [1], [["a"]]]),
    ],
)
async def test_each_kind_takes_its_values_and_no_others(
    scene: FieldScene, kind: str, rule: dict[str, Any], good: list[Any], bad: list[Any]
) -> None:
    (await scene.declare("it", kind, rule=rule)).ok(201)
    for value in good:
        expected = value.strip() if isinstance(value, str) else value
        assert (await scene.keep(scene.ada, {"it": value})).ok()["values"] == {"it": expected}
        assert (await scene.kept(scene.ada)).ok()["values"] == {"it": expected}
    for value in bad:
        assert refused(await scene.keep(scene.ada, {"it": value})) == BAD_REQUEST, value
    assert (await scene.keep(scene.ada, {"it": None})).ok()["values"] == {}


async def test_nobody_writes_values_while_impersonating(scene: FieldScene) -> None:
    """Claims of applications may follow from values, and would outlast the impersonation."""
    (await scene.declare("department", written_by=["administrator", "person"])).ok(201)
    (await scene.keep(scene.ada, {"department": "Sales"})).ok()
    as_owner, as_ada = [await scene.impersonated(person) for person in (scene.owner, scene.ada)]
    path = f"/api/organizations/acme/users/{scene.ada.user}/profile"
    for method, place, token in (("PATCH", path, as_owner), ("PATCH", OWN, as_ada)):
        body = {"values": {"department": "Board"}, **({"organization": "acme"} if place == OWN else {})}
        assert refused(await scene.client.request(method, place, body=body, token=token)) == FORBIDDEN
    assert (await scene.client.get(path, token=as_owner)).ok()["values"] == {"department": "Sales"}


async def test_administrators_read_and_write_the_people_of_their_kind_alone(scene: FieldScene) -> None:
    (await scene.declare("department")).ok(201)
    (await scene.declare("nickname", written_by=["person"])).ok(201)
    members = scene.resident(scene.acme, scene.tenants.role(scene.acme, "members", [Capability.MEMBERS_MANAGE]), "members")
    users = scene.resident(scene.acme, scene.tenants.role(scene.acme, "users", [Capability.END_USERS_MANAGE]), "users")
    (await scene.keep(scene.ada, {"department": "Sales"}, by=members)).ok()
    (await scene.keep(scene.bob, {"department": "Buyers"}, by=users)).ok()
    assert (await scene.kept(scene.ada, by=members)).ok()["values"] == {"department": "Sales"}
    assert (await scene.kept(scene.bob, by=users)).ok()["values"] == {"department": "Buyers"}
    # The owner may do more than the manager of members.
    assert refused(await scene.keep(scene.owner, {"department": "x"}, by=members)) == FORBIDDEN
    without = [(scene.bob, members), (scene.ada, users), (scene.ada, scene.ada), (scene.bob, scene.ada), (scene.ada, scene.other_owner)]
    for person, by in without:
        assert refused(await scene.keep(person, {"department": "x"}, by=by)) == FORBIDDEN
        assert refused(await scene.kept(person, by=by)) == FORBIDDEN
    stranger = scene.people.add()
    assert refused(await scene.kept(stranger)) == refused(await scene.keep(stranger, {"department": "x"})) == NOT_FOUND
    # Members without these rights do not learn who is tied to the organization.
    assert refused(await scene.kept(stranger, by=scene.ada)) == FORBIDDEN
    assert refused(await scene.keep(stranger, {"department": "x"}, by=scene.ada)) == FORBIDDEN
    assert refused(await scene.keep(scene.ada, {"nickname": "x"})) == BAD_REQUEST
    assert refused(await scene.keep(scene.ada, {"unknown": "x"})) == BAD_REQUEST
    entries = [one["details"] for one in scene.audited("user.fields.updated") if one["target_id"] == str(scene.ada.user)]
    assert entries == [{"keys": ["department"], "written_by": "administrator"}]


async def test_a_value_of_one_organization_is_in_no_answer_of_another(scene: FieldScene) -> None:
    theirs = "/api/organizations/globex/profile-fields"
    for where, by in ((FIELDS, scene.owner), (theirs, scene.other_owner)):
        (await scene.declare("department", where=where, by=by)).ok(201)
    (await scene.keep(scene.cid, {"department": "Secret"})).ok()
    assert (await scene.kept(scene.cid, at="globex", by=scene.other_owner)).ok() == {"values": {}, "updated_at": None}
    (await scene.keep(scene.cid, {"department": "Theirs"}, at="globex", by=scene.other_owner)).ok()
    assert (await scene.kept(scene.cid)).ok()["values"] == {"department": "Secret"}
    assert await scene.own(scene.cid) == {"acme": {"department": "Secret"}, "globex": {"department": "Theirs"}}
    one = await scene.request("GET", f"{OWN}?organization=acme", by=scene.cid)
    assert [kept["organization"] for kept in one.ok()["profiles"]] == ["acme"]
    # People see only organizations of their own.
    assert await scene.own(scene.bob) == {"acme": {}}
    assert refused(await scene.write_own(scene.bob, {"department": "x"}, "globex")) == NOT_FOUND
    assert refused(await scene.kept(scene.bob, at="globex", by=scene.other_owner)) == NOT_FOUND


async def test_people_write_what_they_may_and_see_all(scene: FieldScene) -> None:
    (await scene.declare("nickname", written_by=["person", "administrator"], required=True, asked_at="sign_in")).ok(201)
    (await scene.declare("grade", "number")).ok(201)
    (await scene.declare("motto", written_by=["person"], where=PLATFORM, by=scene.platform)).ok(201)
    (await scene.keep(scene.ada, {"grade": 3})).ok()
    answer = (await scene.write_own(scene.ada, {"nickname": "Ada"}, "acme")).ok()
    assert (answer["values"], answer["writable"]) == ({"nickname": "Ada", "grade": 3}, ["nickname"])
    assert refused(await scene.write_own(scene.ada, {"grade": 9}, "acme")) == BAD_REQUEST
    assert refused(await scene.write_own(scene.ada, {"nickname": None}, "acme")) == BAD_REQUEST
    (await scene.write_own(scene.ada, {"motto": "Count"})).ok()
    assert await scene.own(scene.ada) == {None: {"motto": "Count"}, "acme": {"nickname": "Ada", "grade": 3}}
    path = f"/api/platform/users/{scene.ada.user}/profile"
    assert (await scene.request("GET", path, by=scene.platform)).ok()["values"] == {"motto": "Count"}
    assert refused(await scene.request("PATCH", path, {"values": {"motto": "x"}}, by=scene.platform)) == BAD_REQUEST
    assert refused(await scene.request("GET", path, by=scene.owner)) == FORBIDDEN
    assert refused(await scene.request("GET", f"/api/platform/users/{uuid4()}/profile", by=scene.platform)) == NOT_FOUND
    (event,) = [one for one in scene.told() if one["name"] == "user.fields.updated" and one["organization_id"] is None]
    assert event["details"] == {"keys": ["motto"], "written_by": "person"}


async def test_the_installation_has_fields_that_only_platform_owners_declare(scene: FieldScene) -> None:
    made = (await scene.declare("motto", where=PLATFORM, by=scene.platform, scope="profile")).ok(201)
    assert made["scope"] == "profile"
    assert (await scene.request("PATCH", f"{PLATFORM}/motto", {"scope": None}, by=scene.platform)).ok()["scope"] is None
    assert refused(await scene.declare("x", where=PLATFORM, by=scene.platform, scope="openid")) == BAD_REQUEST
    assert refused(await scene.declare("x", where=PLATFORM, by=scene.platform, written_by=["directory"])) == BAD_REQUEST
    assert refused(await scene.declare("x", where=PLATFORM)) == FORBIDDEN
    path = f"/api/platform/users/{scene.bob.user}/profile"
    (await scene.request("PATCH", path, {"values": {"motto": "Buy"}}, by=scene.platform)).ok()
    assert (await scene.request("DELETE", f"{PLATFORM}/motto", by=scene.platform)).status == 204
    assert await scene.own(scene.bob) == {}


async def test_a_new_field_of_the_same_key_finds_no_old_value_and_the_job_removes_it(scene: FieldScene) -> None:
    made: dict[str, Any] = {}
    for key in ("department", "grade"):
        made = (await scene.declare(key)).ok(201)
        for person in (scene.ada, scene.bob, scene.cid):
            (await scene.keep(person, {key: "old"})).ok()
    assert (await scene.request("DELETE", f"{FIELDS}/grade")).status == 204
    (await scene.declare("grade", "number")).ok(201)
    assert (await scene.kept(scene.ada)).ok()["values"] == {"department": "old"}
    foundation = scene.postern.foundation
    purge = Purge(foundation.unit_of_work, PostgresDeletedProfileFields(foundation.pool), purge_job)
    deleted = UUID(made["id"])
    stored = "select count(*) as found from profile_values where values ? %s"
    assert scene.people.rows(stored, made["id"])[0]["found"] == 3
    jobs = scene.people.rows("select payload from jobs where kind = 'profile_field.purge'")
    assert [one["payload"] for one in jobs] == [{"field": made["id"]}]

    async def breathe() -> None:
        """No pause between the batches."""

    assert await purge.run(deleted, breathe)
    assert scene.people.rows(stored, made["id"])[0]["found"] == 0
    assert not await purge.run(deleted, breathe)
    assert (await scene.kept(scene.ada)).ok()["values"] == {"department": "old"}


async def test_all_values_of_a_person_together_have_a_limit(scene: FieldScene) -> None:
    for number in range(20):
        (await scene.declare(f"field_{number}")).ok(201)
    assert refused(await scene.keep(scene.ada, {f"field_{number}": "x" * 1000 for number in range(20)})) == BAD_REQUEST
    assert (await scene.kept(scene.ada)).ok()["values"] == {}
    (await scene.keep(scene.ada, {f"field_{number}": "x" * 1000 for number in range(15)})).ok()


async def test_values_of_a_provider_without_room_are_not_kept_and_refuse_nobody(scene: FieldScene) -> None:
    keys = [f"field_{number}" for number in range(20)]
    for key in keys:
        (await scene.declare(key, written_by=["provider"])).ok(201)
    provided = ProviderValues(scene.postern.foundation.unit_of_work, scene.postern.tenancy.profile_values)
    await provided.keep(UserId(scene.ada.user), OrganizationId(scene.acme.id), "own", dict.fromkeys(keys, "x" * 1000))
    assert (await scene.kept(scene.ada)).ok()["values"] == {}
    (line,) = scene.log.events("provider_values_not_kept")
    assert (line["provider"], line["organization"]) == ("own", str(scene.acme.id))
    assert "at most 16384 bytes" in line["reason"]


async def test_what_an_organization_keeps_ends_with_the_last_tie(scene: FieldScene) -> None:
    (await scene.declare("department")).ok(201)
    scene.tenants.uses(scene.ada, scene.shop)
    for person in (scene.ada, scene.cid):
        (await scene.keep(person, {"department": "Sales"})).ok()
    assert (await scene.request("POST", f"/api/organizations/acme/members/{scene.ada.user}")).status == 200
    assert (await scene.kept(scene.ada)).ok()["values"] == {"department": "Sales"}
    scene.people.change("delete from service_users where service_id = %s", scene.shop.id)
    assert scene.people.rows("select user_id from profile_values") == []


async def test_many_writers_at_once_lose_nothing(scene: FieldScene) -> None:
    keys = [f"field_{number}" for number in range(8)]
    for key in keys:
        (await scene.declare(key)).ok(201)
    await all_at_once(*[lambda key=key: scene.keep(scene.ada, {key: key}) for key in keys])
    assert (await scene.kept(scene.ada)).ok()["values"] == {key: key for key in keys}


async def test_an_export_has_what_each_may_see_and_forgetting_leaves_nothing(scene: FieldScene) -> None:
    (await scene.declare("motto", where=PLATFORM, by=scene.platform)).ok(201)
    for where, by in ((FIELDS, scene.owner), ("/api/organizations/globex/profile-fields", scene.other_owner)):
        (await scene.declare("department", where=where, by=by)).ok(201)
    scene.tenants.join(scene.cid, scene.acme)
    (await scene.keep(scene.cid, {"department": "Sales"})).ok()
    (await scene.keep(scene.cid, {"department": "Theirs"}, at="globex", by=scene.other_owner)).ok()
    (await scene.request("PATCH", f"/api/platform/users/{scene.cid.user}/profile", {"values": {"motto": "x"}}, by=scene.platform)).ok()
    export = f"/api/privacy/export/{scene.cid.user}"
    whole = {(one["organization_id"], *one["values"].items()) for one in (await scene.request("GET", export, by=scene.cid)).ok()["fields"]}
    theirs = (str(scene.globex.id), ("department", "Theirs"))
    acmes = (str(scene.acme.id), ("department", "Sales"))
    assert whole == {(None, ("motto", "x")), acmes, theirs}
    part = (await scene.request("GET", export)).ok()["fields"]
    assert part == [{"organization_id": str(scene.acme.id), "values": {"department": "Sales"}}]
    answer = await scene.request("DELETE", f"/api/privacy/forget/{scene.cid.user}", by=scene.platform)
    assert answer.status == 200, answer.body
    assert scene.people.rows("select user_id from profile_values") == []


async def test_a_service_reads_its_organizations_fields_writes_its_own_and_keeps_metadata(scene: FieldScene) -> None:
    (await scene.declare("department")).ok(201)
    (await scene.declare("score", "number", written_by=["service"])).ok(201)
    (
        await scene.declare(
            "score", "number", written_by=["service"], where="/api/organizations/globex/profile-fields", by=scene.other_owner
        )
    ).ok(201)
    (await scene.keep(scene.cid, {"department": "Sales"})).ok()
    key, theirs = scene.key(scene.shop), scene.key(scene.theirs)
    path = f"/api/service/users/{scene.cid.user}"

    async def ask(method: str, body: Any = None, *, by: str = key, at: str = path) -> Received:
        return await scene.client.request(method, at, body=body, headers=[("x-api-key", by)])

    assert {name: (await ask("GET")).ok()[name] for name in ("metadata", "profile")} == {"metadata": {}, "profile": {"department": "Sales"}}
    changed = (await ask("PATCH", {"profile": {"score": 7}, "metadata": {"crm": {"id": [1, None]}}})).ok()
    assert (changed["profile"], changed["metadata"]) == ({"department": "Sales", "score": 7}, {"crm": {"id": [1, None]}})
    # The other organization's service sees and writes its own.
    assert {name: (await ask("GET", by=theirs)).ok()[name] for name in ("metadata", "profile")} == {"metadata": {}, "profile": {}}
    assert (await ask("PATCH", {"profile": {"score": 1}}, by=theirs)).ok()["profile"] == {"score": 1}
    assert (await ask("GET")).ok()["profile"]["score"] == 7
    deep: Any = {}
    for _ in range(6):
        deep = {"a": deep}
    for wrong in (
        {"profile": {"department": "x"}},
        {"profile": {"score": "x"}},
        {"metadata": {"a": "x" * 4096}},
        {"metadata": deep},
        {"email": "new@example.org", "metadata": {}},
    ):
        assert refused(await ask("PATCH", wrong)) == BAD_REQUEST, wrong
    assert (await ask("GET")).ok() == changed
    stranger = f"/api/service/users/{scene.ada.user}"
    assert refused(await ask("PATCH", {"metadata": {}}, at=stranger)) == NOT_FOUND
    (event,) = [one for one in scene.told() if one["name"] == "user.metadata.updated"]
    assert "crm" not in str(event["details"])


async def claimed(scene: FieldScene, field: str = "dept") -> None:
    claim = {"name": "department", "source": "organization_field", "argument": field, "into": ["access_token"]}
    (await scene.request("POST", "/api/organizations/acme/services/shop/claims", claim)).ok(201)


async def test_letting_others_write_what_a_claim_tells_takes_the_right_to_manage_the_claim(scene: FieldScene) -> None:
    for key in ("dept", "desk"):
        (await scene.declare(key)).ok(201)
    keeper = scene.tenants.member(scene.acme, scene.tenants.role(scene.acme, "keeper", [Capability.SETTINGS_MANAGE]))
    both = [Capability.SETTINGS_MANAGE, Capability.SERVICES_MANAGE]
    governor = scene.tenants.member(scene.acme, scene.tenants.role(scene.acme, "governor", both))
    weak = scene.tenants.management_key(scene.acme, scene.owner, [Capability.SETTINGS_MANAGE])
    strong = scene.tenants.management_key(scene.acme, scene.owner, both)
    more = {"written_by": ["administrator", "person"]}
    await claimed(scene)
    assert refused(await scene.request("PATCH", f"{FIELDS}/dept", more, by=keeper)) == FORBIDDEN
    assert refused(await scene.client.request("PATCH", f"{FIELDS}/dept", body=more, token=weak)) == FORBIDDEN
    assert scene.people.rows("select written_by from profile_fields where key = 'dept'") == [{"written_by": ["administrator"]}]
    # What is not a writer of the claim's field is nobody's business but the field's.
    (await scene.request("PATCH", f"{FIELDS}/dept", {"label": "Department"}, by=keeper)).ok()
    (await scene.request("PATCH", f"{FIELDS}/desk", more, by=keeper)).ok()
    for writers in (["administrator", "person"], ["administrator"]):
        (await scene.request("PATCH", f"{FIELDS}/dept", {"written_by": writers}, by=governor)).ok()
    (await scene.client.request("PATCH", f"{FIELDS}/dept", body=more, token=strong)).ok()
    # Taking a writer away opens nothing.
    (await scene.request("PATCH", f"{FIELDS}/dept", {"written_by": ["administrator"]}, by=keeper)).ok()


async def test_a_field_that_a_claim_waits_for_is_declared_by_those_who_manage_claims(scene: FieldScene) -> None:
    (await scene.declare("dept")).ok(201)
    await claimed(scene)
    assert (await scene.request("DELETE", f"{FIELDS}/dept")).status == 204
    keeper = scene.tenants.member(scene.acme, scene.tenants.role(scene.acme, "keeper", [Capability.SETTINGS_MANAGE]))
    assert refused(await scene.declare("dept", written_by=["person"], by=keeper)) == FORBIDDEN
    (await scene.declare("dept", written_by=["person"])).ok(201)


async def test_another_organizations_claim_of_such_a_key_is_in_nobodys_way(scene: FieldScene) -> None:
    (await scene.declare("dept")).ok(201)
    await claimed(scene)
    there = "/api/organizations/globex/profile-fields"
    keeper = scene.tenants.member(scene.globex, scene.tenants.role(scene.globex, "keeper", [Capability.SETTINGS_MANAGE]))
    (await scene.declare("dept", where=there, by=keeper)).ok(201)
    (await scene.request("PATCH", f"{there}/dept", {"written_by": ["person"]}, by=keeper)).ok()


async def test_who_acts_as_somebody_neither_makes_nor_changes_nor_ends_a_field(scene: FieldScene) -> None:
    (await scene.declare("dept")).ok(201)
    token = await scene.impersonated(scene.owner)
    for method, path, body in (
        ("POST", FIELDS, {"key": "desk", "label": "Desk", "kind": "text"}),
        ("PATCH", f"{FIELDS}/dept", {"written_by": ["administrator", "person"]}),
        ("DELETE", f"{FIELDS}/dept", None),
    ):
        assert refused(await scene.client.request(method, path, body=body, token=token)) == FORBIDDEN
    assert scene.people.rows("select key, written_by from profile_fields") == [{"key": "dept", "written_by": ["administrator"]}]
    assert (await scene.client.get(FIELDS, token=token)).status == 200
