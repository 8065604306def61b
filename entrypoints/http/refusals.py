"""Logs, counts and records refused requests of applications, for the people who manage them. No request waits for its record."""

import re
from collections.abc import Mapping
from typing import Any, Final

import structlog

from core.domain.errors import Refusal
from core.domain.federation.authorization_refusals import (
    AuthorizationRefusal,
    DocumentRefusal,
    PresentedCode,
    RefusingEndpoint,
    refused_exchange,
    refused_request,
    shown_client,
    turned_away,
)
from core.domain.federation.oauth.authorization_codes import Claim, claim_of
from core.domain.federation.oauth.authorization_parameters import THROUGH, Parameters
from core.domain.federation.oauth.authorization_steps import RequestingApplication, SignedInPerson
from core.domain.federation.oauth.authorizations import Answered, AuthorizationRefused, UnknownRecipient
from core.domain.federation.oauth.client_documents import ClientRefused
from core.domain.federation.oauth.grants import AUTHORIZATION_CODE, TokenRequest
from core.domain.federation.oauth.refusals import RefusalReason, reason_in_words
from core.domain.identifiers import AuthorizationRefusalId, ClientId, ResourceServerId, SessionId
from core.domain.identity.flows import Flow
from core.domain.identity.login_events import LoginFailure
from core.domain.identity.sessions import Context
from core.domain.identity.sign_in import SESSION_PROVIDER
from core.domain.services.clients import describes_itself, read_client_id, shown
from core.domain.services.clients import shown as shown_client_id
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.browser_cookies import awaits_sign_in
from entrypoints.http.machinery.calls import Call, Request
from entrypoints.http.machinery.clients import shown_credentials

log = structlog.get_logger()


def record_refused_request(
    postern: Postern,
    said: Mapping[str, str | None],
    word: str,
    description: str,
    api: ResourceServerId | None,
    *,
    recorded_as: str,
    awaited_in: SessionId | None = None,
) -> None:
    """A refused authorization request. `said` has its parameters; `recorded_as` is the reason that the refusal names, if any. A client that
    nobody has placed yet has no service, so its refusal is one of the `api`. `awaited_in` is the session of a browser that waits for it.
    """
    named = said.get("client_id") or ""
    client = ClientId(named) if describes_itself(named) else read_client_id(named)
    found = refused_request(word, description, said, recorded_as)
    if client is None or found is None:
        return
    reason, received = found
    if api is not None:
        because = " · ".join(filter(None, (reason_in_words(reason)[0], received)))
        _record_document(postern, shown(client), api, reason.value, because)
    else:
        _record(postern, client, RefusingEndpoint.AUTHORIZE, (reason, received, None), awaited_in)


def record_refused_document(postern: Postern, address: str, refusal: ClientRefused) -> None:
    """A metadata client that was refused before it was one of an organization's. Without an API, nobody is there to read why."""
    if refusal.api is not None:
        _record_document(postern, address, refusal.api, refusal.words, refusal.message)


def _record_document(postern: Postern, address: str, api: ResourceServerId, reason: str, because: str) -> None:
    _post(
        postern,
        DocumentRefusal(
            id=AuthorizationRefusalId(postern.foundation.ids.new()),
            api=api,
            address=shown_client(address),
            reason=reason,
            because=because,
            occurred_at=postern.foundation.clock.now(),
        ),
    )


async def record_turned_away(
    call: Call[Any, Any, Any, Any],
    postern: Postern,
    application: RequestingApplication,
    signed_in: SignedInPerson | None,
    *,
    at: RefusingEndpoint,
    flow: Flow | None = None,
) -> None:
    """A person who has signed in, and whom the application does not admit. The application's record says nothing about the person; the log
    of sign-ins does, as far as its readers may know of them.
    """
    reason = turned_away(application.sign_in_policy)
    awaited_in = awaiting_session(call.request, postern) if at is RefusingEndpoint.AUTHORIZE else None
    _record(postern, application.registered.client_id, at, (reason, "", None), awaited_in)
    if signed_in is not None and application.kept_service is not None:
        way = flow.signed_in_by if flow is not None and flow.session == signed_in.session else ""
        place = Context(application.organization, application.organization_slug, application.kept_service, application.slug)
        await postern.identity.login_events.log_refused_visit(
            LoginFailure(reason.value), signed_in.user, way or SESSION_PROVIDER, call.client, place
        )


