"""Making an application, in three questions: what it is built with, where people come back to, who may come in. A framework answers the
second one, too. All else has a default that works, and can be changed later. The answer has the values to copy, and the lines for the
frameworks of such an application.
"""

import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec

from core.domain.errors import BadRequest, Refusal
from core.domain.services.proxies import ProxySettings, checked
from core.domain.services.services import ServiceType, SignInPolicy
from entrypoints.bootstrap import Postern
from entrypoints.checks import is_loopback
from entrypoints.http.console.kit.cells import mark_of
from entrypoints.http.console.kit.creation_pages import is_taken, slug_from
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.sent_forms import explained
from entrypoints.http.console.kit.visit import NO_ERRORS, ButtonLink, Head, Page, PageVisit
from entrypoints.http.console.organization import applications
from entrypoints.http.console.organization.applications.first_sign_in import begun, seen
from entrypoints.http.console.organization.applications.making import (
    CHOSEN,
    LOCAL,
    REDIRECT_URIS,
    ApplicationKind,
    ApplicationValues,
    Framework,
    client_values,
    lines,
)
from entrypoints.http.console.organization.organization_tabs import PEOPLE
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Line, Lines, OrganizationPath
from entrypoints.http.machinery.limits import PAGE_STEPS
from entrypoints.http.pages.kit.declaring import ASKS_AGAIN
from entrypoints.http.routes.federation.authorization_refusals import list_authorization_refusals
from entrypoints.http.routes.federation.token_preview import preview_tokens
from entrypoints.http.routes.services.client_secrets import create_client_secret
from entrypoints.http.routes.services.proxies import ProxyPatch, change_proxy
from entrypoints.http.routes.services.services import NewServiceBody, change_service, create_service, get_service
from entrypoints.http.routes.tenancy.joining import create_invitation

_AT: Final = f"{applications.LIST}/~new"
_TYPES: Final[Mapping[ApplicationKind, ServiceType]] = {
    ApplicationKind.WEB: ServiceType.WEB,
    ApplicationKind.SPA: ServiceType.WEB,
    ApplicationKind.MOBILE: ServiceType.MOBILE,
    ApplicationKind.DESKTOP: ServiceType.DESKTOP,
    ApplicationKind.DEVICE: ServiceType.DESKTOP,
    ApplicationKind.MACHINE: ServiceType.API,
    ApplicationKind.SAML: ServiceType.WEB,
    ApplicationKind.PROXY: ServiceType.PROXY,
    ApplicationKind.MCP: ServiceType.DESKTOP,
}
_COMMON: Final = frozenset({ApplicationKind.WEB, ApplicationKind.SPA, ApplicationKind.PROXY, ApplicationKind.MACHINE})
"""The kinds that the form shows at once. The others are folded."""
_ORIGIN: Final = re.compile(r"https?://[^/?#]+")
_WITH_SECRET: Final = frozenset({ApplicationKind.WEB, ApplicationKind.MACHINE, ApplicationKind.PROXY})
_ON_THE_WEB: Final = frozenset({ApplicationKind.WEB, ApplicationKind.SPA, ApplicationKind.PROXY})
# The names of the endpoint's fields in its refusals, as the form has them.
_FIELDS: Final = {
    "redirect_uris": "addresses",
    "post_logout_redirect_uris": "addresses",
    "name": "name",
    "slug": "slug",
    "sign_in_policy": "policy",
}


class NewApplicationForm(BoundForm, frozen=True, kw_only=True):
    name: Line = ""
    kind: Line = ""
    """What the application is, or the framework that it is built with."""
    addresses: Lines = ""
    """One on a line. Behind a proxy, a host is enough."""
    elsewhere: Annotated[Line, msgspec.Meta(pattern="^(yes)?$")] = ""
    """Whether the addresses count where we know the address ourselves."""
    policy: Line = ""
    trusted: Annotated[Line, msgspec.Meta(pattern="^(yes)?$")] = ""
    """Whether members are to be signed in without the question for consent: see `_spares_consent`."""
    slug: Line = ""


