"""The changes that a request for the group asks for, without a database."""

from uuid import UUID

import pytest

from core.domain.federation.scim.errors import InvalidValue
from core.domain.federation.scim.groups import MOST_MEMBERS, group_change, whole_group
from core.domain.federation.scim.patches import PatchOperation

MANY = [{"value": str(UUID(int=number))} for number in range(MOST_MEMBERS + 1)]


def test_a_request_names_so_many_members_and_no_more() -> None:
    assert len(whole_group(MANY[1:], None).plus) == MOST_MEMBERS
    with pytest.raises(InvalidValue):
        whole_group(MANY, None)
    with pytest.raises(InvalidValue):
        group_change([PatchOperation("add", "members", MANY[5:]), PatchOperation("remove", "members", MANY[:5])])
