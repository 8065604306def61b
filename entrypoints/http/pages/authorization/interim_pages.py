"""Pages between a sign-in and the application or the service provider that it is for: consent, and connecting an account.

`/ui/connect/{provider}/{request}`: an application, or an organization's frontend, asks a person to connect an account at a provider.

The asking session must not connect an account in the person's place. So the answer must come from the browser in which the person is signed
in, after a fresh proof, and only that browser can come back from the provider.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec

from core.domain.errors import OrganizationNotActive
from core.domain.federation.oauth.authorization_steps import AuthorizationStep, SignedInPerson
from core.domain.federation.oauth.authorizations import destination, proves_nothing, with_query
from core.domain.federation.oauth.client_documents import ClientRefused
from core.domain.federation.oauth.consents import DAYS_OFFERED, USUAL_DAYS, ConsentChoice, grant_end
from core.domain.federation.oauth.resources import OfferedResource, OfferedScope, Ticked
from core.domain.identifiers import ClientId, ResourceServerId
from core.domain.identity.callers import Caller
from core.domain.identity.flows import Flow, FlowOver
from core.domain.identity.proofs import StepUp
from core.domain.identity.upstream.identities import CANCELLED, LinkRequest
from core.domain.identity.upstream.providers import ProviderOff, UnknownProvider
from core.domain.identity.upstream.sign_in import OAuthError
from core.domain.services.clients import document_host, is_open
from core.domain.services.services import LONGEST_NAME, SignInPolicy
from core.usecases.federation import authorizations
from core.usecases.federation.authorizations import UnfinishedAuthorization
from core.usecases.federation.saml import sign_in
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import ANOTHER, BROWSER, SECOND_FACTOR, BoundForm, sign_in_again, token_for
from entrypoints.http.machinery.callers import CallerRule
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Line, example
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_STEPS
from entrypoints.http.page_addresses import LINK_REQUEST, PASSKEYS
from entrypoints.http.pages.authorization.authorization_pages import CONSENT, LEAVING, advice, form_of, left, settled
from entrypoints.http.pages.kit import account_of, shipped_pages
from entrypoints.http.pages.kit.declaring import IN_POPUP, WITH_FORM, in_words, page
from entrypoints.http.pages.kit.flows import (
    AnyCall,
    FlowLink,
    Page,
    browser_secret,
    even_twice,
    flow_of,
    has_chosen_its_name,
    unregistered_name,
    with_another_account,
)
from entrypoints.http.pages.sign_in.providers import back_to_asker
from entrypoints.http.refusals import refused_on_the_way

Unfinished = authorizations.UnfinishedAuthorization | sign_in.UnfinishedSamlSignIn


def interim_page(
    template: str,
    call: AnyCall,
    postern: Postern,
    flow: Flow,
    asked: Unfinished,
    *,
    rule: CallerRule,
    action: str,
    named: str = "",
    **more: Any,
) -> bytes:
    """`named` is the application's name, on a page that says first whose choice it may be."""
    call.speak_for(asked.application.branding)
    return shipped_pages().page(
        template,
        call.language,
        brand=asked.application.branding,
        action=action,
        flow=str(flow.id),
        form_token=token_for(rule, call.request, postern),
        logo=asked.application.logo,
        service=named or (unregistered_name(call) if has_chosen_its_name(flow) else asked.application.name),
        organization=asked.application.organization_name,
        asks_for_role=asked.application.sign_in_policy is SignInPolicy.ASSIGNED,
        **_account(call.request.caller, asked.signed_in),
        **more,
    )


def _account(caller: Caller | None, signed_in: SignedInPerson | None) -> dict[str, Any]:
    """The request's caller has a name, and may be another person than the one who has just signed in."""
    if caller is not None and signed_in is not None and caller.user == signed_in.user:
        return account_of(caller)
    return {"email": "" if signed_in is None else signed_in.email, "person_name": ""}


def leading_to(address: str, client: ClientId | None = None) -> dict[str, Any]:
    """The values for the page that asks for consent: the destination of the answer, and what is to be said of a `client` that nobody has
    registered.
    """
    return {
        "destination": destination(address),
        "on_device": proves_nothing(address),
        "document_host": None if client is None else document_host(client),
        "is_open": client is not None and is_open(client),
    }


def until_second_factor(postern: Postern, flow: Flow, asked: Unfinished, onward: str) -> dict[str, Any]:
    """The values for the page that requires a second factor: the time that is left, and the ways on."""
    due = None if asked.signed_in is None else asked.signed_in.second_factor_due
    has_time = due is not None and due > postern.foundation.clock.now()
    # Whoever has a second factor is an administrator who lacks the passkey.
    lacks_passkey = asked.signed_in is not None and asked.signed_in.has_second_factor
    return {
        "set_up": SECOND_FACTOR,
        "onward": f"{onward}?flow={flow.id}",
        "due": due,
        "has_time": has_time,
        "passkeys": PASSKEYS if lacks_passkey else "",
    }


