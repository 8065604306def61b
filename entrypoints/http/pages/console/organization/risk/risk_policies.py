"""The rules for risk of an organization, and whom each would have met. A new rule stands in shadow until somebody lets it count."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, Literal
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict, Refusal
from core.domain.identity.risk_policies.policies import NO_ROLE, RiskAction, SignInWay
from core.domain.secrets import Token
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import BuiltInRole
from core.domain.tenancy.upstream_providers import CHANGED_SINCE
from core.frozen import Frozen, replace
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import OrganizationPath
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.forms import Choice
from entrypoints.http.pages.console.organization.organization_tabs import RISK, RISK_TAB, SIGN_IN_ENTRY, position
from entrypoints.http.pages.console.organization.people.choices import roles
from entrypoints.http.pages.console.organization.risk import exception_rows
from entrypoints.http.pages.console.organization.risk.rule_forms import ConditionMisfit, RiskPolicyForm, field_of, policy_of, said_misfit
from entrypoints.http.pages.console.rows.rows import cut, filled, joined, pressed_on
from entrypoints.http.pages.console.visit import NO_ERRORS, Head, Page, PageVisit
from entrypoints.http.routes.services.services import list_services
from entrypoints.http.routes.tenancy.members import list_members
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
from entrypoints.http.routes.tenancy.roles import list_roles
from entrypoints.http.routes.tenancy.teams import list_teams

_POSITION: Final = position(SIGN_IN_ENTRY, RISK_TAB)
# The latest sign-ins about which a rule has decided.
_LATEST: Final = 20
_BELOW_OWNER: Final = (BuiltInRole.MEMBER, BuiltInRole.ADMIN)
_OFFERED: Final = (get_risk_policies, get_risk_report, list_risk_events, list_services, list_roles, list_teams, list_members)


class RiskPolicyAct(BoundForm, frozen=True, kw_only=True):
    policy: UUID
    seen: str = ""
    """The digest of the rules that the page has shown."""
    act: Literal["count", "shadow", "first", "remove"]


_ExceptionsForm: Any = msgspec.defstruct(
    "RiskExceptionsForm", [("seen", str, "")], bases=(exception_rows.SHAPE.form,), frozen=True, kw_only=True
)


class _Typed(Frozen, kw_only=True):
    """What somebody has typed into the page, and what is wrong with it."""

    form: RiskPolicyForm = RiskPolicyForm(form_token=Token(""))
    rows: Sequence[str] | None = None
    """The texts of the rows of exceptions. None: those that are kept."""
    errors: Mapping[str, str] = NO_ERRORS


@console.get(RISK, of=get_risk_policies, also=_OFFERED[1:])
async def show_risk_policies(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Page:
    """See the rules for risk of an organization, and whom they would have met"""
    return Answer(await _shown(PageVisit(call, postern), _Typed()), 200)


@console.post(RISK, of=set_risk_policies, also=_OFFERED)
async def add_risk_policy(call: Call[RiskPolicyForm, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Add a rule for risk, in shadow"""
    visit, form = PageVisit(call, postern), call.body
    try:
        added = policy_of(form)
    except ConditionMisfit as misfit:
        return Answer(await _shown(visit, _Typed(form=form, errors=said_misfit(visit, misfit))), 400)
    record: RiskPoliciesRecord = await visit.ask(get_risk_policies)
    return await _kept(visit, RiskPoliciesBody(policies=[*record.policies, added], exceptions=record.exceptions), _Typed(form=form))


