"""What the job of ended sessions says, and what the person is told."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from core.domain.formats import Json
from core.domain.identifiers import SessionId, UserId
from core.domain.identity.session_limits import DisplacedPerson, Displacement, NoDisplacement, sessions_displaced
from core.domain.mail import Email
from core.frozen import replace

BY, ENDED = UUID(int=1), UUID(int=2)
GRACE = DisplacedPerson(
    user=UserId(UUID(int=3)),
    email=Email("grace@example.org"),
    language=None,
    is_active=True,
    organization=None,
    organization_name="",
    service_name="",
    device_name="Firefox",
    location=None,
    last_seen_at=datetime(2026, 5, 1, tzinfo=UTC),
)


def test_the_job_names_the_sign_in_and_what_it_ended() -> None:
    read = Displacement.of_job({"by": str(BY), "sessions": [str(ENDED)]})
    assert read == Displacement(SessionId(BY), (SessionId(ENDED),))
    assert sessions_displaced(GRACE, read).details == {"sessions": 1, "because": "most_sessions", "session_id": str(BY)}


@pytest.mark.parametrize("payload", [{}, {"by": str(BY)}, {"by": 1, "sessions": []}, {"by": str(BY), "sessions": 3}])
def test_a_job_of_nothing_is_refused(payload: dict[str, Json]) -> None:
    with pytest.raises(NoDisplacement):
        Displacement.of_job(payload)


def test_the_nearest_place_is_named() -> None:
    in_acme = replace(GRACE, organization_name="Acme")
    assert (GRACE.place, in_acme.place, replace(in_acme, service_name="Shop").place) == ("", "Acme", "Shop")