_MOST_SCOPES: Final = 500
_DIGEST: Final = 64
_REFUSES: Final = (FlowOver, OrganizationNotActive)


class ConsentForm(BoundForm, frozen=True, kw_only=True):
    """The form is bound to the session, and not to the flow: nobody else can allow what Ada was shown."""

    flow: Line
    answer: Literal["allow", "deny", "another"]
    scopes: Annotated[Sequence[Line], msgspec.Meta(max_length=_MOST_SCOPES)] = ()
    """The scopes of APIs that the person has left ticked, each behind the id of its API and a space."""
    document: Annotated[str, msgspec.Meta(max_length=_DIGEST)] = ""
    """What the page has shown of a metadata client's document, as a digest."""
    name: Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)] = ""
    """The name that the page has shown of a client that nobody has allowed yet."""
    days: Literal["", "1", "7", "30", "90"] = ""
    """How long an agent may act."""
    signals: Annotated[str, msgspec.Meta(max_length=_DIGEST)] = ""
    """What the page has shown of signals, as a digest."""


@page.get(CONSENT, caller=BROWSER, limit=PAGE_LOADS, policy=IN_POPUP, advice=advice, refuses=_REFUSES)
async def show_consent(call: Call[None, FlowLink], postern: Postern) -> Page:
    """Ask for consent to the access that an application wants"""
    flow = await flow_of(call, postern, call.query.flow)
    # The page shows the account, so a person who goes on has chosen this account. A person who still has time to set up a second factor was
    # asked before.
    outcome = await postern.federation.authorizations.resume(flow, call.caller, call.client, account_chosen=True, set_up_later=True)
    action = form_of(CONSENT, flow)
    match outcome:
        case UnfinishedAuthorization(step=AuthorizationStep.CONSENT, request=request):
            where = leading_to(request.recipient.redirect_uri, request.client_id)
            can_show = outcome.signed_in is not None and outcome.signed_in.has_second_factor
            more = {
                "named": outcome.application.name,
                "hidden": _hidden(outcome),
                "scopes": request.scopes if outcome.signals is None else request.granted_scopes,
                "resources": _shown(outcome),
                "signals": _signals(outcome),
                "has_second_factor": can_show,
                "days": _days(outcome, postern.foundation.clock.now()),
                **where,
            }
            return Answer(
                interim_page("authorization/consent.html", call, postern, flow, outcome, rule=BROWSER, action=action, **more), 200
            )
        case UnfinishedAuthorization(step=AuthorizationStep.TURN_AWAY):
            return Answer(interim_page("authorization/turned_away.html", call, postern, flow, outcome, rule=BROWSER, action=action), 403)
        case _:
            return await settled(call, postern, flow, outcome)


@page.post(CONSENT, caller=BROWSER, limit=PAGE_STEPS, policy=LEAVING, advice=advice, refuses=_REFUSES)
async def answer_consent(call: Call[ConsentForm], postern: Postern) -> Page:
    """Allow or deny the access that an application wants"""
    authorizations = postern.federation.authorizations

    async def answered(flow: Flow) -> Page:
        match call.body.answer:
            case "allow":
                days = int(call.body.days) if call.body.days else None
                choice = ConsentChoice(
                    ticked(call.body.scopes), days, _digest(call.body.document), call.body.name, _digest(call.body.signals)
                )
                try:
                    outcome = await authorizations.allow(flow, call.caller, call.actor, call.client, choice)
                except ClientRefused as refusal:
                    refused_on_the_way(postern, flow.request, refusal)
                    raise
                return await settled(call, postern, flow, outcome)
            case "deny":
                return left(call, flow, await authorizations.deny(flow))
            case "another":
                return await with_another_account(call, postern, flow)

    return await even_twice(call, postern, call.body.flow, answered)


def _hidden(outcome: UnfinishedAuthorization) -> Mapping[str, str]:
    """What the form says that the page has shown."""
    signals = {} if outcome.signals is None else {"signals": outcome.signals.digest.hex()}
    document = next((one.document for one in outcome.resources), None)
    if document is None:
        return signals
    return {"document": document.hex(), **signals, **({} if outcome.application.unplaced is None else {"name": outcome.application.name})}


def _signals(outcome: UnfinishedAuthorization) -> Mapping[str, Sequence[str]] | None:
    """What the application will be told, and where."""
    if outcome.signals is None:
        return None
    settings = outcome.signals.settings
    return {"events": [one.value.replace("-", "_") for one in settings.events], "hosts": settings.hosts}


