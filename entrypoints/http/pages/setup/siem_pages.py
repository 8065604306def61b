"""Set up a SIEM with a set-up link: name the receiver, and let us send it an event that is no entry."""

from typing import Final

from core.domain.errors import BadRequest, Conflict
from core.domain.outbound import LONGEST_URL
from core.domain.secrets import Secret
from core.domain.tenancy.setup import KnownSetupLink, SetupPurpose, require_purpose
from core.domain.tenancy.siem import LONGEST_CREDENTIAL, LONGEST_NAME, SiemProvider
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
    SetupPath,
    advice,
    errors_of,
    place,
    show,
)
from entrypoints.http.pages.setup.visitors import SETUP_VISITOR
from ports.outbound import Failure

_AT: Final = f"{PLACE}/siem"
_FIELDS: Final = {field: f"setup.siem.wrong.{field}" for field in ("name", "endpoint_url", "api_key", "auth_header", "provider_type")}


class ReceiverForm(BoundForm, frozen=True, kw_only=True):
    name: str = ""
    provider_type: str = ""
    endpoint_url: str = ""
    api_key: Secret = Secret("")
    auth_header: Secret = Secret("")


@page.get(_AT, caller=SETUP_VISITOR, limit=PAGE_LOADS, policy=WITH_FORM, advice=advice, refuses=REFUSED)
async def show_setup_siem(call: Call[None, None, SetupPath, KnownSetupLink], postern: Postern) -> Page:
    """Ask for the receiver of the audit log, and show what its test found"""
    return await _page(call, postern)


@page.post(_AT, caller=SETUP_VISITOR, limit=CREDENTIALS, policy=WITH_FORM, advice=advice, refuses=REFUSED_FORM)
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
        return await _page(call, postern, form, errors=dict(errors_of(call, refusal, _FIELDS)))
    await drafts.test(call.caller, draft.id)
    return redirect(place(call.caller, "/siem"))


async def _page(call: AnySetupCall, postern: Postern, form: ReceiverForm | None = None, *, errors: dict[str, str] | None = None) -> Page:
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