def refused_token_request(call: Call[Any], postern: Postern, refusal: Refusal, request: TokenRequest | None) -> None:
    """A refused request for tokens. `request` is None if it has no grant type."""
    try:
        shown = shown_credentials(call, postern)
    except Refusal:
        # Nobody knows which client it was.
        return
    claim: Claim | None = None
    if request is not None and request.grant_type == AUTHORIZATION_CODE:
        try:
            claim = claim_of(request, shown.client, is_public=False)
        except Refusal:
            claim = None
    found = refused_exchange(refusal, request, shown, claim)
    if found is not None:
        _record(postern, call.request.client_id or shown.client, RefusingEndpoint.TOKEN, found)


async def record_proxy_without_secret(postern: Postern, host: str) -> None:
    """A proxy that shows no secret, or one that is none: those who look after the host's application see it."""
    client = await postern.federation.proxy_checks.client_at(host) if host else None
    if client is not None:
        _record(postern, client, RefusingEndpoint.PROXY, (RefusalReason.PROXY_SECRET, "", None))


def record_foreign_host(postern: Postern, client: ClientId, host: str) -> None:
    """The secret is good, and the host is not, or no more, the application's."""
    _record(postern, client, RefusingEndpoint.PROXY, (RefusalReason.PROXY_HOST, host, None))


def awaiting_session(request: Request, postern: Postern) -> SessionId | None:
    """The session of a browser in which somebody waits for a sign-in, as the browser itself says. Only such a request costs a look at whom
    it belongs to: the recorder keeps the session if a page does wait in it.
    """
    caller = request.caller
    if caller is None or caller.impersonator is not None or not awaits_sign_in(request, postern.foundation.public_url):
        return None
    return SessionId(caller.session)


def _record(
    postern: Postern,
    client: ClientId,
    at: RefusingEndpoint,
    found: tuple[RefusalReason, str, PresentedCode | None],
    awaited_in: SessionId | None = None,
) -> None:
    reason, received, code = found
    _post(
        postern,
        AuthorizationRefusal(
            id=AuthorizationRefusalId(postern.foundation.ids.new()),
            client=client,
            at=at,
            reason=reason,
            received=received,
            occurred_at=postern.foundation.clock.now(),
            code=code,
            awaited_in=awaited_in,
        ),
    )


def _post(postern: Postern, refusal: AuthorizationRefusal | DocumentRefusal) -> None:
    try:
        postern.federation.refusal_recorder.record(refusal)
    except Exception:
        # The request has its answer already, so a failed record changes nothing for the application.
        log.exception("authorization_refusal_not_recorded")


_LONGEST: Final = 200
_PLACES: Final = ("client_id", "redirect_uri", "scope", "response_type")
_LOGGED: Final = (*_PLACES, "resource")
# The recorder of refusals also shows what the application asked for in these.
_SAID: Final = (*_PLACES, "response_mode", "code_challenge", "code_challenge_method")
# Anybody can send the values of an authorization request. The log shows a value only if the value matches this pattern, so that no value
# misleads a reader of the log or breaks a program that reads the log.
_PLAIN: Final = re.compile(r"[\w.:/+~@,;=()*!'-]+(?: [\w.:/+~@,;=()*!'-]+)*", re.ASCII)


