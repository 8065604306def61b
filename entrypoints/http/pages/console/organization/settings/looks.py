"""The looks of the organization, with a preview of a sign-in page and of a mail."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from core.domain.branding import POSTERN, Branding, BrandLinks, brand_color
from core.domain.errors import Conflict, Refusal
from core.domain.identity.profile.pictures import LARGEST_PICTURE, MOST_PIXELS, PICTURE_TYPES
from core.domain.tenancy.members import Member
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import FormWithFile
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import OrganizationPath
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.colours import DARK, LIGHT
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.forms import WAS, Asked, shape
from entrypoints.http.pages.console.organization.organization_tabs import LOOKS_TAB, SETTINGS, SETTINGS_ENTRY, position
from entrypoints.http.pages.console.sent_forms import WrongInput, body_of, changed, drawn, explained, moved, sealed, sent_texts, texts_of
from entrypoints.http.pages.console.undo.undo_pages import OfferedUndo, Undoable, changing, noted, offered, undo_pages
from entrypoints.http.pages.console.visit import NO_ERRORS, DoneLink, Head, Page, PageVisit, button
from entrypoints.http.routes.tenancy.branding import (
    change_branding,
    get_branding,
    remove_logo,
    upload_logo,
)

_AT: Final = f"{SETTINGS}/looks"
_LOGO: Final = f"{_AT}/logo"
_NO_LOGO: Final = f"{_LOGO}/remove"
_PREVIEW: Final = "preview"
_UPLOADED: Final = button("console.looks.upload")
_REMOVED: Final = button("console.looks.remove")
_SHAPE: Final = shape(
    change_branding,
    Asked("logo_url", hint="console.looks.logo_hint"),
    Asked("primary_color", hint="console.looks.color_hint"),
    "help_url",
    "privacy_url",
    "terms_url",
)
_POSITION: Final = position(SETTINGS_ENTRY, LOOKS_TAB)
_UNDOABLE: Final = Undoable(
    name="looks",
    page=_AT,
    at=_AT,
    shape=_SHAPE,
    find=lambda visit: visit.ask(get_branding),
    position=_POSITION,
)
_LooksForm: Any = msgspec.defstruct("LooksForm", [("step", str, "")], bases=(_SHAPE.form,), frozen=True, kw_only=True)


class LogoForm(BoundForm, frozen=True, kw_only=True):
    logo: bytes = b""


@console.get(_AT, of=change_branding, also=(get_branding,))
async def show_looks(call: Call[None, DoneLink, OrganizationPath, Member], postern: Postern) -> Page:
    """See the looks of an organization, with a preview"""
    visit = PageVisit(call, postern)
    record = await visit.ask(get_branding)
    texts = texts_of(_SHAPE.inputs, record)
    undos = await offered(visit, record, (_UNDOABLE,))
    return Answer(await _page(visit, texts, texts, done=call.query.done, undos=undos, logo=record.logo), 200)


@console.post(_AT, of=change_branding, also=(get_branding,))
async def send_looks(call: Call[_LooksForm, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Preview the looks of an organization, or change them"""
    visit, form = PageVisit(call, postern), call.body
    record = await visit.ask(get_branding)
    present, texts = texts_of(_SHAPE.inputs, record), sent_texts(_SHAPE.inputs, form)
    if form.step == _PREVIEW:
        wrong = texts["primary_color"].strip() and brand_color(texts["primary_color"].strip()) is None
        errors = {"primary_color": visit.text("console.looks.wrong_color")} if wrong else NO_ERRORS
        return Answer(await _page(visit, texts, present, logo=record.logo, errors=errors, is_tried=True), 400 if wrong else 200)
    own = changed(_SHAPE.inputs, form)
    if not own:
        return redirect(f"{visit.here(_AT)}?done=unchanged")
    if others := moved(_SHAPE.inputs, form, record):
        meanwhile = [(visit.text(one.label), present[one.field]) for one in others]
        return Answer(await _page(visit, texts, present, logo=record.logo, meanwhile=meanwhile), status_of(Conflict()))
    try:
        async with changing(visit, noted(_UNDOABLE, visit, own, record, form)):
            await visit.ask(change_branding, body=body_of(_SHAPE, form, only=own))
    except (WrongInput, Refusal) as problem:
        errors, status = explained(visit, problem, _SHAPE.inputs)
        return Answer(await _page(visit, texts, present, logo=record.logo, errors=errors), status)
    return redirect(f"{visit.here(_AT)}?done=saved")


