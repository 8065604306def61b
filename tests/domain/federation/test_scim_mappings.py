"""Attributes that an owner maps to fields: the dialects in which directories state them, and the values that fields take of them."""

from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import pytest

from core.domain.errors import BadRequest
from core.domain.federation.scim.groups import ScimGrouping
from core.domain.federation.scim.mappings import MAPPABLE, ScimMapping, dropped, fitting, scim_mapping, stated_at, stated_in
from core.domain.federation.scim.protocol import PatchOperation, Verb
from core.domain.federation.scim.resources import projected, schemas, user_resource, user_version, wanted
from core.domain.federation.scim.users import FIELD_SCHEMA, ProvisionedUser, ScimProfile, Stated, patched, stated_profile
from core.domain.identifiers import UserId
from core.domain.tenancy.profile_fields import FieldKind, FieldRule, FieldShape

NOON: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
ENTERPRISE: Final = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
CORE: Final = "urn:ietf:params:scim:schemas:core:2.0:User"
ID: Final = "0199d3a0-0000-7000-8000-000000000001"
WORK: Final = 'phoneNumbers[type eq "work"].value'
MOBILE: Final = 'phoneNumbers[type eq "mobile"].value'
VALUE: Final = "manager.value"
NAME: Final = "manager.displayName"


def field(key: str, kind: FieldKind = FieldKind.TEXT, **rule: Any) -> FieldShape:
    return FieldShape(key=key, kind=kind, rule=FieldRule(**rule))


MAPPING: Final[ScimMapping] = {
    "title": field("job", max_length=20),
    "department": field("department", FieldKind.CHOICE, choices=("Engines", "Mills")),
    "employeeNumber": field("number", FieldKind.NUMBER),
    WORK: field("phone"),
    VALUE: field("manager"),
}
ADA: Final = ScimProfile(user_name="ada@example.org", fields={"job": "Analyst", "phone": "1", "manager": "m", "own": "x"})


def change(*operations: tuple[str, str | None, Any], before: ScimProfile = ADA) -> dict[str, Any]:
    """The fields that differ afterwards."""
    after = patched(before, ID, [PatchOperation(*one) for one in operations], MAPPING).fields
    return {key: value for key, value in after.items() if key not in before.fields or before.fields[key] != value}


@pytest.mark.parametrize(
    ("operation", "changed"),
    [
        (("replace", "title", "Countess"), {"job": "Countess"}),
        (("Add", f"{CORE}:Title", " Countess "), {"job": "Countess"}),
        (("add", None, {"title": "Countess"}), {"job": "Countess"}),
        (("remove", "title", None), {"job": None}),
        (("Remove", "title", "Analyst"), {"job": None}),
        (("replace", "title", ""), {"job": None}),
        (("replace", "title", None), {"job": None}),
        (("replace", "title", "x" * 21), {"job": None}),
        (("replace", "title", True), {"job": None}),
        (("replace", "title", ["Countess"]), {"job": None}),
        (("replace", "title.x", "Countess"), {}),
        (("replace", 'title[type eq "work"]', "Countess"), {}),
        (("replace", f"{ENTERPRISE}:department", "Mills"), {"department": "Mills"}),
        (("replace", f"{ENTERPRISE.upper()}:DEPARTMENT", "Mills"), {"department": "Mills"}),
        (("replace", f"{ENTERPRISE}:department", "Poetry"), {}),
        (("replace", f"{ENTERPRISE}:division", "South"), {}),
        (("replace", f"{ENTERPRISE}:shoe size", "South"), None),
        (("replace", ENTERPRISE, {"department": "Mills", "Manager": {"Value": "n"}}), {"department": "Mills", "manager": "n"}),
        (("add", None, {ENTERPRISE: {"employeeNumber": "7"}}), {"number": 7}),
        (("remove", ENTERPRISE, None), {"manager": None}),
        (("replace", ENTERPRISE, "x"), {}),
        (("replace", f"{ENTERPRISE}:employeeNumber", 7), {"number": 7}),
        (("replace", f"{ENTERPRISE}:employeeNumber", "-7.5"), {"number": -7.5}),
        (("replace", f"{ENTERPRISE}:manager", "n"), {"manager": "n"}),
        (("replace", f"{ENTERPRISE}:manager", {"value": "n"}), {"manager": "n"}),
        (("replace", f"{ENTERPRISE}:manager", [{"value": "n"}]), {"manager": "n"}),
        (("replace", f"{ENTERPRISE}:manager.value", "n"), {"manager": "n"}),
        (("replace", f"{ENTERPRISE}:manager.displayName", "N"), {}),
        (("replace", f"{ENTERPRISE}:manager", {"displayName": "N"}), {"manager": None}),
        (("add", f"{ENTERPRISE}:manager", {"displayName": "N"}), {}),
        (("replace", f"{ENTERPRISE}:manager", ""), {"manager": None}),
        (("remove", f"{ENTERPRISE}:manager", None), {"manager": None}),
        (("replace", WORK, "2"), {"phone": "2"}),
        (("replace", 'phoneNumbers[ TYPE eq "Work" ]', "2"), {"phone": "2"}),
        (("replace", 'phoneNumbers[type eq "work"]', {"value": "2"}), {"phone": "2"}),
        (("remove", 'phoneNumbers[type eq "work"]', None), {"phone": None}),
        (("replace", MOBILE, "2"), {}),
        (("replace", "phoneNumbers[primary eq true].value", "2"), {}),
        (("replace", 'phoneNumbers[type eq "work"].type', "home"), {}),
        (("replace", "phoneNumbers", [{"value": "3", "type": "home"}, {"value": "2", "type": "Work"}]), {"phone": "2"}),
        (("replace", "phoneNumbers", [{"value": "2"}]), {"phone": "2"}),
        (("replace", "phoneNumbers", "2"), {"phone": "2"}),
        (("add", "phoneNumbers", [{"value": "3", "type": "home"}]), {}),
        (("replace", "phoneNumbers", [{"value": "3", "type": "home"}]), {"phone": None}),
        (("replace", "phoneNumbers", []), {"phone": None}),
        (("add", "phoneNumbers", []), {}),
        (("remove", "phoneNumbers", None), {"phone": None}),
        (("replace", f"{FIELD_SCHEMA}:job", "Countess"), {"job": "Countess"}),
        (("replace", "displayName", "Ada"), {}),
        (("replace", "addresses", [{"value": "x"}]), {}),
    ],
)
def test_a_change_fills_the_field_of_its_attribute(operation: tuple[str, str | None, Any], changed: dict[str, Any] | None) -> None:
    if changed is None:
        assert stated_at(operation[1] or "", Verb.REPLACE, operation[2]) == {}
    else:
        assert change(operation) == changed


