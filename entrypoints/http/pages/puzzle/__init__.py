"""The puzzle on pages, where many requests come from, and the page of another maker's widget.

The page of a widget: of its own, with nothing on it but the widget, its button and the person's sealed form. The script of somebody else
runs here and nowhere else, so the page shows nothing of the person, has no field to fill in, and can reach no other page of ours.

What a page asks the browser to compute before a form counts. A page takes part in four steps:

* its form derives from `PuzzleForm`, and its declarations have `policy=IN_POPUP_WITH_PUZZLE`; that of the form has `accepts=WITH_WIDGET`
* its template has `{{ puzzle_part(puzzle) }}` within the form, and `{% if puzzle %}{% set puzzle_script = true %}{% endif %}`
* whoever renders it gives it `puzzle=PagePuzzle.of(…).shown(form_token)`, which is None in quiet times
* the handler of its form begins with `PagePuzzle.of(…).restored(call.body)`, and awaits `check(form)` before it hashes or mails anything

A form without fields to fill in leads to `PagePuzzle.on_its_own(…)` instead. Where the installation shows the widget of another maker,
pages show no puzzle: the refused form is kept in `PagePuzzle.elsewhere(…)`, a page of its own, which sends it again with the answer.
"""

from functools import lru_cache
from typing import Annotated, Final, TypeVar

import msgspec
import structlog

from core.domain.branding import POSTERN, Branding
from core.domain.identity.flows import Flow
from core.domain.identity.guards.puzzles import (
    LONGEST_CHALLENGE,
    LONGEST_KEPT,
    LONGEST_SOLUTION,
    LONGEST_WIDGET_ANSWER,
    KeptForm,
    Puzzle,
    PuzzleAnswer,
    PuzzleDemand,
    PuzzlePurpose,
    PuzzleUnsolved,
    WidgetPreset,
)
from core.domain.identity.guards.traffic import Crossing
from core.domain.languages import Language
from core.domain.mail import Email
from core.domain.secrets import Password
from core.frozen import Frozen, replace
from core.usecases.identity.guards.puzzles import Widgets
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Form
from entrypoints.http.machinery.answers import SELF, Answer, Headers, PagePolicy
from entrypoints.http.machinery.browser_cookies import keep_waiting, waiting_ticket
from entrypoints.http.machinery.browsers import FlowForm, PageOutOfDate
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.flows import NO_ERRORS, AnyCall
from ports.identity.sign_in import WidgetMaker

# Passkeys belong to our host, so a script on a page of ours could ask for one.
_NO_PASSKEYS: Final[Headers] = ((b"permissions-policy", b"publickey-credentials-create=(), publickey-credentials-get=()"),)
_REFUSED: Final = {"": "widget.refused"}
_LATER: Final = {"": "widget.busy"}


@lru_cache(maxsize=8)
def policy_of(preset: WidgetPreset) -> PagePolicy:
    """Nothing but this widget. The page may stand in a window that an application has opened, as the pages around it."""
    return PagePolicy(
        scripts=preset.scripts,
        styles=(SELF, *preset.styles),
        connections=preset.connections,
        frames=preset.frames,
        form_action=(SELF,),
        opener="unsafe-none",
        confined=True,
    )


def widget_page(
    call: AnyCall, maker: WidgetMaker, kept: KeptForm, sealed: str, *, action: str, flow: str, form_token: str, again: str, brand: Branding
) -> bytes:
    """`again`: why the last answer did not count; empty if there was none."""
    text = shipped_pages().text(call.language)
    told = NO_ERRORS if not again else _LATER if again == "busy" else _REFUSED
    return shipped_pages().page(
        "puzzle/widget.html",
        call.language,
        brand=brand,
        action=action,
        flow=flow,
        form_token=form_token,
        hidden={"kept": sealed},
        maker=maker.preset.maker,
        maker_script=_script(maker.preset, call.language),
        element=maker.preset.element,
        attributes=_attributes(maker, kept, call.language),
        errors={name: text(key) for name, key in told.items()},
    )


def confined(preset: WidgetPreset, body: bytes, status: int, headers: Headers = ()) -> Answer[bytes]:
    return Answer(body, status, (*_NO_PASSKEYS, *headers), policy_of(preset))


def _script(preset: WidgetPreset, language: Language) -> str:
    if not preset.language_parameter:
        return preset.script
    return f"{preset.script}{'&' if '?' in preset.script else '?'}{preset.language_parameter}={language}"


def _attributes(maker: WidgetMaker, kept: KeptForm, language: Language) -> dict[str, str]:
    preset = maker.preset
    named = {preset.action_attribute: kept.purpose.value, preset.bound_attribute: kept.bound, preset.language_attribute: language.value}
    return {"sitekey": maker.site_key, **dict(preset.attributes), **{name: value for name, value in named.items() if name}}


