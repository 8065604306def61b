"""Pages behind mailed links, the pages that confirm the result, and the mails of a first try."""

from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from core.domain.branding import NamedApplication
from core.domain.identifiers import UserKeyId
from core.domain.identity.upstream.claims import AddedKind, AddedWay
from core.domain.services.user_keys import HeldUserKey
from core.frozen import replace
from entrypoints.http.pages.kit import shipped_pages
from tests.browser.states import ACME, DRESSED, ENDLESS, FROM_THE_RIGHT, LINKED, LISTED, LONG, LONG_ROLE, NOW, ORDINARY, PALE, State, Words

_PASSWORD: Final[dict[str, Any]] = {
    "title": Words("choose_password.title_reset"),
    "action": "/ui/reset-password",
    "token": "token",
    "errors": {},
    "shortest": 8,
    "longest": 128,
    "listed": [],
    "confirmed": set(),
    "keys": [],
    "kept": set(),
    "recent": (),
    "kept_ways": (),
    "now": NOW,
}
_FIRST_PASSWORD: Final[dict[str, Any]] = {
    **_PASSWORD,
    "title": Words("choose_password.title_first"),
    "action": "/ui/set-password",
    "listed": LISTED[:1],
    "confirmed": {LISTED[0].organization},
}
_ADDRESS: Final[dict[str, Any]] = {
    "action": "/ui/verify-email",
    "fields": {"token": "token"},
    "email": ORDINARY,
    "changes": False,
    "asks": "nothing",
    "is_vouched": False,
    "added": (),
    "now": NOW,
    "form_token": "",
    "new_password": "/ui/verify-email/new-password",
    "not_me": "/ui/verify-email/not-me",
    "errors": {},
    "shortest": 8,
    "longest": 128,
}
_ELSEWHERE: Final = {**_ADDRESS, "asks": "password"}
_ANEW: Final = {**_ADDRESS, "asks": "new_password"}
_ADDED: Final = (
    AddedWay(AddedKind.PASSWORD, UUID(int=0), "", None),
    AddedWay(AddedKind.SECOND_FACTOR, UUID(int=0), "", NOW - timedelta(days=3)),
    AddedWay(AddedKind.PASSKEY, UUID(int=1), "Laptop", NOW - timedelta(days=400)),
    AddedWay(AddedKind.IDENTITY, UUID(int=2), "Acme directory", NOW - timedelta(hours=2)),
)
_ADDED_KEYS: Final = (
    AddedWay(
        AddedKind.USER_KEY,
        UUID(int=3),
        "Laptop",
        NOW - timedelta(days=3),
        application="Timesheets",
        last_used_at=NOW - timedelta(hours=2),
    ),
    AddedWay(AddedKind.USER_KEY, UUID(int=4), LONG_ROLE, NOW - timedelta(days=30), application=ENDLESS.name, made_by_service=True),
)
_HELD: Final = (
    HeldUserKey(
        id=UserKeyId(UUID(int=1)),
        name="Laptop",
        prefix="acme_a1b2c3",
        service_slug="timesheets",
        service_name="Timesheets",
        organization_slug="acme",
        organization_name="Acme Metals",
        is_open=True,
        made_by_service=False,
        created_at=NOW - timedelta(days=3),
        last_used_at=NOW - timedelta(hours=2),
        expires_at=None,
    ),
    HeldUserKey(
        id=UserKeyId(UUID(int=2)),
        name=LONG_ROLE,
        prefix="acme_d4e5f6",
        service_slug="endless",
        service_name=ENDLESS.name,
        organization_slug="acme",
        organization_name="Acme Metals",
        is_open=True,
        made_by_service=True,
        created_at=NOW - timedelta(days=30),
        last_used_at=None,
        expires_at=NOW + timedelta(days=30),
    ),
)
_VOUCHED: Final = {**_ANEW, "is_vouched": True}
_WHAT_STAYS: Final = {**_ADDRESS, "asks": "what_stays", "is_vouched": True, "form_token": "token"}
_NOT_ME: Final[dict[str, Any]] = {
    "action": "/ui/verify-email/not-me",
    "fields": {"token": "token"},
    "email": ORDINARY,
    "changes": False,
    "back": "/ui/verify-email",
}
_INVITATION: Final[dict[str, Any]] = {
    "action": "/ui/invitations/accept",
    "token": "token",
    "email": "ada@example.org",
    "inviter": "Grace Hopper",
    "name": "",
    "longest_name": 200,
    "offered": "member",
    "role_name": "",
    "application": None,
    "until": NOW,
    "here": False,
    "known": False,
    "accept_here": "/ui/invitations/accept/password",
    "passkeys": True,
    "form_token": "token",
    "errors": {},
    "shortest": 8,
    "longest": 128,
}
_FIRST: Final[dict[str, Any]] = {**_INVITATION, "here": True, "email": ORDINARY}
_MAIL_PARTS: Final = [("Hello,\n\nopen ", ""), ("https://id.example.org/ui/reset-password?token=" + "x" * 86,) * 2]
_MAIL: Final = {"path": "/dev/mail/1", "to": "ada@example.org", "subject": "Choose a new password", "sent": "2026-11-20 23:12:00 UTC"}


