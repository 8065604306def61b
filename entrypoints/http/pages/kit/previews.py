"""Which page shows an own text, for those who look at it before others do: its template, and values that we have made up."""

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

_AT: Final = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
# By the name that the open list has for the page.
TEMPLATES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{
            name: f"sign_in/{name}.html"
            for name in (
                *(
                    "sign_in",
                    "password",
                    "sign_in_link",
                    "choose_account",
                    "choose_organization",
                    "second_factor",
                    "lost_factor",
                    "sign_out",
                ),
                *("second_factor_required", "register", "no_registration", "forgotten", "check_mail"),
            )
        },
        "saml_open": "saml/saml_open.html",
        "turned_away": "authorization/turned_away.html",
        "directory_password": "directory/password.html",
        "newcomer": "newcomers/newcomer.html",
        "newcomer_code": "newcomers/newcomer_code.html",
        "answers": "account/details/answers.html",
        "choose_password": "mailed/choose_password.html",
        "verify_email": "mailed/verify_email.html",
        "invitation": "mailed/invitation.html",
        "enter_code": "device/enter_code.html",
    }
)
OUTCOMES: Final = frozenset({"password_chosen", "password_set", "address_confirmed", "invitation_accepted", "signed_out"})
# Pages that say a title alone, on the way to somewhere else.
LEAVING: Final[Mapping[str, str]] = MappingProxyType({"providers": "providers.title", "leaving": "leaving.title"})
TITLES: Final = frozenset({"providers.title_at", "leaving.title_to"})
# A page that says what became of another.
STALE: Final = "stale"
# What such a page says, by the text that somebody asks for.
REFUSED: Final = frozenset({"stale.again", "accept_invitation.expired", "accept_invitation.full", "accept_invitation.otherwise"})
# Texts that stand on another page than their siblings.
ELSEWHERE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "providers.sign_in": "sign_in/password.html",
        "providers.sign_in_at": "sign_in/password.html",
        "signed_out.telling": "saml/signing_out.html",
    }
)
# A value that is not there is empty: a template shows its plainest form then.
MADE_UP: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "email": "ada@example.org",
        "person_name": "Ada",
        "errors": {},
        "hidden": {},
        "action": "#",
        "now": _AT,
        "until": _AT,
        "due": _AT,
        "service": "Shop",
        "service_name": "Shop",
        "provider": "Example",
        "organization": "Acme",
        "inviter": "grace@example.org",
        "role": "member",
        "offered": True,
        "by_app": True,
        "invites": True,
        "mail": "reset",
        "shortest": 12,
        "longest": 128,
        "longest_name": 200,
        "labels": {},
        "fields": {},
        # So that the page shows as many of its texts as there are.
        "register": "#",
        "offers": (("example", "Example", "#", ""),),
        "passkeys": "#",
        "passkey": "#",
        "by_passkey": True,
        "has_time": True,
    }
)
# What differs for a text that the page does not show with these values.
SCENES: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "sign_in.title": {"service": "", "service_name": ""},
        "providers.sign_in_at": {"provider_name": "Example"},
        "choose_organization.none": {"organizations": (("acme", "Acme"),)},
        "second_factor.explained_passkey": {"by_app": False},
        "second_factor.hint_backup": {"by_app": False},
        "no_registration.closed": {"invites": False},
        "check_mail.later": {"later": True},
        "check_mail.again": {"mail": "verification"},
        "accept_invitation.here": {"here": True},
        "accept_invitation.name": {"here": True},
        "accept_invitation.existing": {"known": True},
    }
)
