"""The rules for risk of an organization, and whom each would have met. A new rule stands in shadow until somebody lets it count."""

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, Literal
from uuid import UUID, uuid4

import msgspec

from core.domain.errors import Conflict, Refusal
from core.domain.identity.risk_policies.policies import RiskAction
from core.domain.secrets import Token
from core.domain.tenancy.members import Member
from core.domain.tenancy.upstream_providers import CHANGED_SINCE
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import OrganizationPath
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.organization.organization_tabs import RISK, RISK_TAB, SIGN_IN_ENTRY, position
from entrypoints.http.pages.console.visit import NO_ERRORS, Head, Page, PageVisit
from entrypoints.http.routes.tenancy.risk.risk_policies import (
    RiskConditionsBody,
    RiskPoliciesBody,
    RiskPoliciesRecord,
    RiskPolicyBody,
    get_risk_policies,
    get_risk_report,
    list_risk_events,
    set_risk_policies,
)

_POSITION: Final = position(SIGN_IN_ENTRY, RISK_TAB)
# The latest sign-ins about which a rule has decided.
_LATEST: Final = 20


class RiskPolicyForm(BoundForm, frozen=True, kw_only=True):
    name: str = ""
    action: RiskAction = RiskAction.SECOND_FACTOR
    countries: str = ""
    except_countries: str = ""
    networks: str = ""
    except_networks: str = ""
    new_device: Literal["", "yes"] = ""


class RiskPolicyAct(BoundForm, frozen=True, kw_only=True):
    policy: UUID
    seen: str = ""
    """The digest of the rules that the page has shown."""
    act: Literal["count", "shadow", "first", "remove"]


@console.get(RISK, of=get_risk_policies, also=(get_risk_report, list_risk_events))
async def show_risk_policies(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Page:
    """See the rules for risk of an organization, and whom they would have met"""
    return Answer(await _shown(PageVisit(call, postern)), 200)


@console.post(RISK, of=set_risk_policies, also=(get_risk_policies, get_risk_report, list_risk_events))
async def add_risk_policy(call: Call[RiskPolicyForm, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Add a rule for risk, in shadow"""
    visit, form = PageVisit(call, postern), call.body
    when = RiskConditionsBody(
        countries=_words(form.countries),
        except_countries=_words(form.except_countries),
        networks=_words(form.networks),
        except_networks=_words(form.except_networks),
        new_device=True if form.new_device else None,
    )
    added = RiskPolicyBody(id=uuid4(), name=form.name, when=when, action=form.action)
    return await _changed(visit, lambda policies: [*policies, added], form)


@console.post(f"{RISK}/act", of=set_risk_policies, also=(get_risk_policies, get_risk_report, list_risk_events))
async def act_on_risk_policy(call: Call[RiskPolicyAct, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Let a rule for risk count, put it in shadow, move it to the front, or remove it

    Rules that are not those that the page has shown stay as they are.
    """
    visit, form = PageVisit(call, postern), call.body
    return await _changed(visit, lambda policies: _acted(policies, form), None, seen=form.seen)


def _acted(policies: Sequence[RiskPolicyBody], form: RiskPolicyAct) -> Sequence[RiskPolicyBody]:
    chosen = [one for one in policies if one.id == form.policy]
    others = [one for one in policies if one.id != form.policy]
    if form.act == "remove":
        return others
    if form.act == "first":
        return [*chosen, *others]
    counts = form.act == "count"
    return [msgspec.structs.replace(one, counts=counts) if one.id == form.policy else one for one in policies]


def _digest(record: RiskPoliciesRecord) -> str:
    return sha256(msgspec.json.encode((record.policies, record.exceptions))).hexdigest()


def _words(text: str) -> Sequence[str]:
    return text.replace(",", " ").split()


async def _changed(
    visit: PageVisit,
    change: Callable[[Sequence[RiskPolicyBody]], Sequence[RiskPolicyBody]],
    form: RiskPolicyForm | None,
    *,
    seen: str | None = None,
) -> Page:
    record: RiskPoliciesRecord = await visit.ask(get_risk_policies)
    try:
        if seen not in {None, _digest(record)}:
            raise Conflict(CHANGED_SINCE, words="settings_changed")
        await visit.ask(set_risk_policies, body=RiskPoliciesBody(policies=change(record.policies), exceptions=record.exceptions))
    except Refusal as refusal:
        return Answer(await _shown(visit, form, {"": visit.said(refusal)}), status_of(refusal))
    return redirect(f"{visit.here(RISK)}?done=saved")


async def _shown(visit: PageVisit, form: RiskPolicyForm | None = None, errors: Mapping[str, str] = NO_ERRORS) -> bytes:
    record: RiskPoliciesRecord = await visit.ask(get_risk_policies)
    report = await visit.ask(get_risk_report) if visit.may(get_risk_report) else None
    decided = await visit.ask(list_risk_events, query={"limit": _LATEST}) if visit.may(list_risk_events) else None
    found = {} if report is None else {one.policy_id: one for one in report.policies}
    yours = None if report is None else report.your_policy
    return visit.show(
        "organization/risk/risk_policies.html",
        _POSITION,
        Head(title=visit.text("console.risk.title"), curl=visit.curl(get_risk_policies), errors=errors),
        seen=_digest(record),
        rules=[(one, _conditions(visit, one.when), found.get(one.id), one.id == yours) for one in record.policies],
        decided=() if decided is None else decided.risk_events,
        judged=None if report is None else report.judged,
        actions=[(one.value, visit.text(f"console.risk.action_{one.value}")) for one in RiskAction],
        values=form or RiskPolicyForm(form_token=Token("")),
        may_change=visit.may(set_risk_policies),
        action=visit.here(RISK),
        act=visit.here(f"{RISK}/act"),
    )


def _conditions(visit: PageVisit, when: RiskConditionsBody) -> Sequence[str]:
    """The conditions that are set, in words."""
    values = {name: getattr(when, name) for name in when.__struct_fields__}
    return [
        visit.text(f"console.risk.when_{name}", value=_value(visit, value)) for name, value in values.items() if value not in {None, ()}
    ]


def _value(visit: PageVisit, value: Any) -> str:
    if isinstance(value, bool):
        return visit.text("console.risk.yes" if value else "console.risk.no")
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


PAGES: Final = (show_risk_policies, add_risk_policy, act_on_risk_policy)
