"""A person as an organization may know them, for the tests of another system's people."""

from typing import Any
from uuid import UUID

from core.domain.claims import ServiceFacts, StandardProfile
from core.domain.federation.provisioning.people import OutwardPerson
from core.domain.identifiers import OrganizationId, UserId
from core.domain.mail import Email
from core.frozen import replace


def outward(**changes: Any) -> OutwardPerson:
    person = OutwardPerson(
        user=UserId(UUID(int=1)),
        email=Email("ada@example.org"),
        email_is_verified=True,
        is_vouched_for=False,
        is_member=True,
        is_own_member=True,
        is_admitted=True,
        is_chosen=True,
        is_blocked_here=False,
        is_locked=False,
        is_forgotten=False,
        consented=None,
        organization=OrganizationId(UUID(int=2)),
        organization_slug="acme",
        profile=StandardProfile(),
        listed=StandardProfile(),
        facts=ServiceFacts(),
    )
    return replace(person, **changes)
