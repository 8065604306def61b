"""What a page asks the browser to compute before a form counts. A page takes part in four steps:

* its form derives from `PuzzleForm`, and its declarations have `policy=IN_POPUP_WITH_PUZZLE`
* its template has `{{ puzzle_part(puzzle) }}` within the form, and `{% if puzzle %}{% set puzzle_script = true %}{% endif %}`
* whoever renders it gives it `puzzle=PagePuzzle.of(…).shown(form_token)`, which is None in quiet times
* the handler of its form awaits `PagePuzzle.of(…).check(form)` before it hashes or mails anything

A form without fields to fill in leads to `puzzle_page` instead.
"""

from contextlib import suppress
from typing import Annotated

import msgspec

from core.domain.email import Email
from core.domain.identity.flows import Flow
from core.domain.identity.guards.puzzles import (
    LONGEST_CHALLENGE,
    LONGEST_SOLUTION,
    Puzzle,
    PuzzleAnswer,
    PuzzleDemand,
    PuzzlePurpose,
    PuzzleUnsolved,
)
from core.domain.identity.guards.traffic import Crossing
from core.frozen import Frozen, replace
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browser_cookies import keep_waiting, waiting_ticket
from entrypoints.http.machinery.browsers import FlowForm
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.flows import AnyCall


class PuzzleForm(FlowForm, frozen=True, kw_only=True):
    """A form that may bring a solution."""

    challenge: Annotated[str, msgspec.Meta(max_length=LONGEST_CHALLENGE)] = ""
    solution: Annotated[str, msgspec.Meta(max_length=LONGEST_SOLUTION)] = ""


class PagePuzzle(Frozen):
    """What one request is asked for."""

    call: AnyCall
    postern: Postern
    demand: PuzzleDemand
    crossing: Crossing

    @classmethod
    def of(cls, call: AnyCall, postern: Postern, purpose: PuzzlePurpose, flow: Flow | None) -> "PagePuzzle":
        """Without a flow, or in one whose organization nobody has found, the request counts as one to the installation's own pages: a link
        may say any slug, and a new one each time would never be busy.
        """
        organization = "" if flow is None or flow.organization is None else flow.wanted.organization
        crossing = Crossing(call.client_address, organization)
        return cls(call, postern, postern.identity.puzzles.demand(purpose, crossing), crossing)

    def at_least(self, bits: int) -> "PagePuzzle":
        """So many bits in any case: for a budget that is over, or for stuffing that was noticed."""
        return replace(self, demand=self.demand.at_least(bits))

    async def unless_known(self, email: str) -> "PagePuzzle":
        """Nothing is asked for on a device that the person with this address has signed in on."""
        if self.demand.bits == 0 or not await self.postern.identity.puzzles.is_known_device(Email(email), self.call.client):
            return self
        return replace(self, demand=self.demand.nothing())

    def shown(self, form_token: str) -> Puzzle | None:
        """The puzzle for a page whose form has this token. A browser without scripts gets the ticket of those who wait."""
        puzzles = self.postern.identity.puzzles
        puzzle = puzzles.issue(self.demand, form_token)
        if puzzle is not None:
            base_url = self.postern.foundation.public_url
            ticket = puzzles.ticket(self.crossing, waiting_ticket(self.call.request, base_url))
            self.call.request.handed_over = (*self.call.request.handed_over, *(keep_waiting(ticket, base_url) if ticket else ()))
        return puzzle

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
        if self.is_on and form.challenge:
            with suppress(PuzzleUnsolved):
                await self.at_least(bits).check(form)
                return True
        await self.check(form)
        return False

    async def check(self, form: PuzzleForm) -> None:
        """Raises `PuzzleUnsolved`. The token of the form was compared before, so it names this browser and this flow."""
        waited = waiting_ticket(self.call.request, self.postern.foundation.public_url)
        answer = PuzzleAnswer(form.challenge, form.solution, waited)
        await self.postern.identity.puzzles.check(self.demand, form.form_token.reveal(), answer, self.crossing)


def puzzle_page(asked: PagePuzzle, flow: Flow, action: str, form_token: str) -> Answer[bytes]:
    """A page of its own for a form that has no field to fill in. Its script sends the form."""
    body = shipped_pages().page(
        "puzzle/puzzle.html",
        asked.call.language,
        brand=flow.branding,
        action=action,
        flow=str(flow.id),
        form_token=form_token,
        puzzle=asked.shown(form_token),
    )
    return Answer(body, 200)