def test_the_last_operation_counts() -> None:
    assert change(("replace", "title", "Countess"), ("remove", "title", None)) == {"job": None}
    assert change(("remove", "title", None), ("add", "title", "Countess")) == {"job": "Countess"}


def test_both_parts_of_a_manager_have_fields() -> None:
    both: ScimMapping = {VALUE: field("manager"), NAME: field("name")}
    before = ScimProfile(user_name="ada@example.org", fields={"manager": "m", "name": "M"})

    def after(value: Any) -> Any:
        return dict(patched(before, ID, [PatchOperation("replace", f"{ENTERPRISE}:manager", value)], both).fields)

    assert after({"value": "n", "displayName": "N"}) == {"manager": "n", "name": "N"}
    assert after({"value": "n"}) == {"manager": "n", "name": None}
    # A text is the value alone: Entra ID sends the two parts as attributes of their own.
    assert after("n") == {"manager": "n", "name": "M"}
    assert after(None) == {"manager": None, "name": None}


@pytest.mark.parametrize(
    ("kind", "stated", "kept"),
    [
        (FieldKind.TEXT, "x", "x"),
        (FieldKind.TEXT, 7, "7"),
        pytest.param(FieldKind.TEXT, 10**5000, None, id="a long number for a text"),
        (FieldKind.TEXT, "", None),
        (FieldKind.TEXT, {}, None),
        (FieldKind.NUMBER, "007", 7),
        (FieldKind.NUMBER, " 7 ", 7),
        (FieldKind.NUMBER, "7e3", None),
        (FieldKind.NUMBER, "9" * 5000, None),
        pytest.param(FieldKind.NUMBER, 10**5000, None, id="a long number"),
        (FieldKind.NUMBER, 2.5, 2.5),
        (FieldKind.DATE, "2026-03-01", "2026-03-01"),
        (FieldKind.DATE, "1 March", None),
        (FieldKind.BOOLEAN, "true", None),
        (FieldKind.BOOLEAN, True, None),
        (FieldKind.LIST, "x", None),
        (FieldKind.LIST, ["x"], None),
    ],
)
def test_a_field_takes_what_fits_it(kind: FieldKind, stated: Any, kept: Any) -> None:
    assert fitting(field("one", kind), stated) == kept


def whole(before: ScimProfile | None = ADA, fields: dict[str, Any] | None = None, **attributes: Any) -> dict[str, Any]:
    return dict(stated_profile(Stated(user_name="ada@example.org", fields=fields, mappable=attributes), before, MAPPING).fields)


def test_a_whole_resource_states_all_mapped_attributes() -> None:
    assert whole(title="Countess", phoneNumbers=[{"value": "2", "type": "work"}]) == {
        "job": "Countess",
        "phone": "2",
        "manager": None,
        "own": "x",
    }
    assert whole() == {"job": None, "phone": None, "manager": None, "own": "x"}
    # The extension of the organization's fields states a field where the attribute does not.
    assert whole(fields={"Job": "Countess"}) == {"job": "Countess", "phone": None, "manager": None, "own": None}
    assert whole(fields={"job": "Other"}, title="Countess")["job"] == "Countess"


