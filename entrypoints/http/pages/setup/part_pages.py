"""Set up a mail domain, SCIM or a SIEM with a set-up link."""

from typing import Final

from core.domain.errors import BadRequest, Conflict, NotFound
from core.domain.outbound import LONGEST_URL
from core.domain.secrets import Secret
from core.domain.tenancy.setup import MOST_DOMAINS, KnownSetupLink, SetupDraft, SetupPurpose, require_purpose
from core.domain.tenancy.siem import LONGEST_CREDENTIAL, LONGEST_NAME, SiemProvider
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Line
from entrypoints.http.machinery.limits import CREDENTIALS, PAGE_LOADS
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.declaring import WITH_FORM, in_words, page
from entrypoints.http.pages.setup import (
    NO_ERRORS,
    PLACE,
    REFUSED,
    REFUSED_FORM,
    SETUP_VISITOR,
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
from ports.outbound import Failure

_AT: Final = f"{PLACE}/domain"
_ONE: Final = f"{_AT}/{{draft_id}}"


class DomainForm(BoundForm, frozen=True, kw_only=True):
    domain: Line = ""


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


_SCIM_PAGE_AT: Final = f"{PLACE}/scim"


@page.get(_SCIM_PAGE_AT, caller=SETUP_VISITOR, limit=PAGE_LOADS, policy=WITH_FORM, advice=advice, refuses=REFUSED)
async def show_setup_scim(call: Call[None, None, SetupPath, KnownSetupLink], postern: Postern) -> Page:
    """Show the address for a directory, and whether its first request has come"""
    return await _page(call, postern)


@page.post(_SCIM_PAGE_AT, caller=SETUP_VISITOR, limit=CREDENTIALS, policy=WITH_FORM, advice=advice, refuses=REFUSED_FORM)
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


_SIEM_PAGE_AT: Final = f"{PLACE}/siem"
_FIELDS: Final = {field: f"setup.siem.wrong.{field}" for field in ("name", "endpoint_url", "api_key", "auth_header", "provider_type")}


class ReceiverForm(BoundForm, frozen=True, kw_only=True):
    name: Line = ""
    provider_type: Line = ""
    endpoint_url: Line = ""
    api_key: Secret = Secret("")
    auth_header: Secret = Secret("")


@page.get(_SIEM_PAGE_AT, caller=SETUP_VISITOR, limit=PAGE_LOADS, policy=WITH_FORM, advice=advice, refuses=REFUSED)
async def show_setup_siem(call: Call[None, None, SetupPath, KnownSetupLink], postern: Postern) -> Page:
    """Ask for the receiver of the audit log, and show what its test found"""
    return await _page_siem_page(call, postern)


@page.post(_SIEM_PAGE_AT, caller=SETUP_VISITOR, limit=CREDENTIALS, policy=WITH_FORM, advice=advice, refuses=REFUSED_FORM)
async def try_setup_siem(call: Call[ReceiverForm, None, SetupPath, KnownSetupLink], postern: Postern) -> Page:
    """Keep the receiver as a draft, and send it an event that is no entry"""
    form, drafts = call.body, postern.tenancy.siem_drafts
    try:
        draft = await drafts.configure(
            call.caller,
            name=form.name,
            provider_type=form.provider_type,
            endpoint_url=form.endpoint_url.strip(),
            api_key=form.api_key.reveal(),
            auth_header=form.auth_header.reveal(),
        )
    except (BadRequest, Conflict) as refusal:
        return await _page_siem_page(call, postern, form, errors=dict(errors_of(call, refusal, _FIELDS)))
    await drafts.test(call.caller, draft.id)
    return redirect(place(call.caller, "/siem"))


async def _page_siem_page(
    call: AnySetupCall, postern: Postern, form: ReceiverForm | None = None, *, errors: dict[str, str] | None = None
) -> Page:
    require_purpose(call.caller, SetupPurpose.SIEM)
    drafts = await postern.tenancy.setup_drafts.list(call.caller.link.id)
    draft = next((one for one in drafts if one.purpose is SetupPurpose.SIEM), None)
    if form is None:
        kept = {} if draft is None else draft.settings
        form = ReceiverForm(
            name=str(kept.get("name", "SIEM")),
            provider_type=str(kept.get("provider", SiemProvider.GENERIC.value)),
            endpoint_url=str(kept.get("endpoint_url", "")),
        )
    return show(
        call,
        postern,
        "siem.html",
        errors=errors or NO_ERRORS,
        status=400 if errors else 200,
        draft=draft,
        form=form,
        providers=[one.value for one in SiemProvider],
        meaning=_meaning("" if draft is None else draft.came),
        longest={"name": LONGEST_NAME, "url": LONGEST_URL, "credential": LONGEST_CREDENTIAL},
        here=place(call.caller, "/siem"),
    )


def _meaning(came: str) -> str:
    """The text that explains what the receiver's test found."""
    if came in tuple(Failure):
        return f"setup.siem.failure.{came}"
    if came.startswith(("answered 401", "answered 403")):
        return "setup.siem.failure.credentials"
    return "setup.siem.failure.answered"
