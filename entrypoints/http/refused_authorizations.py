"""Log, count and record refused authorization requests, so that the developers of an application can find out why."""

import re
from collections.abc import Mapping
from typing import Any, Final

import structlog

from core.domain.errors import Refusal
from core.domain.federation.oauth.authorization_parameters import THROUGH, Parameters
from core.domain.federation.oauth.authorization_steps import RequestingApplication
from core.domain.federation.oauth.authorizations import Answered, AuthorizationRefused, UnknownRecipient
from core.domain.federation.oauth.client_documents import ClientRefused
from core.domain.identifiers import ClientId, ResourceServerId
from core.domain.services.clients import shown as shown_client_id
from entrypoints.bootstrap import Postern
from entrypoints.http.refusal_recording import record_refused_document, record_refused_request

log = structlog.get_logger()

_LONGEST: Final = 200
_PLACES: Final = ("client_id", "redirect_uri", "scope", "response_type")
_LOGGED: Final = (*_PLACES, "resource")
# The recorder of refusals also shows what the application asked for in these.
_SAID: Final = (*_PLACES, "response_mode", "code_challenge", "code_challenge_method")
# Anybody can send the values of an authorization request. The log shows a value only if the value matches this pattern, so that no value
# misleads a reader of the log or breaks a program that reads the log.
_PLAIN: Final = re.compile(r"[\w.:/+~@,;=()*!'-]+(?: [\w.:/+~@,;=()*!'-]+)*", re.ASCII)


def refused_on_arrival(
    postern: Postern, parameters: Parameters, refusal: Refusal, pusher: ClientId | None = None, api: ResourceServerId | None = None
) -> None:
    """Logs a refusal that the person sees, or the application that has pushed the request. If nobody has placed the client yet, `api` is
    the API that it names.
    """
    reason = refusal.word.value if isinstance(refusal, AuthorizationRefused) else refusal.words
    said, client = _said(parameters), pusher or (refusal.client if isinstance(refusal, UnknownRecipient) else None)
    if isinstance(refusal, UnknownRecipient) and not isinstance(refusal, ClientRefused):
        api = api or refusal.api
    _tell(postern, said if client is None else {**said, "client_id": client}, reason, refusal.message, api, recorded_as=refusal.recorded_as)
    if isinstance(refusal, ClientRefused):
        record_refused_document(postern, said["client_id"] or "", refusal)


def answered_on_arrival(postern: Postern, parameters: Parameters, application: RequestingApplication, answered: Answered) -> None:
    """Logs the answer to the application, if the answer is a refusal."""
    if "error" in answered.fields:
        said = {**_said(parameters), "client_id": application.registered.client_id}
        _answered(postern, said, answered, application)


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


def _answered(postern: Postern, said: Mapping[str, str | None], answered: Answered, application: RequestingApplication) -> None:
    reason, description = answered.fields["error"], answered.fields["error_description"]
    _tell(postern, said, reason, description, application.asked_api, recorded_as=answered.recorded_as)


def _tell(
    postern: Postern, said: Mapping[str, str | None], reason: str, description: str, api: ResourceServerId | None, *, recorded_as: str = ""
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
    record_refused_request(postern, said, reason, description, api, recorded_as=recorded_as)
    log.info("authorization_refused", reason=reason, description=description[:_LONGEST], **cut)
