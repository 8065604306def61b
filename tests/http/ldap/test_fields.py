"""Fields of the organization that a directory fills. It knows only texts."""

from typing import Any

from tests.http.ldap.scene import LdapScene
from tests.http.people import Person

FIELDS = "/api/organizations/acme/profile-fields"


async def test_numbers_booleans_and_lists_of_one_are_filled_from_texts(scene: LdapScene) -> None:
    scene.directory.people[0].attributes = {
        **scene.directory.people[0].attributes,
        "employeeNumber": [b"42"],
        "x-external": [b"TRUE"],
        "departmentNumber": [b"Sales"],
        "title": [b"7"],
        "businessCategory": [b"many"],
    }
    mapping = {
        "employeeNumber": "number",
        "x-external": "external",
        "departmentNumber": "departments",
        "title": "title",
        "businessCategory": "grade",
    }
    kinds = {"number": "number", "external": "boolean", "departments": "list", "title": "text", "grade": "number"}
    for key, kind in kinds.items():
        body = {"key": key, "label": key, "kind": kind, "written_by": ["provider"]}
        (await scene.request("POST", FIELDS, body)).ok(201)
    provider = await scene.active(profile_mapping=mapping)
    assert (await scene.arrive(scene.browser(), provider)).status == 303
    (identity,) = scene.identities()
    scene.tenants.join(Person(identity["user_id"], identity["user_id"], "ada@example.org"), scene.acme)
    assert (await scene.arrive(scene.browser(), provider)).status == 303
    rows = scene.people.rows(
        "select jsonb_object_agg(fields.key, profile_values.values -> fields.id::text) as told from profile_values"
        " join profile_fields as fields on profile_values.values ? fields.id::text where user_id = %s",
        identity["user_id"],
    )
    told: dict[str, Any] = rows[0]["told"]
    assert told == {"number": 42, "external": True, "departments": ["Sales"], "title": "7"}
    # What is no number is left out, and told.
    assert scene.log.events("provider_values_ignored")[-1]["keys"] == ["grade"]
