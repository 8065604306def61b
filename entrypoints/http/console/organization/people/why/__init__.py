"""Why somebody cannot sign in: the verdict in a sentence, the rule with its place, the last tries, and the buttons of the person's page.

Everything here is what the person's page says to the same reader, in the order of the question. An address without a tie to the
organization is nobody's, whether an account has it or not. What was typed stands in no address: the answer to the form is the page.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from core.domain.errors import BadRequest, NotFound
from core.domain.federation.token_preview import SignInRule
from core.domain.identity.login_events import LoginFailure
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import Cell, rows_of
from entrypoints.http.console.kit.declaring import console, stated
from entrypoints.http.console.kit.resource_pages import acts_of
from entrypoints.http.console.kit.visit import NO_ERRORS, ActLink, AnyCall, Head, Page, PageVisit
from entrypoints.http.console.organization import applications
from entrypoints.http.console.organization.applications.claims import verdict_of
from entrypoints.http.console.organization.organization_tabs import DIRECTORIES, HOOKS, PEOPLE, RISK, SETTINGS, SIGN_IN, WHY
from entrypoints.http.console.organization.people.members import END_USERS, MEMBERS, person_of
from entrypoints.http.console.organization.sign_ins import OF_PERSON
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import OrganizationPath
from entrypoints.http.page_addresses import GOVERNED_ORGANIZATION, GOVERNED_PERSON
from entrypoints.http.routes.federation.token_preview import list_sign_in_verdicts
from entrypoints.http.routes.platform.sign_ins import list_sign_ins
from entrypoints.http.routes.services.end_users import get_end_user
from entrypoints.http.routes.services.services import get_service
from entrypoints.http.routes.tenancy.hooks import get_sign_in_hook
from entrypoints.http.routes.tenancy.members import disable_mfa_of_member, get_member
from entrypoints.http.routes.tenancy.risk_policies import get_risk_policies
from entrypoints.http.routes.tenancy.sign_in_rules import get_sign_in_rules
from entrypoints.http.routes.tenancy.terms import get_terms
from entrypoints.http.routes.tenancy.upstream_providers import list_upstream_providers

AT: Final = WHY
OF_MEMBER: Final = f"{PEOPLE}/{{user_id}}/why"
OF_END_USER: Final = f"{PEOPLE}/users/{{user_id}}/why"
_MOST_TRIES: Final = 10
_NEEDED: Final = (list_sign_ins, get_end_user)
"""Whoever reads the log, and the people of applications: the verdicts are refused to everybody else."""
_ASKED: Final = (
    list_sign_in_verdicts,
    get_member,
    get_service,
    get_sign_in_rules,
    get_risk_policies,
    get_sign_in_hook,
    get_terms,
    list_upstream_providers,
    disable_mfa_of_member,
    *(act.endpoint for act in (*MEMBERS.acts, *END_USERS.acts)),
    *(one.ending.endpoint for one in (MEMBERS, END_USERS) if one.ending is not None),
)
# The page where the rule stands, and the endpoint that this page offers.
_RULES: Final[Mapping[SignInRule, tuple[str, Endpoint]]] = {
    SignInRule.ANYONE: (applications.SIGN_IN, get_service),
    SignInRule.MEMBERS: (applications.SIGN_IN, get_service),
    SignInRule.ASSIGNED: (applications.ACCESS, get_service),
    SignInRule.SECOND_FACTOR_REQUIRED: (SIGN_IN, get_sign_in_rules),
    SignInRule.TERMS_REQUIRED: (f"{SETTINGS}/terms", get_terms),
}
# Only those who govern the installation change these, on its own pages.
_GOVERNED: Final[Mapping[SignInRule, str]] = {
    SignInRule.ACCOUNT_DEACTIVATED: GOVERNED_PERSON,
    SignInRule.ORGANIZATION_NOT_ACTIVE: GOVERNED_ORGANIZATION,
}
_TRIES: Final[Mapping[LoginFailure, tuple[str, Endpoint]]] = {
    LoginFailure.REFUSED_BY_RULE: (RISK, get_risk_policies),
    LoginFailure.PROVIDER_REQUIRED: (DIRECTORIES, list_upstream_providers),
    LoginFailure.NOT_MEMBER: (applications.SIGN_IN, get_service),
    LoginFailure.NO_ROLE: (applications.ACCESS, get_service),
    LoginFailure.REFUSED_BY_HOOK: (HOOKS, get_sign_in_hook),
    LoginFailure.HOOK_WANTS_FACTOR: (HOOKS, get_sign_in_hook),
    LoginFailure.HOOK_SILENT: (HOOKS, get_sign_in_hook),
}


class WhyForm(BoundForm, frozen=True, kw_only=True):
    email: Annotated[str, msgspec.Meta(max_length=1000)] = ""


class ClosedApplication(NamedTuple):
    """An application that does not let the person in, and the rule with its place."""

    application: str
    at: str
    rule: str
    place: str


class FailedTry(NamedTuple):
    what: Cell
    application: str
    place: str
    at: Any


@console.get(AT, of=list_sign_in_verdicts, needs=_NEEDED, also=(get_member,))
async def ask_why(call: Call[None, None, OrganizationPath, Any], postern: Postern) -> Page:
    """Ask whose sign-in is meant."""
    return Answer(_asked(PageVisit(call, postern)), 200)


# The form calls no endpoint that changes something: it asks, without an address that says what.
@console.post(AT, of=list_sign_in_verdicts.caller, needs=_NEEDED)
async def answer_why(call: Call[WhyForm, None, OrganizationPath, Any], postern: Postern) -> Page:
    """Say why the person with this address cannot sign in. The answer is the page, which has no address of its own."""
    visit, typed = PageVisit(call, postern), call.body.email.strip()
    try:
        email = postern.foundation.email_syntax.parse(typed)
        user = await postern.federation.token_previews.tied(call.caller, email)
    except NotFound as problem:
        return Answer(_asked(visit, typed, visit.text("console.why.nobody")), status_of(problem))
    except BadRequest as problem:
        return Answer(_asked(visit, typed, visit.said(problem)), status_of(problem))
    visit.path = {**visit.path, "user_id": str(user)}
    return Answer(await _answered(visit), 200)


async def _show(call: AnyCall, postern: Postern) -> Page:
    """Say why this person cannot sign in."""
    return Answer(await _answered(PageVisit(call, postern)), 200)


show_why_of_member: Final = console.get(OF_MEMBER, of=list_sign_in_verdicts, needs=_NEEDED, also=_ASKED)(
    stated(_show, "show_why_of_member", OF_MEMBER)
)


async def _show_end_user(call: AnyCall, postern: Postern) -> Page:
    """Say why this person cannot sign in."""
    return await _show(call, postern)


show_why_of_end_user: Final = console.get(OF_END_USER, of=list_sign_in_verdicts, needs=_NEEDED, also=_ASKED)(
    stated(_show_end_user, "show_why_of_end_user", OF_END_USER)
)


async def _answered(visit: PageVisit) -> bytes:
    resource, record = await person_of(visit)
    called = str(resource.call(visit, record))
    verdicts, hook_refused_at = await _verdicts(visit)
    kept_out = [_kept_out(visit, one) for one in verdicts if not one.sign_in.may_sign_in]
    outside = any(one.sign_in.outside_unknown for one in verdicts) or (resource is MEMBERS and record.own_since is None)
    acts, endings = acts_of(resource, visit, record)
    if resource is MEMBERS and record.mfa_enabled and visit.may(disable_mfa_of_member):
        factor = ActLink(visit.text("console.second_factor.title"), visit.here(f"{PEOPLE}/{{user_id}}/second-factor"), asks=True)
        acts = [*acts, factor]
    head = Head(
        title=visit.text("console.why.title", person=called),
        crumbs=(*resource.above(visit), (called, visit.here(resource.one))),
        acts=acts,
        endings=endings,
        curl=visit.curl(list_sign_in_verdicts),
    )
    said = "nowhere" if verdicts and len(kept_out) == len(verdicts) else "somewhere" if kept_out else "nothing"
    return visit.show(
        "organization/people/why/why.html",
        resource.position,
        head,
        sentence=visit.text(f"console.why.{said}", person=called),
        outside=visit.text("console.why.outside") if outside else "",
        kept_out=kept_out,
        hook_refused_at=hook_refused_at,
        hook=visit.here(HOOKS),
        tries=await _failed(visit),
        onward=visit.here(resource.one),
    )


async def _verdicts(visit: PageVisit) -> tuple[Sequence[Any], datetime | None]:
    try:
        found = await visit.ask(list_sign_in_verdicts)
    except NotFound:
        return (), None  # There is no application yet.
    return found.services, found.hook_refused_at


def _kept_out(visit: PageVisit, one: Any) -> ClosedApplication:
    _, rule, _ = verdict_of(visit, one)
    place = _governed(visit, one.sign_in.rule) or _placed(visit, _RULES.get(one.sign_in.rule), one.slug)
    return ClosedApplication(one.name, visit.here(applications.ONE, service_slug=one.slug), rule, place)


def _placed(visit: PageVisit, found: tuple[str, Endpoint] | None, slug: str | None) -> str:
    """The address of the rule, for those who may open its page."""
    if found is None or not visit.may(found[1]) or ("{service_slug}" in found[0] and slug is None):
        return ""
    return visit.here(found[0], **({} if slug is None else {"service_slug": slug}))


def _governed(visit: PageVisit, rule: SignInRule) -> str:
    """The page of the installation on which a platform owner changes what keeps the person out."""
    person, template = visit.person, _GOVERNED.get(rule)
    if template is None or not person.is_platform_owner or person.impersonator is not None:
        return ""
    return visit.here(template, org_id=visit.call.caller.organization)


async def _failed(visit: PageVisit) -> Sequence[FailedTry]:
    """The tries that failed lately, as the log of sign-ins shows them."""
    found = await visit.ask(list_sign_ins, query={"person": visit.path["user_id"], "success": False, "limit": _MOST_TRIES})
    rows = rows_of(OF_PERSON, found.sign_ins, visit.text, visit.path)
    return [
        FailedTry(row[2], one.service_name or "", _placed(visit, _TRIES.get(one.failure), one.service_slug), one.created_at)
        for one, row in zip(found.sign_ins, rows, strict=True)
    ]


def _asked(visit: PageVisit, typed: str = "", wrong: str = "") -> bytes:
    head = Head(
        title=visit.text("console.why.question"),
        crumbs=MEMBERS.above(visit),
        errors={"email": wrong} if wrong else NO_ERRORS,
    )
    return visit.show("organization/people/why/asked.html", MEMBERS.position, head, action=visit.here(AT), typed=typed)


console.asked_for("console.why.question", AT, list_sign_in_verdicts.caller, MEMBERS.position)
PAGES: Final = (ask_why, answer_why, show_why_of_member, show_why_of_end_user)
