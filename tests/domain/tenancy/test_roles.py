"""Roles: the meaning of capabilities, the roles that a person may give, and refusals."""

from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.errors import BadRequest, Forbidden
from core.domain.identifiers import OrganizationId, RoleId
from core.domain.record.events import Actor
from core.domain.tenancy.roles import (
    BuiltInRole,
    Capability,
    Role,
    built_in,
    capabilities_of,
    grantable_of,
    permissions_of,
    require_grantable,
    require_no_more,
    role_description,
    role_name,
    role_slug,
    role_updated,
)

CAPABILITIES = st.sets(st.sampled_from(Capability))
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
ROLE = Role(RoleId(UUID(int=1)), OrganizationId(UUID(int=2)), "auditor", "Auditor", "", frozenset(), NOW, NOW)


def test_an_owner_holds_all_an_admin_what_others_may_give_and_a_member_may_look() -> None:
    assert BuiltInRole.OWNER.capabilities == set(Capability)
    assert BuiltInRole.ADMIN.capabilities == set(Capability) - {Capability.CONNECTIONS_MANAGE}
    assert BuiltInRole.MEMBER.capabilities == {Capability.MEMBERS_VIEW, Capability.SERVICES_VIEW, Capability.END_USERS_VIEW}
    assert [(one.value, built_in(one.value)) for one in BuiltInRole if built_in(one.value) is None] == []
    assert built_in("holder") is None


def test_only_the_owner_gives_what_is_the_owners_to_give() -> None:
    assert grantable_of(["owner"]) == set(Capability)
    assert grantable_of(["admin", "connections.manage"]) == BuiltInRole.ADMIN.capabilities
    assert grantable_of([]) == frozenset()


def test_relations_add_up_and_unknown_ones_add_nothing() -> None:
    assert capabilities_of([]) == frozenset()
    assert capabilities_of(["holder", "something of later"]) == frozenset()
    assert capabilities_of(["member", "audit_logs.view", "audit_logs.view"]) == {
        *BuiltInRole.MEMBER.capabilities,
        Capability.AUDIT_LOGS_VIEW,
    }


@given(CAPABILITIES, CAPABILITIES)
def test_nothing_is_granted_and_nobody_changed_beyond_what_is_held(wanted: set[Capability], held: set[Capability]) -> None:
    for require in (require_grantable, require_no_more):
        if wanted <= held:
            require(wanted, held)
        else:
            with pytest.raises(Forbidden) as refused:
                require(wanted, held)
            assert set(refused.value.message.partition(": ")[2].split(", ")) == {one.value for one in wanted - held}


@pytest.mark.parametrize("slug", ["a", "0", "a-b", "a_b", "x" * 50])
def test_a_good_slug_is_kept(slug: str) -> None:
    assert role_slug(slug) == slug


@pytest.mark.parametrize("slug", ["", "owner", "admin", "member", "A", "-a", "a_", "a b", "a\n", "é", "x" * 51])
def test_any_other_slug_is_refused(slug: str) -> None:
    with pytest.raises(BadRequest):
        role_slug(slug)


def test_names_and_descriptions_are_one_line_of_bounded_length() -> None:
    assert role_name(" a \n b\u202e") == "a b"
    assert role_description(" ") == ""
    for check, text in ((role_name, "\u202e"), (role_name, "x" * 101), (role_description, "x" * 501), (role_name, "a" + " " * 2000)):
        with pytest.raises(BadRequest):
            check(text)


def test_permissions_are_known_words() -> None:
    assert permissions_of(["audit_logs.view", "audit_logs.view"]) == {Capability.AUDIT_LOGS_VIEW}
    for word in ("owner", "holder", "", "AUDIT_LOGS.VIEW"):
        with pytest.raises(BadRequest):
            permissions_of(["audit_logs.view", word])
    with pytest.raises(BadRequest):
        permissions_of(["audit_logs.view"] * 101)


def test_an_update_that_is_only_of_time_names_nothing_but_the_role() -> None:
    event = role_updated(ROLE, ROLE, Actor())
    assert (event.name, event.target.type, event.details) == ("role.updated", "role", {"role_slug": "auditor"})