def refused_on_arrival(
    postern: Postern,
    parameters: Parameters,
    refusal: Refusal,
    pusher: ClientId | None = None,
    api: ResourceServerId | None = None,
    *,
    awaited_in: SessionId | None = None,
) -> None:
    """Logs a refusal that the person sees, or the application that has pushed the request. If nobody has placed the client yet, `api` is
    the API that it names. `awaited_in`: see `awaiting_session`.
    """
    reason = refusal.word.value if isinstance(refusal, AuthorizationRefused) else refusal.words
    said, client = _said(parameters), pusher or (refusal.client if isinstance(refusal, UnknownRecipient) else None)
    if isinstance(refusal, UnknownRecipient) and not isinstance(refusal, ClientRefused):
        api = api or refusal.api
    said = said if client is None else {**said, "client_id": client}
    _tell(postern, said, reason, refusal.message, api, recorded_as=refusal.recorded_as, awaited_in=awaited_in)
    if isinstance(refusal, ClientRefused):
        record_refused_document(postern, said["client_id"] or "", refusal)


def answered_on_arrival(
    postern: Postern,
    parameters: Parameters,
    application: RequestingApplication,
    answered: Answered,
    *,
    awaited_in: SessionId | None = None,
) -> None:
    """Logs the answer to the application, if the answer is a refusal."""
    if "error" in answered.fields:
        said = {**_said(parameters), "client_id": application.registered.client_id}
        _answered(postern, said, answered, application, awaited_in)


def refused_on_the_way(postern: Postern, kept: Mapping[str, Any], refusal: ClientRefused) -> None:
    """Logs that a person has allowed a client which gets no place. `kept` is the request that the flow stores."""
    client = shown_client_id(ClientId(kept["client_id"]))
    _tell(postern, {"client_id": client}, refusal.words, refusal.message, None)
    record_refused_document(postern, client, refusal)


def answered_on_the_way(postern: Postern, kept: Mapping[str, Any], application: RequestingApplication, answered: Answered) -> None:
    """Logs the answer to the application after a step of the person, if the answer is a refusal. `kept` is the request that the flow
    stores.
    """
    if "error" in answered.fields:
        said = {"client_id": kept["client_id"], "redirect_uri": kept["redirect_uri"], "scope": " ".join(kept.get("scope", ()))}
        said["resource"] = " ".join(kept.get("resource", ()))
        if THROUGH not in kept:
            said["response_type"] = "code"
        _answered(postern, said, answered, application)


def _said(parameters: Parameters) -> Mapping[str, str | None]:
    return {"resource": " ".join(parameters.resources) or None, **{name: parameters.get(name) for name in _SAID}}


def _answered(
    postern: Postern,
    said: Mapping[str, str | None],
    answered: Answered,
    application: RequestingApplication,
    awaited_in: SessionId | None = None,
) -> None:
    reason, description = answered.fields["error"], answered.fields["error_description"]
    _tell(postern, said, reason, description, application.asked_api, recorded_as=answered.recorded_as, awaited_in=awaited_in)


def _tell(
    postern: Postern,
    said: Mapping[str, str | None],
    reason: str,
    description: str,
    api: ResourceServerId | None,
    *,
    recorded_as: str = "",
    awaited_in: SessionId | None = None,
) -> None:
    """Log and count a refusal. The log shows neither hints, `state` and tokens of a request nor the query of a redirect URI, because such
    values identify a person or give access.
    """
    uri, shown = said.get("redirect_uri"), {name: value for name, value in said.items() if name in _LOGGED and value}
    if "client_id" in shown:
        shown["client_id"] = shown_client_id(ClientId(shown["client_id"]))
    if uri is not None:
        shown["redirect_uri"] = uri.partition("?")[0].partition("#")[0]
    cut = {name: value[:_LONGEST] if _PLAIN.fullmatch(value) else "(no plain value)" for name, value in shown.items()}
    postern.foundation.metrics.authorization_refused(reason)
    record_refused_request(postern, said, reason, description, api, recorded_as=recorded_as, awaited_in=awaited_in)
    log.info("authorization_refused", reason=reason, description=description[:_LONGEST], **cut)
