"""The account pages, below `/ui`, for people who are signed in in their browser: the common parts of all of them.

Each form is shown at its own address. A request for a fresh proof and a form with errors both lead back to this address. After success, a
form redirects to a page with a notice; the word `done` in its query selects the notice.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Final
from urllib.parse import quote

import msgspec

from core.domain.errors import Refusal
from core.domain.federation.backchannel_requests import PAGE
from core.domain.identity.passkeys import Obstacle
from core.domain.identity.profiles import portrait
from core.domain.requests import Page as Part
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, NoBody, redirect
from entrypoints.http.machinery.browser_cookies import look_of, other_tokens
from entrypoints.http.machinery.browsers import BROWSER, HOME, SECOND_FACTOR, TERMS, token_for
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Line
from entrypoints.http.page_addresses import ORGANIZATIONS, PASSKEYS, PASSWORD
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.declaring import in_words
from entrypoints.http.passkeys import PasskeySignal, details_signal
from ports.texts import Text

AnyCall = Call[Any, Any, Any]
Page = Answer[bytes] | Answer[NoBody]

PROFILE: Final = "/ui/profile"
DETAILS: Final = "/ui/details"
DEVICES: Final = "/ui/devices"
SESSIONS: Final = "/ui/sessions"
SIGN_INS: Final = "/ui/sign-ins"
LOCK: Final = "/ui/lock"
APPLICATIONS: Final = "/ui/applications"
CONNECTIONS: Final = "/ui/settings/connections"
REQUESTS: Final = PAGE
# The groups of the side list, each with the text key of its heading; the first needs none.
_SECTIONS: Final = (
    # Only people of whom something is kept need the details: the profile leads them there, so that no other page has to ask.
    ("", ((HOME, "start.title"), (PROFILE, "profile.page"), (DETAILS, "details.page"))),
    (
        "account.signing_in",
        (
            (PASSWORD, "own_password.page"),
            (SECOND_FACTOR, "two_step.page"),
            (PASSKEYS, "passkeys.page"),
            (CONNECTIONS, "connections.page"),
        ),
    ),
    ("account.activity", ((DEVICES, "devices.page"), (SESSIONS, "sessions.page"), (SIGN_INS, "sign_ins.page"), (LOCK, "lock_own.page"))),
    (
        "account.access",
        (
            *((ORGANIZATIONS, "organizations.page"), (APPLICATIONS, "applications.page"), (REQUESTS, "afar_requests.page")),
            (TERMS, "terms.page"),
        ),
    ),
)
NO_ERRORS: Final[Mapping[str, Refusal]] = MappingProxyType({})
ON_A_PAGE: Final = 20
_LAST_PAGE: Final = 10_000


class Done(msgspec.Struct, frozen=True):
    """The query of a page that a form redirects to."""

    done: Line = ""


class Listing(Done, frozen=True):
    """The query of a page with a list."""

    page: Annotated[int, msgspec.Meta(ge=1, le=_LAST_PAGE)] = 1

    @property
    def part(self) -> Part:
        return Part(self.page, ON_A_PAGE)


def show(
    call: AnyCall, postern: Postern, template: str, here: str, *, errors: Mapping[str, Refusal] = NO_ERRORS, done: str = "", **values: Any
) -> bytes:
    """`here` is the section that the page belongs to. `errors` has the refusals, by the name of the field. `done` is the text key of the
    notice about the last form, if there is one.
    """
    text = shipped_pages().text(call.language)
    return shipped_pages().page(
        f"account/{template}",
        call.language,
        sections=_sections(postern, text, here, impersonating=call.caller.impersonator is not None),
        impersonating=call.caller.impersonator is not None,
        here=here,
        at_place=call.request.path,
        scheme=look_of(call.request, postern.foundation.public_url),
        person=call.caller.email.address,
        person_name=call.caller.profile.shown_name or "",
        person_portrait=portrait(call.caller.user, call.caller.profile, call.caller.email),
        form_token=token_for(BROWSER, call.request, postern),
        several=bool(other_tokens(call.request, postern.foundation.public_url)),
        now=postern.foundation.clock.now(),
        errors={field: in_words(refusal, text) for field, refusal in errors.items()},
        done=text(done) if done else "",
        **values,
    )


def _sections(postern: Postern, text: Text, here: str, *, impersonating: bool) -> Sequence[tuple[str, Sequence[tuple[str, str]]]]:
    """The side list, without the sections that have nothing to offer here: passkeys if browsers cannot bind them to our address, and
    connected accounts if there is no provider at all. A platform owner who acts in the person's name sees only what is open then.
    """
    if impersonating:
        return [("", [(HOME, text("start.title")), (ORGANIZATIONS, text("organizations.page"))])]
    hidden = {
        DETAILS,
        *([PASSKEYS] if postern.identity.passkeys.obstacle is not None else []),
        *([CONNECTIONS] if not postern.identity.journeys.has_any else []),
    } - {here}
    return [
        (text(heading) if heading else "", [(address, text(label)) for address, label in group if address not in hidden])
        for heading, group in _SECTIONS
    ]


def ask(
    call: AnyCall,
    postern: Postern,
    here: str,
    action: str,
    *,
    name: str,
    button: str,
    back: str,
    values: Mapping[str, object] = MappingProxyType({}),
    ends: Sequence[str] = (),
    hidden: Mapping[str, str] = MappingProxyType({}),
    refusal: Refusal | None = None,
    kind: str = "final",
    afterwards: str = "",
) -> bytes:
    """A page that asks once before something ends: the texts `<name>.title` and `<name>.text`, the text of the `button`, `ends`, the
    things that end, and a sentence about `afterwards`. With another `kind` of button, the page asks before something begins.
    """
    text = shipped_pages().text(call.language)
    return show(
        call,
        postern,
        "confirm.html",
        here,
        errors=NO_ERRORS if refusal is None else {"": refusal},
        title=text(f"{name}.title", **values),
        explained=text(f"{name}.text", **values),
        label=text(button),
        action=action,
        back=back,
        ends=ends,
        hidden=hidden,
        kind=kind,
        afterwards=afterwards,
    )


def details_signals(call: AnyCall, postern: Postern) -> Sequence[PasskeySignal]:
    """Authenticators may show the person's address and name beside a passkey, so the browser learns how both are now. Nothing in the
    browser of somebody who acts in the person's name.
    """
    relying_party, caller = postern.identity.passkeys.relying_party, call.caller
    if isinstance(relying_party, Obstacle) or caller.impersonator is not None:
        return ()
    return (details_signal(relying_party, caller.user, caller.email.address, caller.profile.name or ""),)


def set_up_first(place: str) -> str:
    """The address where a member sets up the second factor that the organization requires. Afterwards the member comes back to `place`."""
    return f"{SECOND_FACTOR}?to={quote(place, safe='/')}"


def back_to(place: str, done: str) -> Answer[NoBody]:
    return redirect(f"{place}?done={done}")
