"""Signing in: the address, the password, the second factor."""

from typing import Any, Final

from core.domain.identity.guards.puzzles import Puzzle
from entrypoints.http.pages.kit import shipped_pages
from tests.browser.states import ACME, DRESSED, ENDLESS, FROM_THE_RIGHT, LINKED, LONG, ORDINARY, PALE, ROUND, TERMS, State, Words

_FORM: Final[dict[str, Any]] = {
    "action": "/ui/sign-in",
    "flow": "0197f0c8-0000-7000-8000-000000000001",
    "form_token": "token",
    "errors": {},
}
_ADDRESS: Final[dict[str, Any]] = {
    "signals": [],
    **_FORM,
    "service": "",
    "place": "",
    "email": "",
    "register": "/ui/register",
    "passkeys": True,
    "passkey": "/ui/sign-in/passkey",
    "offers": [],
}
_OFFERS: Final = [
    ("codehost", "GitHub", "/auth/codehost", ""),
    ("websuite", "Google", "/auth/websuite", ""),
    ("officesuite", "Microsoft", "/auth/officesuite", ""),
]
_MANY: Final = [*_OFFERS, ("0197f0c8", "The login of the northern branch", "#", ""), ("0197f0c9", "تسجيل الدخول", "#", "")]
# Any picture of ours stands for an uploaded one.
_LOGO: Final = shipped_pages().asset_url("postern.svg")
_WITH_LOGOS: Final = [*_OFFERS, *(("forum", name, "#", _LOGO) for name in ("Discord", ENDLESS.name, FROM_THE_RIGHT.name))]
_PUZZLE: Final = Puzzle("challenge", 8)
# No browser finds a hash that is nothing but zeros, so the page stays as it is.
_ENDLESS_PUZZLE: Final = Puzzle("challenge", 35)
# The script is one of ours, which finds nothing to do: what the maker's shows is another test's.
_WIDGET: Final[dict[str, Any]] = {
    **_FORM,
    "hidden": {"kept": "sealed"},
    "maker": "Cloudflare Turnstile",
    "maker_script": shipped_pages().asset_url("pages.js"),
    "element": "cf-turnstile",
    "attributes": {"sitekey": "key", "action": "registration"},
}
_PASSWORD: Final[dict[str, Any]] = {
    **_FORM,
    "puzzle": None,
    "passkeys": True,
    "email": "ada@example.org",
    "other": "/ui/sign-in",
    "longest": 128,
    "forgotten": "/ui/forgot-password",
    "link": "/ui/sign-in/mail-link",
    "provider": None,
    "provider_name": "",
    "unproved": False,
    "resend": "/ui/check-mail",
    "offers": [],
}
_CODE: Final[dict[str, Any]] = {
    **_FORM,
    "other": "/ui/sign-in",
    "lost": "/ui/sign-in/lost-factor",
    "by_app": True,
    "by_passkey": False,
    "passkeys": True,
    "trust_days": 30,
    "passkey": "/ui/sign-in/second-factor/passkey",
    "longest": 32,
}

_REGISTER: Final[dict[str, Any]] = {
    "terms": [],
    "shown": "",
    "passkeys": True,
    "passkey": "/ui/sign-in/passkey",
    "place": "",
    **_FORM,
    "puzzle": None,
    "hidden": {},
    "email": "",
    "sign_in": "/ui/sign-in",
    "shortest": 8,
    "longest": 128,
    "offers": [],
}
_CHECK: Final[dict[str, Any]] = {
    **_FORM,
    "code_action": "/ui/check-mail/code",
    "longest": 32,
    "mail": "verification",
    "later": False,
    "email": ORDINARY,
    "forgotten": "/ui/forgot-password",
    "sign_in": "/ui/sign-in",
}

