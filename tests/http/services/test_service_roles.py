"""Permissions and roles of a service over HTTP."""

from typing import Any, Final

from core.domain.services.service_roles import MOST_PERMISSIONS, MOST_ROLES
from core.domain.tenancy.roles import Capability
from tests.http.cast import all_at_once
from tests.http.client import refused
from tests.http.services.governing import BAD_REQUEST, CONFLICT, FORBIDDEN, NOT_FOUND, SHOP, Government

CROWD: Final = 20


async def test_a_permission_is_made_described_and_deleted_and_each_is_on_record(government: Government) -> None:
    made = (await government.at("POST", "/permissions", {"key": "a.b_c:d-1", "description": "  Does\n it "})).ok(201)
    assert {name: made[name] for name in ("key", "description")} == {"key": "a.b_c:d-1", "description": "Does it"}
    assert (await government.at("GET", "/permissions", by=government.member)).json() == [made]
    changed = (await government.at("PATCH", "/permissions/a.b_c:d-1", {"description": "Other"})).ok()
    assert changed == {**made, "description": "Other"}
    assert (await government.at("PATCH", "/permissions/a.b_c:d-1", {"description": "Other"})).ok() == changed
    assert (await government.at("DELETE", "/permissions/a.b_c:d-1")).status == 204
    assert refused(await government.at("DELETE", "/permissions/a.b_c:d-1")) == NOT_FOUND
    assert refused(await government.at("PATCH", "/permissions/a.b_c:d-1", {"description": "x"})) == NOT_FOUND
    about = {"service_slug": "shop", "permission": "a.b_c:d-1"}
    assert [(entry["action"], entry["target_id"], entry["details"]) for entry in government.audited("service.permission.%")] == [
        ("service.permission.created", str(government.shop.id), {**about, "description": "Does it"}),
        ("service.permission.updated", str(government.shop.id), {**about, "old_description": "Does it", "description": "Other"}),
        ("service.permission.deleted", str(government.shop.id), {**about, "description": "Other"}),
    ]
    assert [event["name"] for event in government.told()] == [entry["action"] for entry in government.audited()]


async def test_a_role_is_made_changed_and_deleted_and_each_is_on_record(government: Government) -> None:
    await government.permission("read", "write")
    made = await government.role("admin", ["write", "read", "write"], description="All")
    assert {name: made[name] for name in set(made) - {"id", "created_at", "updated_at"}} == {
        "slug": "admin",
        "name": "Admin",
        "description": "All",
        "permissions": ["read", "write"],
        "given_to_everybody": False,
    }
    assert (await government.at("GET", "/roles/admin", by=government.member)).ok() == made
    assert (await government.at("PATCH", "/roles/admin", {"name": "Admin", "permissions": ["read", "write"]})).ok() == made
    changed = (await government.at("PATCH", "/roles/admin", {"permissions": ["read"], "given_to_everybody": True})).ok()
    assert changed == {**made, "permissions": ["read"], "given_to_everybody": True, "updated_at": changed["updated_at"]}
    (await government.at("PATCH", "/roles/admin", {"name": "Boss", "description": ""})).ok()
    await government.assigned("admin", user_id=str(government.member.user))
    assert (await government.at("DELETE", "/roles/admin")).status == 204
    assert await government.listed("roles") == []
    assert government.people.rows("select from relations where service_id is not null") == []
    about = {"service_slug": "shop", "role_slug": "admin"}
    assert [(entry["action"], entry["details"]) for entry in government.audited("service.role.%")] == [
        ("service.role.created", {**about, "name": "Admin", "permissions": ["read", "write"], "given_to_everybody": False}),
        ("service.role.updated", {**about, "granted": [], "revoked": ["write"], "given_to_everybody": True}),
        ("service.role.updated", {**about, "old_name": "Admin", "name": "Boss", "description_changed": True}),
        ("service.role.deleted", {**about, "name": "Boss", "assignments": 1}),
    ]
    for method, body in (("GET", None), ("PATCH", {"name": "x"}), ("DELETE", None)):
        assert refused(await government.at(method, "/roles/admin", body)) == NOT_FOUND


async def test_lists_are_sorted_and_of_one_service(government: Government) -> None:
    for slug in ("zulu", "alpha"):
        await government.role(slug)
        await government.permission(slug)
    other = "/api/organizations/acme/services/app"
    for noun, name in (("roles", "slug"), ("permissions", "key")):
        assert [one[name] for one in await government.listed(noun)] == ["alpha", "zulu"]
        assert (await government.request("GET", f"{other}/{noun}")).json() == []
        assert refused(await government.request("GET", f"/api/organizations/acme/services/none/{noun}")) == NOT_FOUND


CANNOT_BE: Final[list[tuple[str, dict[str, Any]]]] = [
    *(("permissions", {"key": key}) for key in ("", "A", "a b", "ä", "a/b", "x" * 81, "\0", 5, None)),
    *(("permissions", {"description": text}) for text in ("x" * 501, 5)),
    *(("roles", {"slug": slug}) for slug in ("", "-a", "a-", "A", "a b", "ä", "x" * 51, "\0", 5, None)),
    *(("roles", {"name": name}) for name in ("", "  ", "x" * 101, "\x07", 5, None)),
    *(("roles", {"description": text}) for text in ("x" * 501, 5)),
    *(("roles", {"permissions": keys}) for keys in (["none"], ["read", "\0"], [None], "read", ["read"] * 1001)),
    ("roles", {"given_to_everybody": "yes"}),
]


