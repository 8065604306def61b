"""The sign-ins of an organization: who came, in which way and from where, and who did not get in; and the figures of thirty days."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from core.domain.federation.backchannel_requests import PROVIDER as BACKCHANNEL_PROVIDER
from core.domain.federation.oauth.device_flow import PROVIDER as DEVICE_PROVIDER
from core.domain.federation.saml.sign_in import PROVIDER as SAML_PROVIDER
from core.domain.identity.login_events import LoginFailure
from core.domain.identity.passkeys import PASSKEY_PROVIDER
from core.domain.identity.sign_in import LINK_PROVIDER, PASSWORD_PROVIDER, SESSION_PROVIDER
from core.domain.identity.upstream.providers import OWN_PROVIDER, Provider
from core.domain.tenancy.members import Member
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import Tone, in_words, linked, plain, state, when, words
from entrypoints.http.console.kit.declaring import console, led_to, stated
from entrypoints.http.console.kit.forms import Choice
from entrypoints.http.console.kit.lists import listed, query_of
from entrypoints.http.console.kit.many import export_page
from entrypoints.http.console.kit.navigation import address
from entrypoints.http.console.kit.resources import Filter, Resource
from entrypoints.http.console.kit.visit import Head, Page, PageVisit
from entrypoints.http.console.organization.organization_tabs import APPLICATIONS, LOGS_ENTRY, PEOPLE, SIGN_INS, SIGN_INS_TAB, WHY, position
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import OrganizationPath
from entrypoints.http.routes.federation.token_preview import list_sign_in_verdicts
from entrypoints.http.routes.platform.sign_ins import (
    ServiceLogins,
    SignInRecord,
    list_logins_by_provider,
    list_logins_by_service,
    list_sign_ins,
)
from entrypoints.http.routes.services.end_users import get_end_user
from entrypoints.http.routes.services.services import get_service
from ports.texts import Text

_POSITION: Final = position(LOGS_ENTRY, SIGN_INS_TAB)
_WAYS: Final = (
    PASSWORD_PROVIDER,
    PASSKEY_PROVIDER,
    LINK_PROVIDER,
    OWN_PROVIDER,
    *Provider,
    SESSION_PROVIDER,
    DEVICE_PROVIDER,
    BACKCHANNEL_PROVIDER,
    SAML_PROVIDER,
)
# A way that is gone, or that the organization need not know.
_OTHER: Final = "other"
_WAY: Final = "signed_in_with"
_GOT_IN: Final = "got_in"
_MOST_BARS: Final = 5


def _way(one: Any) -> str:
    return _called(one.provider)


def _called(provider: str) -> str:
    return provider if provider in _WAYS else _OTHER


def way_in_words(provider: str, text: Text) -> str:
    return in_words(_WAY, _called(provider), text)


def _outcome(failure: str) -> tuple[str, Tone]:
    """The reason, if the person did not get in. A log of an organization has no attempts at accounts that nobody has."""
    if failure == LoginFailure.UNKNOWN_ACCOUNT:
        return "console.state.not_signed_in", Tone.BAD
    return (f"sign_ins.failure.{failure}", Tone.BAD) if failure != _GOT_IN else ("console.state.signed_in", Tone.GOOD)


def _place(one: SignInRecord) -> str:
    return ", ".join(filter(None, (one.city, one.country))) or one.ip_address or ""


def _person(one: SignInRecord, path: Mapping[str, str]) -> str:
    return "" if one.user_id is None else address(f"{PEOPLE}/users/{{user_id}}", {**path, "user_id": str(one.user_id)})


def _application(one: SignInRecord, path: Mapping[str, str]) -> str:
    return "" if one.service_slug is None else address(f"{APPLICATIONS}/{{slug}}", {**path, "slug": one.service_slug})


_PERSON: Final = linked(
    plain(lambda one: one.name or one.email, "console.field.person", beside=lambda one: one.email if one.name else ""),
    _person,
    get_end_user,
)
_APPLICATION: Final = linked(plain("service_name", "console.field.application"), _application, get_service)
_TRIED: Final = (
    words(_way, (*_WAYS, _OTHER), "console.field.signed_in_with"),
    state(lambda one: _GOT_IN if one.failure is None else one.failure.value, _outcome, "console.field.outcome"),
    plain(_place, "console.field.place", beside=lambda one: one.ip_address if one.city or one.country else ""),
    when("created_at", "console.field.happened_at"),
)
OF_PERSON: Final = (_APPLICATION, *_TRIED)
OF_APPLICATION: Final = (_PERSON, *_TRIED)


async def _ways(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one, in_words(_WAY, one, visit.text)) for one in _WAYS]


async def _outcomes(visit: PageVisit) -> Sequence[Choice]:
    return [Choice("true", visit.text("console.state.signed_in")), Choice("false", visit.text("console.state.not_signed_in"))]


_APPLICATION_FILTER: Final = Filter("service_id", "console.field.application")
SIGN_IN_LOG: Final = Resource(
    name="sign_ins",
    position=_POSITION,
    at=SIGN_INS,
    listed=list_sign_ins,
    rows="sign_ins",
    is_log=True,
    columns=(_PERSON, _APPLICATION, *_TRIED),
    filters=(
        Filter("person", "console.field.person_by_address"),
        _APPLICATION_FILTER,
        Filter("provider", "console.field.signed_in_with", _ways),
        Filter("success", "console.field.outcome", _outcomes),
        Filter("since", "console.field.from", is_moment=True),
        Filter("until", "console.field.before", is_moment=True),
    ),
    exported=True,
)


def _among(services: Sequence[ServiceLogins]) -> Resource:
    """The log, with a filter by these applications."""

    async def choices(_visit: PageVisit) -> Sequence[Choice]:
        return [Choice(str(one.service_id), one.service_name) for one in services]

    chosen = replace(_APPLICATION_FILTER, choices=choices)
    return replace(SIGN_IN_LOG, filters=tuple(chosen if one is _APPLICATION_FILTER else one for one in SIGN_IN_LOG.filters))


def _filtered(log: str, name: str, one: Any) -> str:
    """The address of the log with this filter. Empty for those who may not read it."""
    return f"{log}?{urlencode({name: str(getattr(one, name))})}" if log else ""


def _bars(rows: Sequence[tuple[str, int, str]]) -> Sequence[tuple[str, int, float, str]]:
    """The largest, each with its part of the largest of them."""
    largest = sorted(rows, key=lambda one: (-one[1], one[0]))[:_MOST_BARS]
    most = max((count for _, count, _ in largest), default=1) or 1
    return [(label, count, round(100 * count / most, 1), where) for label, count, where in largest]


async def _show(call: Call[None, Any, OrganizationPath, Member], postern: Postern) -> Page:
    """See who signed in to an organization and its applications, and who did not get in"""
    visit = PageVisit(call, postern)
    services = await visit.ask(list_logins_by_service)
    log = visit.here(SIGN_INS) if visit.may(list_sign_ins) else ""
    ways = [
        (way_in_words(one.provider, visit.text), one.count, _filtered(log, "provider", one))
        for one in await visit.ask(list_logins_by_provider)
    ]
    named = [(one.service_name, one.count, _filtered(log, "service_id", one)) for one in services]
    figures = [(visit.text(f"console.sign_ins.{name}"), _bars(rows)) for name, rows in (("by_application", named), ("by_way", ways))]
    if visit.may(list_sign_ins):
        head, values, status = await listed(_among(services), visit, call.query)
    else:
        head = Head(title=SIGN_IN_LOG.text(visit, "title"), curl=visit.curl(list_logins_by_service))
        values, status = {}, 200
    why = led_to(visit, WHY)
    page = visit.show("organization/sign_ins.html", _POSITION, head, figures=figures, sees_log=bool(values), why=why, **values)
    return Answer(page, status)


show_sign_ins: Final = console.get(
    SIGN_INS, of=list_logins_by_service, also=(list_logins_by_provider, list_sign_ins, list_sign_in_verdicts)
)(stated(_show, "show_sign_ins_of_organization", SIGN_INS, query=query_of(SIGN_IN_LOG)))
PAGES: Final = (show_sign_ins, export_page(SIGN_IN_LOG))