@console.post(_LOGO, of=upload_logo, also=(remove_logo,), accepts=FormWithFile(2 * LARGEST_PICTURE))
async def send_logo(call: Call[LogoForm, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Upload the logo of an organization"""
    visit = PageVisit(call, postern)
    try:
        # The bytes say what the picture is.
        await postern.tenancy.branding.put_logo(call.caller, call.body.logo, call.actor)
    except Refusal as problem:
        record = await visit.ask(get_branding)
        texts = texts_of(_SHAPE.inputs, record)
        said, status = explained(visit, problem)
        return Answer(await _page(visit, texts, texts, errors={"logo": next(iter(said.values()))}, logo=record.logo), status)
    return redirect(f"{visit.here(_AT)}?done={_UPLOADED}")


@console.post(_NO_LOGO, of=remove_logo)
async def send_logo_removal(call: Call[BoundForm, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Remove the logo of an organization"""
    visit = PageVisit(call, postern)
    await visit.ask(remove_logo)
    return redirect(f"{visit.here(_AT)}?done={_REMOVED}")


async def _page(
    visit: PageVisit,
    texts: Mapping[str, Any],
    present: Mapping[str, Any],
    *,
    errors: Mapping[str, str] = NO_ERRORS,
    meanwhile: Sequence[tuple[str, str]] = (),
    is_tried: bool = False,
    done: str = "",
    logo: str | None = None,
    undos: Sequence[OfferedUndo] = (),
) -> bytes:
    """`texts` stand in the form and in the preview, `present` is what is saved."""
    brand = await _brand(visit, texts, present)
    # Without a colour of its own, an organization has ours, which differs by light and dark.
    is_own = brand.color != POSTERN.color
    pale = [name for name, grounds in (("light", LIGHT), ("dark", DARK)) if is_own and not brand.may_write_on(*grounds)]
    return visit.show(
        "organization/settings/looks.html",
        _POSITION,
        Head(
            title=visit.text("console.looks.title"),
            curl=visit.curl(change_branding, body={"primary_color": "#0f5f5c"}),
            done=done,
            errors=errors,
        ),
        inputs=await drawn(visit, _SHAPE.inputs, texts),
        hidden={WAS: sealed({one.field: present[one.field] for one in _SHAPE.inputs})},
        meanwhile=meanwhile,
        action=visit.here(_AT),
        look=brand,
        undos=undos,
        upload=visit.here(_LOGO),
        remove=visit.here(_NO_LOGO) if logo else "",
        picture_types=", ".join(PICTURE_TYPES),
        kib=LARGEST_PICTURE >> 10,
        pixels=MOST_PIXELS,
        stylesheet_of_look=shipped_pages().preview_stylesheet(brand.color) if is_own else "",
        pale=pale,
        is_tried=is_tried,
        is_new_logo=texts["logo_url"] != present["logo_url"] and bool(texts["logo_url"]),
    )


async def _brand(visit: PageVisit, texts: Mapping[str, str], present: Mapping[str, str]) -> Branding:
    """The looks that the form has. The logo is the one that we keep: a new one is fetched when it is saved. An uploaded one has no
    address.
    """
    kept = await visit.postern.foundation.brandings.find(visit.path["org_slug"])
    links = BrandLinks(*(texts[name].strip() or None for name in ("help_url", "privacy_url", "terms_url")))
    name = visit.call.caller.organization_name
    color = brand_color(texts["primary_color"].strip()) or POSTERN.color
    return Branding(name, kept.logo if kept is not None and (texts["logo_url"] or not present["logo_url"]) else None, color, links)


PAGES: Final = (show_looks, send_looks, send_logo, send_logo_removal, *undo_pages(_UNDOABLE))
