"""Applications that act for a person: ending their access, keys for their APIs, and requests from afar. No link answers for them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import ceil
from typing import Annotated, Final, Literal
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Forbidden, NotFound, ReauthenticationRequired, Refusal, SecondFactorRequired, Unauthorized
from core.domain.federation.backchannel_requests import PAGE
from core.domain.federation.oauth.consents import DAYS_OFFERED, USUAL_DAYS, ApplicationAccess, ConsentChoice, grant_end
from core.domain.federation.oauth.resources import OFFLINE_ACCESS
from core.domain.identifiers import BackchannelRequestId, ResourceServerId, ServiceId, UserKeyId
from core.domain.identity.proofs import StepUp
from core.domain.services.api_keys import LONGEST_LIFE
from core.domain.services.resource_servers import LONGEST_SCOPE, MOST_SCOPES
from core.domain.services.user_keys import MOST_KEYS, UserKeyPlace, WantedUserKey
from core.domain.tenancy.management_keys import LONGEST_KEY_NAME
from core.usecases.federation.backchannel_requests import AnsweredRequest
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Form
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BROWSER, BoundForm, sign_in_again
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import Line, ServicePath
from entrypoints.http.machinery.limits import CREDENTIALS, PAGE_LOADS
from entrypoints.http.pages.account import (
    APPLICATIONS,
    NO_ERRORS,
    ON_A_PAGE,
    AnyCall,
    Done,
    Listing,
    Page,
    ask,
    back_to,
    set_up_first,
    show,
)
from entrypoints.http.pages.authorization.interim_pages import ticked
from entrypoints.http.pages.kit.declaring import WITH_FORM, Advised, WayOn, page, refused_page

_REVOKE: Final = f"{APPLICATIONS}/{{service_id}}/revoke"
_REVOKE_API: Final = f"{APPLICATIONS}/{{service_id}}/apis/{{resource_id}}/revoke"
_END_KEY: Final = f"{APPLICATIONS}/keys/{{user_key_id}}/end"
_DONE: Final = {
    "revoked": "applications.done_revoked",
    "api_revoked": "applications.done_api_revoked",
    "ended": "user_keys.done_ended",
}


class ApplicationPath(msgspec.Struct, frozen=True):
    service_id: UUID


class HeldUserKeyPath(msgspec.Struct, frozen=True):
    user_key_id: UUID


class ApplicationApiPath(ApplicationPath, frozen=True):
    resource_id: UUID


@page.get(APPLICATIONS, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
async def show_applications(call: Call[None, Listing], postern: Postern) -> bytes:
    """List the applications that can act for you, and your keys for them"""
    link = call.query
    found = await postern.federation.consents.list(call.caller.user)
    return show(
        call,
        postern,
        "connections/applications.html",
        APPLICATIONS,
        applications=found[link.part.offset : link.part.offset + ON_A_PAGE],
        allowed=_allowed,
        keys=await postern.services.user_keys.list_held(call.caller),
        number=link.page,
        pages=ceil(len(found) / ON_A_PAGE),
        done=_DONE.get(link.done, ""),
    )


@page.get(_REVOKE, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def ask_to_revoke_application(call: Call[None, None, ApplicationPath], postern: Postern) -> bytes:
    """Ask before an application loses its access"""
    application = await _own(call, postern)
    action = f"{APPLICATIONS}/{application.service}/revoke"
    values = {"application": application.name, "organization": application.organization_name}
    return ask(
        call, postern, APPLICATIONS, action, name="application_revoke", button="application_revoke.button", back=APPLICATIONS, values=values
    )


@page.post(_REVOKE, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
async def revoke_application(call: Call[BoundForm, None, ApplicationPath], postern: Postern) -> Page:
    """Take an application's access away

    Taking away an access that does not exist, or no longer exists, is no error.
    """
    try:
        await postern.federation.consents.revoke(call.caller.user, ServiceId(call.path.service_id), call.actor)
    except NotFound:
        return redirect(APPLICATIONS)
    return back_to(APPLICATIONS, "revoked")


@page.get(_REVOKE_API, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def ask_to_revoke_application_api(call: Call[None, None, ApplicationApiPath], postern: Postern) -> bytes:
    """Ask before an application loses its access to an API"""
    application = await _own(call, postern)
    resource = next((one for one in application.resources if one.id == call.path.resource_id), None)
    if resource is None:
        raise NotFound("This application has no access to this API for you", words="service_unknown")
    action = f"{APPLICATIONS}/{application.service}/apis/{resource.id}/revoke"
    values = {"application": application.name, "api": resource.name or resource.identifier}
    return ask(
        call,
        postern,
        APPLICATIONS,
        action,
        name="application_api_revoke",
        button="application_api_revoke.button",
        back=APPLICATIONS,
        values=values,
    )


@page.post(_REVOKE_API, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
async def revoke_application_api(call: Call[BoundForm, None, ApplicationApiPath], postern: Postern) -> Page:
    """Take an application's access to an API away

    Taking away an access that does not exist, or no longer exists, is no error.
    """
    service, resource = ServiceId(call.path.service_id), ResourceServerId(call.path.resource_id)
    try:
        await postern.federation.consents.revoke_resource(call.caller.user, service, resource, call.actor)
    except NotFound:
        return redirect(APPLICATIONS)
    return back_to(APPLICATIONS, "api_revoked")


@page.get(_END_KEY, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def ask_to_end_held_user_key(call: Call[None, None, HeldUserKeyPath], postern: Postern) -> bytes:
    """Ask before a key ends, at whatever application"""
    key = await postern.services.user_keys.get_held(call.caller, UserKeyId(call.path.user_key_id))
    values = {"called": key.name, "application": key.service_name}
    action = f"{APPLICATIONS}/keys/{key.id}/end"
    return ask(call, postern, APPLICATIONS, action, name="user_key_end", button="user_key_end.button", back=APPLICATIONS, values=values)


@page.post(_END_KEY, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
async def end_held_user_key(call: Call[BoundForm, None, HeldUserKeyPath], postern: Postern) -> Page:
    """End a key, at whatever application

    Ending a key that no longer exists is no error.
    """
    with suppress(NotFound):
        await postern.services.user_keys.revoke_held(call.caller, UserKeyId(call.path.user_key_id), call.actor)
    return back_to(APPLICATIONS, "ended")


async def _own(call: AnyCall, postern: Postern) -> ApplicationAccess:
    for one in await postern.federation.consents.list(call.caller.user):
        if one.service == call.path.service_id:
            return one
    raise NotFound("Application not found", words="service_unknown")


def _allowed(scope: str) -> str:
    return f"consent.scope.{scope}"


_REQUEST: Final = f"{PAGE}/{{request_id}}"
_REFUSE: Final = f"{_REQUEST}/refuse"
_BLOCK: Final = f"{_REQUEST}/block"
_UNBLOCK: Final = f"{PAGE}/blocked/{{service_id}}/end"
_MOST_SCOPES: Final = 500
_AFAR_REQUEST_PAGE_DONE: Final = {word: f"afar_requests.done_{word}" for word in ("allowed", "refused", "blocked", "unblocked")}


class BackchannelPagePath(msgspec.Struct, frozen=True):
    request_id: UUID


class BlockedPagePath(msgspec.Struct, frozen=True):
    service_id: UUID


class BackchannelAllowForm(BoundForm, frozen=True, kw_only=True):
    scopes: Annotated[Sequence[Line], msgspec.Meta(max_length=_MOST_SCOPES)] = ()
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
        done=_AFAR_REQUEST_PAGE_DONE.get(call.query.done, ""),
    )


@page.get(_REQUEST, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, step_up=StepUp.ACCOUNT, refuses=(NotFound, Forbidden))
async def show_afar_request(call: Call[None, None, BackchannelPagePath], postern: Postern) -> bytes:
    """Show what an application asks for from afar"""
    return _form(call, postern, await postern.federation.afar_requests.get(BackchannelRequestId(call.path.request_id), call.caller))


@page.post(
    _REQUEST,
    caller=BROWSER,
    limit=CREDENTIALS,
    policy=WITH_FORM,
    step_up=StepUp.ACCOUNT,
    accepts=Form(most_fields=_MOST_SCOPES + 10),
    refuses=(NotFound, Forbidden),
)
async def answer_afar_request(call: Call[BackchannelAllowForm, None, BackchannelPagePath], postern: Postern) -> Page:
    """Allow what is ticked of a request"""
    requests, request = postern.federation.afar_requests, BackchannelRequestId(call.path.request_id)
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
async def refuse_afar_request_on_page(call: Call[BoundForm, None, BackchannelPagePath], postern: Postern) -> Page:
    """Deny a request

    Denying a request that is over succeeds too.
    """
    with suppress(NotFound):
        await postern.federation.afar_requests.refuse(BackchannelRequestId(call.path.request_id), call.caller.user, call.actor)
    return back_to(PAGE, "refused")


@page.post(_BLOCK, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def block_afar_client_on_page(call: Call[BoundForm, None, BackchannelPagePath], postern: Postern) -> Page:
    """Refuse all requests of an application, and hear no more of it"""
    await postern.federation.afar_requests.block(BackchannelRequestId(call.path.request_id), call.caller.user, call.actor)
    return back_to(PAGE, "blocked")


@page.post(_UNBLOCK, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
async def unblock_client_on_page(call: Call[BoundForm, None, BlockedPagePath], postern: Postern) -> Page:
    """Unblock an application"""
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


_KEYS: Final = "/ui/keys/{org_slug}/{service_slug}"
_NEW: Final = f"{_KEYS}/new"
_END: Final = f"{_KEYS}/{{user_key_id}}/end"
_USER_KEY_PAGE_DONE: Final = {"ended": "user_keys.done_ended"}
_FIELDS: Final = frozenset({"name", "scopes", "expires_in_days"})
# Those that have expired are shown for a while, too.
_SHOWN: Final = 2 * MOST_KEYS


class UserKeyPagePath(ServicePath, frozen=True):
    user_key_id: UUID


class NewUserKeyForm(BoundForm, frozen=True, kw_only=True):
    name: Line = ""
    scopes: Sequence[Line] = ()
    expires_in_days: Line = ""

    def wanted(self) -> WantedUserKey:
        """Raises `BadRequest`."""
        days = self.expires_in_days.strip()
        if days and not (days.isascii() and days.isdecimal() and len(days) < LONGEST_SCOPE):
            raise BadRequest("expires_in_days: must be a number", words="key_life", values={"most": LONGEST_LIFE})
        return WantedUserKey(name=self.name, scopes=self.scopes, expires_in_days=int(days) if days else None)


@page.get(_KEYS, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def show_user_keys(call: Call[None, Done, ServicePath], postern: Postern) -> bytes:
    """List your keys for the API of an application"""
    place = await _place(call, postern)
    listed = await postern.services.user_keys.list_own(call.caller, place, None, _SHOWN)
    return show(
        call,
        postern,
        "connections/user_keys.html",
        APPLICATIONS,
        place=place,
        keys=[one.key for one in listed.keys],
        address=_address(place),
        obstacle=_obstacle(place),
        done=_USER_KEY_PAGE_DONE.get(call.query.done, ""),
    )


@page.get(_NEW, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, step_up=StepUp.ACCOUNT, refuses=(NotFound,))
async def show_new_user_key(call: Call[None, None, ServicePath], postern: Postern) -> bytes:
    """See the form that makes a key"""
    return _form_user_key_page(call, postern, await _place(call, postern))


@page.post(
    _NEW,
    caller=BROWSER,
    limit=CREDENTIALS,
    policy=WITH_FORM,
    step_up=StepUp.ACCOUNT,
    accepts=Form(most_fields=2 * MOST_SCOPES),
    refuses=(NotFound, Forbidden, Unauthorized),
)
async def make_user_key(call: Call[NewUserKeyForm, None, ServicePath], postern: Postern) -> Page:
    """Make a key for the API of an application

    The key is shown once.
    """
    place, form = await _place(call, postern), call.body
    keys = postern.services.user_keys
    try:
        made = await keys.create_own(call.caller, place.organization_slug, place.service_slug, form.wanted(), call.actor)
    except (BadRequest, Forbidden) as refusal:
        field = refusal.message.partition(":")[0]
        return Answer(_form_user_key_page(call, postern, place, form, {field if field in _FIELDS else "": refusal}), status_of(refusal))
    answer = show(
        call,
        postern,
        "connections/user_key_made.html",
        APPLICATIONS,
        place=place,
        key=made.key,
        secret=made.text.reveal(),
        back=_address(place),
    )
    return Answer(answer, 200)


@page.get(_END, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def ask_to_end_user_key(call: Call[None, None, UserKeyPagePath], postern: Postern) -> bytes:
    """Ask before a key ends"""
    place = await _place(call, postern)
    key = await postern.services.user_keys.get_own(call.caller, place, UserKeyId(call.path.user_key_id))
    values = {"called": key.name, "application": place.service_name}
    back = _address(place)
    action = f"{back}/{key.id}/end"
    return ask(call, postern, APPLICATIONS, action, name="user_key_end", button="user_key_end.button", back=back, values=values)


@page.post(_END, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def end_own_user_key(call: Call[BoundForm, None, UserKeyPagePath], postern: Postern) -> Page:
    """End a key

    Ending a key that no longer exists is no error.
    """
    place = await _place(call, postern)
    with suppress(NotFound):
        await postern.services.user_keys.revoke_own(call.caller, place, UserKeyId(call.path.user_key_id), call.actor)
    return back_to(_address(place), "ended")


async def _place(call: AnyCall, postern: Postern) -> UserKeyPlace:
    return await postern.services.user_keys.place(call.caller, call.path.org_slug, call.path.service_slug)


def _address(place: UserKeyPlace) -> str:
    return f"/ui/keys/{place.organization_slug}/{place.service_slug}"


def _obstacle(place: UserKeyPlace) -> str:
    """The text key of the reason why the person can make no key now. Empty when the person can."""
    try:
        place.require_maker()
    except (Forbidden, NotFound) as refusal:
        return f"refusals.{refusal.words}"
    return ""


def _form_user_key_page(
    call: AnyCall, postern: Postern, place: UserKeyPlace, form: NewUserKeyForm | None = None, errors: Mapping[str, Refusal] = NO_ERRORS
) -> bytes:
    return show(
        call,
        postern,
        "connections/user_key_new.html",
        APPLICATIONS,
        place=place,
        name="" if form is None else form.name,
        scopes=() if form is None else form.scopes,
        days="" if form is None else form.expires_in_days,
        action=f"{_address(place)}/new",
        back=_address(place),
        obstacle=_obstacle(place),
        longest=LONGEST_KEY_NAME,
        errors=errors,
    )
