"""What a directory told about a visit waits with the second factor, and comes back as it was."""

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from core.domain.identifiers import UpstreamProviderId
from core.domain.identity.upstream.directory_visits import DirectoryVisit, name_digest, restored_visit

_PROVIDER = UpstreamProviderId(UUID("01900000-0000-7000-8000-00000000000a"))
_AT = datetime(2026, 11, 24, 9, 30, 0, 250_000, tzinfo=UTC)


@pytest.mark.parametrize(("issued_at", "ends_at"), [(None, None), (_AT, None), (_AT, _AT + timedelta(hours=9))])
def test_a_visit_is_kept_as_it_was(issued_at: datetime | None, ends_at: datetime | None) -> None:
    visit = DirectoryVisit(
        provider=_PROVIDER,
        name_digest=name_digest(_PROVIDER, "ada"),
        session_index="_s1",
        context_class="urn:oasis:names:tc:SAML:2.0:ac:classes:Password",
        issued_at=issued_at,
        ends_at=ends_at,
    )
    assert restored_visit(json.loads(json.dumps(visit.stored()))) == visit


def test_a_visit_that_the_release_before_has_kept_has_no_times() -> None:
    kept = {"provider": str(_PROVIDER), "name_digest": "00ff", "session_index": "", "context_class": ""}
    visit = restored_visit(kept)
    assert (visit.issued_at, visit.ends_at) == (None, None)
