"""Rules for risk of the installation, whom they would have met, and whom they have met."""

from core.domain.errors import BadRequest
from core.domain.identifiers import LoginEventId
from core.domain.identity.proofs import StepUp
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.routes.tenancy.risk.risk_policies import (
    RiskEventList,
    RiskEventsQuery,
    RiskPoliciesBody,
    RiskPoliciesRecord,
    RiskReportRecord,
    event_list,
    report_record,
    rules_of,
    rules_record,
)

_TAGS = ("installation",)
_POLICIES = "/api/platform/risk-policies"


@endpoint.get(_POLICIES, caller=PLATFORM_OWNER, tags=_TAGS)
async def get_installation_risk_policies(_call: Call, postern: Postern) -> RiskPoliciesRecord:
    """Get the rules for risk of the installation

    They are asked at every sign-in, before those of organizations.
    """
    return rules_record(await postern.platform.risk_policies.get())


@endpoint.put(_POLICIES, caller=PLATFORM_OWNER, limit=UNLIMITED, step_up=StepUp.ACCOUNT, refuses=(BadRequest,), tags=_TAGS)
async def set_installation_risk_policies(call: Call[RiskPoliciesBody], postern: Postern) -> RiskPoliciesRecord:
    """Set the rules for risk of the installation

    All rules and exceptions are replaced, and a new or changed rule stands in shadow first, as those of an organization do. These rules
    name no services, and exceptions no teams; the roles are `platform_owner` and `none`. A refused person gets in nowhere. A platform
    owner whom one refuses gets a link by mail, which puts the rules that refuse back in shadow; `postern risk-rules shadow` does, too. You
    need a recent proof of who you are.
    """
    policies, exceptions = rules_of(call.body)
    return rules_record(await postern.platform.risk_policies.change(policies, exceptions, call.actor))


@endpoint.get(f"{_POLICIES}/report", caller=PLATFORM_OWNER, tags=_TAGS)
async def get_installation_risk_report(call: Call, postern: Postern) -> RiskReportRecord:
    """See whom the rules for risk of the installation would have met

    All sign-ins of the last thirty days are judged by the rules as they are now, whether they count or not; the newest 200 000, if there
    are more. One that goes on from a session is not judged but counted apart: rules judge a session when it begins.
    """
    return report_record(await postern.platform.risk_policies.report(call.caller, call.actor.address))


@endpoint.get("/api/platform/risk-events", caller=PLATFORM_OWNER, tags=_TAGS)
async def list_installation_risk_events(call: Call[None, RiskEventsQuery], postern: Postern) -> RiskEventList:
    """List the sign-ins that rules of the installation met, the newest first

    A rule for risk that stands in shadow decides nothing, so its sign-ins are in the report. Rules of organizations decide apart: each
    organization lists its own.
    """
    before = None if call.query.after is None else LoginEventId(call.query.after)
    return event_list(await postern.platform.risk_policies.met(before, call.query.limit + 1), call.query.limit)
