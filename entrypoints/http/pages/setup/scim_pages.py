"""Set up SCIM with a set-up link: an address, a token that is shown once, and the first request of the directory."""

from typing import Final

from core.domain.errors import BadRequest, Conflict
from core.domain.tenancy.setup import KnownSetupLink, SetupPurpose, require_purpose
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import CREDENTIALS, PAGE_LOADS
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.declaring import WITH_FORM, page
from entrypoints.http.pages.refusals import in_words
from entrypoints.http.pages.setup import NO_ERRORS, PLACE, REFUSED, REFUSED_FORM, AnySetupCall, Page, SetupPath, advice, place, show
from entrypoints.http.pages.setup.visitors import SETUP_VISITOR

_AT: Final = f"{PLACE}/scim"


@page.get(_AT, caller=SETUP_VISITOR, limit=PAGE_LOADS, policy=WITH_FORM, advice=advice, refuses=REFUSED)
async def show_setup_scim(call: Call[None, None, SetupPath, KnownSetupLink], postern: Postern) -> Page:
    """Show the address for a directory, and whether its first request has come"""
    return await _page(call, postern)


@page.post(_AT, caller=SETUP_VISITOR, limit=CREDENTIALS, policy=WITH_FORM, advice=advice, refuses=REFUSED_FORM)
async def make_setup_token(call: Call[BoundForm, None, SetupPath, KnownSetupLink], postern: Postern) -> Page:
    """Make a token for a directory, which is shown once"""
    try:
        made = await postern.tenancy.scim_drafts.make_token(call.caller, call.caller.link.name)
    except (BadRequest, Conflict) as refusal:
        return await _page(call, postern, error=in_words(refusal, shipped_pages().text(call.language)))
    return await _page(call, postern, token=made.text.reveal())


async def _page(call: AnySetupCall, postern: Postern, *, token: str = "", error: str = "") -> Page:
    require_purpose(call.caller, SetupPurpose.SCIM)
    drafts = await postern.tenancy.setup_drafts.list(call.caller.link.id)
    draft = next((one for one in drafts if one.purpose is SetupPurpose.SCIM), None)
    return show(
        call,
        postern,
        "scim.html",
        errors={"": error} if error else NO_ERRORS,
        status=409 if error else 200,
        draft=draft,
        address=f"{postern.foundation.public_url}/scim/v2",
        token=token,
        here=place(call.caller, "/scim"),
    )
