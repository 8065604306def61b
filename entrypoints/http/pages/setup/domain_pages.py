"""Set up a mail domain with a set-up link: name it, publish a text, and let us look for it."""

from typing import Final

from core.domain.errors import BadRequest, Conflict, NotFound
from core.domain.tenancy.setup import MOST_DOMAINS, KnownSetupLink, SetupDraft, SetupPurpose, require_purpose
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import CREDENTIALS, PAGE_LOADS
from entrypoints.http.pages.declaring import WITH_FORM, page
from entrypoints.http.pages.setup import (
    NO_ERRORS,
    PLACE,
    REFUSED,
    REFUSED_FORM,
    AnySetupCall,
    Page,
    SetupPartPath,
    SetupPath,
    advice,
    draft_of,
    errors_of,
    place,
    show,
)
from entrypoints.http.pages.setup.visitors import SETUP_VISITOR

_AT: Final = f"{PLACE}/domain"
_ONE: Final = f"{_AT}/{{draft_id}}"


class DomainForm(BoundForm, frozen=True, kw_only=True):
    domain: str = ""


@page.get(_AT, caller=SETUP_VISITOR, limit=PAGE_LOADS, policy=WITH_FORM, advice=advice, refuses=REFUSED)
async def show_setup_domains(call: Call[None, None, SetupPath, KnownSetupLink], postern: Postern) -> Page:
    """Show the domains of a set-up link, and ask for another one"""
    return await _list(call, postern)


@page.post(_AT, caller=SETUP_VISITOR, limit=CREDENTIALS, policy=WITH_FORM, advice=advice, refuses=REFUSED_FORM)
async def add_setup_domain(call: Call[DomainForm, None, SetupPath, KnownSetupLink], postern: Postern) -> Page:
    """Name a mail domain"""
    try:
        draft = await postern.tenancy.domain_drafts.add(call.caller, call.body.domain)
    except (BadRequest, Conflict) as refusal:
        errors = {"domain": next(iter(errors_of(call, refusal, {"domain": "setup.domain.wrong"}).values()))}
        return await _list(call, postern, call.body.domain, errors=errors)
    return redirect(place(call.caller, f"/domain/{draft.id}"))


@page.get(_ONE, caller=SETUP_VISITOR, limit=PAGE_LOADS, policy=WITH_FORM, advice=advice, refuses=REFUSED)
async def show_setup_domain(call: Call[None, None, SetupPartPath, KnownSetupLink], postern: Postern) -> Page:
    """Show the text that proves a domain, and whether it was found"""
    draft = await _found(call, postern)
    domain = draft.domain
    return show(
        call,
        postern,
        "domain_proof.html",
        draft=draft,
        record=domain.record,
        token=domain.token,
        file=domain.file_url,
        back=place(call.caller, "/domain"),
    )


@page.post(f"{_ONE}/look", caller=SETUP_VISITOR, limit=CREDENTIALS, policy=WITH_FORM, advice=advice, refuses=REFUSED_FORM)
async def look_for_setup_domain(call: Call[BoundForm, None, SetupPartPath, KnownSetupLink], postern: Postern) -> Page:
    """Look for the text that proves a domain"""
    draft = await _found(call, postern)
    await postern.tenancy.domain_drafts.look(call.caller, draft.id)
    return redirect(place(call.caller, f"/domain/{draft.id}"))


async def _found(call: AnySetupCall, postern: Postern) -> SetupDraft:
    draft = draft_of(await postern.tenancy.setup_drafts.list(call.caller.link.id), call.path.draft_id)
    if draft.purpose is not SetupPurpose.DOMAIN:
        raise NotFound
    return draft


async def _list(call: AnySetupCall, postern: Postern, domain: str = "", *, errors: dict[str, str] | None = None) -> Page:
    require_purpose(call.caller, SetupPurpose.DOMAIN)
    drafts = [one for one in await postern.tenancy.setup_drafts.list(call.caller.link.id) if one.purpose is SetupPurpose.DOMAIN]
    if len(drafts) == 1 and not errors and call.request.method == "GET" and call.request.query_string != b"more":
        return redirect(place(call.caller, f"/domain/{drafts[0].id}"))
    domains = [(one.subject, one.state.value, place(call.caller, f"/domain/{one.id}")) for one in drafts]
    return show(
        call,
        postern,
        "domain.html",
        errors=errors or NO_ERRORS,
        status=400 if errors else 200,
        domains=domains,
        domain=domain,
        has_room=len(drafts) < MOST_DOMAINS and call.caller.link.finished_at is None,
    )
