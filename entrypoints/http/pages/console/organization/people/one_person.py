"""The page of a person of the organization, member or end user: how they sign in, where they may and have been, and what happened."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from core.domain.errors import NotFound
from core.domain.identity.profiles import Portrait
from core.domain.tenancy.roles import BuiltInRole
from core.domain.tenancy.sign_in_rules import AdminFactor, AllFactor, MfaPolicy
from entrypoints.http.pages.console.cells import Cell, Tone, linked, rows_of, sentence, when
from entrypoints.http.pages.console.framing.marks import mark_of
from entrypoints.http.pages.console.lists import latest_of
from entrypoints.http.pages.console.navigation import address
from entrypoints.http.pages.console.organization.applications import application_tabs
from entrypoints.http.pages.console.organization.applications.claims.claims_shown import verdict_of
from entrypoints.http.pages.console.organization.organization_tabs import AUDIT_LOG, PEOPLE
from entrypoints.http.pages.console.organization.people import agent_grants
from entrypoints.http.pages.console.organization.settings.audit_sentences import sentence_of
from entrypoints.http.pages.console.organization.sign_ins import OF_PERSON, SIGN_IN_LOG
from entrypoints.http.pages.console.visit import PageVisit
from entrypoints.http.routes.federation.agent_grants import list_agent_grants
from entrypoints.http.routes.federation.token_preview import list_sign_in_verdicts
from entrypoints.http.routes.platform.sign_ins import list_sign_ins
from entrypoints.http.routes.record.audit import list_audit_log
from entrypoints.http.routes.services.end_users import get_end_user
from entrypoints.http.routes.tenancy.members import disable_mfa_of_member, get_member
from entrypoints.http.routes.tenancy.sign_in_rules import get_sign_in_rules

TEMPLATE: Final = "organization/people/one_person.html"
ASKED: Final = (list_sign_ins, list_sign_in_verdicts, list_audit_log, list_agent_grants, get_sign_in_rules)
_MOST_HAPPENED: Final = 10
_HAPPENED: Final = (
    linked(
        sentence(sentence_of, "console.field.happened"),
        lambda one, path: address(f"{AUDIT_LOG}/{{entry_id}}", {**path, "entry_id": str(one.id)}),
    ),
    when("created_at", "console.field.happened_at"),
)


class PersonsApplication(NamedTuple):
    """An application that the person may sign in to, or has used."""

    name: str
    at: str
    mark: Portrait
    verdict: tuple[str, str, Tone] | None = None
    was_there: bool = False
    last_at: datetime | None = None


async def of_member(visit: PageVisit, member: Any) -> Mapping[str, Any]:
    used = await _used(visit, member.user.id)
    loses_factor = member.mfa_enabled and visit.may(disable_mfa_of_member)
    return {
        **await _shared(visit, member.user, used),
        "is_member": True,
        "factor": await _factor(visit, member),
        "second_factor": visit.here(f"{PEOPLE}/{{user_id}}/second-factor") if loses_factor else "",
        "teams": [(slug, visit.here(f"{PEOPLE}/teams/{{team_slug}}", team_slug=slug)) for slug in member.teams],
    }


async def of_end_user(visit: PageVisit, user: Any) -> Mapping[str, Any]:
    return {**await _shared(visit, user, user), "is_member": False, "factor": None, "second_factor": "", "teams": ()}


async def _factor(visit: PageVisit, member: Any) -> tuple[str, Cell] | None:
    """The second factor in words: bad where a rule of the organization asks for one and there is none."""
    if member.mfa_enabled is None:
        return None
    label = visit.text("console.field.mfa_enabled")
    if member.mfa_enabled:
        return label, Cell("state", visit.text("console.one_person.has_factor"), tone=Tone.GOOD)
    rules = await visit.ask(get_sign_in_rules) if visit.may(get_sign_in_rules) else None
    governs = member.membership.role in {BuiltInRole.OWNER, BuiltInRole.ADMIN}
    asked = rules is not None and (
        rules.mfa_policy is MfaPolicy.REQUIRED
        or rules.all_factor is AllFactor.PASSKEY
        or (governs and rules.admin_factor is not AdminFactor.OPTIONAL)
    )
    return label, Cell(
        "state",
        visit.text("console.one_person.lacks_factor" if asked else "console.one_person.no_factor"),
        tone=Tone.BAD if asked else Tone.PLAIN,
    )


async def as_member(visit: PageVisit) -> str:
    """The page of the person as a member. Empty for others."""
    if not visit.may(get_member):
        return ""
    try:
        await visit.ask(get_member)
    except NotFound:
        return ""
    return visit.here(f"{PEOPLE}/{{user_id}}")


async def _shared(visit: PageVisit, person: Any, used: Any) -> Mapping[str, Any]:
    return {
        "likeness_of": mark_of(person.name or str(person.email), person.id, getattr(person, "picture", None) or ""),
        "latest": await latest_of(SIGN_IN_LOG, visit, OF_PERSON, person=person.id) if visit.may(list_sign_ins) else None,
        "agents": await agent_grants.of_person(visit, person.id),
        "applications": await _applications(visit, person.id, used),
        "happened": await _happened(visit, person.id) if visit.may(list_audit_log) else None,
    }


async def _applications(visit: PageVisit, user: UUID, used: Any) -> Sequence[PersonsApplication]:
    """Whether the person may sign in to each application, and when they were there; by name."""
    found: dict[str, PersonsApplication] = {}
    for one in await _verdicts(visit, user):
        found[one.slug] = PersonsApplication(one.name, _at(visit, one.slug), mark_of(one.name, one.service_id), verdict_of(visit, one))
    for one in () if used is None else used.services:
        known = found.get(one.slug) or PersonsApplication(one.name, _at(visit, one.slug), mark_of(one.name, one.id))
        found[one.slug] = known._replace(was_there=True, last_at=one.last_login_at)
    return sorted(found.values(), key=lambda one: one.name.casefold())


def _at(visit: PageVisit, slug: str) -> str:
    return visit.here(application_tabs.ONE, service_slug=slug)


async def _verdicts(visit: PageVisit, user: UUID) -> Sequence[Any]:
    if not visit.may(list_sign_in_verdicts):
        return ()
    try:
        return (await visit.ask(list_sign_in_verdicts, user_id=user)).services  # type: ignore[no-any-return]
    except NotFound:
        return ()  # There is no application yet.


async def _happened(visit: PageVisit, user: UUID) -> Any:
    """What happened to the person lately: columns and rows."""
    found = await visit.ask(list_audit_log, query={"target_type": "user", "target_id": str(user), "limit": _MOST_HAPPENED})
    return _HAPPENED, rows_of(visit.reachable(_HAPPENED), found.logs, visit.text, visit.path)


async def _used(visit: PageVisit, user: UUID) -> Any:
    if not visit.may(get_end_user):
        return None
    try:
        return await visit.ask(get_end_user, user_id=user)
    except NotFound:
        return None
