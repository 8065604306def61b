"""An application's first page, what it was told of sign-outs, and its refused requests and people, each with reason and mend."""

import secrets
from collections import Counter
from collections.abc import Sequence
from datetime import date
from typing import Annotated, Any, Final

import msgspec

from core.domain.federation.authorization_refusals import MOST_REFUSALS
from core.domain.federation.oauth.refusals import RefusalReason
from core.domain.identifiers import ServiceId
from core.domain.services.clients import is_open
from core.domain.services.services import ServiceType
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import Cell, Column, Tone, code, copied, listed, number, plain, state, when, words, yes_or_no
from entrypoints.http.console.kit.charts import BarChart, LineChart, bar_chart, chart_of_days
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.forms import Choice
from entrypoints.http.console.kit.lists import latest_of, list_page
from entrypoints.http.console.kit.resources import ON_A_PAGE_OF_LOG, Filter, Resource
from entrypoints.http.console.kit.visit import Head, Page, PageVisit
from entrypoints.http.console.organization import applications
from entrypoints.http.console.organization.applications import POLICY
from entrypoints.http.console.organization.applications.making import (
    ApplicationKind,
    ApplicationValues,
    FrameworkLines,
    client_values,
    endpoint_values,
    lines,
    token_values,
)
from entrypoints.http.console.organization.applications.proxy.proxy_rows import headers_said, rules_said
from entrypoints.http.console.organization.organization_tabs import PEOPLE, TRUSTED_ISSUERS
from entrypoints.http.console.organization.people import agent_grants
from entrypoints.http.console.organization.sign_ins import OF_APPLICATION, SIGN_IN_LOG, way_in_words
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Line, ServicePath
from entrypoints.http.pages.proxied import CHECK
from entrypoints.http.routes.federation.agent_grants import list_agent_grants
from entrypoints.http.routes.federation.authorization_refusals import list_authorization_refusals
from entrypoints.http.routes.federation.logout_notices import list_logout_notices
from entrypoints.http.routes.federation.saml import get_saml_configuration
from entrypoints.http.routes.platform.sign_ins import list_sign_ins
from entrypoints.http.routes.services.client_secrets import list_client_secrets
from entrypoints.http.routes.services.proxies import get_proxy
from entrypoints.http.routes.services.services import ServiceWithMetadata, get_service

_FACTS: Final = (
    words("service_type", ServiceType),
    state("sign_in_policy", POLICY, "console.field.sign_in_policy"),
    yes_or_no(lambda service: not service.trusted or service.is_agent, "console.field.asks_for_consent"),
    yes_or_no("is_agent"),
    listed("redirect_uris"),
    copied("slug"),
)
_GUIDES: Final = "/docs/guides/proxies"

_DOCUMENT: Final = (copied("client_id", "console.application.document"), *_FACTS)
"""Of an application that a document at its own address describes."""
_OPEN: Final = (copied("client_id", "console.application.open_id"), *_FACTS)
"""Of a program that has registered itself."""


_DESCRIBED: Final = {False: "console.application.described", True: "console.application.open"}


def _facts_of(service: ServiceWithMetadata) -> Sequence[Column]:
    if is_open(service.client_id):
        return _OPEN
    return _DOCUMENT if service.service_type is ServiceType.METADATA else _FACTS


class ApplicationLink(msgspec.Struct, frozen=True):
    done: Line = ""
    built_with: Line = ""
    """The framework, or the proxy, whose lines the page shows."""


