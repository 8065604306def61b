"""The looks of the organization, with a preview of a sign-in page and of a mail."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from core.domain.branding import (
    CORNERS,
    LIGHT,
    PLAIN,
    POSTERN,
    Branding,
    BrandLinks,
    ColorUse,
    Font,
    PaleColor,
    brand_color,
    nearest_color,
    pale_uses,
    worst_contrast,
)
from core.domain.errors import Conflict, Refusal
from core.domain.tenancy.branding import LookPicture
from core.domain.tenancy.members import Member
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit import navigation
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.forms import WAS, Asked, Choice, InputKind, shape
from entrypoints.http.console.kit.sent_forms import WrongInput, body_of, changed, drawn, explained, moved, sealed, sent_texts, texts_of
from entrypoints.http.console.kit.undo import OfferedUndo, Undoable, changing, noted, offered, undo_pages
from entrypoints.http.console.kit.visit import NO_ERRORS, DoneLink, Head, Page, PageVisit, button
from entrypoints.http.console.organization.organization_tabs import BRAND, BRANDING_ENTRY, LOOKS_TAB, SETTINGS, position
from entrypoints.http.machinery.accepts import FormWithFile
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import Line, OrganizationPath
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.routes.tenancy.branding import (
    BrandingRecord,
    change_branding,
    get_branding,
    get_languages,
    remove_background,
    remove_dark_logo,
    remove_favicon,
    remove_logo,
    upload_background,
    upload_dark_logo,
    upload_favicon,
    upload_logo,
)

_AT: Final = f"{SETTINGS}/looks"
_PREVIEW: Final = "preview"


class LookPictureForm(NamedTuple):
    """A picture that has a form of its own, beside the form of everything that is text."""

    kind: LookPicture
    upload: Endpoint
    remove: Endpoint
    uploaded: str
    removed: str

    @property
    def at(self) -> str:
        return f"{_AT}/{self.kind.value.replace('_', '-')}"


_PICTURES: Final = (
    LookPictureForm(LookPicture.LOGO, upload_logo, remove_logo, button("console.looks.upload"), button("console.looks.remove")),
    LookPictureForm(
        *(LookPicture.DARK_LOGO, upload_dark_logo, remove_dark_logo),
        *(button("console.looks.upload_dark_logo"), button("console.looks.remove_dark_logo")),
    ),
    LookPictureForm(
        *(LookPicture.FAVICON, upload_favicon, remove_favicon),
        *(button("console.looks.upload_favicon"), button("console.looks.remove_favicon")),
    ),
    LookPictureForm(
        *(LookPicture.BACKGROUND, upload_background, remove_background),
        *(button("console.looks.upload_background"), button("console.looks.remove_background")),
    ),
)


async def _corners(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(str(pixels), visit.text(f"console.looks.corner_{pixels}")) for pixels in CORNERS]


async def _fonts(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(font.value, visit.text(f"console.looks.font_{font.value}")) for font in Font]


_SHAPE: Final = shape(
    change_branding,
    Asked("logo_url", hint="console.looks.logo_hint"),
    Asked("primary_color", hint="console.looks.color_hint"),
    Asked("second_color", hint="console.looks.second_color_hint"),
    Asked("corner", kind=InputKind.CHOICE, choices=_corners),
    Asked("font", kind=InputKind.CHOICE, choices=_fonts, hint="console.looks.font_hint"),
    "help_url",
    "privacy_url",
    "terms_url",
)
_COLORS: Final = ("primary_color", "second_color")
_POSITION: Final = position(BRANDING_ENTRY, LOOKS_TAB)
_UNDOABLE: Final = Undoable(
    name="looks",
    page=_AT,
    at=_AT,
    shape=_SHAPE,
    find=lambda visit: visit.ask(get_branding),
    position=_POSITION,
)
_LooksForm: Any = msgspec.defstruct(
    "LooksForm", [("step", Line, ""), ("nearest", Line, "")], bases=(_SHAPE.form,), frozen=True, kw_only=True
)


@console.get(_AT, of=change_branding, also=(get_branding,))
async def show_looks(call: Call[None, DoneLink, OrganizationPath, Member], postern: Postern) -> Page:
    """See the looks of an organization, with a preview"""
    visit = PageVisit(call, postern)
    record = await visit.ask(get_branding)
    texts = texts_of(_SHAPE.inputs, record)
    undos = await offered(visit, record, (_UNDOABLE,))
    return Answer(await _page(visit, texts, texts, done=call.query.done, undos=undos, record=record), 200)


@console.post(_AT, of=change_branding, also=(get_branding,))
async def send_looks(call: Call[_LooksForm, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Preview the looks of an organization, or change them"""
    visit, form = PageVisit(call, postern), call.body
    record = await visit.ask(get_branding)
    present, texts = texts_of(_SHAPE.inputs, record), sent_texts(_SHAPE.inputs, form)
    if form.step == _PREVIEW or form.nearest:
        field, _, nearest = form.nearest.partition(" ")
        if field in _COLORS:
            texts[field] = nearest
        wrong = _wrong_colors(visit, texts)
        return Answer(await _page(visit, texts, present, record=record, errors=wrong, is_tried=True), 400 if wrong else 200)
    own = changed(_SHAPE.inputs, form)
    if not own:
        return redirect(f"{visit.here(_AT)}?done=unchanged")
    if others := moved(_SHAPE.inputs, form, record):
        meanwhile = [(visit.text(one.label), present[one.field]) for one in others]
        return Answer(await _page(visit, texts, present, record=record, meanwhile=meanwhile), status_of(Conflict()))
    try:
        async with changing(visit, noted(_UNDOABLE, visit, own, record, form)):
            await visit.ask(change_branding, body=body_of(_SHAPE, form, only=own))
    except (WrongInput, Refusal) as problem:
        errors, status = explained(visit, problem, _SHAPE.inputs)
        return Answer(await _page(visit, texts, present, record=record, errors=errors), status)
    return redirect(f"{visit.here(_AT)}?done=saved")


