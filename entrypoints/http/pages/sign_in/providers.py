"""The way from our pages to where the people of a domain sign in, and its way back."""

from urllib.parse import quote, urlencode

from core.domain.identity.flows import Flow
from core.domain.identity.realms import Realm, WayIn
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import HOME
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.account import CONNECTIONS
from entrypoints.http.pages.authorization.authorization_pages import PROVIDERS
from entrypoints.http.pages.flows import AnyCall


def provider_address(realm: Realm, flow: Flow, email: str) -> str:
    """Where the sign-in at the realm's provider begins. It comes back into the flow."""
    return _address(realm.provider, org=realm.organization_slug, login_hint=email, flow=str(flow.id))


def address_again(provider: str, flow: Flow, **more: str) -> str:
    """Where somebody who is back already leaves once more. It is kept for a moment, so it names nobody."""
    return _address(provider, flow=str(flow.id), **more)


def provider_name(postern: Postern, way: WayIn) -> str:
    """As people know it. Empty for one of the organization's own that is gone."""
    return "" if way.realm is None else postern.identity.journeys.name(way.realm.provider, way.provider_name)


def ask_to_leave(call: AnyCall, flow: Flow, provider: str, name: str, **more: str) -> bytes:
    """Before a link leads on to an organization's own provider."""
    text = shipped_pages().text(call.language)
    return shipped_pages().page(
        "ask_to_leave.html",
        call.language,
        brand=flow.branding,
        title=text("providers.title_at", provider=name),
        address=_address(provider, flow=str(flow.id), **{name: value for name, value in more.items() if value}),
    )


def to_provider(call: AnyCall, postern: Postern, flow: Flow, email: str, way: WayIn) -> Answer[bytes] | None:
    """A page that leaves by itself, since no redirect behind a form may end at another site. None where people may choose."""
    if way.realm is None or not way.is_required:
        return None
    text = shipped_pages().text(call.language)
    name = provider_name(postern, way)
    body = shipped_pages().page(
        "leave.html",
        call.language,
        brand=flow.branding,
        title=text("providers.title_at", provider=name) if name else text("providers.title"),
        label=text("common.continue"),
        address=provider_address(way.realm, flow, email),
    )
    return Answer(body, 200)


def back_to_asker(postern: Postern, redirect_uri: str, *, on_pages: bool = False) -> str:
    """Where somebody gets back to who connects an identity: to the application that asked for it, or to the page where they did."""
    frontend = postern.foundation.links.frontend_url
    return f"{postern.foundation.public_url}{CONNECTIONS}" if on_pages else redirect_uri or f"{frontend}{CONNECTIONS.removeprefix(HOME)}"


def _address(provider: str, **given: str) -> str:
    return f"{PROVIDERS}{quote(provider, safe='')}?{urlencode(given)}"
