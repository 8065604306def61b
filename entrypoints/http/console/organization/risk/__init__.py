"""The pages of rules for risk, of an organization or the installation: all rules, each on a card, and the form of one. A new rule stands in
shadow until somebody lets it count, and a changed one stands there again.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, Literal
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict, NotFound, Refusal
from core.domain.identity.risk_policies.policies import MOST_POLICIES, NO_ROLE, RiskAction, SignInWay
from core.domain.secrets import Token
from core.domain.tenancy.roles import BuiltInRole
from core.domain.tenancy.upstream_providers import CHANGED_SINCE
from core.frozen import Frozen, replace
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.declaring import console, stated
from entrypoints.http.console.kit.forms import Choice
from entrypoints.http.console.kit.navigation import PagePosition
from entrypoints.http.console.kit.rows import cut, filled, joined, pressed_on
from entrypoints.http.console.kit.visit import NO_ERRORS, AnyCall, ButtonLink, Head, Page, PageVisit, button
from entrypoints.http.console.organization import organization_tabs
from entrypoints.http.console.organization.people.roles import members_called, roles
from entrypoints.http.console.organization.risk import rule_forms
from entrypoints.http.console.organization.risk.rule_cards import RuleCard, card_of, with_others
from entrypoints.http.console.organization.risk.rule_forms import (
    ALL_KINDS,
    ConditionMisfit,
    ExceptionRows,
    RiskPolicyForm,
    field_of,
    form_of,
    is_id,
    policy_of,
    replaced,
    said_misfit,
    shape_of,
)
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import Line
from entrypoints.http.routes.services.services import list_services
from entrypoints.http.routes.tenancy.members import list_members
from entrypoints.http.routes.tenancy.risk_policies import (
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

# The latest sign-ins about which a rule has decided.
_LATEST: Final = 20
# What a form has done, for the notice after it.
_ADDED: Final = button("console.risk.add")
_SAVED: Final = button("console.risk.save")
_EXCEPTED: Final = button("console.risk.exceptions_save")
_ACTED: Final = {act: button(f"console.risk.{act}") for act in ("count", "shadow", "first", "remove")}


class ShownRules(msgspec.Struct, frozen=True, kw_only=True):
    """The query of the page of all rules."""

    done: Line = ""
    policy: Line = ""
    """The rule that the form before was about."""


NOTHING_DONE: Final = ShownRules()


class AskedRule(msgspec.Struct, frozen=True, kw_only=True):
    """The query of the page of one rule."""

    policy: Line = ""
    """Empty for a new rule."""


class RiskPolicyAct(BoundForm, frozen=True, kw_only=True):
    policy: UUID
    seen: Line = ""
    """The digest of the rules that the page has shown."""
    act: Literal["count", "shadow", "first", "remove"]


class _Typed(Frozen, kw_only=True):
    """What somebody has typed into the page, and what is wrong with it."""

    rows: Sequence[str] | None = None
    """The texts of the rows of exceptions. None: those that are kept."""
    errors: Mapping[str, str] = NO_ERRORS


class RulesPage(Frozen, kw_only=True):
    """The page of one keeper."""

    name: str
    """Of the rules, for the names of the handlers."""
    at: str
    position: PagePosition
    rules: Endpoint
    set_rules: Endpoint
    report: Endpoint
    events: Endpoint
    asked: tuple[Endpoint, ...]
    """Further endpoints that the page asks, for what a rule and an exception can name."""
    exceptions: ExceptionRows
    choices: Callable[[PageVisit], Awaitable[Mapping[str, Sequence[Choice]]]]
    """What a rule can choose among, by the condition, besides the ways to sign in."""
    whose: str = ""
    """Ends the text keys that say whose rules these are."""

    @property
    def one(self) -> str:
        """The template of the address of the form of one rule."""
        return f"{self.at}/rule"

    def pages(self) -> Sequence[Endpoint]:
        """See the rules and whom they would have met; add a rule in shadow, or change one; act on one; and set whom the rules leave out."""
        seen, read = (self.report, self.events, *self.asked), self.rules
        excepting: Any = msgspec.defstruct(
            f"{self.name}_exceptions_form", [("seen", Line, "")], bases=(self.exceptions.shape.form,), frozen=True, kw_only=True
        )

        async def show(call: AnyCall, postern: Postern) -> Page:
            return Answer(await self._shown(PageVisit(call, postern), _Typed(), call.query), 200)

        async def ask(call: AnyCall, postern: Postern) -> Page:
            return await self.ask(PageVisit(call, postern), call.query)

        def sent(verb: str, step: str, form: Any, do: Callable[[PageVisit, Any], Awaitable[Page]]) -> Endpoint:
            async def handler(call: AnyCall, postern: Postern) -> Page:
                return await do(PageVisit(call, postern), call.body)

            at = f"{self.at}{step}"
            return console.post(at, of=self.set_rules, also=(read, *seen))(stated(handler, f"{verb}_{self.name}", at, body=form))

        return (
            console.get(self.at, of=read, also=seen)(stated(show, f"show_{self.name}", self.at, query=ShownRules)),
            console.get(self.one, of=self.set_rules, also=(read, *self.asked))(
                stated(ask, f"ask_for_one_of_{self.name}", self.one, query=AskedRule)
            ),
            sent("add_to", "/rule", RiskPolicyForm, self.keep),
            sent("act_on", "/act", RiskPolicyAct, self.act),
            sent("except_from", "/exceptions", excepting, self.set_exceptions),
        )

    async def ask(self, visit: PageVisit, query: AskedRule) -> Page:
        """The form of a new rule, or of one to change."""
        if not query.policy:
            return Answer(await self._asked(visit, RiskPolicyForm(form_token=Token(""))), 200)
        record: RiskPoliciesRecord = await visit.ask(self.rules)
        found = next((one for one in record.policies if str(one.id) == query.policy), None)
        if found is None:
            raise NotFound
        return Answer(await self._asked(visit, form_of(found, _digest(record)), found.name), 200)

    async def keep(self, visit: PageVisit, form: RiskPolicyForm) -> Page:
        """Adds the rule, or changes the one that the form names."""
        try:
            written = policy_of(form)
        except ConditionMisfit as misfit:
            return Answer(await self._asked(visit, form, form.name, said_misfit(visit, misfit)), 400)
        record: RiskPoliciesRecord = await visit.ask(self.rules)
        policies, line = [*record.policies, written], len(record.policies)
        if form.policy:
            if form.seen != _digest(record):
                refusal = Conflict(CHANGED_SINCE, words="settings_changed")
                return Answer(await self._asked(visit, form, form.name, {"": visit.said(refusal)}), status_of(refusal))
            policies, line = replaced(record.policies, form.policy, written)
        try:
            await visit.ask(self.set_rules, body=RiskPoliciesBody(policies=policies, exceptions=record.exceptions))
        except Refusal as refusal:
            errors = {_field(refusal, line): visit.said(refusal)}
            return Answer(await self._asked(visit, form, form.name, errors), status_of(refusal))
        return self._done(visit, _SAVED if form.policy else _ADDED, policies[line].id)

    async def act(self, visit: PageVisit, form: RiskPolicyAct) -> Page:
        """Let a rule count, put it in shadow, move it to the front, or remove it. Rules that the page has not shown stay as they are."""
        record: RiskPoliciesRecord = await visit.ask(self.rules)
        if form.seen != _digest(record):
            return await self._overtaken(visit, _Typed())
        body = RiskPoliciesBody(policies=_acted(record.policies, form), exceptions=record.exceptions)
        return await self._kept(visit, body, _Typed(), _ACTED[form.act], form.policy)

    async def set_exceptions(self, visit: PageVisit, form: Any) -> Page:
        """`form` has the digest of the rules that the page has shown, too. A button that adds a row or takes one away saves nothing."""
        if (pressed := pressed_on(self.exceptions.rows, "exceptions", form)) is not None:
            return Answer(await self._shown(visit, _Typed(rows=pressed)), 200)
        record, rows = await visit.ask(self.rules), filled(self.exceptions.rows, form.exceptions)
        typed = _Typed(rows=joined(self.exceptions.rows, rows))
        if form.seen != _digest(record):
            return await self._overtaken(visit, typed)
        try:
            exceptions = await self.exceptions.read(visit, record, rows)
        except rule_forms.WrongRows as wrong:
            errors = {place: visit.text(words) for place, words in wrong.faults.items()}
            return Answer(await self._shown(visit, replace(typed, errors=errors)), 400)
        return await self._kept(visit, RiskPoliciesBody(policies=record.policies, exceptions=exceptions), typed, _EXCEPTED)

    async def _overtaken(self, visit: PageVisit, typed: _Typed) -> Page:
        refusal = Conflict(CHANGED_SINCE, words="settings_changed")
        return Answer(await self._shown(visit, replace(typed, errors={"": visit.said(refusal)})), status_of(refusal))

    async def _kept(self, visit: PageVisit, body: RiskPoliciesBody, typed: _Typed, done: str, policy: UUID | None = None) -> Page:
        try:
            await visit.ask(self.set_rules, body=body)
        except Refusal as refusal:
            errors = {_row(refusal): visit.said(refusal)}
            return Answer(await self._shown(visit, replace(typed, errors=errors)), status_of(refusal))
        return self._done(visit, done, policy)

    def _done(self, visit: PageVisit, done: str, policy: UUID | None) -> Page:
        about = "" if policy is None else f"&policy={policy}"
        return redirect(f"{visit.here(self.at)}?done={done}{about}")

    async def _shown(self, visit: PageVisit, typed: _Typed, query: ShownRules = NOTHING_DONE) -> bytes:
        record: RiskPoliciesRecord = await visit.ask(self.rules)
        decided = await visit.ask(self.events, query={"limit": _LATEST}) if visit.may(self.events) else None
        cards, judged = await self._cards(visit, record)
        rows = typed.rows
        if rows is None:
            rows = joined(self.exceptions.rows, await self.exceptions.shown(visit, record))
        (exceptions,) = self.exceptions.shape.inputs
        may_change, has_room = visit.may(self.set_rules), len(record.policies) < MOST_POLICIES
        add = ButtonLink(visit.text("console.risk.add"), visit.here(self.one))
        return visit.show(
            "organization/risk/risk_policies.html",
            self.position,
            Head(
                title=visit.text(f"console.risk.title{self.whose}"),
                main=add if may_change and has_room else None,
                curl=visit.curl(self.rules),
                done=query.done,
                done_to=next((one.name for one in record.policies if str(one.id) == query.policy), ""),
                errors=typed.errors,
            ),
            seen=_digest(record),
            explained=visit.text(f"console.risk.explained{self.whose}"),
            cards=cards,
            decided=() if decided is None else decided.risk_events,
            judged=judged,
            exceptions=[(exceptions, rows, cut(self.exceptions.rows, rows))],
            may_change=may_change,
            rule_at=visit.here(self.one),
            act=visit.here(f"{self.at}/act"),
            except_at=visit.here(f"{self.at}/exceptions"),
        )

    async def _cards(self, visit: PageVisit, record: RiskPoliciesRecord) -> tuple[Sequence[RuleCard], int | None]:
        """With the number of sign-ins that the rules were asked about; None for whoever may not know."""
        choices = await self._choices(visit)
        if not visit.may(self.report):
            return [card_of(visit, one, choices) for one in record.policies], None
        report = await visit.ask(self.report)
        found = {one.policy_id: one for one in report.policies}
        cards = [card_of(visit, one, choices, found.get(one.id), meets_reader=one.id == report.your_policy) for one in record.policies]
        return cards, report.judged

    async def _choices(self, visit: PageVisit) -> Mapping[str, Sequence[Choice]]:
        ways = [Choice(one.value, visit.text(f"console.risk.way_{one.value}")) for one in SignInWay]
        return {"ways": ways, **await self.choices(visit)}

    async def _asked(self, visit: PageVisit, form: RiskPolicyForm, name: str = "", errors: Mapping[str, str] = NO_ERRORS) -> bytes:
        """`name` is that of a rule that is there already."""
        is_new = not form.policy
        return visit.show(
            "organization/risk/risk_policy.html",
            self.position,
            Head(
                title=visit.text("console.risk.add") if is_new or not name else name,
                crumbs=((visit.text(f"console.risk.title{self.whose}"), visit.here(self.at)),),
                curl=visit.curl(self.set_rules),
                errors=errors,
            ),
            is_new=is_new,
            actions=[(one.value, visit.text(f"console.risk.action_{one.value}")) for one in RiskAction],
            choices={field: with_others(offered, getattr(form, field)) for field, offered in (await self._choices(visit)).items()},
            values=form,
            knows_countries=visit.postern.tenancy.risk_policies.knows_countries,
            action=visit.here(self.one),
            back=visit.here(self.at),
        )


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


def _field(refusal: Refusal, line: int) -> str:
    """The field of the form that the refusal is about, if it is about the rule of this line."""
    found = field_of(refusal) if isinstance(refusal, BadRequest) else None
    return found[1] if found is not None and found[0] == line and found[1] in RiskPolicyForm.__struct_fields__ else ""


def _row(refusal: Refusal) -> str:
    """The field of the row of exceptions that the refusal is about, if it is about one."""
    found = field_of(refusal) if isinstance(refusal, BadRequest) and refusal.message.startswith("exceptions") else None
    return "" if found is None else rule_forms.place(*found)


_BELOW_OWNER: Final = (BuiltInRole.MEMBER, BuiltInRole.ADMIN)


async def _excepted(visit: PageVisit) -> Mapping[Any, str]:
    return await visit.postern.tenancy.risk_policies.excepted(visit.call.caller.organization)


async def _called(visit: PageVisit, given: str) -> str | None:
    found = await members_called(visit, given) if visit.may(list_members) or is_id(given) else ()
    return found[0].value if len(found) == 1 else None


async def _choices(visit: PageVisit) -> Mapping[str, Sequence[Choice]]:
    services = (await visit.ask(list_services)).services if visit.may(list_services) else ()
    others = await roles(visit) if visit.may(list_roles) else [Choice(one.value, visit.text(f"roles.{one.value}")) for one in _BELOW_OWNER]
    return {
        "services": [Choice(str(one.id), one.name) for one in services],
        "roles": [
            Choice(BuiltInRole.OWNER.value, visit.text("roles.owner")),
            *others,
            Choice(NO_ROLE, visit.text("console.risk.role_none")),
        ],
    }


PAGES: Final = RulesPage(
    name="risk_policies",
    at=organization_tabs.RISK,
    position=organization_tabs.position(organization_tabs.SECURITY_ENTRY, organization_tabs.RISK_TAB),
    rules=get_risk_policies,
    set_rules=set_risk_policies,
    report=get_risk_report,
    events=list_risk_events,
    asked=(list_services, list_roles, list_teams, list_members),
    exceptions=ExceptionRows(
        shape=shape_of(set_risk_policies, ALL_KINDS), people=_excepted, called=_called, teams=list_teams, no_person="console.risk.no_person"
    ),
    choices=_choices,
).pages()