STATES: Final = (
    State("sign in", "sign_in/sign_in.html", _ADDRESS),
    State("sign in, with no room for another account", "sign_in/sign_in.html", {**_ADDRESS, "ends": "ada@example.org"}),
    State("sign in, before a background", "sign_in/sign_in.html", _ADDRESS, DRESSED),
    State("sign in, round", "sign_in/sign_in.html", {**_ADDRESS, "offers": _WITH_LOGOS}, ROUND),
    State("sign in, without passkeys", "sign_in/sign_in.html", {**_ADDRESS, "passkeys": False}, PALE),
    State("sign in, passkey refused", "sign_in/sign_in.html", {**_ADDRESS, "errors": {"": Words("refusals.passkey_refused")}}, ACME),
    State("sign in, no address", "sign_in/sign_in.html", {**_ADDRESS, "email": "ada", "errors": {"email": Words("sign_in.no_address")}}),
    State("sign in, with logos of providers", "sign_in/sign_in.html", {**_ADDRESS, "offers": _WITH_LOGOS}, PALE),
    State("sign in, with providers", "sign_in/sign_in.html", {**_ADDRESS, "offers": _OFFERS}),
    State(
        "sign in, a provider failed",
        "sign_in/sign_in.html",
        {**_ADDRESS, "offers": _MANY, "email": LONG, "errors": {"": Words("refusals.provider_unverified")}},
        ACME,
    ),
    State("sign in, password or providers", "sign_in/password.html", {**_PASSWORD, "offers": _OFFERS}, PALE),
    State("sign in to a service, with providers", "sign_in/sign_in.html", {**_ADDRESS, "service": "Timesheets", "offers": _MANY}, LINKED),
    State("sign in to a service", "sign_in/sign_in.html", {**_ADDRESS, "service": "Timesheets"}, ACME),
    State(
        "sign in to a service, long",
        "sign_in/sign_in.html",
        {**_ADDRESS, "service": "The timesheets of the northern branch, with receipts", "email": LONG},
        ENDLESS,
    ),
    State("sign in to a service, from the right", "sign_in/sign_in.html", {**_ADDRESS, "service": "الفواتير"}, FROM_THE_RIGHT),
    State("sign in to a service, known address", "sign_in/sign_in.html", {**_ADDRESS, "service": ENDLESS.name, "email": LONG}, ENDLESS),
    State(
        "open an application", "saml/saml_open.html", {**_FORM, "email": LONG, "person_name": "Ada Lovelace", "hidden": {"RelayState": "x"}}
    ),
    State("sign in, password", "sign_in/password.html", _PASSWORD),
    State(
        "sign in, password wrong",
        "sign_in/password.html",
        {**_PASSWORD, "email": LONG, "errors": {"password": Words("refusals.wrong_password")}},
        ACME,
    ),
    State(
        "sign in, password or provider",
        "sign_in/password.html",
        {**_PASSWORD, "email": LONG, "provider": "#", "provider_name": "The single sign-on of the northern branch"},
        ACME,
    ),
    State(
        "sign in, provider alone",
        "sign_in/password.html",
        {**_PASSWORD, "provider": "#", "errors": {"": Words("refusals.provider_required")}},
    ),
    State(
        "sign in, address not confirmed",
        "sign_in/password.html",
        {**_PASSWORD, "unproved": True, "errors": {"": Words("refusals.email_not_verified")}},
        ACME,
    ),
    State(
        "sign in, password and puzzle",
        "sign_in/password.html",
        {**_PASSWORD, "puzzle": _PUZZLE, "errors": {"": Words("refusals.puzzle_unsolved")}},
        ACME,
    ),
    State("puzzle", "puzzle/puzzle.html", {**_FORM, "hidden": {}, "puzzle": _ENDLESS_PUZZLE}),
    State("puzzle, in an organization's colour", "puzzle/puzzle.html", {**_FORM, "hidden": {}, "puzzle": _ENDLESS_PUZZLE}, PALE),
    State("puzzle, for a form that waits", "puzzle/puzzle.html", {**_FORM, "hidden": {"kept": "sealed"}, "puzzle": _ENDLESS_PUZZLE}),
    State("widget", "puzzle/widget.html", _WIDGET),
    State("widget, not counted", "puzzle/widget.html", {**_WIDGET, "errors": {"": Words("widget.refused")}}, PALE),
    State("widget, too many at once", "puzzle/widget.html", {**_WIDGET, "errors": {"": Words("widget.busy")}}, ENDLESS),
    State("register", "sign_in/register.html", _REGISTER),
    State("register, with terms", "sign_in/register.html", {**_REGISTER, "terms": TERMS, "shown": "x"}, ENDLESS),
    State("register, with a puzzle", "sign_in/register.html", {**_REGISTER, "puzzle": _PUZZLE}, ENDLESS),
    State("no registration", "sign_in/no_registration.html", {"invites": False, "sign_in": "#"}),
    State("no registration, by invitation", "sign_in/no_registration.html", {"invites": True, "sign_in": "#"}, ENDLESS),
    State("sign in, without registration", "sign_in/sign_in.html", {**_ADDRESS, "register": ""}),
    State("register, with providers", "sign_in/register.html", {**_REGISTER, "offers": _OFFERS}, LINKED),
    State(
        "register, wrong",
        "sign_in/register.html",
        {
            **_REGISTER,
            "email": "ada",
            "errors": {"email": Words("sign_in.no_address"), "password": Words("refusals.password_too_short", {"shortest": 8})},
        },
        ENDLESS,
    ),
    State("check your mail", "sign_in/check_mail.html", _CHECK),
    State("check your mail, sign-in link", "sign_in/check_mail.html", {**_CHECK, "mail": "sign_in_link", "email": LONG}, ACME),
    State(
        "check your mail, wrong code",
        "sign_in/check_mail.html",
        {**_CHECK, "mail": "sign_in_link", "errors": {"code": Words("refusals.mailed_code_refused")}},
    ),
    State("check your mail, later", "sign_in/check_mail.html", {**_CHECK, "mail": "reset", "later": True}),
    State("check your mail, reset, long", "sign_in/check_mail.html", {**_CHECK, "mail": "reset", "email": LONG}, ACME),
    State("forgotten password", "sign_in/forgotten.html", _REGISTER),
    State("forgotten password, with a puzzle", "sign_in/forgotten.html", {**_REGISTER, "puzzle": _PUZZLE}, LINKED),
    State(
        "forgotten password, no address", "sign_in/forgotten.html", {**_REGISTER, "errors": {"email": Words("sign_in.no_address")}}, PALE
    ),
    State("sign in by a link", "sign_in/sign_in_link.html", {**_FORM, "token": "token", "email": LONG, "elsewhere": False}),
    State("sign in by a link, elsewhere", "sign_in/sign_in_link.html", {**_FORM, "token": "token", "email": LONG, "elsewhere": True}, ACME),
    State(
        "sign in by a link, beside other accounts",
        "sign_in/sign_in_link.html",
        {**_FORM, "token": "token", "email": LONG, "elsewhere": False, "present": "ada@example.org", "ends": LONG},
    ),
    State("sign in, second factor", "sign_in/second_factor.html", _CODE),
    State("sign in, second factor or passkey", "sign_in/second_factor.html", {**_CODE, "by_passkey": True}, ACME),
    State("sign in, passkey or backup code", "sign_in/second_factor.html", {**_CODE, "by_passkey": True, "by_app": False}, FROM_THE_RIGHT),
    State("sign in, second factor, no trust", "sign_in/second_factor.html", {**_CODE, "trust_days": 0}, LINKED),
    State("sign in, second factor lost", "sign_in/lost_factor.html", {"back": "/ui/sign-in"}, ENDLESS),
    State("sign in, second factor wrong", "sign_in/second_factor.html", {**_CODE, "errors": {"code": Words("refusals.wrong_code")}}, PALE),
)
