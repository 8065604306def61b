"""`/ui/settings/connections`: the accounts at providers by which a person signs in."""

from typing import Annotated, Final

import msgspec

from core.domain.errors import NotFound, Unauthorized
from core.domain.identity.proofs import LastWayIn, StepUp
from core.domain.identity.upstream.identities import ConnectedIdentity
from core.domain.identity.upstream.providers import ProviderOff, UnknownProvider
from core.domain.identity.upstream.sign_in import OAuthError, UpstreamRefused
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import BROWSER, BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Line, example
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_STEPS
from entrypoints.http.pages.account import CONNECTIONS, AnyCall, Page, ask, back_to, show
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.declaring import WITH_FORM, page
from entrypoints.http.pages.kit.flows import browser_secret

_CONNECT: Final = f"{CONNECTIONS}/{{provider}}/connect"
_DISCONNECT: Final = f"{CONNECTIONS}/{{provider}}/disconnect"
_DONE: Final = {"disconnected": "connections.done_disconnected", "link": "connections.done_connected"}
_REASONS: Final = frozenset({"cancelled", "taken", "other_connected", "not_for_account"})


class ConnectionsLink(msgspec.Struct, frozen=True):
    """A provider's callback sets `status`, `action` and `error`."""

    done: Line = ""
    status: Line = ""
    action: Line = ""
    error: Line = ""


class ConnectionPath(msgspec.Struct, frozen=True):
    provider: Annotated[Line, example("codehost")]


@page.get(CONNECTIONS, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
async def show_connections(call: Call[None, ConnectionsLink], postern: Postern) -> bytes:
    """List your connected accounts at identity providers"""
    link = call.query
    failed = link.status == "error"
    done = "" if failed else link.action if link.status == "success" else link.done
    refusal = None if not failed else UpstreamRefused(link.error) if link.error in _REASONS else OAuthError()
    return await _page(call, postern, errors={} if refusal is None else {"": refusal}, done=_DONE.get(done, ""))


@page.get(_CONNECT, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, step_up=StepUp.ACCOUNT, refuses=(UnknownProvider,))
async def ask_to_connect(call: Call[None, None, ConnectionPath], postern: Postern) -> bytes:
    """Explain the connection of an account at a provider before it is made"""
    provider = call.path.provider
    name = {key: name for key, name, _ in await _offered(call, postern)}.get(provider)
    if name is None:
        raise UnknownProvider
    text = shipped_pages().text(call.language)
    return show(
        call,
        postern,
        "connections/connect.html",
        CONNECTIONS,
        title=text("connect.title", provider=name),
        explained=text("connect.text", provider=name),
        action=f"{CONNECTIONS}/{provider}/connect",
        back=CONNECTIONS,
    )


@page.post(_CONNECT, caller=BROWSER, limit=PAGE_STEPS, policy=WITH_FORM, step_up=StepUp.ACCOUNT, refuses=(UnknownProvider,))
async def connect(call: Call[BoundForm, None, ConnectionPath], postern: Postern) -> Page:
    """Leave for a provider, to connect the account there"""
    browser, headers = browser_secret(call, postern)
    try:
        address = await postern.identity.journeys.leave_to_connect(call.path.provider, browser, call.caller)
    except (ProviderOff, OAuthError) as refusal:
        return Answer(await _page(call, postern, errors={"": refusal}), 400)
    text = shipped_pages().text(call.language)
    content = shipped_pages().page("leave.html", call.language, title=text("leaving.title"), label=text("common.continue"), address=address)
    return Answer(content, 200, headers)


@page.get(_DISCONNECT, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, step_up=StepUp.ACCOUNT, refuses=(NotFound,))
async def ask_to_disconnect(call: Call[None, None, ConnectionPath], postern: Postern) -> bytes:
    """Ask before an account at a provider is disconnected"""
    return await _asked_to_disconnect(call, postern)


@page.post(_DISCONNECT, caller=BROWSER, limit=PAGE_STEPS, policy=WITH_FORM, step_up=StepUp.ACCOUNT, refuses=(UnknownProvider, Unauthorized))
async def disconnect(call: Call[BoundForm, None, ConnectionPath], postern: Postern) -> Page:
    """Disconnect an account at a provider

    Disconnecting an account that is not connected succeeds too.
    """
    try:
        await postern.identity.identities.disconnect(call.caller, call.path.provider, call.actor)
    except LastWayIn as refusal:
        return Answer(await _asked_to_disconnect(call, postern, refusal), 400)
    except NotFound:
        pass
    return back_to(CONNECTIONS, "disconnected")


async def _asked_to_disconnect(call: AnyCall, postern: Postern, refusal: LastWayIn | None = None) -> bytes:
    provider = call.path.provider
    for one in await postern.identity.identities.list(call.caller):
        if one.provider == provider:
            return ask(
                call,
                postern,
                CONNECTIONS,
                f"{CONNECTIONS}/{provider}/disconnect",
                name="disconnect",
                button="disconnect.button",
                back=CONNECTIONS,
                values={"provider": _name(postern, one)},
                refusal=refusal,
            )
    raise NotFound("You are not connected to this provider", words="provider_not_connected")


async def _page(call: AnyCall, postern: Postern, *, errors: dict[str, UpstreamRefused | OAuthError | ProviderOff], done: str = "") -> bytes:
    connected = await postern.identity.identities.list(call.caller)
    known = {one.provider for one in connected}
    offers = await _offered(call, postern)
    return show(
        call,
        postern,
        "connections/connections.html",
        CONNECTIONS,
        errors=errors,
        connected=[(one, _name(postern, one)) for one in connected],
        offers=[one for one in offers if one[0] not in known],
        logos={key: logo for key, _, logo in offers},
        done=done,
    )


async def _offered(call: AnyCall, postern: Postern) -> list[tuple[str, str, str]]:
    """The providers that the person can connect, with their names and logos: the installation's own, and those of the organization that
    the person manages here.
    """
    return [(one.key, one.name, one.logo) for one in await postern.identity.journeys.offered_to(call.caller)]


def _name(postern: Postern, identity: ConnectedIdentity) -> str:
    return postern.identity.journeys.name(identity.provider, identity.provider_name)
