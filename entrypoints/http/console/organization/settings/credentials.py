"""The organization's own clients at the installation's providers."""

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from core.domain.errors import NotFound, Refusal
from core.domain.identity.upstream.providers import NAMES, Provider
from core.domain.secrets import Secret
from core.domain.tenancy.members import Member
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.visit import NO_ERRORS, DoneLink, Head, Page, PageVisit, button
from entrypoints.http.console.organization.organization_tabs import CREDENTIALS_TAB, DIRECTORIES_ENTRY, SIGN_IN, position
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import OrganizationPath
from entrypoints.http.routes.tenancy.oauth_credentials import (
    OAuthCredentialsBody,
    OAuthCredentialsPath,
    get_oauth_credentials,
    remove_oauth_credentials,
    set_oauth_credentials,
)

_REMOVED: Final = button("console.credentials.end")

_AT: Final = f"{SIGN_IN}/providers"
_ONE: Final = f"{_AT}/{{provider}}"
_END: Final = f"{_ONE}/end"
_POSITION: Final = position(DIRECTORIES_ENTRY, CREDENTIALS_TAB)


class CredentialsForm(BoundForm, frozen=True, kw_only=True):
    client_id: Annotated[str, msgspec.Meta(max_length=4096)] = ""
    client_secret: Secret = Secret("")


@console.get(_AT, of=get_oauth_credentials)
async def list_own_clients(call: Call[None, DoneLink, OrganizationPath, Member], postern: Postern) -> Page:
    """See at which providers people sign in with a client of the organization's own"""
    visit = PageVisit(call, postern)
    found = [await visit.ask(get_oauth_credentials, provider=provider.value) for provider in Provider]
    page = visit.show(
        "organization/settings/credentials.html",
        _POSITION,
        Head(
            title=visit.text("console.credentials.title"),
            curl=visit.curl(get_oauth_credentials, provider=Provider.CODEHOST.value),
            done=call.query.done,
        ),
        providers=[(NAMES[Provider(one.provider)], one, visit.here(_ONE, provider=one.provider)) for one in found],
        may_change=visit.may(set_oauth_credentials),
    )
    return Answer(page, 200)


@console.get(_ONE, of=set_oauth_credentials, also=(get_oauth_credentials,))
async def ask_for_own_client(call: Call[None, None, OAuthCredentialsPath, Member], postern: Postern) -> Page:
    """Ask for the organization's own client at a provider"""
    visit = PageVisit(call, postern)
    found = await visit.ask(get_oauth_credentials)
    return Answer(_form(visit, call.path.provider, found.client_id or "", is_set=found.has_secret), 200)


@console.post(_ONE, of=set_oauth_credentials)
async def send_own_client(call: Call[CredentialsForm, None, OAuthCredentialsPath, Member], postern: Postern) -> Page:
    """Set the organization's own client at a provider"""
    visit, form = PageVisit(call, postern), call.body
    errors = {
        name: visit.text("console.credentials.missing")
        for name, given in (("client_id", form.client_id.strip()), ("client_secret", form.client_secret.reveal()))
        if not given
    }
    if errors:
        return Answer(_form(visit, call.path.provider, form.client_id, errors=errors), 400)
    try:
        body = OAuthCredentialsBody(form.client_id.strip(), form.client_secret.reveal())
        await visit.ask(set_oauth_credentials, body=body)
    except NotFound:
        raise
    except Refusal as refusal:
        return Answer(_form(visit, call.path.provider, form.client_id, errors={"": visit.said(refusal)}), status_of(refusal))
    return redirect(f"{visit.here(_AT)}?done=saved")


@console.get(_END, of=remove_oauth_credentials)
async def ask_to_remove_own_client(call: Call[None, None, OAuthCredentialsPath, Member], postern: Postern) -> Page:
    """Ask before the organization's own client at a provider is removed"""
    visit = PageVisit(call, postern)
    name = _name(call.path.provider)
    page = visit.show(
        "question.html",
        _POSITION,
        Head(
            title=visit.text("console.credentials.end_title", provider=name),
            crumbs=_above(visit),
            curl=visit.curl(remove_oauth_credentials),
        ),
        explained=visit.text("console.credentials.end_text", provider=name),
        action=visit.here(_END),
        back=visit.here(_AT),
        button=visit.text("console.credentials.end"),
        kind="final",
        ends=(),
        wanted="",
    )
    return Answer(page, 200)


@console.post(_END, of=remove_oauth_credentials)
async def remove_own_client(call: Call[BoundForm, None, OAuthCredentialsPath, Member], postern: Postern) -> Page:
    """Remove the organization's own client at a provider"""
    visit = PageVisit(call, postern)
    await visit.ask(remove_oauth_credentials)
    return redirect(f"{visit.here(_AT)}?done={_REMOVED}")


def _form(visit: PageVisit, provider: str, client_id: str, *, is_set: bool = False, errors: Mapping[str, str] = NO_ERRORS) -> bytes:
    name = _name(provider)
    return visit.show(
        "organization/settings/credentials_form.html",
        _POSITION,
        Head(
            title=visit.text("console.credentials.set", provider=name),
            crumbs=_above(visit),
            curl=visit.curl(set_oauth_credentials, body={"client_id": "…", "client_secret": "…"}),
            errors=errors,
        ),
        action=visit.here(_ONE),
        back=visit.here(_AT),
        end=visit.here(_END) if is_set and visit.may(remove_oauth_credentials) else "",
        client_id=client_id,
        callback=f"{visit.postern.foundation.public_url}/auth/{provider}/callback",
    )


def _name(provider: str) -> str:
    try:
        return NAMES[Provider(provider)]
    except ValueError:
        raise NotFound("Provider not found") from None


def _above(visit: PageVisit) -> tuple[tuple[str, str], ...]:
    return ((visit.text("console.credentials.title"), visit.here(_AT)),)


PAGES: Final = (list_own_clients, ask_for_own_client, send_own_client, ask_to_remove_own_client, remove_own_client)
