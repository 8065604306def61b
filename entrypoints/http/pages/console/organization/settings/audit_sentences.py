"""Entries of an organization's audit log as people say them: a sentence, and the page of the thing."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec

from core.domain.record.event_types import EVENT_TYPES
from core.domain.record.events import TargetType
from core.frozen import Frozen
from entrypoints.http.pages.console.cells import role_in_words
from entrypoints.http.pages.console.navigation import address
from entrypoints.http.pages.console.organization.organization_tabs import (
    APIS,
    APPLICATIONS,
    DIRECTORIES,
    EVENTS,
    HOME,
    KEYS,
    PEOPLE,
    PROPOSALS,
    SETTINGS,
    SETUP_LINKS,
    TRUSTED_ISSUERS,
)
from entrypoints.http.routes.federation.scim_tokens import list_scim_tokens
from entrypoints.http.routes.record.audit import AuditEntryRecord, LoggedAnywhere, key_of
from entrypoints.http.routes.services.end_users import get_end_user
from entrypoints.http.routes.services.services import get_service
from entrypoints.http.routes.tenancy.branding import get_branding
from entrypoints.http.routes.tenancy.management_keys import list_management_keys
from entrypoints.http.routes.tenancy.upstream_providers import list_upstream_providers
from entrypoints.http.routes.tenancy.webhooks import list_webhooks
from ports.texts import Text

# The platform's log also has what happens in no organization.
SENTENCES: Final = frozenset(one.name for one in EVENT_TYPES if one.audited)
_FEWEST_FOLDED: Final = 3
# What names the thing, by the beginning of the action. The first part of the entry that is there counts.
_NAMED_BY: Final[Sequence[tuple[str, Sequence[str]]]] = (
    ("service.permission.", ("permission",)),
    ("service.role.", ("name", "role_slug")),
    ("service.assignment.", ("role_slug",)),
    ("service.claim.", ("claim",)),
    ("service.oauth_credentials.", ("provider",)),
    ("service.", ("service_name", "service_slug")),
    ("client_secret.", ("prefix",)),
    ("user_key.", ("prefix",)),
    ("role.", ("name", "role_slug")),
    ("team.member.", ()),
    ("team.", ("name", "team_slug")),
    ("subscription.", ("plan_name",)),
    ("profile_field.", ("key",)),
    ("platform.job.", ("kind",)),
    ("resource_server.", ("identifier",)),
    ("user.consent.", ("service_name", "service_slug")),
    ("", ("invited_email", "email", "name", "domain", "host", "slug", "service_slug")),
)
# The pages of things, with the names of the parts of an entry that their addresses need.
_BY_ID: Final[Mapping[str, str]] = {
    TargetType.ROLE: f"{PEOPLE}/roles/{{target_id}}",
    TargetType.PROFILE_FIELD: f"{PEOPLE}/fields/{{key}}",
    TargetType.INVITATION: f"{PEOPLE}/invitations",
    TargetType.TEAM: f"{PEOPLE}/teams/{{team_slug}}",
    TargetType.SERVICE: f"{APPLICATIONS}/{{service_slug}}",
    TargetType.API_KEY: f"{APPLICATIONS}/{{service_slug}}/api-keys",
    TargetType.USER_KEY: f"{APPLICATIONS}/{{service_slug}}/user-keys",
    TargetType.PLAN: f"{APPLICATIONS}/{{service_slug}}/plans/{{target_id}}",
    TargetType.SUBSCRIPTION: f"{APPLICATIONS}/{{service_slug}}/plans",
    TargetType.WEBHOOK: f"{EVENTS}/{{target_id}}",
    TargetType.SIEM: f"{EVENTS}/siem",
    TargetType.MANAGEMENT_KEY: f"{KEYS}/{{target_id}}",
    TargetType.SCIM_TOKEN: f"{DIRECTORIES}/scim/{{target_id}}",
    TargetType.UPSTREAM_PROVIDER: f"{DIRECTORIES}/{{target_id}}",
    TargetType.RESOURCE_SERVER: f"{APIS}/{{target_id}}",
    TargetType.TRUSTED_ISSUER: f"{TRUSTED_ISSUERS}/{{target_id}}",
    TargetType.SETUP_LINK: f"{SETUP_LINKS}/{{target_id}}",
    TargetType.PROPOSAL: f"{PROPOSALS}/{{target_id}}",
    TargetType.DOMAIN: f"{SETTINGS}/domain",
    TargetType.BRANDING: f"{SETTINGS}/looks",
    TargetType.ORGANIZATION: HOME,
}
PLACES: Final = (get_end_user, get_service, list_webhooks, list_management_keys, list_scim_tokens, list_upstream_providers, get_branding)
"""What a reader may call to whom these pages are shown. Whoever reads the log alone sees names in place of links."""


class LoggedRun(Frozen):
    """An entry, and how many like it follow in the list: the same action by the same actor."""

    entry: AuditEntryRecord
    more: int = 0


def folded(entries: Sequence[AuditEntryRecord]) -> Sequence[LoggedRun]:
    """Runs of like entries as their newest."""
    runs = list[LoggedRun]()
    for _, group in groupby(entries, key=lambda one: (one.action, one.actor and one.actor.id, one.success)):
        like = list(group)
        runs += [LoggedRun(like[0], len(like) - 1)] if len(like) >= _FEWEST_FOLDED else map(LoggedRun, like)
    return runs


def entry_of(row: LoggedAnywhere | LoggedRun) -> LoggedAnywhere:
    return row.entry if isinstance(row, LoggedRun) else row


def called(actor: Any) -> str:
    """A person's name or address, or the name of a key or link. Empty for the system."""
    if actor is None:
        return ""
    key = key_of(actor)
    return str(actor.name or actor.email) if key is None else f"{key.name} ({key.prefix}…)"