@console.get(
    applications.ONE, of=get_service, also=(list_client_secrets, get_saml_configuration, list_sign_ins, list_agent_grants, get_proxy)
)
async def show_application(call: Call[None, ApplicationLink, ServicePath, Any], postern: Postern) -> Page:
    """Show an application: who signed in, the values to copy, and the lines for a framework."""
    visit = PageVisit(call, postern)
    service = await visit.ask(get_service)
    described, kind = service.service_type is ServiceType.METADATA, await _kind(visit, service)
    values = ApplicationValues(
        issuer=postern.foundation.public_url,
        organization=visit.path["org_slug"],
        service=service.slug,
        client_id=service.client_id,
        redirect_uris=service.redirect_uris,
        client_secret=visit.text("console.application.secret_placeholder"),
        access_token_alg=service.access_token_alg,
        session_secret=secrets.token_hex(32),
    )
    record = applications.head_of(visit, service)
    head = Head(
        title=service.name,
        mark=record.mark,
        state=record.state,
        main=record.main,
        known=record.known,
        endings=record.endings,
        crumbs=applications.above_list(visit),
        curl=visit.curl(get_service),
        done=call.query.done,
    )
    sees_log = visit.may(list_sign_ins)
    days, ways = await _charts(visit, ServiceId(service.id)) if sees_log else (None, None)
    each = lines(kind, values)
    shown = _shown_lines(each, call.query.built_with)
    page = visit.show(
        "organization/applications/overview.html",
        applications.OVERVIEW_POSITION,
        head,
        facts=[(visit.text(one.label), one.cell(service, visit.text, visit.path)) for one in _facts_of(service)],
        described=_DESCRIBED[is_open(service.client_id)] if described else "",
        values=await _proxy_values(visit) if kind is ApplicationKind.PROXY else client_values(visit, values),
        tokens=token_values(visit, values) if kind not in {ApplicationKind.SAML, ApplicationKind.PROXY} else (),
        endpoints=endpoint_values(visit, values) if kind is not ApplicationKind.PROXY else (),
        behind_proxy=kind is ApplicationKind.PROXY,
        owes_hosts=kind is ApplicationKind.PROXY and not service.redirect_uris,
        proxy=visit.here(applications.PROXY),
        guides=_GUIDES,
        shown=shown,
        others=[
            (one.framework, f"{visit.here(applications.ONE)}?built_with={one.framework.key}#lines") for one in each if one is not shown
        ],
        comes_back=kind.comes_back and not service.redirect_uris,
        addresses=visit.here(applications.SIGN_IN),
        agents=await agent_grants.of_agent(visit, service.id) if service.is_agent else None,
        latest=await latest_of(SIGN_IN_LOG, visit, OF_APPLICATION, service_id=service.id) if sees_log else None,
        days=days,
        ways=ways,
    )
    return Answer(page, 200)


async def _proxy_values(visit: PageVisit) -> Sequence[tuple[str, Cell]]:
    """What a proxy in front of the application uses, and what it asks for."""
    settings = await visit.ask(get_proxy)
    text, secrets_at = visit.text, visit.here(applications.SECRETS)
    check = f"{visit.postern.foundation.public_url}{CHECK}"
    rules, headers = rules_said(settings, text), headers_said(settings, text)
    named = (
        *(("host", Cell("copy", host)) for host in settings.hosts),
        ("check", Cell("copy", check)),
        ("secret", Cell("text", text("console.proxy.a_secret"), href=secrets_at if visit.may(list_client_secrets) else "")),
        ("rules", Cell("list", rules) if rules else Cell("text", text("console.proxy.no_rules"))),
        ("headers", Cell("list", headers) if headers else Cell("none", "")),
    )
    return [(text(f"console.proxy.{name}"), cell) for name, cell in named]


def _shown_lines(each: Sequence[FrameworkLines], chosen: str) -> FrameworkLines | None:
    """Those of the chosen framework. Otherwise those of the only one that there is, or that comes back to an address of the application."""
    named = [one for one in each if one.framework.key == chosen]
    fitting = [one for one in each if one.framework.comes_back_to and not one.unregistered]
    for found in (named, each, fitting):
        if len(found) == 1:
            return found[0]
    return None


async def _charts(visit: PageVisit, service: ServiceId) -> tuple[LineChart | None, BarChart | None]:
    """The attempts of up to thirty days, by day and by way."""
    found = await visit.postern.platform.analytics.by_way(visit.call.caller.organization, service)
    if not found.attempts:
        return None, None
    logins, failures, ways = Counter[date](), Counter[date](), dict[str, tuple[int, int]]()
    for one in found.attempts:
        logins[one.day] += one.logins
        failures[one.day] += one.failures
        called = way_in_words(one.way, visit.text)
        ways[called] = (ways.get(called, (0, 0))[0] + one.logins, ways.get(called, (0, 0))[1] + one.failures)
    return chart_of_days(visit, logins, failures, found.since), bar_chart([(called, *counts) for called, counts in ways.items()])


async def _kind(visit: PageVisit, service: Any) -> ApplicationKind:
    """What the application is. A `web` service without a credential runs in the browser alone."""
    if service.service_type is ServiceType.MOBILE:
        return ApplicationKind.MOBILE
    if service.service_type is ServiceType.DESKTOP:
        return ApplicationKind.DESKTOP
    if service.service_type is ServiceType.PROXY:
        return ApplicationKind.PROXY
    if service.service_type in {ServiceType.API, ServiceType.METADATA}:
        return ApplicationKind.MACHINE
    has_credential = service.jwks is not None or await visit.ask(list_client_secrets)
    if has_credential or service.redirect_uris:
        return ApplicationKind.WEB if has_credential else ApplicationKind.SPA
    # People come back from nowhere by OpenID Connect, so it may be an application that speaks SAML alone.
    configuration = await visit.ask(get_saml_configuration)
    return ApplicationKind.SPA if configuration.entity_id is None else ApplicationKind.SAML