class NewApplicationLink(msgspec.Struct, frozen=True):
    kind: Line = ApplicationKind.WEB


@console.get(_AT, of=create_service)
async def ask_for_application(call: Call[None, NewApplicationLink, OrganizationPath, Any], postern: Postern) -> Page:
    """Ask what the new application is, where people come back to, and who may come in."""
    visit = PageVisit(call, postern)
    framework = CHOSEN.get(call.query.kind)
    kind = call.query.kind if framework or call.query.kind in list(ApplicationKind) else ApplicationKind.WEB
    name = visit.text("console.new_application.mcp_name") if kind == ApplicationKind.MCP else ""
    addresses = framework.address if framework else ""
    form = NewApplicationForm(name=name, kind=kind, addresses=addresses, policy=SignInPolicy.MEMBERS, trusted="yes")
    return Answer(_form(visit, form), 200)


@console.post(
    _AT,
    of=create_service,
    also=(create_client_secret, change_proxy, get_service, list_authorization_refusals, preview_tokens, change_service),
    limit=(PAGE_STEPS, *create_client_secret.limits),
    policy=ASKS_AGAIN,
)
async def make_application(call: Call[NewApplicationForm, None, OrganizationPath, Any], postern: Postern) -> Page:
    """Make an application, with a client secret if it can keep one."""
    visit, form = PageVisit(call, postern), call.body
    framework = CHOSEN.get(form.kind)
    errors = _problems(visit, form)
    if errors:
        return Answer(_form(visit, form, errors), 400)
    kind = _kind(form)

    wish = NewServiceBody(
        slug=form.slug.strip() or slug_from(form.name, "application"),
        name=form.name,
        service_type=_TYPES[kind],
        redirect_uris=_redirect_uris(kind, form),
        post_logout_redirect_uris=_origins(framework, form),
        initiate_login_uri=_initiates_at(framework, form),
        sign_in_policy=SignInPolicy(form.policy),
        trusted=_spares_consent(kind, form),
    )
    try:
        made = await visit.ask(create_service, body=wish)
    except Refusal as problem:
        return _refused(visit, form, problem)
    here = {"service_slug": made.service.slug}
    if kind is ApplicationKind.SAML:
        return redirect(f"{visit.here(applications.SAML, **here)}?done=made")
    service, unset = made.service, ""
    if kind is ApplicationKind.PROXY and _addresses(form):
        unset = await _refused_hosts(visit, form, made.service.slug)
        service = await visit.ask(get_service, **here)
    secret = None
    if kind in _WITH_SECRET and visit.may(create_client_secret):
        secret = await visit.ask(create_client_secret, **here)
    awaited, headers = (None, ()) if not _may_wait(visit, kind) else await begun(visit, service.slug)
    shown = await seen(visit, awaited, service.slug) if awaited is not None else {}
    return Answer(_made(visit, form.kind, service, None if secret is None else secret.client_secret, unset=unset, **shown), 200, headers)


def _may_wait(visit: PageVisit, kind: ApplicationKind) -> bool:
    """Whether the first sign-in can appear: people come to such an application by our authorization endpoint, in this person's browser."""
    return kind.comes_back and visit.may(list_authorization_refusals) and visit.person.impersonator is None


async def _refused_hosts(visit: PageVisit, form: NewApplicationForm, slug: str) -> str:
    """Sets the hosts of an application behind a proxy. Returns why they are refused: the application is there all the same, and its page
    for hosts asks again.
    """
    try:
        await visit.ask(change_proxy, body=ProxyPatch(hosts=[_host(one) for one in _addresses(form)]), service_slug=slug)
    except Refusal as problem:
        return next(iter(explained(visit, problem)[0].values()))
    return ""


def _host(text: str) -> str:
    """Of an address, its host: somebody copies it from the browser."""
    return text.partition("://")[2].partition("/")[0] if "://" in text else text


def _kind(form: NewApplicationForm) -> ApplicationKind:
    framework = CHOSEN.get(form.kind)
    return framework.kind if framework else ApplicationKind(form.kind)