def sentence_of(row: LoggedAnywhere | LoggedRun, text: Text) -> str:
    """The sentence of an action that the catalogue has, or the action's own name."""
    one = entry_of(row)
    if one.action not in SENTENCES:
        return one.action
    somebody = text("console.told.somebody")
    said = text(
        f"console.told.by.{one.action}",
        # An operator at the command line has no account.
        who=called(one.actor) or _part(one, "operator") or text("console.told.system"),
        what=thing_of(one) or (somebody if one.target_type == TargetType.USER else "–"),  # noqa: RUF001 - a dash
        role=_role(one, text) or "–",  # noqa: RUF001
        service=_part(one, "service_name", "service_slug") or "–",  # noqa: RUF001
        team=_part(one, "team_name", "team_slug") or "–",  # noqa: RUF001
        whom=_whom(one, text),
        application=_application(one, text),
    )
    more = row.more if isinstance(row, LoggedRun) else 0
    return text("console.told_run.more", sentence=said, count=more) if more else said


def thing_of(one: LoggedAnywhere) -> str:
    """The name of the person or thing that the entry is about. Empty if the entry has none."""
    names = next(names for begin, names in _NAMED_BY if one.action.startswith(begin))
    if one.target_type == TargetType.USER and isinstance(one.subject, msgspec.Struct):
        return one.subject.name or str(one.subject.email)
    found = _part(one, *names) or (one.service.name if isinstance(one.service, msgspec.Struct) else "")
    if not found and one.target_type == TargetType.USER and one.actor is not None and str(one.actor.id) == one.target_id:
        return called(one.actor)
    return found


def place_of(row: LoggedAnywhere | LoggedRun, path: Mapping[str, str]) -> str:
    """The address of the thing's page. Empty if it has none."""
    one = entry_of(row)
    values = {**{name: value for name, value in one.details.items() if isinstance(value, str)}, **path, "target_id": one.target_id}
    if isinstance(one.service, msgspec.Struct):
        values["service_slug"] = one.service.slug
    if one.target_type == TargetType.USER:
        known = isinstance(one.subject, msgspec.Struct)
        return address(f"{PEOPLE}/users/{{target_id}}", values) if known else ""
    template = f"{DIRECTORIES}/domains/{{domain_id}}" if one.action.startswith("domain_route.") else _BY_ID.get(one.target_type, "")
    if one.action.endswith(".deleted") or not template:
        return ""
    try:
        return address(template, values)
    except KeyError:
        return ""


def _part(one: LoggedAnywhere, *names: str) -> str:
    return next((str(value) for name in names if (value := one.details.get(name))), "")


def _whom(one: LoggedAnywhere, text: Text) -> str:
    """To whom the role of an application is assigned, as the middle of a sentence."""
    # Entries of before have no names of teams.
    if team := _part(one, "team_name", "team"):
        return text("console.told.whom_team", name=team)
    if role := _part(one, "organization_role"):
        return text("console.told.whom_role", name=role_in_words(role, text))
    if isinstance(one.subject, msgspec.Struct):
        return text("console.told.whom_person", name=one.subject.name or str(one.subject.email))
    return text("console.told.whom_somebody")


def _application(one: LoggedAnywhere, text: Text) -> str:
    """An application, as the middle of a sentence."""
    name = thing_of(one)
    return text("console.told.application_named", name=name) if name else text("console.told.application_unnamed")


def _role(one: LoggedAnywhere, text: Text) -> str:
    return role_in_words(_part(one, "new_role", "role", "role_slug"), text)
