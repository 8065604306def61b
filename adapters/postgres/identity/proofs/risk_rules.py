"""Rules for risk as the last look of a sign-in reads them: one value, which `risk_rules_asked` of the schema makes."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from adapters.postgres.identity.proofs.login_events import spot_of
from core.domain.identifiers import DeviceId, OrganizationId
from core.domain.identity.risk_policies.policies import NO_ROLE, RiskPolicies, restored_exception, restored_policy
from core.domain.identity.risk_policies.verdicts import AskedRules, SeenSignIn
from core.frozen import replace


def asked_rules(value: Sequence[Mapping[str, Any]] | None) -> tuple[AskedRules, ...]:
    return tuple(_asked(one) for one in value or ())


def risk_policies(policies: Sequence[Mapping[str, Any]], exceptions: Sequence[Mapping[str, Any]], since: datetime | None) -> RiskPolicies:
    """Takes the columns of the organization. A rule that counted before the moment of each was kept counts since the first of all."""
    restored = tuple(restored_policy(one) for one in policies)
    if since is not None:
        restored = tuple(replace(one, counts_since=since) if one.counts and one.counts_since is None else one for one in restored)
    return RiskPolicies(
        policies=restored,
        exceptions=tuple(restored_exception(one) for one in exceptions),
        count_since=since,
    )


def _asked(value: Mapping[str, Any]) -> AskedRules:
    return AskedRules(
        organization=None if value["organization"] is None else OrganizationId(UUID(value["organization"])),
        rules=risk_policies(value["policies"], value["exceptions"], None),
        is_own=value["is_own"],
        role=value["role"] or NO_ROLE,
        teams=frozenset(UUID(one) for one in value["teams"]),
        seen=tuple(_seen(*one) for one in value["seen"]),
    )


def _seen(at: float, country: str | None, device: str | None, failure: str | None, spot: Sequence[int] | None) -> SeenSignIn:
    known = None if device is None else DeviceId(UUID(device))
    return SeenSignIn(datetime.fromtimestamp(at, UTC), country, known, failure, spot_of(spot))
