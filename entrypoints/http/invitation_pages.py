"""`/ui/invitations`: the built-in page that an invitation's link leads to, where no other frontend is set. It works without scripts."""

from typing import Final

from quart import Quart, Response, redirect
from werkzeug.wrappers import Response as PlainResponse

from core.domain.errors import BadRequest, InvitationExpired, Refusal, TeamLimitExceeded
from core.domain.secrets import Token
from core.usecases.invitations import Invitations
from entrypoints.http.page_guard import PageGuard, asked, form_fields, link_fields
from entrypoints.http.pages import Pages

_PAGE: Final = "/ui/invitations/accept"
_ACCEPTED: Final = "/ui/invitations/accepted"
_DECLINED: Final = "/ui/invitations/declined"


class InvitationPages:
    def __init__(self, pages: Pages, invitations: Invitations) -> None:
        self._pages = pages
        self._invitations = invitations

    def add_to(self, application: Quart, guard: PageGuard) -> None:
        application.add_url_rule(_PAGE, "show_invitation", guard.guarded(self._show, _advice), methods=["GET"])
        application.add_url_rule(_PAGE, "answer_invitation", guard.guarded(self._answer, _advice), methods=["POST"])
        application.add_url_rule(_ACCEPTED, "invitation_accepted", self._accepted)
        application.add_url_rule(_DECLINED, "invitation_declined", self._declined)

    async def _show(self) -> Response:
        """Looks at the link and leaves it usable, however often some program opens it."""
        token = link_fields().get("token", "")
        offer = await self._invitations.look(Token(token))
        invitation = offer.invitation
        until = invitation.expires_at
        return self._pages.page(
            "invitation.html",
            action=_PAGE,
            token=token,
            organization=offer.organization_name,
            email=invitation.email.address,
            role=invitation.role,
            until=f"{until.day} {until:%B %Y, %H:%M} UTC",
        )

    async def _answer(self) -> PlainResponse:
        form = await form_fields()
        token = Token(form.get("token", ""))
        match form.get("answer"):
            case "accept":
                await self._invitations.accept(token, asked().actor)
                place = _ACCEPTED
            case "decline":
                await self._invitations.decline(token, asked().actor)
                place = _DECLINED
            case _:
                raise BadRequest("The form says neither yes nor no")
        # Somewhere else, so that going back and forth sends nothing again.
        return redirect(place, 303)

    async def _accepted(self) -> Response:
        text = "Sign in to go on. If the address had no account, a mail with a link to choose a password is on its way."
        return self._pages.page("outcome.html", title="You are a member now", text=text, good=True, onward="")

    async def _declined(self) -> Response:
        return self._pages.page("outcome.html", title="You have declined", text="Nobody was added to anything.", good=True, onward="")


def _advice(refusal: Refusal) -> str:
    match refusal:
        case InvitationExpired():
            return "Whoever invited you can send another invitation."
        case TeamLimitExceeded():
            return "Whoever invited you must make room first. The invitation stays as it is until then."
        case _:
            return ""