def _outcome(notice: Any) -> str:
    if notice.delivered:
        return "delivered"
    return "waiting" if notice.next_retry_at is not None else "failed"


async def _outcomes(visit: PageVisit) -> list[Choice]:
    return [Choice("true", visit.text("console.state.delivered")), Choice("false", visit.text("console.state.not_delivered"))]


NOTICES: Final = Resource(
    name="logout_notices",
    position=applications.SIGN_IN_POSITION,
    at=applications.NOTICES,
    listed=list_logout_notices,
    rows="logout_notices",
    columns=(
        when("created_at"),
        state(
            _outcome,
            {
                "delivered": ("console.state.delivered", Tone.GOOD),
                "waiting": ("console.logout_notices.waiting", Tone.WARN),
                "failed": ("console.state.not_delivered", Tone.BAD),
            },
        ),
        number("attempt_count"),
        number("response_status_code"),
        plain("delivery_error"),
        code("session_id"),
    ),
    filters=(Filter("delivered", "console.field.state", _outcomes),),
    crumbs=applications.above,
)


MEND: Final = {
    RefusalReason.REDIRECT_UNREGISTERED: applications.SIGN_IN,
    RefusalReason.REDIRECT_MISSING: applications.SIGN_IN,
    RefusalReason.REDIRECT_DIFFERS: applications.SIGN_IN,
    RefusalReason.NOT_MEMBER: f"{PEOPLE}/invitations/~new",
    RefusalReason.NO_ROLE: applications.ASSIGNMENTS,
    RefusalReason.SECRET_WRONG: applications.SECRETS,
    RefusalReason.SECRET_OWED: applications.SECRETS,
    RefusalReason.CREDENTIAL_MISSING: applications.SECRETS,
    RefusalReason.GRANT_NOT_ALLOWED: applications.SECRETS,
    RefusalReason.PKCE_MISSING: applications.SECRETS,
    RefusalReason.KEYS_MISSING: applications.PUBLIC_KEYS,
    RefusalReason.ASSERTION_REFUSED: applications.PUBLIC_KEYS,
    RefusalReason.SAML: applications.SAML_EXCHANGES,
    **dict.fromkeys((one for one in RefusalReason if one.startswith("workload_")), TRUSTED_ISSUERS),
}
"""The page where what is registered can be changed."""


class RefusalsQuery(msgspec.Struct, frozen=True):
    page: Annotated[int, msgspec.Meta(ge=1, le=MOST_REFUSALS)] = 1


@console.get(applications.REFUSALS, of=list_authorization_refusals)
async def show_refusals(call: Call[None, RefusalsQuery, ServicePath, Any], postern: Postern) -> Page:
    """Show the last refused requests of an application."""
    visit, number = PageVisit(call, postern), call.query.page
    refusals = (await visit.ask(list_authorization_refusals)).refusals
    last = number * ON_A_PAGE_OF_LOG
    shown = refusals[last - ON_A_PAGE_OF_LOG : last]
    head = Head(title=visit.text("console.refusals.title"), crumbs=applications.above(visit), curl=visit.curl(list_authorization_refusals))
    page = visit.show(
        "organization/applications/refusals.html",
        applications.SIGN_IN_POSITION,
        head,
        refusals=[(one, *refusal_words(visit, one), visit.here(MEND[one.reason]) if one.reason in MEND else "") for one in shown],
        at=visit.here(applications.REFUSALS),
        older={"page": str(number + 1)} if len(refusals) > last else None,
        newer={"page": str(number - 1)} if number > 1 else None,
    )
    return Answer(page, 200)


def refusal_words(visit: PageVisit, one: Any) -> tuple[str, str]:
    """The reason and the mend in the reader's language. The recorder of SAML writes both in English."""
    if one.reason is RefusalReason.SAML:
        return one.because, one.advice
    return visit.text(f"console.refusals.{one.reason}"), visit.text(f"console.refusals.{one.reason}_mend")


PAGES: Final = (show_application, list_page(NOTICES), show_refusals)