def _initiates_at(framework: Framework | None, form: NewApplicationForm) -> str | None:
    """Our lines for a framework begin a sign-in themselves when somebody opens the application."""
    origins = _origins(framework, form)
    return f"{origins[0]}{framework.initiates_at}" if framework and framework.initiates_at and origins else None


def _origins(framework: Framework | None, form: NewApplicationForm) -> Sequence[str]:
    """Our lines for a framework lead people to the beginning of the application when they have signed out."""
    if framework is None or not framework.tested:
        return ()
    return list(dict.fromkeys(found[0] for one in _addresses(form) if (found := _ORIGIN.match(one))))


def _redirect_uris(kind: ApplicationKind, form: NewApplicationForm) -> Sequence[str]:
    if kind is ApplicationKind.MCP:
        return list(dict.fromkeys((*REDIRECT_URIS, *_addresses(form))))
    return _addresses(form) if kind.comes_back else ()


def _spares_consent(kind: ApplicationKind, form: NewApplicationForm) -> bool:
    """For members of the organization, at https addresses of others than this computer alone. What runs on a person's device, or comes back
    to it, goes on asking: any program there could receive the answer.
    """
    if not form.trusted or form.policy != SignInPolicy.MEMBERS or kind not in _ON_THE_WEB:
        return False
    addresses = _addresses(form)
    if kind is ApplicationKind.PROXY:
        addresses = [f"https://{_host(one)}" for one in addresses]
    return bool(addresses) and all(map(_is_on_the_web, addresses))


def _is_on_the_web(address: str) -> bool:
    try:
        place = urlsplit(address)
    except ValueError:
        # The endpoint says what is wrong with it.
        return False
    return place.scheme == "https" and not is_loopback(place.hostname or "")


def _addresses(form: NewApplicationForm) -> Sequence[str]:
    framework = CHOSEN.get(form.kind)
    if not form.elsewhere and (form.kind == ApplicationKind.MCP or (framework and framework.address)):
        return [framework.address] if framework else []
    return [line.strip() for line in form.addresses.splitlines() if line.strip()]


def _problems(visit: PageVisit, form: NewApplicationForm) -> Mapping[str, str]:
    missing = {}
    if not form.name.strip():
        missing["name"] = visit.text("console.new_application.name_missing")
    if form.kind not in {*ApplicationKind, *CHOSEN}:
        missing["kind"] = visit.text("console.new_application.kind_missing")
    elif _kind(form).comes_back and not _addresses(form):
        missing["addresses"] = visit.text("console.new_application.addresses_missing", example="https://app.example.com/callback")
    elif _kind(form) is ApplicationKind.PROXY and (wrong := _wrong_host(visit, form)):
        missing["addresses"] = wrong
    if form.policy not in list(SignInPolicy):
        missing["policy"] = visit.text("console.new_application.policy_missing")
    return missing


def _wrong_host(visit: PageVisit, form: NewApplicationForm) -> str:
    """What is wrong with the hosts of an application behind a proxy. Empty if we can serve them all, once their domains are proved."""
    hosts = [_host(one) for one in _addresses(form)]
    for host in hosts:
        name, _, port = host.partition(":")
        if port.isdecimal():
            return visit.text("console.new_application.host_port", host=host, name=name)
        if "." not in host:
            return visit.text("console.new_application.host_dot", host=host)
    try:
        checked(ProxySettings(hosts=hosts))
    except BadRequest as problem:
        return visit.said(problem)
    return ""


def _refused(visit: PageVisit, form: NewApplicationForm, problem: Refusal) -> Page:
    errors, status = explained(visit, problem)
    if is_taken(problem) and not form.slug.strip():
        form = msgspec.structs.replace(form, slug=slug_from(form.name, "application", number=2))
    field = re.match(r"[a-z_]+", problem.message)
    named = _FIELDS.get(field[0] if field else "", "slug" if status == 409 else "")
    return Answer(_form(visit, form, {named: next(iter(errors.values()))}), status)


