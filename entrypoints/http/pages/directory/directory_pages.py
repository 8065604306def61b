"""`/saml/sp/{connection_id}`: our side of an organization's directory by SAML."""

from typing import Final
from urllib.parse import urlencode

import msgspec

from core.domain.errors import BadRequest, NotFound, Overloaded
from core.domain.identifiers import UpstreamProviderId
from core.domain.identity.upstream.directories import Unsolicited
from core.domain.identity.upstream.providers import ProviderOff
from core.domain.identity.upstream.saml.assertions import LONGEST_PACKED_RESPONSE
from core.domain.saml import MessageRefused
from core.usecases.tenancy.connections.answers import DirectoryReply
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Raw
from entrypoints.http.machinery.answers import Answer, NoBody, redirect
from entrypoints.http.machinery.browsers import SIGN_IN
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.error_shapes import Refused
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_STEPS
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.authorization.authorization_pages import LEAVING
from entrypoints.http.pages.declaring import IN_POPUP, Advised, WayOn, page
from entrypoints.http.pages.flows import AnyCall, Page
from entrypoints.http.pages.saml.logout_pages import LogoutMessageQuery
from entrypoints.http.pages.saml.messages import REQUEST, RESPONSE, SAML_FORM, has, in_address, in_form
from entrypoints.http.routes.tenancy.connections import DirectoryPath

_SP: Final = "/saml/sp/{connection_id}"
_ANSWER_FORM: Final = Raw("application/x-www-form-urlencoded", 2 * LONGEST_PACKED_RESPONSE)
_REFUSES: Final = (BadRequest, NotFound, Overloaded)


class StartQuery(msgspec.Struct, frozen=True):
    service: str = ""
    """The slug of the organization's service that the person wants."""


def _advice(refused: Refused) -> str | Advised:
    match refused:
        case Unsolicited():
            return Advised("directory.unsolicited_advice", WayOn(f"/saml/sp/{refused.provider}/start", "directory.begin"))
        case MessageRefused() | NotFound() | ProviderOff():
            return "authorize.begin_again"
        case _:
            return ""


@page.post(
    f"{_SP}/acs",
    caller=ANYONE,
    limit=PAGE_STEPS,
    policy=IN_POPUP,
    advice=_advice,
    refuses=_REFUSES,
    accepts=_ANSWER_FORM,
    foreign=True,
    also={303: NoBody},
    tags=("saml",),
)
async def receive_directory_answer(call: Call[bytes, None, DirectoryPath], postern: Postern) -> Page:
    """Take a directory's answer to a sign-in

    The assertion consumer service. The answer is read and checked at once. Then the browser goes on to a page of ours, which goes on with
    the sign-in that began in this browser. An answer that nobody asked for is refused.
    """
    envelope = await in_form(call.body, RESPONSE)
    call.request.finish()
    provider = UpstreamProviderId(call.path.connection_id)
    return redirect(await postern.tenancy.directory_answers.receive(provider, envelope.packed, envelope.relay_state or ""), 303)


@page.get(
    f"{_SP}/start",
    caller=ANYONE,
    limit=PAGE_LOADS,
    advice=_advice,
    refuses=_REFUSES,
    also={303: NoBody},
    tags=("saml",),
)
async def begin_directory_sign_in(call: Call[None, StartQuery, DirectoryPath], postern: Postern) -> Page:
    """Begin a sign-in through a directory

    The address for a bookmark, or for the start address in the directory: a sign-in always begins here. A page with a button comes first.
    """
    provider = UpstreamProviderId(call.path.connection_id)
    organization = await postern.tenancy.connections.organization_of(provider)
    query = {"org": organization, **({"service": call.query.service} if call.query.service else {})}
    return redirect(f"/auth/{provider}?{urlencode(query)}", 303)


@page.get(
    f"{_SP}/slo",
    caller=ANYONE,
    limit=PAGE_LOADS,
    policy=LEAVING,
    advice=_advice,
    refuses=(*_REFUSES, MessageRefused),
    also={302: NoBody},
    tags=("saml",),
)
async def sign_out_by_directory(call: Call[None, LogoutMessageQuery, DirectoryPath], postern: Postern) -> Page:
    """Let a directory sign a person out

    Single logout with the redirect binding. A signed request ends the sessions that this directory has opened for the person.
    """
    query = call.request.query_string
    if has(query, RESPONSE):
        return _signed_out(call)
    provider = UpstreamProviderId(call.path.connection_id)
    return _replied(call, await postern.tenancy.directory_logouts.asked(provider, in_address(query, REQUEST), call.client))


@page.post(
    f"{_SP}/slo",
    caller=ANYONE,
    limit=PAGE_STEPS,
    policy=LEAVING,
    advice=_advice,
    refuses=(*_REFUSES, MessageRefused),
    accepts=SAML_FORM,
    foreign=True,
    also={302: NoBody},
    tags=("saml",),
)
async def sign_out_by_directory_form(call: Call[bytes, None, DirectoryPath], postern: Postern) -> Page:
    """Let a directory sign a person out by a form

    This does the same with the POST binding.
    """
    if has(call.body, RESPONSE):
        return _signed_out(call)
    provider = UpstreamProviderId(call.path.connection_id)
    return _replied(call, await postern.tenancy.directory_logouts.asked(provider, await in_form(call.body, REQUEST), call.client))


def _replied(call: AnyCall, reply: DirectoryReply | None) -> Page:
    if reply is None:
        return _signed_out(call)
    pages = shipped_pages()
    text = pages.text(call.language)
    title, label = text("saml.signing_out", service=reply.name), text("common.continue")
    if reply.fields:
        return Answer(pages.leaving(call.language, action=reply.url, fields=reply.fields, title=title, label=label), 200)
    if call.request.method != "POST":
        return redirect(reply.url, 302)
    # Browsers apply the `form-action` of the page behind a form to the redirects that follow.
    return Answer(pages.page("leave.html", call.language, title=title, label=label, address=reply.url), 200)


def _signed_out(call: AnyCall) -> Answer[bytes]:
    pages = shipped_pages()
    text = pages.text(call.language)
    explained = pages.paragraphs("signed_out.text", call.language)
    return Answer(pages.said(text("signed_out.title"), explained, call.language, good=True, onward=SIGN_IN), 200)
