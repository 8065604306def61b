"""How a platform owner adds a further provider: tiles first, then a form with what this one needs alone.

The form has the address that is registered at the provider, so its short name is known before: the preset's, or the provider's host. The
record of the new draft leads to its test.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from core.domain.errors import Conflict, NotFound, Refusal
from core.domain.identity.upstream.further import LONGEST_SHORT_NAME
from core.domain.identity.upstream.providers import RESERVED_NAMES, ClientSecretKind, FurtherKind
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import Cell
from entrypoints.http.console.kit.declaring import console, stated
from entrypoints.http.console.kit.forms import Asked, Input, InputKind, Shape, shape
from entrypoints.http.console.kit.sent_forms import WrongInput, body_of, drawn, example_of, explained, sent_texts, texts_of
from entrypoints.http.console.kit.visit import NO_ERRORS, AnyCall, Head, Page, PageVisit, button
from entrypoints.http.console.platform.platform_tabs import PROVIDERS_ENTRY, PROVIDERS_TAB, position
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Line
from entrypoints.http.page_addresses import PROVIDERS
from entrypoints.http.routes.platform.further_providers import (
    ProviderPresetRecord,
    create_further_provider,
    list_provider_presets,
)

NEW: Final = f"{PROVIDERS}/~new"
_ADDED: Final = button("console.platform_providers.add")
_BEGINS: Final = {FurtherKind.OPENID: "issuer", FurtherKind.OAUTH: "authorization_url"}
"""The address that names a provider without a preset."""
_NOT_IN_KEYS: Final = re.compile(r"[^a-z0-9]+")

_KEY: Final = Asked("key", label="console.field.short_name", hint="console.platform_providers.key_hint")
_CLIENT: Final = Asked("client_id", kind=InputKind.TEXT, is_needed=True)
_SECRET: Final = Asked("client_secret", kind=InputKind.SECRET)
_PEM: Final = Asked(
    "client_secret", kind=InputKind.LONG, label="console.platform_providers.pem", hint="console.platform_providers.pem_hint"
)
_ISSUER: Final = Asked("issuer", kind=InputKind.TEXT, hint="console.platform_providers.issuer_hint", is_needed=True)
_OTHER_ISSUER: Final = Asked("issuer", kind=InputKind.TEXT, hint="console.platform_providers.other_issuer_hint")
_ADDRESSES: Final = ("authorization_url", "token_url", "profile_url")
_SUBJECT: Final = Asked(
    "subject",
    label="console.field.subject_path",
    hint="console.platform_providers.path_hint",
    at_first="id",
    is_needed=True,
)
_PROFILE: Final = (Asked("email", label="console.field.email_path"), "verified", "full_name")
_APPLE: Final = (Asked("team_id", is_needed=True), Asked("key_id", is_needed=True))

# What each form asks for. A text that can be left empty is folded.
_OF_PRESET: Final = {
    (FurtherKind.OPENID, ClientSecretKind.TEXT): shape(create_further_provider, _CLIENT, _SECRET, "name", _KEY, _OTHER_ISSUER),
    (FurtherKind.OPENID, ClientSecretKind.SIGNING_KEY): shape(create_further_provider, _CLIENT, *_APPLE, _PEM, "name", _KEY, _OTHER_ISSUER),
    (FurtherKind.OAUTH, ClientSecretKind.TEXT): shape(create_further_provider, _CLIENT, _SECRET, "name", _KEY, *_ADDRESSES),
}
_OF_KIND: Final = {
    FurtherKind.OPENID: shape(create_further_provider, _ISSUER, _CLIENT, _SECRET, "name", _KEY, "scopes"),
    FurtherKind.OAUTH: shape(
        create_further_provider,
        _CLIENT,
        _SECRET,
        *(Asked(name, is_needed=True) for name in _ADDRESSES),
        _SUBJECT,
        "name",
        _KEY,
        "scopes",
        *_PROFILE,
        Asked("issuer", kind=InputKind.TEXT, hint="console.platform_providers.stated_issuer_hint"),
    ),
}


class NewProviderForm(BoundForm, frozen=True, kw_only=True):
    """What a browser sends, of whichever form."""

    preset: Line = ""
    kind: Line = ""
    client_id: Line = ""
    client_secret: Line = ""
    name: Line = ""
    key: Line = ""
    issuer: Line = ""
    authorization_url: Line = ""
    token_url: Line = ""
    profile_url: Line = ""
    scopes: Line = ""
    subject: Line = ""
    email: Line = ""
    verified: Line = ""
    full_name: Line = ""
    team_id: Line = ""
    key_id: Line = ""


class TileLink(msgspec.Struct, frozen=True):
    """What stands on the tile that was pressed. Without anything, the page has the tiles."""

    preset: Line = ""
    kind: Line = ""
    issuer: Line = ""
    authorization_url: Line = ""


class _Chosen(msgspec.Struct, frozen=True):
    """What somebody adds: a preset's provider, or one at an address."""

    preset: ProviderPresetRecord | None
    kind: FurtherKind
    address: str = ""

    @property
    def shape(self) -> Shape:
        return _OF_KIND[self.kind] if self.preset is None else _OF_PRESET[self.kind, self.preset.secret_kind]

    @property
    def inputs(self) -> Sequence[Input]:
        return self.shape.inputs

    @property
    def name(self) -> str:
        return _host(self.address) if self.preset is None else self.preset.name

    @property
    def said(self) -> Mapping[str, str]:
        """What the form carries."""
        return {"kind": self.kind.value} if self.preset is None else {"preset": self.preset.key}

    def key(self, taken: frozenset[str]) -> str:
        """A short name that is free: from the second on, it has the number."""
        plain = self.preset.key if self.preset is not None else _NOT_IN_KEYS.sub("-", _host(self.address).lower()).strip("-")
        if not plain[:1].isalpha() or plain in RESERVED_NAMES:
            plain = f"at-{plain}"
        ends = ("", *(f"-{number}" for number in range(2, len(taken) + 3)))
        keys = (f"{plain[: LONGEST_SHORT_NAME - len(end)].strip('-')}{end}" for end in ends)
        return next(one for one in keys if one not in taken)


