"""Changes by PATCH: a pure function, compared with a naive one that only knows JSON; and the dialects of directories."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.federation.scim.mappings import dropped
from core.domain.federation.scim.protocol import (
    MOST_OPERATIONS,
    USER_SCHEMA,
    InvalidPath,
    InvalidSyntax,
    InvalidValue,
    Mutability,
    NoTarget,
    PatchOperation,
    ScimRefusal,
)
from core.domain.federation.scim.users import ScimProfile, Stated, patched, stated_profile
from core.frozen import names_of

ID = "0199d3a0-0000-7000-8000-000000000001"
ADA = ScimProfile(user_name="ada@example.org", external_id="x", given_name="Ada", display_name="Ada L")


def change(*operations: tuple[str, str | None, Any], before: ScimProfile = ADA) -> ScimProfile:
    return patched(before, ID, [PatchOperation(*one) for one in operations])


def shown(profile: ScimProfile) -> dict[str, Any]:
    """As JSON, with what is absent left out."""
    name = {"formatted": profile.formatted, "givenName": profile.given_name, "familyName": profile.family_name}
    resource = {
        "userName": profile.user_name,
        "externalId": profile.external_id,
        "displayName": profile.display_name,
        "name": {part: value for part, value in name.items() if value is not None} or None,
        "emails": profile.email,
        "active": profile.active,
    }
    return {attribute: value for attribute, value in resource.items() if value is not None}


def naively(resource: dict[str, Any], operations: list[PatchOperation]) -> dict[str, Any]:
    """Sets and removes keys, one operation after the other; at last, what names one address alone names both."""
    after = deepcopy(resource)
    same = resource["emails"] == resource["userName"]
    named, mailed = False, False
    for one in operations:
        assert one.path is not None
        attribute, _, part = one.path.partition(".")
        if attribute == "userName":
            after["userName"], named = one.value, True
        elif attribute == "emails":
            after["emails"], mailed = one.value, True
        elif one.op == "remove":
            (after.get(attribute, {}) if part else after).pop(part or attribute, None)
        elif part:
            after.setdefault(attribute, {})[part] = one.value
        elif attribute == "name":
            after["name"] = {**after.get("name", {}), **one.value}
        else:
            after[attribute] = one.value
    if named and not mailed and same:
        after["emails"] = after["userName"]
    if mailed and not named and same:
        after["userName"] = after["emails"]
    return {attribute: value for attribute, value in after.items() if value != {}}


TEXTS = st.sampled_from(["a", "b", "Grace"])
ADDRESSES = st.sampled_from(["a@example.org", "b@example.org", "ada@example.org"])
PROFILES = st.builds(
    ScimProfile,
    user_name=ADDRESSES,
    work_email=st.none(),
    external_id=st.none() | TEXTS,
    formatted=st.none() | TEXTS,
    given_name=st.none() | TEXTS,
    family_name=st.none() | TEXTS,
    display_name=st.none() | TEXTS,
    active=st.booleans(),
)
SET = st.one_of(
    st.tuples(st.just("userName"), ADDRESSES),
    st.tuples(st.just("emails"), ADDRESSES),
    st.tuples(st.just("active"), st.booleans()),
    st.tuples(st.sampled_from(["externalId", "displayName", "name.formatted", "name.givenName", "name.familyName"]), TEXTS),
    st.tuples(st.just("name"), st.dictionaries(st.sampled_from(["formatted", "givenName", "familyName"]), TEXTS, min_size=1)),
)
OPERATIONS = st.lists(
    st.one_of(
        st.builds(lambda verb, one: PatchOperation(verb, *one), st.sampled_from(["add", "replace"]), SET),
        st.builds(lambda path: PatchOperation("remove", path), st.sampled_from(["externalId", "displayName", "name", "name.givenName"])),
    ),
    min_size=1,
    max_size=6,
)


@given(PROFILES, OPERATIONS)
def test_it_does_what_a_naive_model_does(before: ScimProfile, operations: list[PatchOperation]) -> None:
    assert shown(patched(before, ID, operations)) == naively(shown(before), operations)


@given(PROFILES, OPERATIONS)
def test_dialects_say_the_same(before: ScimProfile, operations: list[PatchOperation]) -> None:
    def dialect(one: PatchOperation) -> PatchOperation:
        if one.op == "remove":
            return PatchOperation("Remove", f"{USER_SCHEMA}:{one.path}")
        if one.path == "emails":
            return PatchOperation(one.op.upper(), 'emails[type eq "work"].value', one.value)
        value = str(one.value) if isinstance(one.value, bool) else one.value
        return PatchOperation(one.op.title(), None, {str(one.path): value})

    assert patched(before, ID, list(map(dialect, operations))) == patched(before, ID, operations)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.lists(
        st.builds(PatchOperation, st.sampled_from(["add", "replace", "remove", "x"]), st.none() | st.text(max_size=20), JSON), max_size=4
    )
)
def test_anything_is_a_change_or_a_refusal(operations: list[PatchOperation]) -> None:
    try:
        patched(ADA, ID, operations)
    except ScimRefusal:
        return


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (("Replace", "active", "False"), {"active": False}),
        (("replace", None, {"active": "false"}), {"active": False}),
        (("replace", None, {"id": ID, "schemas": [USER_SCHEMA], "displayName": "A"}), {"display_name": "A"}),
        (("add", "externalId", ""), {"external_id": None}),
        (("replace", "displayName", None), {"display_name": None}),
        (("remove", "name", None), {"given_name": None}),
        (("replace", "name", {"FamilyName": "L"}), {"family_name": "L"}),
        (("replace", "emails", [{"value": "b@example.org", "type": "work", "primary": True}]), {"user_name": "b@example.org"}),
        (("replace", "emails", {"value": "b@example.org"}), {"user_name": "b@example.org"}),
        (("replace", "emails[primary eq true]", {"value": "b@example.org"}), {"user_name": "b@example.org"}),
        (("replace", 'emails[type eq "work"].primary', "True"), {}),
        (("replace", "emails.type", "Work"), {}),
        (
            ("replace", None, {"userName": "b@example.org", "emails": [{"value": "c@example.org"}]}),
            {"user_name": "b@example.org", "work_email": "c@example.org"},
        ),
        (("replace", None, {"emails": "c@example.org", "userName": "C@example.org"}), {"user_name": "C@example.org"}),
    ],
)
def test_a_dialect_is_understood(operation: tuple[str, str | None, Any], expected: dict[str, Any]) -> None:
    after = change(operation)
    assert {field: getattr(after, field) for field in expected} == expected
    untouched = {field for field in names_of(ScimProfile) if field not in expected}
    assert {field: getattr(after, field) for field in untouched} == {field: getattr(ADA, field) for field in untouched}


ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("title", "title"),
        ("Title", "title"),
        ("name.middleName", "name.middleName"),
        ("emails.display", "emails.display"),
        ("password", "password"),
        ('emails[type eq "other"].Value', "emails"),
        ('emails[type eq "home"]', "emails"),
        (f"{USER_SCHEMA}:nickName", "nickName"),
        ('phoneNumbers[type eq "work"].value', "phoneNumbers"),
        ('addresses[type eq "work"].formatted', "addresses"),
        ('roles[primary eq "True"].value', "roles"),
        (f"{ENTERPRISE}:department", "department"),
        (f"{ENTERPRISE}:manager", "manager"),
        (f"{ENTERPRISE}:manager.value", "manager"),
    ],
)
@pytest.mark.parametrize("verb", ["add", "replace", "remove"])
def test_an_attribute_that_is_not_kept_is_dropped_and_told(verb: str, path: str, told: str) -> None:
    assert change((verb, path, "x")) == ADA
    assert dropped({"Operations": [{"op": verb, "path": path, "value": "x"}]}) == [told]
    if verb != "remove":
        assert change((verb, None, {path: "x", "displayName": "Other"})).display_name == "Other"
        assert dropped({"operations": [{"op": verb, "value": {path: "x", "displayName": "Other"}}]}) == [told]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            {ENTERPRISE: {"department": "x", "Manager": {"value": "1"}, "shoeSize": 1}, "title": "x", "userName": "a"},
            ["department", "manager", "title"],
        ),
        ({"name": {"familyName": "x", "middleName": "y"}, "roles": [], "locale": None}, ["name.middleName"]),
        ({"Operations": [{"op": "add", "path": "name", "value": {"honorificPrefix": "Dr."}}]}, ["name.honorificPrefix"]),
        ({"Operations": [{"op": "add", "path": ENTERPRISE, "value": {"division": "x"}}]}, ["division"]),
        ({"Operations": "x"}, []),
        ({"Operations": [{"op": "add", "path": "na me", "value": "x"}]}, []),
        ({"Operations": ["x", {"op": "add"}, {"op": "add", "path": 5, "value": 7}]}, []),
        ({ENTERPRISE: "x", "name": "y"}, []),
        ("x", []),
        (None, []),
    ],
)
def test_a_line_names_each_attribute_that_was_dropped_once(body: Any, told: list[str]) -> None:
    assert list(dropped(body)) == told


def test_dropped_attributes_count_as_changes() -> None:
    operations = [PatchOperation("add", None, {"title": "x", f"{ENTERPRISE}:department": "x"})] * 501
    with pytest.raises(InvalidSyntax, match="at most 1000 changes"):
        patched(ADA, "1", operations)


@pytest.mark.parametrize(
    ("operation", "refusal"),
    [
        (("move", "active", True), InvalidSyntax),
        (("replace", "shoeSize", "x"), InvalidPath),
        (("replace", "name.nickName", "x"), InvalidPath),
        (("replace", "emails.colour", "x"), InvalidPath),
        (("replace", "na me", "x"), InvalidPath),
        (("replace", "x" * 600, "x"), InvalidPath),
        (("replace", 'name[type eq "x"]', "x"), InvalidPath),
        (("replace", "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:shoeSize", "x"), InvalidPath),
        (("replace", "urn:ietf:params:scim:schemas:extension:enterprise:2.0:Userdepartment", "x"), InvalidPath),
        (("replace", 'phoneNumbers[type eq "work"', "x"), InvalidPath),
        (("replace", 'emails[type eq "spare"].value', "x@y.example"), NoTarget),
        (("remove", None, None), NoTarget),
        (("replace", None, "x"), InvalidValue),
        (("replace", None, {}), InvalidValue),
        (("replace", "active", "maybe"), InvalidValue),
        (("replace", "active", 1), InvalidValue),
        (("replace", "displayName", 5), InvalidValue),
        (("replace", "displayName", "x" * 257), InvalidValue),
        (("replace", "displayName", "a\nb"), InvalidValue),
        (("replace", "userName", None), InvalidValue),
        (("replace", "userName", "ada"), InvalidValue),
        (("replace", "emails", 5), InvalidValue),
        (("replace", "emails", ["x"]), InvalidValue),
        (("replace", "emails", [{"value": "a@b.example"}, {"value": "c@d.example"}]), InvalidValue),
        (("replace", "name", "Ada"), InvalidValue),
        (("remove", "userName", None), Mutability),
        (("Remove", "userName", "ada@example.org"), Mutability),
        (("remove", "active", None), Mutability),
        (("remove", "emails", None), Mutability),
        (("replace", "emails.type", "home"), Mutability),
        (("replace", "emails.primary", False), Mutability),
        (("replace", "id", "other"), Mutability),
        (("replace", "meta", {}), Mutability),
        (("replace", "schemas", ["other"]), Mutability),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_done(operation: tuple[str, str | None, Any], refusal: type[ScimRefusal]) -> None:
    with pytest.raises(refusal):
        change(("replace", "displayName", "B"), operation)


def test_there_are_operations_and_not_too_many() -> None:
    with pytest.raises(InvalidSyntax):
        change()
    with pytest.raises(InvalidSyntax):
        change(*[("replace", "active", True)] * (MOST_OPERATIONS + 1))


def _spellings(number: int) -> dict[str, Any]:
    letters = "displayname"
    return {"".join(one.upper() if bits >> at & 1 else one for at, one in enumerate(letters)): "x" for bits in range(number)}


def test_one_request_is_done_in_a_moment() -> None:
    """Each of these requests once took a quarter of a second, and all others waited."""
    with pytest.raises(InvalidValue, match="attributes"):
        change(("replace", None, _spellings(51)))
    with pytest.raises(InvalidSyntax, match="changes"):
        change(*[("replace", None, _spellings(50))] * 21)
    many = [{"value": "ada@example.org"}] * 51
    with pytest.raises(InvalidValue, match="emails"):
        change(("replace", "emails", many))
    with pytest.raises(InvalidValue, match="emails"):
        stated_profile(Stated(user_name="ada@example.org", emails=many))
    assert change(("replace", "emails", many[:50])) == ADA


def test_a_work_address_of_its_own_is_only_data() -> None:
    apart = change(("replace", None, {"userName": "ada@example.org", "emails": "work@example.org"}))
    assert (apart.user_name, apart.work_email, apart.email) == ("ada@example.org", "work@example.org", "work@example.org")
    assert change(("replace", "emails", "new@example.org"), before=apart).work_email == "new@example.org"
    assert change(("replace", "userName", "b@example.org"), before=apart).work_email == "work@example.org"
    assert change(("remove", "emails", None), before=apart) == ADA
    assert change(("replace", "emails", "ADA@example.org"), before=apart) == ADA


def test_a_whole_resource_takes_away_what_it_leaves_out_but_says_nothing_of_being_active() -> None:
    before = ScimProfile(user_name="a@example.org", display_name="A", active=False)
    assert stated_profile(Stated(user_name=" b@example.org "), before) == ScimProfile(user_name="b@example.org", active=False)
    assert stated_profile(Stated(user_name="b@example.org", active=True), before).active
    assert stated_profile(Stated(user_name="b@example.org")).active
    many: list[dict[str, Any]] = [
        {"value": "h@example.org", "type": "home"},
        {"value": "w@example.org", "type": "Work"},
        {"value": "p@example.org", "primary": True},
    ]
    assert stated_profile(Stated(user_name="b@example.org", emails=many)).work_email == "w@example.org"
    assert stated_profile(Stated(user_name="b@example.org", emails=[{"value": "B@example.org"}])).work_email is None
    for refused in (Stated(user_name=" "), Stated(user_name="b@example.org", emails=[{"value": None}])):
        with pytest.raises(InvalidValue):
            stated_profile(refused)