def _outcome(name: str, key: str, *, good: bool, onward: str = "") -> State:
    values = {"title": Words(f"{key}.title"), "explained": Words(f"{key}.text"), "good": good, "onward": onward}
    return State(name, "outcome.html", values)


def _of_acme(name: str, key: str, onward: str = "/ui/sign-in") -> State:
    title = Words("invitation_accepted.title_of", {"organization": ACME.name})
    said = Words(f"invitation_accepted.{key}", {"email": ORDINARY})
    values = {"title": title, "explained": said, "good": True, "onward": onward, "label": Words("password.sign_in")}
    return State(name, "outcome.html", values, LINKED)


def _refused(name: str, words: str, advice: str, label: str) -> State:
    values = {"title": Words(f"refusals.{words}"), "explained": Words(advice), "good": False, "onward": "/ui", "label": Words(label)}
    return State(name, "outcome.html", values)


def _for_now(name: str, words: str, advice: str = "") -> State:
    """A refusal that leads nowhere else: the person tries again."""
    values = {"title": Words(f"refusals.{words}"), "explained": Words(advice) if advice else "", "good": False, "onward": ""}
    return State(name, "outcome.html", values)


STATES: Final = (
    State("password", "mailed/choose_password.html", _PASSWORD),
    State("password, wrong", "mailed/choose_password.html", {**_PASSWORD, "errors": {"repeated": Words("refusals.passwords_differ")}}),
    State(
        "password, common, in an organization's colour",
        "mailed/choose_password.html",
        {**_PASSWORD, "errors": {"new_password": Words("refusals.password_common")}},
        ACME,
    ),
    State("password, keys for applications", "mailed/choose_password.html", {**_PASSWORD, "keys": _HELD}, ENDLESS),
    State(
        "password, keys for applications, wrong",
        "mailed/choose_password.html",
        {**_PASSWORD, "keys": _HELD, "kept": {_HELD[0].id}, "errors": {"repeated": Words("refusals.passwords_differ")}},
        FROM_THE_RIGHT,
    ),
    State("password of a locked account", "mailed/choose_password.html", {**_PASSWORD, "recent": _ADDED[1:]}),
    State(
        "password of a locked account, none stays of the second factor",
        "mailed/choose_password.html",
        {
            **_PASSWORD,
            "recent": (AddedWay(AddedKind.PASSKEY, UUID(int=1), LONG_ROLE, NOW - timedelta(days=4)),),
            "errors": {"": Words("refusals.locked_factor_would_end")},
        },
        ENDLESS,
    ),
    State("lock", "mailed/lock_account.html", {"action": "/ui/lock-account", "token": "token", "email": ORDINARY}),
    State("lock, long", "mailed/lock_account.html", {"action": "/ui/lock-account", "token": "token", "email": LONG}, ENDLESS),
    State("locked", "mailed/locked.html", {"ended": ["3 sessions", FROM_THE_RIGHT.name], "recent": _ADDED[1:], "now": NOW}),
    State("locked, nothing had to end", "mailed/locked.html", {"ended": [], "recent": (), "now": NOW}),
    _outcome("locked before", "locked", good=True),
    State("lift rules", "mailed/lift_rules.html", {"action": "/ui/lift-rules", "token": "token", "names": ["Not from here"]}),
    State("lift rules, long", "mailed/lift_rules.html", {"action": "/ui/lift-rules", "token": "token", "names": [LONG_ROLE]}, ENDLESS),
    _outcome("rules lifted", "lifted_rules", good=True),
    _refused("lifting refused", "link_expired", "lift_rules.refused", "lift_rules.sign_in"),
    _refused("lock refused", "link_used", "lock.refused", "lock.choose"),
    State("address, where it was registered", "mailed/verify_email.html", _ADDRESS, ACME),
    State("address, elsewhere", "mailed/verify_email.html", _ELSEWHERE),
    State(
        "address, elsewhere, wrong password, long",
        "mailed/verify_email.html",
        {**_ELSEWHERE, "email": LONG, "errors": {"password": Words("verify_email.wrong_password")}},
        ENDLESS,
    ),
    State("address, elsewhere, from the right", "mailed/verify_email.html", _ELSEWHERE, FROM_THE_RIGHT),
    State("address, new password", "mailed/verify_email.html", _ANEW, PALE),
    State(
        "address, new password, wrong",
        "mailed/verify_email.html",
        {**_ANEW, "errors": {"repeated": Words("refusals.passwords_differ")}},
        ACME,
    ),
    State("address, vouched for, elsewhere", "mailed/verify_email.html", _VOUCHED),
    State("address, vouched for, signed in", "mailed/verify_email.html", _WHAT_STAYS),
    State("address, vouched for, what stays", "mailed/verify_email.html", {**_WHAT_STAYS, "added": _ADDED, "email": LONG}),
    State(
        "address, vouched for, what stays, endless names",
        "mailed/verify_email.html",
        {**_WHAT_STAYS, "added": tuple(replace(one, name=ENDLESS.name) for one in _ADDED)},
        FROM_THE_RIGHT,
    ),
    State("address, vouched for, what stays, keys", "mailed/verify_email.html", {**_WHAT_STAYS, "added": (*_ADDED, *_ADDED_KEYS)}, PALE),
    State("address, new one of an account", "mailed/verify_email.html", {**_ADDRESS, "changes": True, "email": LONG}),
    State("address, not me", "mailed/not_me.html", _NOT_ME),
    State("address, not me, change", "mailed/not_me.html", {**_NOT_ME, "changes": True, "email": LONG}),
    _outcome("registration refused", "registration_refused", good=True),
    _outcome("change refused", "change_refused", good=True),
    _refused("address refused", "link_used", "verify_email.link_refused", "password.sign_in"),
    State("first password, listed by an organization", "mailed/choose_password.html", _FIRST_PASSWORD),
    State(
        "first password, listed by many organizations, wrong",
        "mailed/choose_password.html",
        {**_FIRST_PASSWORD, "listed": LISTED, "errors": {"new_password": Words("refusals.password_common")}},
    ),
    State("invitation", "mailed/invitation.html", _INVITATION, ACME),
    State(
        "invitation, for an application, before a background",
        "mailed/invitation.html",
        {**_INVITATION, "application": NamedApplication("Timesheets", shipped_pages().asset_url("postern.svg"))},
        DRESSED,
    ),
    State("invitation, pale", "mailed/invitation.html", {**_INVITATION, "known": True}, PALE),
    State("invitation, first password", "mailed/invitation.html", _FIRST, LINKED),
    State(
        "invitation, first password, common",
        "mailed/invitation.html",
        {**_FIRST, "email": LONG, "inviter": LONG, "errors": {"password": Words("refusals.password_common")}},
        ENDLESS,
    ),
    State(
        "invitation, first password, both wrong",
        "mailed/invitation.html",
        {**_FIRST, "name": "x", "errors": {"name": Words("refusals.name_unprintable"), "password": Words("refusals.password_common")}},
        ACME,
    ),
    State("invitation, long", "mailed/invitation.html", {**_INVITATION, "email": LONG, "role_name": LONG_ROLE}, ENDLESS),
    State(
        "invitation, from the right",
        "mailed/invitation.html",
        {**_INVITATION, "inviter": "ياسمين", "role_name": "محاسب الفرع الشمالي"},
        FROM_THE_RIGHT,
    ),
    _of_acme("invitation accepted, known", "known"),
    _of_acme("invitation accepted, mailed", "mailed", onward=""),
    _of_acme("invitation accepted, by the inviter's link", "text"),
    _outcome("password set", "password_set", good=True, onward="/ui/sign-in"),
    _outcome("password chosen", "password_chosen", good=True),
    _outcome("address confirmed for the first time", "first_proof", good=True, onward="/ui/sign-in"),
    _outcome("address confirmed", "address_confirmed", good=True, onward="/ui"),
    _outcome("signed out", "signed_out", good=True, onward="/ui/sign-in"),
    _refused("link refused", "link_used", "choose_password.new_link", "check_mail.retry"),
    _refused("confirmation refused", "link_used", "address_confirmed.link_refused", "password.sign_in"),
    _refused("invitation refused", "invitation_unknown", "accept_invitation.otherwise", "password.sign_in"),
    _refused("no such page", "no_such_page", "refusals.no_such_page_advice", "common.to_account"),
    _refused("address of a form", "method_not_allowed", "refusals.method_not_allowed_advice", "common.to_account"),
    _for_now("at fault", "internal_server_error", "common.later"),
    _for_now("busy", "service_unavailable", "common.later"),
    _for_now("too many attempts", "rate_limit_exceeded"),
    State("mails, none", "development/mail_list.html", {"mails": [], "newest": [], "most": 100}),
    State(
        "mails",
        "development/mail_list.html",
        {"mails": [_MAIL, {**_MAIL, "to": LONG, "subject": "ياسمين للتجارة"}], "newest": _MAIL_PARTS, "most": 2},
    ),
    State(
        "a mail",
        "development/mail.html",
        {
            "mail": _MAIL,
            "back": "/dev/mail",
            "parts": _MAIL_PARTS,
        },
    ),
)
