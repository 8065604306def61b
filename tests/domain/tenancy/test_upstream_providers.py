"""An organization's own providers: which former ones a new one stands for."""

from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

import pytest

from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId, UpstreamProviderId
from core.domain.identity.upstream.vouching import Voucher
from core.domain.tenancy.upstream_providers import MOST_SUCCEEDED, UpstreamProvider, succeeding
from core.frozen import replace

MADE: Final = datetime(2026, 11, 22, 12, tzinfo=UTC)
NOW: Final = MADE + timedelta(days=1)
ACME: Final = OrganizationId(UUID(int=1))
PROVIDER: Final = UpstreamProvider(
    id=UpstreamProviderId(UUID(int=1000)),
    organization=ACME,
    name="Staff",
    issuer="https://login.acme.example",
    client_id="postern",
    scopes=(),
    enabled=True,
    created_at=MADE,
    updated_at=MADE,
)


def voucher(number: int) -> Voucher:
    return Voucher(ACME, UUID(int=number))


def test_a_provider_succeeds_a_hundred_others_and_no_more() -> None:
    """Each sign-in looks whether one of them has vouched for the account, so they stay few. Those inherited count, too."""
    former = UpstreamProviderId(UUID(int=2000))
    full = replace(PROVIDER, succeeds=tuple(map(voucher, range(MOST_SUCCEEDED))))
    with pytest.raises(BadRequest, match="at most 100 others"):
        succeeding(full, former, (), NOW)
    almost = replace(PROVIDER, succeeds=full.succeeds[1:])
    with pytest.raises(BadRequest, match="at most 100 others"):
        succeeding(almost, former, [voucher(3000)], NOW)
    after = succeeding(almost, former, [], NOW)
    assert after == replace(almost, succeeds=(*almost.succeeds, Voucher(ACME, former)), updated_at=NOW)
    # What it stands for already counts once, and neither does it stand for itself.
    assert succeeding(after, former, [*almost.succeeds, Voucher(ACME, PROVIDER.id)], NOW + timedelta(days=1)) is after