async def test_what_cannot_be_is_refused(government: Government) -> None:
    await government.permission("read")
    await government.role()
    whole = {"permissions": {"key": "new"}, "roles": {"slug": "new", "name": "New"}}
    for noun, wrong in CANNOT_BE:
        assert refused(await government.at("POST", f"/{noun}", {**whole[noun], **wrong})) == BAD_REQUEST, wrong
        if not {"slug", "key"} & set(wrong):
            one = "read" if noun == "permissions" else "editor"
            assert refused(await government.at("PATCH", f"/{noun}/{one}", wrong)) == BAD_REQUEST, wrong
    assert refused(await government.at("PATCH", "/roles/editor", {})) == BAD_REQUEST
    assert [one["key"] for one in await government.listed("permissions")] == ["read"]
    assert [one["slug"] for one in await government.listed("roles")] == ["editor"]


async def test_names_are_taken_once_and_never_used_again(government: Government) -> None:
    for noun, body, path in (
        ("permissions", {"key": "read"}, "/permissions/read"),
        ("roles", {"slug": "editor", "name": "Editor"}, "/roles/editor"),
    ):
        answers = await all_at_once(*[lambda noun=noun, body=body: government.at("POST", f"/{noun}", body)] * CROWD)
        assert sorted(answer.status for answer in answers) == [201] + [409] * (CROWD - 1)
        answers = await all_at_once(*[lambda path=path: government.at("DELETE", path)] * CROWD)
        assert sorted(answer.status for answer in answers) == [204] + [404] * (CROWD - 1)
        assert refused(await government.at("POST", f"/{noun}", body)) == CONFLICT
        # Another service has names of its own.
        assert (await government.request("POST", f"/api/organizations/acme/services/app/{noun}", body)).status == 201
    assert len(government.audited()) == 6


async def test_a_key_is_taken_while_its_permission_is_there_and_afterwards(government: Government) -> None:
    await government.permission("read")
    assert refused(await government.at("POST", "/permissions", {"key": "read"})) == CONFLICT
    assert (await government.at("DELETE", "/permissions/read")).status == 204
    assert refused(await government.at("POST", "/permissions", {"key": "read"})) == CONFLICT
    assert await government.listed("permissions") == []


async def test_a_deleted_permission_is_in_no_role(government: Government) -> None:
    await government.permission("read", "write")
    await government.role("editor", ["read", "write"])
    await government.role("reader", ["read"])
    assert (await government.at("DELETE", "/permissions/read")).status == 204
    assert [role["permissions"] for role in await government.listed("roles")] == [["write"], []]
    assert refused(await government.at("PATCH", "/roles/reader", {"permissions": ["read"]})) == BAD_REQUEST


async def test_a_permission_that_goes_while_roles_get_it_is_in_none(government: Government) -> None:
    await government.permission("read")
    for number in range(CROWD):
        await government.role(f"r{number}")
    await all_at_once(
        *[lambda n=n: government.at("PATCH", f"/roles/r{n}", {"permissions": ["read"]}) for n in range(CROWD)],
        lambda: government.at("DELETE", "/permissions/read"),
    )
    assert {tuple(role["permissions"]) for role in await government.listed("roles")} == {()}


async def test_a_service_has_a_bounded_number_of_each(government: Government) -> None:
    government.people.change(
        "insert into permissions (id, service_id, key, created_at)"
        " select gen_random_uuid(), %s, 'p' || n, now() from generate_series(1, %s) as n",
        government.shop.id,
        MOST_PERMISSIONS - 1,
    )
    government.people.change(
        "insert into service_roles (id, org_id, service_id, slug, name, created_at, updated_at)"
        " select gen_random_uuid(), %s, %s, 'r' || n, 'R', now(), now() from generate_series(1, %s) as n",
        government.acme.id,
        government.shop.id,
        MOST_ROLES - 1,
    )
    for noun, body, name in (("permissions", {}, "key"), ("roles", {"name": "N"}, "slug")):
        calls = [lambda n=n, noun=noun, body=body, name=name: government.at("POST", f"/{noun}", {**body, name: f"n{n}"}) for n in range(5)]
        assert sorted(answer.status for answer in await all_at_once(*calls)) == [201] + [400] * 4
    # As many as there are fit into one role.
    keys = [one["key"] for one in await government.listed("permissions")]
    assert len((await government.at("PATCH", "/roles/r1", {"permissions": keys})).ok()["permissions"]) == MOST_PERMISSIONS


async def test_members_see_them_and_only_managers_of_services_change_them(government: Government) -> None:
    await government.permission("read")
    await government.role()
    everything_else = government.tenants.role(government.acme, "else", set(Capability) - {Capability.SERVICES_MANAGE})
    nothing = government.tenants.role(government.acme, "nothing", [])
    reads = ("/permissions", "/roles", "/roles/editor")
    changes = (
        ("POST", "/permissions", {"key": "x"}),
        ("PATCH", "/permissions/read", {"description": "x"}),
        ("DELETE", "/permissions/read", None),
        ("POST", "/roles", {"slug": "x", "name": "X"}),
        ("PATCH", "/roles/editor", {"name": "x"}),
        ("DELETE", "/roles/editor", None),
    )
    for who in (government.member, government.tenants.member(government.acme, everything_else)):
        assert [(await government.at("GET", path, by=who)).status for path in reads] == [200] * 3
        for method, path, body in changes:
            assert refused(await government.at(method, path, body, by=who)) == FORBIDDEN
    for who in (government.tenants.member(government.acme, nothing), government.resident(government.globex, "owner")):
        for path in reads:
            assert refused(await government.at("GET", path, by=who)) == FORBIDDEN
    assert (await government.client.get(f"{SHOP}/roles")).status == 401