def _host(address: str) -> str:
    """The host of an address, which may be anything that somebody has typed."""
    try:
        return urlsplit(address.strip()).hostname or ""
    except ValueError:
        # The endpoint says what is wrong with the address.
        return ""


async def _chosen(visit: PageVisit, preset: str, kind: str, address: str) -> _Chosen:
    """Raises `NotFound`."""
    if not preset:
        return _Chosen(None, FurtherKind(kind), address)
    known = next((one for one in await visit.ask(list_provider_presets) if one.key == preset), None)
    if known is None:
        raise NotFound
    return _Chosen(known, known.kind)


async def _taken(visit: PageVisit) -> frozenset[str]:
    return frozenset(one.key for one in await visit.postern.platform.further_providers.list())


async def _tiles(visit: PageVisit, errors: Mapping[str, str] = NO_ERRORS, typed: Mapping[str, str] = NO_ERRORS) -> bytes:
    text = visit.text
    presets = await visit.ask(list_provider_presets)
    return visit.show(
        "platform/provider_tiles.html",
        position(PROVIDERS_ENTRY, PROVIDERS_TAB),
        Head(
            title=text("console.platform_providers.new"),
            crumbs=((text("console.platform_providers.title"), PROVIDERS),),
            curl=visit.curl(create_further_provider, body=example_of(_OF_KIND[FurtherKind.OPENID])),
            errors=errors,
        ),
        tiles=[(one.name, f"{NEW}?preset={one.key}") for one in presets],
        others=[(kind.value, name, typed.get(name, "")) for kind, name in _BEGINS.items()],
        action=NEW,
    )


async def _form(visit: PageVisit, chosen: _Chosen, texts: Mapping[str, Any], errors: Mapping[str, str] = NO_ERRORS) -> bytes:
    """The form, whose texts have a short name."""
    text = visit.text
    return visit.show(
        "platform/provider_form.html",
        position(PROVIDERS_ENTRY, PROVIDERS_TAB),
        Head(
            title=text("console.platform_providers.add_one", called=chosen.name),
            crumbs=((text("console.platform_providers.title"), PROVIDERS), (text("console.platform_providers.new"), NEW)),
            curl=visit.curl(create_further_provider, body=example_of(chosen.shape)),
            errors=errors,
        ),
        callback=Cell("copy", visit.postern.identity.journeys.callback(texts["key"])),
        guide="" if chosen.preset is None else chosen.preset.guide,
        inputs=await drawn(visit, chosen.inputs, texts),
        hidden=chosen.said,
        action=NEW,
        back=NEW,
        called=chosen.name,
    )


async def _ask(call: Call[None, TileLink, None, Any], postern: Postern) -> Page:
    visit, query = PageVisit(call, postern), call.query
    if not query.preset and query.kind not in _BEGINS:
        return Answer(await _tiles(visit), 200)
    begins = "" if query.preset else _BEGINS[FurtherKind(query.kind)]
    address = getattr(query, begins) if begins else ""
    if begins and not _host(address):
        return Answer(await _tiles(visit, {begins: visit.text("refusals.web_address")}, {begins: address}), 400)
    chosen = await _chosen(visit, query.preset, query.kind, address)
    texts = {**texts_of(chosen.inputs, None), "key": chosen.key(await _taken(visit))}
    if begins:
        texts |= {begins: address.strip(), "name": chosen.name}
    return Answer(await _form(visit, chosen, texts), 200)


async def _add(call: AnyCall, postern: Postern) -> Page:
    visit, form = PageVisit(call, postern), call.body
    if not form.preset and form.kind not in _BEGINS:
        return Answer(await _tiles(visit), 400)
    address = "" if form.preset else getattr(form, _BEGINS[FurtherKind(form.kind)])
    chosen = await _chosen(visit, form.preset, form.kind, address)
    key = form.key.strip() or chosen.key(await _taken(visit))
    form = msgspec.structs.replace(form, key=key, name=form.name.strip() or ("" if form.preset else chosen.name))
    asked = [one for one in chosen.inputs if one.required or getattr(form, one.field).strip()]
    try:
        made = await visit.ask(create_further_provider, body=body_of(chosen.shape, form, only=asked, fixed=chosen.said))
    except (WrongInput, Refusal) as problem:
        errors, status = explained(visit, problem, chosen.inputs)
        texts = sent_texts(chosen.inputs, form)
        if isinstance(problem, Conflict) and problem.words == "provider_key_taken":
            # The address that is registered at the provider has another short name then.
            texts["key"] = chosen.key(await _taken(visit))
        return Answer(await _form(visit, chosen, texts, errors), status)
    return redirect(f"{PROVIDERS}/{made.key}?done={_ADDED}")


ask_for_provider: Final = console.get(NEW, of=create_further_provider, also=(list_provider_presets,))(
    stated(_ask, "ask_for_platform_providers", NEW, query=TileLink)
)
add_provider: Final = console.post(NEW, of=create_further_provider, also=(list_provider_presets,))(
    stated(_add, "make_platform_providers", NEW, body=NewProviderForm)
)
PAGES: Final = (ask_for_provider, add_provider)