log = structlog.get_logger()

WITH_WIDGET: Final = Form(limit=32 << 10)
"""A form that may come again from the page of a widget, with itself sealed and with the answer."""
# What tells of an attack, or of a site key that belongs to another site. Others have a puzzle's answers refused every day.
_LOGGED: Final = ("site", "action", "flow", "replayed")
_SIGNED_IN_BITS: Final = 20
_Answer = Annotated[str, msgspec.Meta(max_length=LONGEST_WIDGET_ANSWER)]


class PuzzleForm(FlowForm, frozen=True, kw_only=True):
    """A form that may bring a solution, or the answer of a widget and, sealed, its own fields."""

    challenge: Annotated[str, msgspec.Meta(max_length=LONGEST_CHALLENGE)] = ""
    solution: Annotated[str, msgspec.Meta(max_length=LONGEST_SOLUTION)] = ""
    kept: Annotated[str, msgspec.Meta(max_length=LONGEST_KEPT)] = ""
    turnstile: _Answer = msgspec.field(default="", name="cf-turnstile-response")
    hcaptcha: _Answer = msgspec.field(default="", name="h-captcha-response")

    @property
    def answer(self) -> str:
        return self.turnstile or self.hcaptcha


_SomeForm = TypeVar("_SomeForm", bound=PuzzleForm)
_NOT_KEPT: Final = frozenset({*PuzzleForm.__struct_fields__})


