"""The report of rules for risk: the sign-ins of the last thirty days, judged by the rules as they are now, in shadow or not."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.risk_policies.policies import RiskPolicies
from core.domain.identity.risk_policies.shadow import ANYBODY_HERE, SPAN, STRANGER, OwnOutcome, PolicyReport, ShadowReport
from core.frozen import Frozen
from ports.tenancy.risk.risk_policies import RiskPolicyStore

# A page of sign-ins takes some milliseconds, between which other requests run.
_BATCH: Final = 2000
# The report judges the newest, where there are more. It takes them in the order of time, as two countries and new devices ask for.
_MOST_BATCHES: Final = 100


class RiskReport(Frozen):
    """Whom the rules would have met in the last thirty days, and whether they would refuse the person who looks."""

    judged: int
    policies: Sequence[PolicyReport]
    addresses: Mapping[UserId, str]
    you: OwnOutcome | None
    """The rule that fits a sign-in of yours from here and now. None for none, and for a management key."""


async def judged(
    lookup: RiskPolicyStore, organization: OrganizationId | None, rules: RiskPolicies, now: datetime, you: OwnOutcome | None
) -> RiskReport:
    """`organization`: None for the rules of the installation, which are asked about all sign-ins."""
    stranger = ANYBODY_HERE if organization is None else STRANGER
    report = ShadowReport(rules, await lookup.people(organization), now, stranger)
    after = await lookup.older(organization, now - SPAN, _BATCH * _MOST_BATCHES)
    while True:
        batch = await lookup.sign_ins(organization, now - SPAN, after, _BATCH)
        report.take(batch)
        if len(batch) < _BATCH:
            break
        after = batch[-1].id
    reports = report.reports()
    named = {met.user for one in reports for met in one.latest}
    addresses = await lookup.addresses([*named]) if named else {}
    return RiskReport(report.judged, reports, addresses, you)
