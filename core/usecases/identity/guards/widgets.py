"""Widgets of others in place of our puzzle: the form that is kept meanwhile, and whether the answer counts.

What a stranger sends never decides that the maker is away. When the maker gives no verdict on an answer, we ask about one of our own. Only
if it is silent on that, too, pages ask for puzzles.
"""

from collections.abc import Mapping
from typing import Final

from core.domain.errors import Overloaded
from core.domain.identity.endings.sealed import WIDGETS
from core.domain.identity.guards.puzzles import PuzzlePurpose, PuzzleUnsolved
from core.domain.identity.guards.widgets import ANSWER_REMEMBERED, LONGEST_KEPT, KeptForm, MakerSeen, answer_id
from core.frozen import Frozen
from core.usecases.identity.guards.sealed_texts import opened_text, sealed_text
from ports.clock import Clock
from ports.encryption import CannotOpen, KeyRing
from ports.identity.guards.puzzles import PuzzleStore
from ports.identity.guards.widgets import WidgetMaker, WidgetSilent
from ports.metrics import Metrics
from ports.system import Ids

OUR_OWN: Final = "of-no-widget"
"""What we ask the maker about to see whether it is there."""


class Widgets(Frozen):
    """`maker`: None where the installation shows no widget. `site`: the host that answers must come from."""

    store: PuzzleStore
    keyring: KeyRing
    maker: WidgetMaker | None
    seen: MakerSeen
    site: str
    metrics: Metrics
    ids: Ids
    clock: Clock

    @property
    def shown(self) -> WidgetMaker | None:
        """Whose widget pages show now. None while the maker is away."""
        return None if self.maker is None or self.seen.is_away(self.clock.now()) else self.maker

    def keep(self, purpose: PuzzlePurpose, binding: str, fields: Mapping[str, str]) -> tuple[KeptForm, str] | None:
        """The form, and the same sealed for the page. `binding` names the browser and the flow. None for a form that no person fills in."""
        kept = KeptForm.made(self.ids.new(), purpose, binding, fields, self.clock.now())
        sealed = sealed_text(self.keyring, kept.packed(), WIDGETS)
        if len(sealed) > LONGEST_KEPT:
            return None
        self.metrics.widget_answered(purpose, "asked")
        return kept, sealed

    def opened(self, purpose: PuzzlePurpose, binding: str, sealed: str) -> KeptForm:
        """Raises `PuzzleUnsolved` for anything but a form of ours that waits for this browser, flow and purpose."""
        try:
            kept = KeptForm.unpacked(opened_text(self.keyring, sealed, WIDGETS))
        except (CannotOpen, ValueError):
            kept = None
        objection = "foreign" if kept is None else kept.objection(purpose, binding, self.clock.now())
        if kept is None or objection:
            self.metrics.widget_answered(purpose, objection)
            raise PuzzleUnsolved(objection)
        return kept

    async def check(self, kept: KeptForm, answer: str) -> None:
        """Use form and answer up. Raises `PuzzleUnsolved`: then nothing was written, unless form or answer had been used up before."""
        objection = await self._objection(kept, answer)
        self.metrics.widget_answered(kept.purpose, objection or "solved")
        if objection:
            raise PuzzleUnsolved(objection)

    async def _objection(self, kept: KeptForm, answer: str) -> str:
        maker = self.shown
        if maker is None:
            return "away"
        try:
            if not answer:
                # A person whose page has shown nothing sends the form without an answer.
                return await self._silence(maker, "none")
            if not _is_one(answer, maker.preset.longest_answer):
                return "malformed"
            try:
                verdict = await maker.verify(answer)
            except WidgetSilent:
                return await self._silence(maker, "unclear")
        except Overloaded:
            return "busy"
        objection = verdict.objection(self.site, kept.purpose, kept.bound)
        if not objection and not await self.store.use(answer_id(answer), self.clock.now() + ANSWER_REMEMBERED):
            objection = "replayed"
        if not objection and not await self.store.use(kept.id, kept.expires_at):
            objection = "used"
        return objection

    async def _silence(self, maker: WidgetMaker, otherwise: str) -> str:
        """`away` if the maker is silent on what we ask ourselves."""
        return "away" if await self._is_away(maker) else otherwise

    async def _is_away(self, maker: WidgetMaker) -> bool:
        seen = self.seen
        if seen.is_there(self.clock.now()) or seen.is_looking:
            return False
        seen.is_looking = True
        away = False
        try:
            await maker.verify(OUR_OWN)
        except WidgetSilent:
            away = True
        finally:
            seen.is_looking = False
        seen.found(self.clock.now(), away=away)
        return away


def _is_one(answer: str, longest: int) -> bool:
    """Whether a maker could have given it. What is none costs no call."""
    return len(answer) <= longest and answer.isascii() and all(character.isalnum() or character in "-_.~+/=:" for character in answer)
