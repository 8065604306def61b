"""Pages to which an application leads people: consent, the choice of an account, refusals, signing out."""

from datetime import timedelta
from types import SimpleNamespace as Thing
from typing import Any, Final

from core.domain.federation.oauth.consents import DAYS_OFFERED, USUAL_DAYS
from core.domain.federation.oauth.resources import NO_DEMAND, SignInDemand
from core.domain.identity.profiles import Portrait
from entrypoints.http.pages.kit import shipped_pages
from tests.browser.states import (
    ACME,
    CONTROLS,
    DRESSED,
    ENDLESS,
    FROM_THE_RIGHT,
    LISTED,
    LONG,
    NOW,
    ORDINARY,
    PALE,
    TERMS,
    TERMS_OVER,
    State,
    Words,
)

_FORM: Final[dict[str, Any]] = {"action": "/ui/consent", "flow": "0197f0c8-0000-7000-8000-000000000001", "form_token": "token"}
_CONSENT: Final[dict[str, Any]] = {
    **_FORM,
    "service": "Timesheets",
    "logo": None,
    "organization": ACME.name,
    "email": ORDINARY,
    "person_name": "Anneliese Lovelace",
    "scopes": ["openid"],
    "destination": "timesheets.example",
    "on_device": False,
    "document_host": None,
    "is_open": False,
    "hidden": {},
    "resources": [],
    "has_second_factor": True,
    "days": [],
}
_API: Final[dict[str, Any]] = {
    "name": "Orders",
    "identifier": "https://api.acme.example/orders",
    "scopes": [
        (f"0197f0c8-0000-7000-8000-000000000003 {name}", Thing(name=name, description=description, demand=demand))
        for name, description, demand in (
            ("orders:read", "See your orders", NO_DEMAND),
            ("orders:write", "Order in your name, and pay with the card that you have kept", SignInDemand(max_age=300)),
            ("orders:cancel", "Cancel orders", SignInDemand(second_factor=True, max_age=300)),
        )
    ],
}
_LONG_API: Final[dict[str, Any]] = {
    "name": "The orders of the northern branch, with receipts",
    "identifier": "https://api." + "northern-branch." * 6 + "example/orders",
    "scopes": [],
}
_EVERYTHING: Final = ["openid", "profile", "email", "offline_access", "organization", "groups", "provider_token"]
_ASKED: Final[dict[str, Any]] = {**_FORM, "service": "Timesheets", "email": "ada@example.org", "person_name": "Ada Lovelace"}
_HERE: Final[list[dict[str, Any]]] = [
    {
        "email": f"{name.lower()}@example.org",
        "person_name": f"{name} Lovelace" if name == "Ada" else "",
        "session": f"0197f0c8-0000-7000-8000-00000000000{place}",
        "portrait": Portrait("", name[0], place),
        "in_use": place == 0,
    }
    for place, name in enumerate(("Ada", "Bob", "Cyn", "Dan", "Eve"))
]
_CHOSEN: Final[dict[str, Any]] = {**_FORM, "service": "Timesheets", "current": _HERE[0]["session"], "ends": ""}
_ACCOUNTS: Final[dict[str, Any]] = {
    **_FORM,
    "action": "/ui/accounts",
    "sign_out": "/ui/accounts/sign-out",
    "all_token": "token",
    "place": "/ui",
    "another": "/ui/sign-in?again=another",
    "ends": "",
}
_TURNED: Final[dict[str, Any]] = {**_ASKED, "organization": ACME.name, "asks_for_role": False}
_REQUIRED: Final[dict[str, Any]] = {
    **_TURNED,
    "set_up": "/ui/second-factor",
    "action": "/ui/second-factor-required",
    "elsewhere": "/ui/consent",
    "onward": "/ui/authorize",
    "due": NOW + timedelta(days=6),
    "passkeys": "",
    "has_time": True,
}
_LISTED: Final[dict[str, Any]] = {
    **_FORM,
    "action": "/ui/confirm-membership",
    "email": "ada@example.org",
    "person_name": "Ada Lovelace",
    "listed": LISTED[:1],
    "more": "",
    "now": NOW,
}
_TERMS: Final[dict[str, Any]] = {
    **_FORM,
    "action": "/ui/accept-terms",
    "email": "ada@example.org",
    "person_name": "Ada Lovelace",
    "errors": {},
    "pending": TERMS,
    "shown": "x",
    "stopped": False,
}
_FIELDS: Final[dict[str, Any]] = {
    **_FORM,
    "action": "/ui/answers",
    "errors": {},
    "labels": {},
    "insists": False,
    "keepers": [Thing(name="", controls=CONTROLS[3:4]), Thing(name=ACME.name, controls=[CONTROLS[0], *CONTROLS[2:3], *CONTROLS[4:]])],
}
_OFFER: Final[dict[str, Any]] = {
    **_FORM,
    "action": "/ui/passkey-offer",
    "made": "/ui/passkey-offer/passkey",
    "options": "/ui/passkeys/add/options",
    "errors": {},
}
_UPGRADE: Final[dict[str, Any]] = {
    **_FORM,
    "action": "/ui/passkey-upgrade",
    "options": "/ui/passkey-upgrade/options",
    "onward": f"/ui/passkey-offer?flow={_FORM['flow']}",
}
_FIELDS_WRONG: Final[dict[str, Any]] = {
    **_FIELDS,
    "errors": {"field-1-2": Words("refusals.field_number")},
    "labels": {"field-1-2": "Grade"},
    "insists": True,
    "keepers": [Thing(name=FROM_THE_RIGHT.name, controls=CONTROLS)],
}
_LOGOUT: Final[dict[str, Any]] = {
    "action": "/ui/logout",
    "form_token": "token",
    "hidden": {},
    "service": "",
    "email": "ada@example.org",
    "person_name": "",
}
_LINK: Final[dict[str, Any]] = {
    "action": "/ui/connect/codehost/request",
    "form_token": "token",
    "provider": "GitHub",
    "application": "Timesheets",
    "organization": ACME.name,
    "email": "ada@example.org",
    "person_name": "Ada Lovelace",
    "destination": "timesheets.example",
    "cancelled": "https://timesheets.example/",
    "errors": {},
}
_LONG: Final = "The timesheets of the northern branch, with receipts"

