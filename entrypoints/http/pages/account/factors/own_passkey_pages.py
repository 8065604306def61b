"""A person's passkeys: adding, naming and removing one; and the offer of one as the last page of a sign-in by a password."""

from collections.abc import Sequence
from typing import Annotated, Final
from uuid import UUID

import msgspec

from core.domain.branding import POSTERN
from core.domain.errors import BadRequest, Conflict, NotFound, RateLimited, Refusal, Unauthorized
from core.domain.identifiers import PasskeyId
from core.domain.identity.devices import LONGEST_NAME
from core.domain.identity.flows import Flow, FlowOver
from core.domain.identity.passkeys import Obstacle, Passkey
from core.domain.identity.proofs import StepUp
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BROWSER, BoundForm, token_for
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Line, Lines
from entrypoints.http.machinery.limits import CREDENTIALS, PAGE_LOADS, PAGE_STEPS
from entrypoints.http.page_addresses import ADD_PASSKEY, PASSKEYS
from entrypoints.http.pages.account import Done, ask, back_to, details_signals, show
from entrypoints.http.pages.authorization.authorization_pages import advice
from entrypoints.http.pages.kit import device_in, shipped_pages
from entrypoints.http.pages.kit.declaring import IN_POPUP_WITH_PASSKEYS, WITH_FORM, WITH_PASSKEYS, in_words, page
from entrypoints.http.pages.kit.flows import (
    NO_ERRORS,
    PASSKEY_OFFER,
    PASSKEY_UPGRADE,
    AnyCall,
    FlowLink,
    Page,
    even_twice,
    flow_of,
    go_on,
    left,
    place_in,
)
from entrypoints.http.pages.sign_in.passkey_pages import as_json, read
from entrypoints.http.passkeys import PasskeySignal, RegistrationCredential, accepted_signals, creation_options, maker_named

NEW_PASSKEY_OPTIONS: Final = f"{ADD_PASSKEY}/options"
_ONE: Final = f"{PASSKEYS}/{{passkey_id}}"
_REMOVE: Final = f"{_ONE}/remove"
_DONE: Final = {"added": "passkeys.done_added", "removed": "passkeys.done_removed"}
_RENAMED: Final = {"renamed": "passkeys.done_renamed"}


class PasskeyPagePath(msgspec.Struct, frozen=True):
    passkey_id: UUID


class NewPasskeyForm(BoundForm, frozen=True, kw_only=True):
    name: Line = ""
    credential: Lines = ""
    """The browser's new credential, as JSON."""


class PasskeyNameForm(BoundForm, frozen=True, kw_only=True):
    name: Line = ""


