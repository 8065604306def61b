"""Pages between a sign-in and the application or the service provider that it is for."""

from typing import Any

from core.domain.federation.oauth.authorization_steps import SignedInPerson
from core.domain.federation.oauth.authorizations import destination, proves_nothing
from core.domain.identifiers import ClientId
from core.domain.identity.callers import Caller
from core.domain.identity.flows import Flow
from core.domain.services.clients import document_host, is_open
from core.domain.services.services import SignInPolicy
from core.usecases.federation import authorizations
from core.usecases.federation.saml import sign_in
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.browsers import SECOND_FACTOR, token_for
from entrypoints.http.machinery.callers import CallerRule
from entrypoints.http.pages import account_of, shipped_pages
from entrypoints.http.pages.account import PASSKEYS
from entrypoints.http.pages.flows import AnyCall, has_chosen_its_name, unregistered_name

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