def _shown(outcome: UnfinishedAuthorization) -> list[Mapping[str, Any]]:
    """The APIs of the request, with the scopes that the person may allow there."""
    asked, is_agent = outcome.request.foreign_scopes, outcome.application.is_agent

    def held(resource: OfferedResource) -> Sequence[OfferedScope]:
        return resource.shown_for_agent(asked) if is_agent else resource.held(asked)

    return [
        {
            "name": resource.name,
            "identifier": resource.identifier,
            "scopes": [(f"{resource.id} {scope.name}", scope) for scope in held(resource)],
        }
        for resource in outcome.resources
    ]


def _days(outcome: UnfinishedAuthorization, now: datetime) -> Sequence[tuple[int, datetime, bool]]:
    """The choices of the end of an agent's grant, and which is chosen first. Empty for an application that is none."""
    return [(days, grant_end(days, now), days == USUAL_DAYS) for days in DAYS_OFFERED] if outcome.application.is_agent else ()


def ticked(sent: Sequence[str]) -> Ticked:
    ticked = set()
    for one in sent:
        resource, _, scope = one.partition(" ")
        try:
            ticked.add((ResourceServerId(UUID(resource)), scope))
        except ValueError:
            continue
    return ticked


def _digest(sent: str) -> bytes | None:
    try:
        return bytes.fromhex(sent) or None
    except ValueError:
        return None


_LINK_REQUEST_PAGE_REFUSES: Final = (FlowOver, UnknownProvider, ProviderOff)


class LinkRequestPath(msgspec.Struct, frozen=True):
    provider: Annotated[Line, example("codehost")]
    request: Line


@page.get(LINK_REQUEST, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, step_up=StepUp.ACCOUNT, refuses=_LINK_REQUEST_PAGE_REFUSES)
async def show_link_request(call: Call[None, None, LinkRequestPath], postern: Postern) -> Answer[bytes]:
    """Ask whether to connect an account at a provider, for an application that wants it"""
    asked = await _asked(call, postern)
    return _another_account(call) if asked is None else Answer(_page(call, postern, asked), 200)


@page.post(LINK_REQUEST, caller=BROWSER, limit=PAGE_STEPS, policy=WITH_FORM, step_up=StepUp.ACCOUNT, refuses=_LINK_REQUEST_PAGE_REFUSES)
async def allow_link_request(call: Call[BoundForm, None, LinkRequestPath], postern: Postern) -> Answer[bytes]:
    """Leave for a provider, to connect the account there"""
    browser, headers = browser_secret(call, postern)
    try:
        place = await postern.identity.link_requests.leave(call.path.provider, call.path.request, call.caller, browser)
    except OAuthError as refusal:
        asked = await _asked(call, postern)
        return _another_account(call) if asked is None else Answer(_page(call, postern, asked, refusal), 400)
    if place is None:
        return _another_account(call)
    text = shipped_pages().text(call.language)
    content = shipped_pages().page("leave.html", call.language, title=text("leaving.title"), label=text("common.continue"), address=place)
    return Answer(content, 200, headers)


async def _asked(call: Call[Any, None, LinkRequestPath], postern: Postern) -> LinkRequest | None:
    return await postern.identity.link_requests.find(call.path.provider, call.path.request, call.caller)


def _page(call: Call[Any, None, LinkRequestPath], postern: Postern, asked: LinkRequest, refusal: OAuthError | None = None) -> bytes:
    text = shipped_pages().text(call.language)
    place = back_to_asker(postern, asked.asker.redirect_uri)
    told = {"status": "error", "provider": asked.provider, "action": "link", "error": CANCELLED}
    return shipped_pages().page(
        "authorization/link_request.html",
        call.language,
        action=call.request.path,
        form_token=token_for(BROWSER, call.request, postern),
        provider=asked.name,
        application=asked.asker.application,
        organization=asked.asker.organization,
        **account_of(call.caller),
        destination=destination(place),
        cancelled=with_query(place, told),
        errors={} if refusal is None else {"": in_words(refusal, text)},
    )


def _another_account(call: Call[Any, None, LinkRequestPath]) -> Answer[bytes]:
    """The page for a person who is not the one that the request names."""
    text = shipped_pages().text(call.language)
    email, name = call.caller.email.address, call.caller.profile.shown_name
    content = shipped_pages().page(
        "outcome.html",
        call.language,
        good=False,
        title=text("link_request.another_title"),
        explained=text("link_request.another_text", email=f"{text.isolated(name)} ({email})" if name else email),
        onward=sign_in_again(call.request.path, ANOTHER),
    )
    return Answer(content, 403)