_CHOICE: Final[dict[str, Any]] = {"action": "/ui/choose-organization", "form_token": "token", "place": "/ui"}
_ORGANIZATIONS: Final = [("acme", ACME.name), ("endless", ENDLESS.name), ("yasmin", FROM_THE_RIGHT.name)]

STATES: Final = (
    State("link request", "authorization/link_request.html", _LINK),
    State("link request, of an organization", "authorization/link_request.html", {**_LINK, "application": ""}),
    State("link request, of another origin", "authorization/link_request.html", {**_LINK, "application": "", "organization": ""}),
    State(
        "link request, long",
        "authorization/link_request.html",
        {
            **_LINK,
            "provider": ENDLESS.name,
            "application": _LONG,
            "organization": ENDLESS.name,
            "email": LONG,
            "person_name": ENDLESS.name,
            "destination": "sign-in." * 8 + "example",
            "errors": {"": Words("refusals.provider_failed")},
        },
    ),
    State(
        "link request, from the right",
        "authorization/link_request.html",
        {**_LINK, "application": "الفواتير", "organization": FROM_THE_RIGHT.name, "person_name": "ياسمين الفارسي"},
    ),
    State(
        "link request, of another account",
        "outcome.html",
        {
            "good": False,
            "title": Words("link_request.another_title"),
            "explained": Words("link_request.another_text", {"email": "\u2068Ada Lovelace\u2069 (ada@example.org)"}),
            "onward": "/ui/sign-in",
        },
    ),
    State("consent", "authorization/consent.html", _CONSENT, ACME),
    State(
        "consent, with a logo, before a background",
        "authorization/consent.html",
        {**_CONSENT, "logo": shipped_pages().asset_url("postern.svg"), "scopes": _EVERYTHING},
        DRESSED,
    ),
    State(
        "consent, everything, on a device",
        "authorization/consent.html",
        {**_CONSENT, "scopes": _EVERYTHING, "destination": "127.0.0.1", "on_device": True},
        PALE,
    ),
    State(
        "consent, by a document",
        "authorization/consent.html",
        {
            **_CONSENT,
            "service": "Notebook",
            "resources": [_API],
            "document_host": "app.example.com",
            "destination": "127.0.0.1:33418",
            "on_device": True,
        },
        ACME,
    ),
    State(
        "consent, by a program that has registered itself",
        "authorization/consent.html",
        {
            **_CONSENT,
            "service": "Notebook",
            "resources": [_API],
            "is_open": True,
            "destination": "127.0.0.1:33418",
            "on_device": True,
        },
        ACME,
    ),
    State(
        "consent, to an agent",
        "authorization/consent.html",
        {
            **_CONSENT,
            "service": "Errands",
            "resources": [_API],
            "has_second_factor": False,
            "days": [(days, NOW + timedelta(days=days), days == USUAL_DAYS) for days in DAYS_OFFERED],
        },
        ACME,
    ),
    State(
        "consent, to an agent, long",
        "authorization/consent.html",
        {
            **_CONSENT,
            "service": _LONG,
            "organization": ENDLESS.name,
            "resources": [_LONG_API],
            "days": [(days, NOW + timedelta(days=days), days == USUAL_DAYS) for days in DAYS_OFFERED],
        },
        ENDLESS,
    ),
    State(
        "consent, to signals",
        "authorization/consent.html",
        {
            **_CONSENT,
            "signals": {
                "events": ["session_revoked", "credential_change", "account_disabled", "account_enabled", "account_purged"],
                "hosts": ["signals.timesheets.example", "signals." * 20 + "example"],
            },
        },
        ACME,
    ),
    State("consent, at two APIs", "authorization/consent.html", {**_CONSENT, "resources": [_API, _LONG_API]}, ACME),
    State(
        "consent, without the second factor that a scope asks for",
        "authorization/consent.html",
        {**_CONSENT, "resources": [_API], "has_second_factor": False},
        ACME,
    ),
    State(
        "consent, long",
        "authorization/consent.html",
        {
            **_CONSENT,
            "service": _LONG,
            "organization": ENDLESS.name,
            "email": LONG,
            "person_name": ENDLESS.name,
            "scopes": _EVERYTHING,
            "destination": "sign-in." * 8 + "example",
        },
        ENDLESS,
    ),
    State(
        "consent, from the right",
        "authorization/consent.html",
        {**_CONSENT, "service": "الفواتير", "organization": FROM_THE_RIGHT.name, "person_name": "ياسمين الفارسي", "scopes": _EVERYTHING},
        FROM_THE_RIGHT,
    ),
    State(
        "consent, by SAML",
        "authorization/consent.html",
        {
            **_CONSENT,
            "action": "/ui/saml",
            "hidden": {"session": "0197f0c8-0000-7000-8000-000000000002"},
            "scopes": ["openid", "email", "organization"],
        },
        ACME,
    ),
    State("choose an account", "sign_in/choose_account.html", {**_CHOSEN, "accounts": [_HERE[0]]}, ACME),
    State("choose one of five accounts", "sign_in/choose_account.html", {**_CHOSEN, "accounts": _HERE, "ends": "ada@example.org"}, ACME),
    State(
        "choose an account, long",
        "sign_in/choose_account.html",
        {**_CHOSEN, "service": _LONG, "accounts": [{**_HERE[0], "email": LONG, "person_name": ENDLESS.name}]},
        ENDLESS,
    ),
    State("accounts of the browser", "accounts/accounts.html", {**_ACCOUNTS, "accounts": _HERE, "ends": "ada@example.org"}),
    State("accounts of the browser, one", "accounts/accounts.html", {**_ACCOUNTS, "accounts": [_HERE[0]]}),
    State(
        "accounts of the browser, long",
        "accounts/accounts.html",
        {**_ACCOUNTS, "accounts": [{**one, "email": LONG, "person_name": ENDLESS.name} for one in _HERE[:2]]},
    ),
    State("turned away", "authorization/turned_away.html", _TURNED, ACME),
    State("turned away without a role", "authorization/turned_away.html", {**_TURNED, "asks_for_role": True}, ACME),
    State(
        "turned away, long",
        "authorization/turned_away.html",
        {**_TURNED, "service": _LONG, "organization": ENDLESS.name, "email": LONG, "person_name": ENDLESS.name},
        ENDLESS,
    ),
    State("second factor required", "sign_in/second_factor_required.html", _REQUIRED, ACME),
    State("passkey required of an administrator", "sign_in/second_factor_required.html", {**_REQUIRED, "passkeys": "/ui/passkeys"}, ACME),
    State(
        "second factor required, no time left, long",
        "sign_in/second_factor_required.html",
        {**_REQUIRED, "service": _LONG, "organization": ENDLESS.name, "email": LONG, "person_name": ENDLESS.name, "has_time": False},
        ENDLESS,
    ),
    State(
        "second factor required, from the right",
        "sign_in/second_factor_required.html",
        {**_REQUIRED, "service": "الفواتير", "organization": FROM_THE_RIGHT.name, "person_name": "ياسمين الفارسي"},
        FROM_THE_RIGHT,
    ),
    State("listed by an organization", "sign_in/confirm_membership.html", _LISTED, ACME),
    State(
        "listed by an organization, long",
        "sign_in/confirm_membership.html",
        {**_LISTED, "listed": LISTED[1:2], "email": LONG, "person_name": ENDLESS.name},
        ENDLESS,
    ),
    State(
        "listed by an organization, from the right", "sign_in/confirm_membership.html", {**_LISTED, "listed": LISTED[2:3]}, FROM_THE_RIGHT
    ),
    State("terms", "account/terms/accept_terms.html", _TERMS, ACME),
    State("terms, over", "account/terms/accept_terms.html", {**_TERMS, "pending": TERMS_OVER, "stopped": True}, ENDLESS),
    State("terms, changed", "account/terms/accept_terms.html", {**_TERMS, "errors": {"": Words("refusals.terms_changed")}}, FROM_THE_RIGHT),
    State("asked for fields", "account/details/answers.html", _FIELDS, ACME),
    State("asked for fields, required and wrong", "account/details/answers.html", _FIELDS_WRONG, FROM_THE_RIGHT),
    State("offered a passkey", "account/factors/passkey_offer.html", _OFFER),
    State("a passkey that the browser makes by itself", "account/factors/passkey_upgrade.html", _UPGRADE, FROM_THE_RIGHT),
    State(
        "offered a passkey, not made",
        "account/factors/passkey_offer.html",
        {**_OFFER, "errors": {"": Words("refusals.passkey_unfit")}},
        ENDLESS,
    ),
    State("listed as an owner", "sign_in/confirm_membership.html", {**_LISTED, "listed": LISTED[3:4]}),
    State("listed as an owner who may decline", "sign_in/confirm_membership.html", {**_LISTED, "listed": LISTED[4:]}, ENDLESS),
    State(
        "listed by many organizations",
        "sign_in/confirm_membership.html",
        {**_LISTED, "listed": LISTED[:4] * 5, "more": "/ui/organizations"},
    ),
    State("choose an organization", "sign_in/choose_organization.html", {**_CHOICE, "organizations": _ORGANIZATIONS, "chosen": "acme"}),
    State("choose an organization, none", "sign_in/choose_organization.html", {**_CHOICE, "organizations": [], "chosen": ""}),
    State("sign out", "sign_in/sign_out.html", _LOGOUT),
    State(
        "sign out, asked by a service", "sign_in/sign_out.html", {**_LOGOUT, "service": "Timesheets", "person_name": "Ada Lovelace"}, ACME
    ),
)