class PagePuzzle(Frozen):
    """What one request is asked for."""

    call: AnyCall
    postern: Postern
    demand: PuzzleDemand
    crossing: Crossing
    flow: Flow | None

    @classmethod
    def of(cls, call: AnyCall, postern: Postern, purpose: PuzzlePurpose, flow: Flow | None) -> "PagePuzzle":
        """Without a flow, or in one whose organization nobody has found, the request counts as one to the installation's own pages: a link
        may say any slug, and a new one each time would never be busy.
        """
        organization = "" if flow is None or flow.organization is None else flow.wanted.organization
        crossing = Crossing(call.client_address, organization)
        return cls(call, postern, postern.identity.puzzles.demand(purpose, crossing), crossing, flow).dearer_than_widget()

    def at_least(self, bits: int) -> "PagePuzzle":
        """So many bits in any case: for a budget that is over, or for stuffing that was noticed."""
        return replace(self, demand=self.demand.at_least(bits)).dearer_than_widget()

    def dearer_than_widget(self) -> "PagePuzzle":
        """The script of another maker would run on a page of somebody who is signed in here. So such a browser computes instead, and more
        than others, whatever it is asked for: an account is no cheap way round the widget.
        """
        if self.demand.bits == 0 or not self._is_signed_in or self._widgets.maker is None:
            return self
        return replace(self, demand=self.demand.at_least(_SIGNED_IN_BITS))

    async def unless_known(self, email: str) -> "PagePuzzle":
        """Nothing is asked for on a device that the person with this address has signed in on."""
        if self.demand.bits == 0 or not await self.postern.identity.puzzles.is_known_device(Email(email), self.call.client):
            return self
        return replace(self, demand=self.demand.nothing())

    def shown(self, form_token: str) -> Puzzle | None:
        """The puzzle for a page whose form has this token. A browser without scripts gets the ticket of those who wait."""
        puzzle = None if self._maker is not None else self.postern.identity.puzzles.issue(self.demand, form_token)
        if puzzle is not None:
            self._hand_ticket_over()
        return puzzle

    def _hand_ticket_over(self) -> None:
        base_url = self.postern.foundation.public_url
        ticket = self.postern.identity.puzzles.ticket(self.crossing, waiting_ticket(self.call.request, base_url))
        self.call.request.handed_over = (*self.call.request.handed_over, *(keep_waiting(ticket, base_url) if ticket else ()))

    @property
    def _widgets(self) -> Widgets:
        return self.postern.identity.widgets

    @property
    def _is_signed_in(self) -> bool:
        return self.call.request.caller is not None

    @property
    def _maker(self) -> WidgetMaker | None:
        """Whose widget stands in place of the puzzle now."""
        return self._widgets.shown if self.is_on and not self._is_signed_in else None

    def restored(self, form: _SomeForm, place: str = "") -> _SomeForm:
        """The form as the person sent it, when it comes from the page of a widget. Raises `PageOutOfDate` after five minutes, and for
        another browser, flow or purpose; `place` is the page that shows the form anew.
        """
        if not form.kept:
            return form
        flow = f"?flow={form.flow}" if form.flow else ""
        fields = self._opened(form, f"{place}{flow}" if place else "").fields
        known = form.__struct_fields__
        values = {name: Password(text) if name == "password" else text for name, text in fields.items() if name in known}
        return msgspec.structs.replace(form, **values)

    def _opened(self, form: PuzzleForm, place: str = "") -> KeptForm:
        try:
            return self._widgets.opened(self.demand.purpose, form.form_token.reveal(), form.kept)
        except PuzzleUnsolved:
            raise PageOutOfDate(place) from None

    def elsewhere(
        self,
        form: PuzzleForm,
        action: str,
        refusal: PuzzleUnsolved | None = None,
        *,
        status: int = 200,
        headers: Headers = (),
        brand: Branding | None = None,
    ) -> Answer[bytes] | None:
        """The page of its own that the form waits in: of the widget; or of our puzzle, when the widget's maker has turned out to be away.
        None if the page of the form asks for the puzzle itself. A wrong answer is a 400.
        """
        maker, token = self._maker, form.form_token.reveal()
        if maker is None and not form.kept:
            return None
        fields = {name: _plain(getattr(form, name)) for name in form.__struct_fields__ if name not in _NOT_KEPT}
        kept = self._widgets.keep(self.demand.purpose, token, {name: text for name, text in fields.items() if text})
        if kept is None:
            return None
        brand = brand or (POSTERN if self.flow is None else self.flow.branding)
        if maker is None:
            return Answer(self._puzzle_page(action, form.flow, token, brand, kept[1]), status, headers)
        self._hand_ticket_over()
        again = refusal.reason if refusal is not None and form.answer else ""
        body = widget_page(self.call, maker, *kept, action=action, flow=form.flow, form_token=token, again=again, brand=brand)
        return confined(maker.preset, body, 400 if again and status == 200 else status, headers)

    def on_its_own(self, form: PuzzleForm, action: str, refusal: PuzzleUnsolved | None) -> Answer[bytes]:
        """For a form that has no field to fill in: a page of its own in any case. Its script sends the form."""
        brand = POSTERN if self.flow is None else self.flow.branding
        shown = self.elsewhere(form, action, refusal)
        return shown or Answer(self._puzzle_page(action, form.flow, form.form_token.reveal(), brand), 200)

    def _puzzle_page(self, action: str, flow: str, form_token: str, brand: Branding, kept: str = "") -> bytes:
        return shipped_pages().page(
            "puzzle/puzzle.html",
            self.call.language,
            brand=brand,
            action=action,
            flow=flow,
            form_token=form_token,
            hidden={"kept": kept} if kept else {},
            puzzle=self.shown(form_token),
        )

    def count(self) -> None:
        """Count the request, or the sign-in that failed."""
        self.postern.identity.puzzles.count(self.demand.purpose, self.crossing)

    @property
    def is_on(self) -> bool:
        """Whether puzzles are asked for at all."""
        return self.postern.identity.puzzles.is_on

    async def passed(self, form: PuzzleForm, bits: int) -> bool:
        """Whether the form brings a solution of so many bits, or its browser has waited: more than may be asked for. That is then used up.
        A form that its page has asked for nothing uses nothing up: the one form of its network's hour is for whoever waits. Raises
        `PuzzleUnsolved` for a form that brings less than is asked for.
        """
        if self.is_on and (form.challenge or form.kept):
            try:
                await self.at_least(bits).check(form)
            except PuzzleUnsolved:
                # An answer of a widget was asked about already, whatever it was needed for.
                if form.kept and self.demand.bits:
                    raise
            else:
                return True
        await self.check(form)
        # A page that would show a widget has no puzzle, so a form that comes from it has waited.
        return self.demand.bits > 0 and self._maker is not None

    async def check(self, form: PuzzleForm) -> None:
        """Raises `PuzzleUnsolved`. The token of the form was compared before, so it names this browser and this flow."""
        if self.demand.bits == 0:
            return
        waited = waiting_ticket(self.call.request, self.postern.foundation.public_url)
        # A challenge was given out because the maker was away then, or to somebody who is signed in: it still counts.
        if form.solution or self._maker is None:
            await self._check_puzzle(form, waited)
            return
        try:
            await self._check_widget(form)
        except PuzzleUnsolved:
            if not waited:
                raise
            try:
                await self._check_puzzle(form, waited)
            except PuzzleUnsolved:
                pass
            else:
                return
            raise

    async def _check_puzzle(self, form: PuzzleForm, waited: str) -> None:
        answer = PuzzleAnswer(form.challenge, form.solution, waited)
        await self.postern.identity.puzzles.check(self.demand, form.form_token.reveal(), answer, self.crossing)

    async def _check_widget(self, form: PuzzleForm) -> None:
        if not form.kept:
            raise PuzzleUnsolved("none")
        try:
            await self._widgets.check(self._opened(form), form.answer)
        except PuzzleUnsolved as refusal:
            if refusal.reason in _LOGGED:
                log.warning("widget_answer_refused", purpose=self.demand.purpose.value, reason=refusal.reason)
            raise


def _plain(value: str | Password) -> str:
    return value.reveal() if isinstance(value, Password) else value
