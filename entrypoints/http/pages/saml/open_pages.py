"""Sign-ins to SAML service providers that begin at Postern."""

from typing import Annotated, Final, Literal

import msgspec

from core.domain.errors import (
    BadRequest,
    Forbidden,
    NotFound,
    OrganizationNotActive,
    Overloaded,
    ReauthenticationRequired,
    SecondFactorRequired,
    TermsRequired,
)
from core.domain.identity.callers import Caller
from core.domain.identity.sign_in import ServiceName
from core.usecases.federation.saml.sign_in import UnfinishedSamlSignIn
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import BROWSER, BoundForm, terms_page, token_for
from entrypoints.http.machinery.callers import OWN_USER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import declare
from entrypoints.http.machinery.fields import Parameter, ServicePath, example
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_STEPS
from entrypoints.http.pages.authorization.authorization_pages import LEAVING
from entrypoints.http.pages.kit import HTML, account_of, shipped_pages
from entrypoints.http.pages.kit.declaring import WITH_FORM, Advised, WayOn, page, refused_page
from entrypoints.http.pages.kit.flows import Page
from entrypoints.http.pages.saml.sign_in_pages import EXCHANGES, advice, delivered, to_consent

_LOGIN: Final = "/api/organizations/{org_slug}/services/{service_slug}/saml/login"
_OPEN: Final = "/ui/open/{org_slug}/{service_slug}"


class LoginQuery(msgspec.Struct, frozen=True):
    RelayState: Annotated[Parameter, example("/reports")] | None = None
    """The RelayState: the target at the service provider. Only the service provider interprets it."""
    certificate: Annotated[Literal["active", "next"], example("active")] = "active"
    """`next` tests the next certificate; only for owners and admins."""


class OpenForm(BoundForm, frozen=True, kw_only=True):
    RelayState: Parameter = ""


class OpenQuery(msgspec.Struct, frozen=True):
    RelayState: Parameter = ""


_REFUSES_LOGIN: Final = (
    BadRequest,
    NotFound,
    Forbidden,
    OrganizationNotActive,
    SecondFactorRequired,
    TermsRequired,
    ReauthenticationRequired,
    Overloaded,
)


async def begin_idp_initiated_sign_in(call: Call[None, LoginQuery, ServicePath, Caller], postern: Postern) -> Answer[bytes]:
    """Sign in to a service provider from Postern

    An IdP-initiated sign-in. The response is a page whose form sends a SAML response to the service provider: show the page in the person's
    browser. The response is 403 for a person who is not a confirmed member of the organization and has not consented to sharing their
    identity with the service provider. `/ui/open/{org_slug}/{service_slug}` asks such a person.
    """
    place = ServiceName(call.path.org_slug, call.path.service_slug)
    trial = call.query.certificate == "next"
    async with EXCHANGES:
        outcome = await postern.federation.saml_sign_in.initiate(
            place, call.caller, call.client, call.query.RelayState, next_certificate=trial
        )
    if isinstance(outcome, UnfinishedSamlSignIn):
        page = _OPEN.format(org_slug=place.organization, service_slug=place.service)
        raise Forbidden(f"You have not allowed this application to learn who you are: open {postern.foundation.public_url}{page} first")
    return delivered(call, outcome)


saml_login: Final = declare(
    "GET",
    _LOGIN,
    {
        "caller": OWN_USER,
        "limit": PAGE_LOADS,
        "produces": HTML,
        "translated": True,
        "refuses": _REFUSES_LOGIN,
        "tags": ("saml",),
    },
    LEAVING,
)(begin_idp_initiated_sign_in)


@page.post(_LOGIN, caller=BROWSER, limit=PAGE_STEPS, policy=LEAVING, advice=advice, refuses=_REFUSES_LOGIN)
async def saml_login_by_form(call: Call[OpenForm, None, ServicePath], postern: Postern) -> Page:
    """Sign in to the service provider from a page of ours"""
    place = ServiceName(call.path.org_slug, call.path.service_slug)
    try:
        async with EXCHANGES:
            outcome = await postern.federation.saml_sign_in.initiate(place, call.caller, call.client, call.body.RelayState or None)
    except TermsRequired as refusal:
        again = _OPEN.format(org_slug=place.organization, service_slug=place.service)
        advised = Advised("terms.advice", WayOn(terms_page(again, place.organization), "terms.page"))
        return Answer(refused_page(refusal, advised, call.language), 403)
    if isinstance(outcome, UnfinishedSamlSignIn):
        return await to_consent(call, postern, outcome)
    return delivered(call, outcome)


@page.get(_OPEN, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
def open_service_provider(call: Call[None, OpenQuery, ServicePath], postern: Postern) -> bytes:
    """Ask whether to go on to a service provider: no other site can send a person there without this question"""
    state = call.query.RelayState
    return shipped_pages().page(
        "saml/saml_open.html",
        call.language,
        action=_LOGIN.format(org_slug=call.path.org_slug, service_slug=call.path.service_slug),
        hidden={"RelayState": state} if state else {},
        form_token=token_for(BROWSER, call.request, postern),
        **account_of(call.caller),
    )