@console.post(f"{RISK}/act", of=set_risk_policies, also=_OFFERED)
async def act_on_risk_policy(call: Call[RiskPolicyAct, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Let a rule for risk count, put it in shadow, move it to the front, or remove it

    Rules that are not those that the page has shown stay as they are.
    """
    visit, form = PageVisit(call, postern), call.body
    record: RiskPoliciesRecord = await visit.ask(get_risk_policies)
    if form.seen != _digest(record):
        return await _overtaken(visit, _Typed())
    body = RiskPoliciesBody(policies=_acted(record.policies, form), exceptions=record.exceptions)
    return await _kept(visit, body, _Typed())


@console.post(f"{RISK}/exceptions", of=set_risk_policies, also=_OFFERED)
async def set_risk_exceptions(call: Call[_ExceptionsForm, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Set whom the rules for risk leave out

    A button that adds a row or takes one away saves nothing.
    """
    visit, form = PageVisit(call, postern), call.body
    if (pressed := pressed_on(exception_rows.ROWS, "exceptions", form)) is not None:
        return Answer(await _shown(visit, _Typed(rows=pressed)), 200)
    record, rows = await visit.ask(get_risk_policies), filled(exception_rows.ROWS, form.exceptions)
    typed = _Typed(rows=joined(exception_rows.ROWS, rows))
    if form.seen != _digest(record):
        return await _overtaken(visit, typed)
    teams = await exception_rows.teams_of(visit)
    shown = exception_rows.rows_of(record, await _excepted(visit), teams)
    try:
        exceptions = await exception_rows.exceptions_of(visit, record, shown, rows, teams)
    except exception_rows.WrongRows as wrong:
        errors = {place: visit.text(words) for place, words in wrong.faults.items()}
        return Answer(await _shown(visit, replace(typed, errors=errors)), 400)
    return await _kept(visit, RiskPoliciesBody(policies=record.policies, exceptions=exceptions), typed)


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


async def _overtaken(visit: PageVisit, typed: _Typed) -> Page:
    refusal = Conflict(CHANGED_SINCE, words="settings_changed")
    return Answer(await _shown(visit, replace(typed, errors={"": visit.said(refusal)})), status_of(refusal))


async def _kept(visit: PageVisit, body: RiskPoliciesBody, typed: _Typed) -> Page:
    try:
        await visit.ask(set_risk_policies, body=body)
    except Refusal as refusal:
        place = _place(refusal, len(body.policies) - 1)
        return Answer(await _shown(visit, replace(typed, errors={place: visit.said(refusal)})), status_of(refusal))
    return redirect(f"{visit.here(RISK)}?done=saved")


def _place(refusal: Refusal, added: int) -> str:
    """The field that the refusal is about, if it is one of the page."""
    found = field_of(refusal) if isinstance(refusal, BadRequest) else None
    if found is None:
        return ""
    line, field = found
    if refusal.message.startswith("exceptions"):
        return exception_rows.place(line, field)
    return field if line == added and field in RiskPolicyForm.__struct_fields__ else ""


async def _excepted(visit: PageVisit) -> Mapping[Any, str]:
    member = visit.call.caller
    risk_policies = visit.postern.tenancy.risk_policies
    return await risk_policies.excepted(member, await risk_policies.get(member))


async def _shown(visit: PageVisit, typed: _Typed) -> bytes:
    record: RiskPoliciesRecord = await visit.ask(get_risk_policies)
    report = await visit.ask(get_risk_report) if visit.may(get_risk_report) else None
    decided = await visit.ask(list_risk_events, query={"limit": _LATEST}) if visit.may(list_risk_events) else None
    found = {} if report is None else {one.policy_id: one for one in report.policies}
    yours = None if report is None else report.your_policy
    choices = await _choices(visit)
    rows = typed.rows
    if rows is None:
        kept = exception_rows.rows_of(record, await _excepted(visit), await exception_rows.teams_of(visit))
        rows = joined(exception_rows.ROWS, kept)
    (exceptions,) = exception_rows.SHAPE.inputs
    return visit.show(
        "organization/risk/risk_policies.html",
        _POSITION,
        Head(title=visit.text("console.risk.title"), curl=visit.curl(get_risk_policies), errors=typed.errors),
        seen=_digest(record),
        rules=[(one, _conditions(visit, one.when, choices), found.get(one.id), one.id == yours) for one in record.policies],
        decided=() if decided is None else decided.risk_events,
        judged=None if report is None else report.judged,
        actions=[(one.value, visit.text(f"console.risk.action_{one.value}")) for one in RiskAction],
        choices=choices,
        values=typed.form,
        exceptions=[(exceptions, rows, cut(exception_rows.ROWS, rows))],
        may_change=visit.may(set_risk_policies),
        action=visit.here(RISK),
        act=visit.here(f"{RISK}/act"),
        except_at=visit.here(f"{RISK}/exceptions"),
    )


async def _choices(visit: PageVisit) -> Mapping[str, Sequence[Choice]]:
    """What a rule can choose among, by the condition."""
    services = (await visit.ask(list_services)).services if visit.may(list_services) else ()
    others = await roles(visit) if visit.may(list_roles) else [Choice(one.value, visit.text(f"roles.{one.value}")) for one in _BELOW_OWNER]
    return {
        "ways": [Choice(one.value, visit.text(f"console.risk.way_{one.value}")) for one in SignInWay],
        "services": [Choice(str(one.id), one.name) for one in services],
        "roles": [
            Choice(BuiltInRole.OWNER.value, visit.text("roles.owner")),
            *others,
            Choice(NO_ROLE, visit.text("console.risk.role_none")),
        ],
    }


def _conditions(visit: PageVisit, when: RiskConditionsBody, choices: Mapping[str, Sequence[Choice]]) -> Sequence[str]:
    """The conditions that are set, in words."""
    values = {name: getattr(when, name) for name in when.__struct_fields__}
    return [
        visit.text(f"console.risk.when_{name}", value=_value(visit, value, choices.get(name, ())))
        for name, value in values.items()
        if value not in {None, ()}
    ]


def _value(visit: PageVisit, value: Any, choices: Sequence[Choice]) -> str:
    if isinstance(value, bool):
        return visit.text("console.risk.yes" if value else "console.risk.no")
    labels = {one.value: one.label for one in choices}
    return ", ".join(labels.get(str(one), str(one)) for one in value) if isinstance(value, tuple) else str(value)


PAGES: Final = (show_risk_policies, add_risk_policy, act_on_risk_policy, set_risk_exceptions)