def _picture_pages(picture: LookPictureForm) -> tuple[Endpoint, Endpoint]:
    form: Any = msgspec.defstruct(
        f"{picture.kind.name.title()}Form", [(picture.kind.value, bytes, b"")], bases=(BoundForm,), frozen=True, kw_only=True
    )

    async def send_picture(call: Call[Any, None, OrganizationPath, Member], postern: Postern) -> Page:
        visit = PageVisit(call, postern)
        try:
            # The bytes say what the picture is.
            content = getattr(call.body, picture.kind.value)
            await postern.tenancy.branding.put_picture(call.caller, picture.kind, content, call.actor)
        except Refusal as problem:
            record = await visit.ask(get_branding)
            texts = texts_of(_SHAPE.inputs, record)
            said, status = explained(visit, problem)
            errors = {picture.kind.value: next(iter(said.values()))}
            return Answer(await _page(visit, texts, texts, errors=errors, record=record), status)
        return redirect(f"{visit.here(_AT)}?done={picture.uploaded}")

    async def send_picture_removal(call: Call[BoundForm, None, OrganizationPath, Member], postern: Postern) -> Page:
        visit = PageVisit(call, postern)
        await visit.ask(picture.remove)
        return redirect(f"{visit.here(_AT)}?done={picture.removed}")

    send_picture.__name__ = f"send_{picture.kind.value}"
    send_picture.__doc__ = f"Upload the {picture.kind.value} of an organization"
    send_picture.__annotations__["call"] = Call[form, None, OrganizationPath, Member]
    send_picture_removal.__name__ = f"send_{picture.kind.value}_removal"
    send_picture_removal.__doc__ = f"Remove the {picture.kind.value} of an organization"
    largest = picture.kind.bounds.largest
    return (
        console.post(picture.at, of=picture.upload, also=(picture.remove,), accepts=FormWithFile(2 * largest))(send_picture),
        console.post(f"{picture.at}/remove", of=picture.remove)(send_picture_removal),
    )


