"""`/ui`: the built-in pages for people: what the links in our mails lead to, where no other frontend is set. They work without scripts."""

from collections.abc import Awaitable, Callable
from typing import Final

from quart import Quart, Response, redirect, request
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response as PlainResponse

from core.domain.accounts import LONGEST_PASSWORD, SHORTEST_PASSWORD
from core.domain.errors import BadRequest, Forbidden, Refusal
from core.domain.mailed_tokens import LinkRefused
from core.domain.secrets import Password, Token
from core.usecases.account_passwords import AccountPasswords
from entrypoints.http.calls import REQUEST_IN_SCOPE, Request
from entrypoints.http.errors import headers_of, refusal_of, status_of
from entrypoints.http.limits import AUTH, Limiter
from entrypoints.http.pages import Pages

_CHOSEN: Final = "/ui/password-chosen"
_TITLES: Final = {"/ui/reset-password": "Choose a new password", "/ui/set-password": "Choose your password"}
_NEXT: Final = "You can ask for a new link where you sign in, by “Forgot password”."


class PasswordPages:
    def __init__(self, pages: Pages, passwords: AccountPasswords, limiter: Limiter | None, origin: str) -> None:
        self._pages = pages
        self._passwords = passwords
        self._limiter = limiter
        self._origin = origin

    def add_to(self, application: Quart) -> None:
        application.add_url_rule("/ui", "landing", self._landing)
        application.add_url_rule(_CHOSEN, "password_chosen", self._chosen)
        for path in _TITLES:
            application.add_url_rule(path, f"show {path}", self._guarded(self._show), methods=["GET"])
            application.add_url_rule(path, f"choose {path}", self._guarded(self._choose), methods=["POST"])

    async def _landing(self) -> Response:
        return self._pages.page("landing.html")

    async def _chosen(self) -> Response:
        text = "All devices were signed out. You can sign in with the new password now."
        return self._pages.page("outcome.html", title="Your password is changed", text=text, good=True, onward="")

    async def _show(self) -> Response:
        """Looks at the link and leaves it usable, however often some program opens it."""
        token = request.args.get("token", "")
        await self._passwords.look_at_link(Token(token))
        return self._form(token)

    async def _choose(self) -> Response | PlainResponse:
        form = await request.form
        token, new, repeated = (form.get(name, "") for name in ("token", "new_password", "repeated"))
        try:
            _require_typed(new, repeated)
            await self._passwords.reset(Token(token), Password(new), _asked().actor)
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

    def _guarded(self, handler: Callable[[], Awaitable[Response | PlainResponse]]) -> Callable[[], Awaitable[Response | PlainResponse]]:
        """Refusals become pages; a form comes from our own page, and no address guesses at links without end."""

        async def guarded() -> Response | PlainResponse:
            try:
                if request.method == "POST":
                    require_own_form(_asked(), self._origin)
                if self._limiter is not None:
                    await self._limiter.admit((AUTH,), _asked().client_address)
                return await handler()
            except HTTPException:
                raise  # too long, too slow, no form: the application answers those as everywhere
            except Exception as error:  # noqa: BLE001 - a person gets a page whatever went wrong; `refusal_of` logs what is a fault
                return self._refused(refusal_of(error))

        return guarded

    def _refused(self, refusal: Refusal) -> Response:
        text = _NEXT if isinstance(refusal, LinkRefused) else "Please try again later." if status_of(refusal) in {429, 500, 503} else ""
        page = self._pages.page("outcome.html", status=status_of(refusal), title=refusal.message, text=text, good=False, onward="")
        for name, value in headers_of(refusal):
            page.headers[name.decode()] = value.decode()
        return page


def _asked() -> Request:
    asked: Request = request.scope[REQUEST_IN_SCOPE]  # type: ignore[typeddict-item]  # the dispatcher's own addition
    return asked


def require_own_form(asked: Request, origin: str) -> None:
    """A form of ours, not one that another site has sent in somebody's name. Browsers say where a form comes from: `Sec-Fetch-Site`, over
    https at least, and `Origin`, which our referrer policy makes `null`. Where they say neither, the form's token, which is in the mail
    alone, has to be enough.
    """
    site = asked.header(b"sec-fetch-site")
    given = asked.header(b"origin")
    own = given in {None, b"null", origin.encode()} if site is None else site == b"same-origin"
    if not own:
        raise Forbidden("This form was not sent from our own page")


def _require_typed(new: str, repeated: str) -> None:
    if "\x00" in new or "\ufffd" in new:
        # What no other entrance would take, or what was no UTF-8.
        raise BadRequest("The password has a character that cannot be typed everywhere")
    if new != repeated:
        raise BadRequest("The two passwords differ")
