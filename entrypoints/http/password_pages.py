"""`/ui`: the built-in pages for people: what the links in our mails lead to, where no other frontend is set. They work without scripts."""

from typing import Final

from quart import Quart, Response, redirect, request
from werkzeug.wrappers import Response as PlainResponse

from core.domain.accounts import LONGEST_PASSWORD, SHORTEST_PASSWORD
from core.domain.errors import BadRequest, Refusal
from core.domain.mailed_tokens import LinkRefused
from core.domain.secrets import Password, Token
from core.usecases.account_passwords import AccountPasswords
from entrypoints.http.page_guard import PageGuard, asked, form_fields, link_fields
from entrypoints.http.pages import Pages

_CHOSEN: Final = "/ui/password-chosen"
_TITLES: Final = {"/ui/reset-password": "Choose a new password", "/ui/set-password": "Choose your password"}
_NEXT: Final = "You can ask for a new link where you sign in, by “Forgot password”."


class PasswordPages:
    def __init__(self, pages: Pages, passwords: AccountPasswords) -> None:
        self._pages = pages
        self._passwords = passwords

    def add_to(self, application: Quart, guard: PageGuard) -> None:
        application.add_url_rule("/ui", "landing", self._landing)
        application.add_url_rule(_CHOSEN, "password_chosen", self._chosen)
        for path in _TITLES:
            application.add_url_rule(path, f"show {path}", guard.guarded(self._show, _advice), methods=["GET"])
            application.add_url_rule(path, f"choose {path}", guard.guarded(self._choose, _advice), methods=["POST"])

    async def _landing(self) -> Response:
        return self._pages.page("landing.html")

    async def _chosen(self) -> Response:
        text = "All devices were signed out. You can sign in with the new password now."
        return self._pages.page("outcome.html", title="Your password is changed", text=text, good=True, onward="")

    async def _show(self) -> Response:
        """Looks at the link and leaves it usable, however often some program opens it."""
        token = link_fields().get("token", "")
        await self._passwords.look_at_link(Token(token))
        return self._form(token)

    async def _choose(self) -> Response | PlainResponse:
        form = await form_fields()
        token, new, repeated = (form.get(name, "") for name in ("token", "new_password", "repeated"))
        try:
            _require_typed(new, repeated)
            await self._passwords.reset(Token(token), Password(new), asked().actor)
        except LinkRefused:
            raise
        except BadRequest as refusal:
            return self._form(token, refusal.message)
        # Somewhere else, so that going back and forth sends nothing again.
        return redirect(_CHOSEN, 303)

    def _form(self, token: str, error: str = "") -> Response:
        path = request.path.rstrip("/")
        return self._pages.page(
            "choose_password.html",
            status=400 if error else 200,
            title=_TITLES[path],
            action=path,
            token=token,
            error=error,
            shortest=SHORTEST_PASSWORD,
            longest=LONGEST_PASSWORD,
        )


def _advice(refusal: Refusal) -> str:
    return _NEXT if isinstance(refusal, LinkRefused) else ""


def _require_typed(new: str, repeated: str) -> None:
    if "\x00" in new or "\ufffd" in new:
        # What no other entrance would take, or what was no UTF-8.
        raise BadRequest("The password has a character that cannot be typed everywhere")
    if new != repeated:
        raise BadRequest("The two passwords differ")
