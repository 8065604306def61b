"""Where an attribute stands in a resource of another system, and what a run names of many."""

from typing import Any, Final
from uuid import UUID

import pytest

from core.domain.claims import StandardProfile
from core.domain.federation.provisioning.connections import MappedAttribute, ProvisioningSource
from core.domain.federation.provisioning.people import (
    LONGEST_VALUE,
    WhyNotThere,
    found_at,
    place_of,
    resource_of,
    wanted_there,
)
from core.domain.federation.provisioning.runs import MOST_LEFT_OUT_NAMED, ProvisioningTally, left_out_there
from core.domain.federation.scim.protocol import ENTERPRISE_SCHEMA, USER_SCHEMA
from core.domain.formats import Json
from core.domain.identifiers import UserId
from tests.domain.federation.provisioning.outward import outward

ADA: Final = UserId(UUID(int=1))
DEPARTMENT: Final = f"{ENTERPRISE_SCHEMA}:department"
WORK: Final = 'emails[type eq "work"].value'


@pytest.mark.parametrize(
    ("constant", "said"),
    [
        (True, "true"),
        (False, "false"),
        (7, "7"),
        ("", None),
        (["one", "", "two"], "one, two"),
        ([""], None),
        ({"b": 1, "a": [2]}, '{"a": [2], "b": 1}'),
        ("x" * (LONGEST_VALUE + 1), "x" * LONGEST_VALUE),
    ],
)
def test_a_value_of_any_kind_is_one_text_there(constant: Json, said: str | None) -> None:
    mapping = [MappedAttribute("title", ProvisioningSource.CONSTANT, constant)]
    assert wanted_there(outward(), mapping, (), issuer="https://id.example.org")["title"] == said


def test_what_is_no_path_stands_nowhere() -> None:
    with pytest.raises(ValueError, match=r"name\.\.given"):
        place_of("name..given")


def test_an_address_without_a_type_is_the_one_at_work() -> None:
    resource = resource_of({"emails": "ada@example.org"})
    assert resource["emails"] == [{"value": "ada@example.org", "type": "work", "primary": True}]
    assert found_at(resource, "emails") == found_at(resource, WORK) == "ada@example.org"


def test_a_department_stands_below_its_schema_in_any_case_of_letters() -> None:
    made = resource_of({"userName": "ada", DEPARTMENT: "Sales"})
    assert made == {"userName": "ada", ENTERPRISE_SCHEMA: {"department": "Sales"}, "schemas": [USER_SCHEMA, ENTERPRISE_SCHEMA]}
    assert found_at(made, DEPARTMENT) == "Sales"
    theirs = {"schemas": [USER_SCHEMA], ENTERPRISE_SCHEMA.upper(): {"Department": "Sales", "manager": "Grace"}}
    assert found_at(theirs, DEPARTMENT) == "Sales"
    changed = resource_of({DEPARTMENT: "Support"}, theirs)
    assert changed[ENTERPRISE_SCHEMA.upper()] == {"Department": "Support", "manager": "Grace"}
    assert found_at({}, DEPARTMENT) is None


def test_an_entry_of_theirs_is_changed_or_goes_and_the_others_stay() -> None:
    private = {"value": "ada@home.example.org", "type": "home"}
    theirs: dict[str, Any] = {"emails": [private, {"value": "old@example.org", "type": "Work", "display": "Ada"}]}
    changed = resource_of({WORK: "ada@example.org"}, theirs)
    assert changed["emails"] == [private, {"value": "ada@example.org", "type": "Work", "display": "Ada"}]
    assert resource_of({WORK: None}, theirs)["emails"] == [private]
    assert "emails" not in resource_of({WORK: None}, {"emails": theirs["emails"][1:]})
    # The resource that was given stays as it was.
    assert theirs["emails"][1]["value"] == "old@example.org"


def test_a_run_counts_all_whom_it_leaves_out_and_names_the_first() -> None:
    tally = ProvisioningTally()
    for _ in range(MOST_LEFT_OUT_NAMED + 2):
        tally.note(left_out_there(ADA, WhyNotThere.NO_USER_NAME))
    place, names = tally.take_names()
    assert (place, len(names)) == (0, MOST_LEFT_OUT_NAMED)
    assert sum(tally.counts.values()) == MOST_LEFT_OUT_NAMED + 2


def test_the_profile_is_that_of_the_person() -> None:
    person = outward(profile=StandardProfile(name="Ada"))
    mapping = [MappedAttribute("displayName", ProvisioningSource.NAME)]
    assert wanted_there(person, mapping, (), issuer="https://id.example.org")["displayName"] == "Ada"
