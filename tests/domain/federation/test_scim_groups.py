"""The changes that a request for the group asks for, without a database."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from core.domain.federation.scim.groups import GROUP_SCHEMA, MOST_MEMBERS, Group, group_change, require_same, whole_group
from core.domain.federation.scim.protocol import InvalidValue, Mutability, PatchOperation

MANY = [{"value": str(UUID(int=number))} for number in range(MOST_MEMBERS + 1)]


def test_a_request_names_so_many_members_and_no_more() -> None:
    assert len(whole_group(MANY[1:], None).plus) == MOST_MEMBERS
    with pytest.raises(InvalidValue):
        whole_group(MANY, None)
    with pytest.raises(InvalidValue):
        group_change([PatchOperation("add", "members", MANY[5:]), PatchOperation("remove", "members", MANY[:5])])


def test_a_directory_sends_back_what_it_has_read_and_changes_none_of_it() -> None:
    at = datetime(2026, 11, 20, tzinfo=UTC)
    group = Group(id=UUID(int=1), name="Acme", external_id=None, state="1", created_at=at, updated_at=at)
    same = {"schemas": [GROUP_SCHEMA], "id": str(group.id), "displayName": "Acme"}
    require_same(group_change([PatchOperation("replace", None, same)]), group)
    for name, value in (("schemas", ["urn:x"]), ("id", str(UUID(int=2))), ("displayName", "Globex")):
        with pytest.raises(Mutability, match=name.lower()):
            require_same(group_change([PatchOperation("replace", None, {**same, name: value})]), group)
