"""An organization's own providers: which former ones a new one stands for."""

from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

import pytest

from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId, UpstreamProviderId
from core.domain.identity.upstream.claims import Voucher
from core.domain.identity.upstream.connections import ConnectionState
from core.domain.tenancy.upstream_providers import MOST_SUCCEEDED, UpstreamProvider, after_change, succeeding
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


def test_more_that_counts_as_a_second_factor_is_for_owners_to_say() -> None:
    """Whoever is no owner takes values away, and adds none to a provider that lets people in."""
    counts = replace(PROVIDER, second_factor_values=("mfa",))
    more, none = replace(PROVIDER, second_factor_values=("mfa", "otp")), PROVIDER
    assert after_change(counts, more, by_owner=True).state is after_change(counts, none, by_owner=False).state is ConnectionState.ACTIVE
    drafted = after_change(counts, more, by_owner=False)
    assert (drafted.state, drafted.enabled) == (ConnectionState.DRAFT, False)
    # Another scope changes neither the client nor what counts.
    assert after_change(counts, replace(counts, scopes=("openid",)), by_owner=False).state is ConnectionState.ACTIVE
    assert after_change(counts, replace(more, scopes=("openid",)), by_owner=False).state is ConnectionState.DRAFT
    assert after_change(counts, replace(counts, client_id="other"), by_owner=False).state is ConnectionState.DRAFT
    assert after_change(counts, replace(more, client_id="other"), by_owner=True).state is ConnectionState.ACTIVE
