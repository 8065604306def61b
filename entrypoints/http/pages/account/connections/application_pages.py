"""`/ui/applications`: the applications that can act for a person, ending their access, and the person's keys for their APIs."""

from contextlib import suppress
from math import ceil
from typing import Final
from uuid import UUID

import msgspec

from core.domain.errors import NotFound
from core.domain.federation.oauth.consents import ApplicationAccess
from core.domain.identifiers import ResourceServerId, ServiceId, UserKeyId
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import redirect
from entrypoints.http.machinery.browsers import BROWSER, BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import PAGE_LOADS
from entrypoints.http.pages.account import APPLICATIONS, ON_A_PAGE, AnyCall, Listing, Page, ask, back_to, show
from entrypoints.http.pages.declaring import WITH_FORM, page

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
    raise NotFound("There is no such application", words="service_unknown")


def _allowed(scope: str) -> str:
    return f"consent.scope.{scope}"