def _form(visit: PageVisit, form: NewApplicationForm, errors: Mapping[str, str] = NO_ERRORS) -> bytes:
    text = visit.text
    body = {"slug": "billing", "name": "Billing", "service_type": "web", "redirect_uris": ["https://billing.example.com/callback"]}
    head = Head(
        title=text("console.new_application.title"),
        crumbs=applications.above_list(visit),
        curl=visit.curl(create_service, body={**body, "sign_in_policy": "members"}),
        errors=errors,
    )
    return visit.show(
        "organization/applications/making/new.html",
        applications.LIST_POSITION,
        head,
        action=visit.here(_AT),
        back=visit.here(applications.LIST),
        form=form,
        frameworks=[[one for one in CHOSEN.values() if one.tested is tested] for tested in (True, False)],
        kinds=[[_kind_choice(visit, one) for one in ApplicationKind if (one in _COMMON) is common] for common in (True, False)],
        local=LOCAL,
        policies=[
            (one.value, text(f"console.new_application.policy_{one}"), text(f"console.new_application.policy_{one}_hint"))
            for one in SignInPolicy
        ],
    )


def _kind_choice(visit: PageVisit, kind: ApplicationKind) -> Mapping[str, str]:
    """`asks`: whether its address is known, or asked. Empty if it has none."""
    asks = "known" if kind is ApplicationKind.MCP else "asked" if kind.comes_back or kind is ApplicationKind.PROXY else ""
    label, hint = (visit.text(f"console.new_application.kind_{kind}{part}") for part in ("", "_hint"))
    return {"key": kind.value, "label": label, "hint": hint, "asks": asks}


def _made(visit: PageVisit, chosen: str, service: Any, secret: str | None, *, unset: str, **awaited: Any) -> bytes:
    """`unset` says why the hosts are not, and `awaited` what the page has seen of the first sign-in, if it waits for it."""
    kind = CHOSEN[chosen].kind if chosen in CHOSEN else ApplicationKind(chosen)
    values = ApplicationValues(
        issuer=visit.postern.foundation.public_url,
        organization=visit.path["org_slug"],
        service=service.slug,
        client_id=service.client_id,
        redirect_uris=service.redirect_uris,
        client_secret=secret or visit.text("console.application.secret_placeholder"),
        access_token_alg=service.access_token_alg,
        session_secret=secrets.token_hex(32),
    )
    onward = f"{visit.here(applications.ONE, service_slug=service.slug)}{f'?built_with={chosen}' if chosen in CHOSEN else ''}"
    head = Head(
        title=service.name,
        mark=mark_of(service.name, service.id, service.logo or ""),
        crumbs=applications.above_list(visit),
        main=ButtonLink(visit.text("common.continue"), onward, "quiet"),
        done="made",
    )
    return visit.show(
        "organization/applications/making/made.html",
        applications.LIST_POSITION,
        head,
        secret=secret,
        owes_secret=kind in _WITH_SECRET and secret is None,
        secrets=visit.here(applications.SECRETS, service_slug=service.slug),
        # What stands behind a proxy reads nothing of ours: the proxy's lines have all of it.
        environment="" if kind is ApplicationKind.PROXY else environment_lines(values),
        unset=unset,
        owes_hosts=kind is ApplicationKind.PROXY and not service.redirect_uris,
        hosts=visit.here(applications.PROXY, service_slug=service.slug),
        invite=visit.here(f"{PEOPLE}/invitations/~new") if visit.may(create_invitation) else "",
        called=service.slug,
        values=() if kind is ApplicationKind.PROXY else client_values(visit, values),
        frameworks=lines(kind, values, chosen),
        chosen=chosen,
        addresses=visit.here(applications.SIGN_IN, service_slug=service.slug),
        **awaited,
    )


def environment_lines(values: ApplicationValues) -> str:
    """What the application needs, for a file of its environment. Our lines for frameworks read the same names."""
    return "\n".join(f"{name}={value}" for name, value in values.environment.items())


PAGES: Final = (ask_for_application, make_application)