async def _page(
    visit: PageVisit,
    texts: Mapping[str, Any],
    present: Mapping[str, Any],
    *,
    errors: Mapping[str, str] = NO_ERRORS,
    meanwhile: Sequence[tuple[str, str]] = (),
    is_tried: bool = False,
    done: str = "",
    record: BrandingRecord,
    undos: Sequence[OfferedUndo] = (),
) -> bytes:
    """`texts` stand in the form and in the preview, `present` is what is saved."""
    brand = await _brand(visit, texts, present)
    # Without a colour of its own, an organization has ours, which differs by light and dark.
    pale = () if brand.color == POSTERN.color else pale_uses(brand.color)
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
        pictures=[_presented(visit, picture, record) for picture in _PICTURES],
        stylesheet_of_look=shipped_pages().preview_stylesheet(brand.color, brand.look),
        pale=[_judged(visit, one) for one in pale],
        nearest_second=_nearest_second(texts),
        is_tried=is_tried,
        is_new_logo=texts["logo_url"] != present["logo_url"] and bool(texts["logo_url"]),
    )


async def _brand(visit: PageVisit, texts: Mapping[str, str], present: Mapping[str, str]) -> Branding:
    """The looks that the form has. The logo is the one that we keep: a new one is fetched when it is saved. An uploaded one has no
    address.
    """
    kept = await visit.postern.foundation.brandings.find(visit.path["org_slug"])
    pictures = PLAIN if kept is None else kept.look
    second = brand_color(texts["second_color"].strip())
    look = replace(
        pictures,
        second_color=None if second is None or _is_pale_for_links(second) else second,
        corner=int(texts["corner"]) if texts["corner"] in map(str, CORNERS) else None,
        font=Font(texts["font"]) if texts["font"] in set(Font) else None,
    )
    links = BrandLinks(*(texts[name].strip() or None for name in ("help_url", "privacy_url", "terms_url")))
    name = visit.call.caller.organization_name
    color = brand_color(texts["primary_color"].strip()) or POSTERN.color
    return Branding(name, kept.logo if kept is not None and (texts["logo_url"] or not present["logo_url"]) else None, color, links, look)


def _wrong_colors(visit: PageVisit, texts: Mapping[str, Any]) -> dict[str, str]:
    sent = {field: texts[field].strip() for field in _COLORS if texts[field].strip()}
    wrong = {field: visit.text("console.looks.wrong_color") for field, color in sent.items() if brand_color(color) is None}
    nearest = _nearest_second(texts)
    return {**wrong, "second_color": visit.text("refusals.color_pale", nearest=nearest)} if nearest else wrong


def _nearest_second(texts: Mapping[str, Any]) -> str:
    """Empty when links in the colour can be read, or when it is no colour."""
    color = brand_color(texts["second_color"].strip())
    return nearest_color(color, LIGHT, ColorUse.LINKS.needed) if color is not None and _is_pale_for_links(color) else ""


def _is_pale_for_links(color: str) -> bool:
    return worst_contrast(color, LIGHT) < ColorUse.LINKS.needed


def _judged(visit: PageVisit, one: PaleColor) -> tuple[str, str]:
    """What the colour is not used for, and the nearest that would be."""
    contrast, needed = (f"{figure:.2f}" for figure in (one.contrast, one.needed))
    where = f"{one.use}_{one.scheme}"
    return visit.text(f"console.looks.pale_{where}", contrast=contrast, needed=needed), one.nearest


def _presented(visit: PageVisit, picture: LookPictureForm, record: BrandingRecord) -> Mapping[str, Any]:
    name, bounds = picture.kind.value, picture.kind.bounds
    shown: str | None = getattr(record, name)
    return MappingProxyType(
        {
            "name": name,
            "label": visit.text(f"console.looks.file_{name}"),
            "hint": visit.text(f"console.looks.hint_{name}", kib=bounds.largest >> 10, pixels=bounds.most_pixels),
            "types": ", ".join(bounds.types),
            "kept": shown,
            "upload": visit.here(picture.at),
            "upload_label": visit.text(picture.uploaded),
            "remove": visit.here(f"{picture.at}/remove") if shown else "",
            "remove_label": visit.text(picture.removed),
        }
    )


@console.get(BRAND, of=get_languages.caller)
async def leave_for_branding(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Leave for the first page about branding that the reader may open"""
    # The former page, which led to looks, texts, languages, domain and mail server.
    # Each member may see the languages.
    where, _ = navigation.offered(BRANDING_ENTRY.tabs, call.caller, PageVisit(call, postern).path)[0]
    return redirect(where)


PAGES: Final = (
    leave_for_branding,
    show_looks,
    send_looks,
    *(page for picture in _PICTURES for page in _picture_pages(picture)),
    *undo_pages(_UNDOABLE),
)
