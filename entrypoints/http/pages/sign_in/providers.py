"""The ways from our pages to the provider of a domain's people, and back."""

from urllib.parse import quote, urlencode

from core.domain.identity.flows import Flow
from core.domain.identity.realms import Realm, WayIn
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import HOME
from entrypoints.http.pages.account import CONNECTIONS
from entrypoints.http.pages.authorization.authorization_pages import PROVIDERS
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.flows import AnyCall


def provider_address(realm: Realm, flow: Flow, email: str) -> str:
    """The address where the sign-in at the realm's provider begins. The sign-in comes back into the flow."""
    return _address(realm.provider, org=realm.organization_slug, login_hint=email, flow=str(flow.id))


def address_again(provider: str, flow: Flow, **more: str) -> str:
    """The address for a second way to the provider, after the person has come back. We store it for a moment, so it contains no e-mail
    address.
    """
    return _address(provider, flow=str(flow.id), **more)


def provider_name(postern: Postern, way: WayIn) -> str:
    """The provider's name for people. Empty for a provider of the organization's own that has been deleted."""
    return "" if way.realm is None else postern.identity.journeys.name(way.realm.provider, way.provider_name)


def ask_to_leave(call: AnyCall, flow: Flow, provider: str, name: str, **more: str) -> bytes:
    """The page that asks before a link leads to an organization's own provider."""
    text = shipped_pages().text(call.language, flow.branding)
    return shipped_pages().page(
        "ask_to_leave.html",
        call.language,
        brand=flow.branding,
        title=text("providers.title_at", provider=name),
        address=_address(provider, flow=str(flow.id), **{name: value for name, value in more.items() if value}),
    )


def to_provider(call: AnyCall, postern: Postern, flow: Flow, email: str, way: WayIn) -> Answer[bytes] | None:
    """A page that leaves by itself, since no redirect behind a form may end at another site. None when people may choose another way."""
    if way.realm is None or not way.is_required:
        return None
    text = shipped_pages().text(call.language, flow.branding)
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
    """The destination after connecting an identity: the application that asked for it, or the page of ours where the person did."""
    frontend = postern.foundation.links.frontend_url
    return f"{postern.foundation.public_url}{CONNECTIONS}" if on_pages else redirect_uri or f"{frontend}{CONNECTIONS.removeprefix(HOME)}"


def _address(provider: str, **given: str) -> str:
    return f"{PROVIDERS}{quote(provider, safe='')}?{urlencode(given)}"
