"""The explanation of access: every capability with all its sources, and whether the next request gets in."""

import pytest

from core.domain.mail import Email
from core.domain.tenancy.organizations import Accessor, OrganizationStatus, Related
from core.domain.tenancy.roles import GRANTED_BY_OWNER, Capability
from core.frozen import replace

HOLDER = Related("holder", "auditor")
VIEW = Related("audit_logs.view", "auditor")
ADA = Accessor(Email("ada@example.org"), True, "acme", OrganizationStatus.ACTIVE, "auditor", [HOLDER, VIEW])


def test_each_capability_names_all_relations_that_give_it() -> None:
    assert ADA.capabilities == {Capability.AUDIT_LOGS_VIEW: [VIEW]}
    admin = Related("admin")
    both = replace(ADA, related=[admin, HOLDER, VIEW])
    assert list(both.capabilities) == [one for one in Capability if one not in GRANTED_BY_OWNER]
    assert both.capabilities[Capability.AUDIT_LOGS_VIEW] == [admin, VIEW]
    assert both.capabilities[Capability.BILLING_MANAGE] == [admin]
    assert replace(ADA, related=[HOLDER]).capabilities == {}


def test_who_gets_in_is_active_related_and_a_member_of_an_active_organization() -> None:
    assert ADA.gets_in
    assert replace(ADA, related=[HOLDER]).gets_in


@pytest.mark.parametrize(
    "without",
    [
        replace(ADA, is_active=False),
        replace(ADA, role=""),
        replace(ADA, related=[]),
        replace(ADA, owes_second_factor=True),
        *(replace(ADA, organization_status=status) for status in OrganizationStatus if status is not OrganizationStatus.ACTIVE),
    ],
)
def test_any_other_does_not(without: Accessor) -> None:
    assert not without.gets_in
