"""What a management key may do today, and its bounds."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from core.domain.errors import BadRequest
from core.domain.identifiers import ManagementKeyId, OrganizationId, UserId
from core.domain.tenancy.management_keys import (
    MOST_KEYS,
    Maker,
    ManagementKeyHolder,
    PlatformCapability,
    able_in_organization,
    able_on_platform,
    end_of_life,
    require_keys_room,
    wanted_capabilities,
)
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import BuiltInRole, Capability

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_a_key_is_cut_to_its_maker_until_it_is_adopted() -> None:
    words = ("services.view", "webhooks.manage", "something of later", "owner")
    both = {Capability.SERVICES_VIEW, Capability.WEBHOOKS_MANAGE}
    assert able_in_organization(words, None) == both
    assert able_in_organization(words, Maker(frozenset({"owner"}))) == both
    assert able_in_organization(words, Maker(frozenset({"member"}))) == {Capability.SERVICES_VIEW}
    assert able_in_organization(words, Maker(frozenset({"owner"}), owes_second_factor=True)) == frozenset()
    assert able_in_organization(words, Maker()) == frozenset()
    # What comes with a capability comes with it for keys, too, as far as the maker has it.
    assert able_in_organization(["org.members.manage"], None) == {Capability.MEMBERS_MANAGE, *BuiltInRole.MEMBER.capabilities}
    assert able_in_organization(["org.members.manage"], Maker(frozenset({"services.view"}))) == {Capability.SERVICES_VIEW}


def test_a_key_of_the_platform_is_worth_what_its_makers_office_is() -> None:
    words = ("people.view", "services.view")
    assert able_on_platform(words, None) == able_on_platform(words, Maker(is_platform_owner=True)) == {PlatformCapability.PEOPLE_VIEW}
    assert able_on_platform(words, Maker(frozenset({"owner"}))) == frozenset()


def test_a_key_is_a_member_without_a_person() -> None:
    maker, organization, key = UserId(UUID(int=1)), OrganizationId(UUID(int=2)), ManagementKeyId(UUID(int=3))
    holder = ManagementKeyHolder(
        key=key, name="Robot", prefix="pto_abcdef", organization=organization, organization_slug="acme", responsible=maker
    )
    member = Member(None, organization, "acme", True, "", holder.capabilities, holder)
    assert (member.person, member.responsible, member.key_id, member.is_owner) == (None, maker, key, False)
    # A use case that is closed to keys fails with one. It does not act in the maker's name.
    for ask in (lambda: member.caller, lambda: member.user):
        with pytest.raises(LookupError, match="not a person"):
            ask()


def test_bounds() -> None:
    assert wanted_capabilities([Capability.SERVICES_VIEW, Capability.SERVICES_VIEW]) == (Capability.SERVICES_VIEW,)
    assert (end_of_life(1, NOW), end_of_life(365, NOW)) == (NOW + timedelta(days=1), NOW + timedelta(days=365))
    for days in (0, 366):
        with pytest.raises(BadRequest, match="1 to 365"):
            end_of_life(days, NOW)
    require_keys_room(MOST_KEYS - 1)
    with pytest.raises(BadRequest, match="at most 100"):
        require_keys_room(MOST_KEYS)
