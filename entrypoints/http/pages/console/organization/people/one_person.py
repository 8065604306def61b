"""The page of a person of the organization, member or end user: how they sign in, where they may and have been, and what happened."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from core.domain.errors import NotFound
from entrypoints.http.pages.console.cells import linked, rows_of, sentence, when
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

TEMPLATE: Final = "organization/people/one_person.html"
ASKED: Final = (list_sign_ins, list_sign_in_verdicts, list_audit_log, list_agent_grants)
_MOST_HAPPENED: Final = 10
_HAPPENED: Final = (
    linked(
        sentence(sentence_of, "console.field.happened"),
        lambda one, path: address(f"{AUDIT_LOG}/{{entry_id}}", {**path, "entry_id": str(one.id)}),
    ),
    when("created_at", "console.field.happened_at"),
)


async def of_member(visit: PageVisit, member: Any) -> Mapping[str, Any]:
    used = await _used(visit, member.user.id)
    loses_factor = member.mfa_enabled and visit.may(disable_mfa_of_member)
    return {
        **await _shared(visit, member.user.id),
        "teams": [(slug, visit.here(f"{PEOPLE}/teams/{{team_slug}}", team_slug=slug)) for slug in member.teams],
        "used": [] if used is None else _applications(visit, used),
        "second_factor": visit.here(f"{PEOPLE}/{{user_id}}/second-factor") if loses_factor else "",
    }


async def of_end_user(visit: PageVisit, user: Any) -> Mapping[str, Any]:
    return {**await _shared(visit, user.id), "teams": (), "used": _applications(visit, user), "second_factor": ""}


async def as_member(visit: PageVisit) -> str:
    """The page of the person as a member. Empty for others."""
    if not visit.may(get_member):
        return ""
    try:
        await visit.ask(get_member)
    except NotFound:
        return ""
    return visit.here(f"{PEOPLE}/{{user_id}}")


async def _shared(visit: PageVisit, user: UUID) -> Mapping[str, Any]:
    return {
        "latest": await latest_of(SIGN_IN_LOG, visit, OF_PERSON, person=user) if visit.may(list_sign_ins) else None,
        "agents": await agent_grants.of_person(visit, user),
        "verdicts": await _verdicts(visit, user) if visit.may(list_sign_in_verdicts) else (),
        "happened": await _happened(visit, user) if visit.may(list_audit_log) else None,
    }


async def _verdicts(visit: PageVisit, user: UUID) -> Sequence[tuple[str, str, tuple[str, str, Any]]]:
    """For each application its name, its address, and whether the person may sign in to it."""
    try:
        answer = await visit.ask(list_sign_in_verdicts, user_id=user)
    except NotFound:
        return ()  # There is no application yet.
    return [(one.name, visit.here(application_tabs.ONE, service_slug=one.slug), verdict_of(visit, one)) for one in answer.services]


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


def _applications(visit: PageVisit, user: Any) -> Sequence[tuple[str, str, Any]]:
    """The applications that the person has used: name, address, and when last."""
    return [(one.name, visit.here(application_tabs.ONE, service_slug=one.slug), one.last_login_at) for one in user.services]