def test_a_new_person_has_what_fits() -> None:
    assert whole(None) == {}
    assert whole(None, title="x" * 21, **{ENTERPRISE: {"department": "Mills"}}) == {"department": "Mills"}
    assert stated_in({"userName": "x", "title": "y"}) == {"title": "y"}


def person(fields: dict[str, Any]) -> ProvisionedUser:
    profile = ScimProfile(user_name="ada@example.org", fields=fields)
    return ProvisionedUser(id=UserId(UUID(int=1)), profile=profile, created_at=NOON, updated_at=NOON)


def test_a_resource_shows_a_mapped_field_as_its_attribute_alone() -> None:
    mapping = {**MAPPING, MOBILE: field("mobile"), NAME: field("name")}
    ada = person({"job": "Analyst", "number": 7, "phone": "1", "mobile": "2", "manager": "m", "name": "M", "own": "x"})
    shown = user_resource(ada, "https://id.example", mapping)
    assert shown["schemas"] == [CORE, ENTERPRISE, FIELD_SCHEMA]
    assert (shown["title"], shown[FIELD_SCHEMA]) == ("Analyst", {"own": "x"})
    assert shown["phoneNumbers"] == [{"value": "1", "type": "work"}, {"value": "2", "type": "mobile"}]
    assert shown[ENTERPRISE] == {"employeeNumber": "7", "manager": {"value": "m", "displayName": "M"}}
    # What comes back as it was shown changes nothing.
    back = Stated(user_name="ada@example.org", fields=shown[FIELD_SCHEMA], mappable=shown)
    assert stated_profile(back, ada.profile, mapping).fields == ada.profile.fields
    only = projected(shown, wanted(f"{ENTERPRISE}:employeeNumber,title", None))
    assert {name: only[name] for name in only if name not in {"schemas", "id"}} == {"title": "Analyst", ENTERPRISE: {"employeeNumber": "7"}}
    assert "manager" not in projected(shown, wanted(None, f"{ENTERPRISE}:manager"))[ENTERPRISE]
    assert user_version(ada.profile, mapping) != user_version(ada.profile, MAPPING)


def test_the_schemas_describe_what_is_mapped() -> None:
    mapping = {**MAPPING, NAME: field("name")}
    told = {one["id"]: one["attributes"] for one in schemas("https://id.example", ScimGrouping.ORGANIZATION, (), mapping)}
    enterprise = {one["name"]: one for one in told[ENTERPRISE]}
    assert list(enterprise) == ["employeeNumber", "department", "manager"]
    assert enterprise["department"]["canonicalValues"] == ["Engines", "Mills"]
    assert [one["name"] for one in enterprise["manager"]["subAttributes"]] == ["value", "displayName"]
    phones = next(one for one in told[CORE] if one["name"] == "phoneNumbers")
    assert (phones["type"], phones["multiValued"]) == ("complex", True)
    assert phones["subAttributes"][1]["canonicalValues"] == ["work"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"title": "Countess", "nickName": "Ada", ENTERPRISE: {"department": "Mills", "division": "South"}}, ["division", "nickName"]),
        ({"title": "x" * 21, ENTERPRISE: {"department": "Poetry"}}, ["department", "title"]),
        ({"phoneNumbers": [{"value": "2", "type": "work"}]}, []),
        ({"phoneNumbers": [{"value": "2", "type": "home"}]}, ["phoneNumbers"]),
        ({"Operations": [{"op": "replace", "path": WORK, "value": "2"}]}, []),
        ({"Operations": [{"op": "replace", "path": MOBILE, "value": "2"}]}, ["phoneNumbers"]),
        ({"Operations": [{"op": "remove", "path": "title"}, {"op": "remove", "path": "nickName"}]}, ["nickName"]),
        ({"Operations": [{"op": "add", "value": {"title": ""}}]}, []),
        ({"Operations": [{"op": "add", "path": f"{ENTERPRISE}:manager", "value": "n"}]}, []),
    ],
)
def test_the_line_of_a_request_leaves_out_what_fields_keep(body: Any, told: list[str]) -> None:
    assert list(dropped(body, MAPPING)) == told


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"shoeSize": "job"}, "shoeSize: no such attribute"),
        ({"title": "No key"}, "the key of a field"),
        ({"title": "job", "userType": "job"}, "each field only once"),
    ],
)
def test_a_mapping_that_says_nothing_clear_is_refused(given: dict[str, str], problem: str) -> None:
    with pytest.raises(BadRequest, match=problem):
        scim_mapping(given)


def test_every_attribute_can_be_mapped() -> None:
    mapping = {name: f"field_{number}" for number, name in enumerate(MAPPABLE)}
    assert scim_mapping(mapping) == mapping
