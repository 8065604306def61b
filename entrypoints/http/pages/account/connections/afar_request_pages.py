"""`/ui/requests`: applications ask for a person who is elsewhere, and the person answers here. No link answers for them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Final, Literal
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Forbidden, NotFound, ReauthenticationRequired, Refusal, SecondFactorRequired
from core.domain.federation.afar_requests import PAGE
from core.domain.federation.oauth.consents import DAYS_OFFERED, USUAL_DAYS, ConsentChoice, grant_end
from core.domain.federation.oauth.resources import OFFLINE_ACCESS
from core.domain.identifiers import AfarRequestId, ServiceId
from core.domain.identity.proofs import StepUp
from core.usecases.federation.afar_requests import AnsweredRequest
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Form
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import BROWSER, BoundForm, sign_in_again
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.limits import CREDENTIALS, PAGE_LOADS
from entrypoints.http.pages.account import NO_ERRORS, AnyCall, Done, Page, back_to, set_up_first, show
from entrypoints.http.pages.authorization.consent_pages import ticked
from entrypoints.http.pages.declaring import WITH_FORM, Advised, WayOn, page, refused_page

_REQUEST: Final = f"{PAGE}/{{request_id}}"
_REFUSE: Final = f"{_REQUEST}/refuse"
_BLOCK: Final = f"{_REQUEST}/block"
_UNBLOCK: Final = f"{PAGE}/blocked/{{service_id}}/end"
_MOST_SCOPES: Final = 500
_DONE: Final = {word: f"afar_requests.done_{word}" for word in ("allowed", "refused", "blocked", "unblocked")}


class AfarPagePath(msgspec.Struct, frozen=True):
    request_id: UUID


class BlockedPagePath(msgspec.Struct, frozen=True):
    service_id: UUID


class AfarAllowForm(BoundForm, frozen=True, kw_only=True):
    scopes: Annotated[Sequence[str], msgspec.Meta(max_length=_MOST_SCOPES)] = ()
    """The scopes of the API that the person has left ticked, each behind the id of the API and a space."""
    days: Literal["", "1", "7", "30", "90"] = ""
    """How long an agent may act."""


@page.get(PAGE, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
async def show_afar_requests(call: Call[None, Done], postern: Postern) -> bytes:
    """List the requests of applications that wait for you, and the applications of which you want to hear no more"""
    own = await postern.federation.afar_requests.list_own(call.caller.user)
    return show(
        call,
        postern,
        "connections/afar_requests.html",
        PAGE,
        waiting=own.waiting,
        blocked=own.blocked,
        done=_DONE.get(call.query.done, ""),
    )


@page.get(_REQUEST, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, step_up=StepUp.ACCOUNT, refuses=(NotFound, Forbidden))
async def show_afar_request(call: Call[None, None, AfarPagePath], postern: Postern) -> bytes:
    """Show what an application asks for from afar"""
    return _form(call, postern, await postern.federation.afar_requests.get(AfarRequestId(call.path.request_id), call.caller))


@page.post(
    _REQUEST,
    caller=BROWSER,
    limit=CREDENTIALS,
    policy=WITH_FORM,
    step_up=StepUp.ACCOUNT,
    accepts=Form(most_fields=_MOST_SCOPES + 10),
    refuses=(NotFound, Forbidden),
)
async def answer_afar_request(call: Call[AfarAllowForm, None, AfarPagePath], postern: Postern) -> Page:
    """Allow what is ticked of a request"""
    requests, request = postern.federation.afar_requests, AfarRequestId(call.path.request_id)
    days = int(call.body.days) if call.body.days else None
    place = f"{PAGE}/{request}"
    try:
        await requests.allow(request, call.caller, call.actor, ConsentChoice(ticked(call.body.scopes), days))
    except ReauthenticationRequired as refusal:
        advised = Advised("afar_request.again", WayOn(sign_in_again(place), "afar_request.again_button"))
        return Answer(refused_page(refusal, advised, call.language), status_of(refusal))
    except SecondFactorRequired as refusal:
        return Answer(refused_page(refusal, Advised("two_step.required_advice", WayOn(set_up_first(place))), call.language), 403)
    except BadRequest as refusal:
        return Answer(_form(call, postern, await requests.get(request, call.caller), {"": refusal}), status_of(refusal))
    return back_to(PAGE, "allowed")


@page.post(_REFUSE, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
async def refuse_afar_request_on_page(call: Call[BoundForm, None, AfarPagePath], postern: Postern) -> Page:
    """Refuse a request

    Refusing one that is over is no error.
    """
    with suppress(NotFound):
        await postern.federation.afar_requests.refuse(AfarRequestId(call.path.request_id), call.caller.user, call.actor)
    return back_to(PAGE, "refused")


@page.post(_BLOCK, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def block_afar_client_on_page(call: Call[BoundForm, None, AfarPagePath], postern: Postern) -> Page:
    """Refuse all requests of an application, and hear no more of it"""
    await postern.federation.afar_requests.block(AfarRequestId(call.path.request_id), call.caller.user, call.actor)
    return back_to(PAGE, "blocked")


@page.post(_UNBLOCK, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
async def unblock_client_on_page(call: Call[BoundForm, None, BlockedPagePath], postern: Postern) -> Page:
    """Let an application ask you again"""
    with suppress(NotFound):
        await postern.federation.afar_requests.unblock(ServiceId(call.path.service_id), call.caller.user, call.actor)
    return back_to(PAGE, "unblocked")


def _form(call: AnyCall, postern: Postern, found: AnsweredRequest, errors: Mapping[str, Refusal] = NO_ERRORS) -> bytes:
    now, waiting = postern.foundation.clock.now(), found.waiting
    return show(
        call,
        postern,
        "connections/afar_request.html",
        PAGE,
        waiting=waiting,
        scopes=_shown(found),
        resources=[
            (one, [(f"{one.id} {scope.name}", scope) for scope in one.scopes if scope.name in found.shown(one)]) for one in found.resources
        ],
        has_second_factor=found.signed_in.has_second_factor,
        days=[(days, grant_end(days, now), days == USUAL_DAYS) for days in DAYS_OFFERED] if waiting.is_agent else (),
        allowed=_allowed,
        action=f"{PAGE}/{waiting.id}",
        back=PAGE,
        errors=errors,
        email=call.caller.email.address,
    )


def _shown(found: AnsweredRequest) -> Sequence[str]:
    """Our scopes, as the page names them. Where no agent asks, the session outlives the one in which the person says yes, also without
    `offline_access`. So the page says it.
    """
    scopes = found.request.scopes
    return scopes if found.waiting.is_agent else tuple(dict.fromkeys((*scopes, OFFLINE_ACCESS)))


def _allowed(scope: str) -> str:
    return f"consent.scope.{scope}"