@page.get(PASSKEYS, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
async def show_passkeys(call: Call[None, Done], postern: Postern) -> bytes:
    """List your passkeys"""
    passkeys = await postern.identity.passkeys.list(call.caller.user)
    return show(
        call,
        postern,
        "factors/passkeys.html",
        PASSKEYS,
        passkeys=passkeys,
        signals=[*details_signals(call, postern), *_accepted(call, postern, passkeys)],
        makers={one.id: maker_named(one.aaguid) for one in passkeys},
        obstacle=_obstacle(postern),
        add=ADD_PASSKEY,
        done=_DONE.get(call.query.done, ""),
    )


@page.get(ADD_PASSKEY, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_PASSKEYS, step_up=StepUp.ACCOUNT)
def show_new_passkey(call: Call, postern: Postern) -> bytes:
    """Ask for the name of a new passkey"""
    return _new(call, postern)


@page.post(NEW_PASSKEY_OPTIONS, caller=BROWSER, limit=CREDENTIALS, step_up=StepUp.ACCOUNT, refuses=(BadRequest,))
async def new_passkey_options(call: Call[NewPasskeyForm], postern: Postern) -> Answer[bytes]:
    """Give the script what a browser needs to make a passkey"""
    return as_json(creation_options(await postern.identity.passkeys.begin(call.caller), POSTERN.name))


@page.post(ADD_PASSKEY, caller=BROWSER, limit=CREDENTIALS, policy=WITH_PASSKEYS, step_up=StepUp.ACCOUNT, refuses=(RateLimited,))
async def add_own_passkey(call: Call[NewPasskeyForm], postern: Postern) -> Page:
    """Add a passkey"""
    form, passkeys = call.body, postern.identity.passkeys
    try:
        given = read(form.credential, RegistrationCredential).registration()
    except BadRequest as refusal:
        return Answer(_new(call, postern, form.name, refusal), 400)
    try:
        await passkeys.add(call.caller, given, form.name, call.actor)
    except (BadRequest, Conflict) as refusal:
        if not await passkeys.was_just_added(call.caller.user, given):
            return Answer(_new(call, postern, form.name, refusal), 400)
    return back_to(PASSKEYS, "added")


@page.get(_ONE, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def show_passkey(call: Call[None, Done, PasskeyPagePath], postern: Postern) -> bytes:
    """See a passkey"""
    return _one(call, postern, await _own(call, postern), _RENAMED.get(call.query.done, ""))


@page.post(_ONE, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def name_passkey(call: Call[PasskeyNameForm, None, PasskeyPagePath], postern: Postern) -> Page:
    """Give a passkey another name"""
    passkey = await _own(call, postern)
    try:
        await postern.identity.passkeys.rename(call.caller.user, passkey.id, call.body.name, call.actor)
    except BadRequest as refusal:
        return Answer(_one(call, postern, passkey, name=call.body.name, refusal=refusal), 400)
    return back_to(f"{PASSKEYS}/{passkey.id}", "renamed")


@page.get(_REMOVE, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, step_up=StepUp.ACCOUNT, refuses=(NotFound,))
async def ask_to_remove_passkey(call: Call[None, None, PasskeyPagePath], postern: Postern) -> bytes:
    """Ask before a passkey is removed"""
    return _ask(call, postern, await _own(call, postern))


@page.post(_REMOVE, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, step_up=StepUp.ACCOUNT, refuses=(Unauthorized,))
async def remove_own_passkey(call: Call[BoundForm, None, PasskeyPagePath], postern: Postern) -> Page:
    """Remove a passkey

    Removing a passkey that no longer exists succeeds too.
    """
    try:
        await postern.identity.passkeys.remove(call.caller, PasskeyId(call.path.passkey_id), call.actor)
    except BadRequest as refusal:
        return Answer(_ask(call, postern, await _own(call, postern), refusal), 400)
    except NotFound:
        pass
    return back_to(PASSKEYS, "removed")


async def _own(call: AnyCall, postern: Postern) -> Passkey:
    return await postern.identity.passkeys.get(call.caller.user, PasskeyId(call.path.passkey_id))


def _obstacle(postern: Postern) -> str:
    """The text key of the reason why this installation cannot use passkeys. Empty when it can."""
    obstacle = postern.identity.passkeys.obstacle
    return "" if obstacle is None else f"refusals.passkeys_{obstacle.value}"


def _accepted(call: AnyCall, postern: Postern, passkeys: Sequence[Passkey]) -> Sequence[PasskeySignal]:
    relying_party = postern.identity.passkeys.relying_party
    if isinstance(relying_party, Obstacle) or call.caller.impersonator is not None:
        return ()
    return accepted_signals(relying_party, call.caller.user, passkeys)


def _new(call: AnyCall, postern: Postern, name: str = "", refusal: Refusal | None = None) -> bytes:
    field = "name" if refusal is not None and refusal.words.startswith("name_") else ""
    return show(
        call,
        postern,
        "factors/new_passkey.html",
        PASSKEYS,
        obstacle=_obstacle(postern),
        action=ADD_PASSKEY,
        options=NEW_PASSKEY_OPTIONS,
        back=PASSKEYS,
        name=name,
        longest=LONGEST_NAME,
        errors={} if refusal is None else {field: refusal},
    )


def _one(
    call: AnyCall, postern: Postern, passkey: Passkey, done: str = "", *, name: str | None = None, refusal: Refusal | None = None
) -> bytes:
    place = f"{PASSKEYS}/{passkey.id}"
    return show(
        call,
        postern,
        "factors/passkey.html",
        PASSKEYS,
        passkey=passkey,
        maker=maker_named(passkey.aaguid),
        action=place,
        remove=f"{place}/remove",
        back=PASSKEYS,
        name=passkey.name if name is None else name,
        longest=LONGEST_NAME,
        done=done,
        errors={} if refusal is None else {"name": refusal},
    )


def _ask(call: AnyCall, postern: Postern, passkey: Passkey, refusal: Refusal | None = None) -> bytes:
    place = f"{PASSKEYS}/{passkey.id}"
    return ask(
        call,
        postern,
        PASSKEYS,
        f"{place}/remove",
        name="passkey_remove_second" if passkey.second_factor_since else "passkey_remove",
        button="passkey_remove.button",
        back=place,
        values={"passkey": device_in(shipped_pages().text(call.language), passkey.name)},
        refusal=refusal,
    )


_MADE: Final = f"{PASSKEY_OFFER}/passkey"
_UPGRADE_OPTIONS: Final = f"{PASSKEY_UPGRADE}/options"
_NEVER: Final = "never"
_REFUSES: Final = (FlowOver,)


class OfferForm(BoundForm, frozen=True, kw_only=True):
    flow: Line = ""
    answer: Annotated[Line, msgspec.Meta(pattern="^(later|never)?$")] = ""


class OfferedPasskeyForm(BoundForm, frozen=True, kw_only=True):
    flow: Line = ""
    credential: Lines = ""
    """The browser's new credential, as JSON."""


@page.get(PASSKEY_UPGRADE, caller=BROWSER, limit=PAGE_LOADS, policy=IN_POPUP_WITH_PASSKEYS, advice=advice, refuses=_REFUSES)
async def show_passkey_upgrade(call: Call[None, FlowLink], postern: Postern) -> Page:
    """Let the browser make a passkey by itself after a sign-in by a password, before anybody is offered one

    The page shows nothing that is not true without a script: it leads on to the offer.
    """
    flow = await flow_of(call, postern, call.query.flow)
    onward = place_in(flow, PASSKEY_OFFER)
    if not flow.upgrades:
        return redirect(onward)
    content = shipped_pages().page(
        "account/factors/passkey_upgrade.html",
        call.language,
        brand=flow.branding,
        action=PASSKEY_UPGRADE,
        options=_UPGRADE_OPTIONS,
        onward=onward,
        flow=str(flow.id),
        form_token=token_for(BROWSER, call.request, postern),
    )
    return Answer(content, 200)


@page.post(_UPGRADE_OPTIONS, caller=BROWSER, limit=CREDENTIALS, refuses=(BadRequest, Conflict, FlowOver))
async def passkey_upgrade_options(call: Call[OfferedPasskeyForm], postern: Postern) -> Answer[bytes]:
    """Give the script what a browser needs to make a passkey by itself"""
    flow = await flow_of(call, postern, call.body.flow)
    return as_json(creation_options(await postern.identity.passkey_offers.begin_upgrade(flow, call.caller), POSTERN.name))


@page.post(
    PASSKEY_UPGRADE,
    caller=BROWSER,
    limit=CREDENTIALS,
    policy=IN_POPUP_WITH_PASSKEYS,
    advice=advice,
    refuses=(*_REFUSES, RateLimited),
)
async def add_upgraded_passkey(call: Call[OfferedPasskeyForm], postern: Postern) -> Page:
    """Add the passkey that the browser has made by itself, and go on

    A passkey that cannot be added leads to the page that offers one, and so does a proof that has grown old: nobody is asked for another.
    """
    form, offers = call.body, postern.identity.passkey_offers

    async def made(flow: Flow) -> Page:
        try:
            given = read(form.credential, RegistrationCredential).registration()
            await offers.upgrade(flow, call.caller, given, call.actor)
        except (BadRequest, Conflict):
            if not await _was_just_added(call, postern):
                return redirect(place_in(flow, PASSKEY_OFFER))
        await offers.answer(flow, call.caller)
        return await go_on(call, postern, _over(flow), call.caller)

    return await even_twice(call, postern, form.flow, made)


async def _was_just_added(call: Call[OfferedPasskeyForm], postern: Postern) -> bool:
    try:
        given = read(call.body.credential, RegistrationCredential).registration()
    except BadRequest:
        return False
    return await postern.identity.passkeys.was_just_added(call.caller.user, given)


@page.get(PASSKEY_OFFER, caller=BROWSER, limit=PAGE_LOADS, policy=IN_POPUP_WITH_PASSKEYS, advice=advice, refuses=_REFUSES)
async def show_passkey_offer(call: Call[None, FlowLink], postern: Postern) -> Page:
    """Offer a passkey to a person who has signed in by a password"""
    flow = await flow_of(call, postern, call.query.flow)
    if not await postern.identity.passkey_offers.make(flow, call.caller):
        # A form has led here, so another site is left for by a page.
        return left(call, flow, await go_on(call, postern, _over(flow), call.caller), behind_form=True)
    return Answer(_page(call, postern, flow), 200)


@page.post(PASSKEY_OFFER, caller=BROWSER, limit=PAGE_STEPS, policy=IN_POPUP_WITH_PASSKEYS, advice=advice, refuses=_REFUSES)
async def decline_passkey_offer(call: Call[OfferForm], postern: Postern) -> Page:
    """Go on without a passkey, for now or for good"""
    form = call.body

    async def answered(flow: Flow) -> Page:
        await postern.identity.passkey_offers.answer(flow, call.caller, never_again=form.answer == _NEVER)
        return await go_on(call, postern, _over(flow), call.caller)

    return await even_twice(call, postern, form.flow, answered)


@page.get(_MADE, caller=BROWSER, limit=PAGE_LOADS, policy=IN_POPUP_WITH_PASSKEYS, step_up=StepUp.ACCOUNT)
def go_to_new_passkey(_call: Call, _postern: Postern) -> Page:
    """Lead a person who had to prove themselves once more to the page that adds a passkey"""
    return redirect(ADD_PASSKEY)


@page.post(
    _MADE,
    caller=BROWSER,
    limit=CREDENTIALS,
    policy=IN_POPUP_WITH_PASSKEYS,
    step_up=StepUp.ACCOUNT,
    advice=advice,
    refuses=(*_REFUSES, RateLimited),
)
async def add_offered_passkey(call: Call[OfferedPasskeyForm], postern: Postern) -> Page:
    """Add the passkey that was offered, and go on"""
    form, passkeys = call.body, postern.identity.passkeys

    async def made(flow: Flow) -> Page:
        try:
            given = read(form.credential, RegistrationCredential).registration()
        except BadRequest as refusal:
            return Answer(_page(call, postern, flow, refusal), 400)
        try:
            await passkeys.add(call.caller, given, "", call.actor)
        except (BadRequest, Conflict) as refusal:
            if not await passkeys.was_just_added(call.caller.user, given):
                return Answer(_page(call, postern, flow, refusal), 400)
        await postern.identity.passkey_offers.answer(flow, call.caller)
        return await go_on(call, postern, _over(flow), call.caller)

    return await even_twice(call, postern, form.flow, made)


def _over(flow: Flow) -> Flow:
    """Memberships were asked for before this page."""
    return replace(flow, offers_passkey=False, asked_memberships=True)


def _page(call: AnyCall, postern: Postern, flow: Flow, refusal: Refusal | None = None) -> bytes:
    words = shipped_pages().text(call.language)
    return shipped_pages().page(
        "account/factors/passkey_offer.html",
        call.language,
        brand=flow.branding,
        action=PASSKEY_OFFER,
        made=_MADE,
        options=NEW_PASSKEY_OPTIONS,
        flow=str(flow.id),
        form_token=token_for(BROWSER, call.request, postern),
        errors=NO_ERRORS if refusal is None else {"": in_words(refusal, words)},
    )
