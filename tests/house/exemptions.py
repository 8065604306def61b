"""What a noun does not have, and why: the one list. The walk fails for a line here that is not needed any more.

Three reasons stand elsewhere already, and are read there: why a table's rows do not move, why they do not end in batches
(`adapters/postgres/tables`), and why something is in no configuration document (`NEVER` of `tests/http/configuration/test_kinds.py`).
"""

from collections.abc import Mapping
from typing import Final

from adapters.postgres.tables.declaring import Ends
from tests.house.declaring import Noun
from tests.house.looking import House
from tests.house.obligations import Lack, is_at
from tests.http.configuration.test_kinds import never_because

Exempt = Mapping[str, tuple[str, ...]]
"""By the obligation, the names of the nouns."""

# What ought to be there, and is not yet. A new noun has no place here.
OWED: Final[Mapping[str, Exempt]] = {
    "people look for it by its name, and the search does not know it": {"search": ("trusted issuer",)},
    "nobody has a list of requests: one finds a receipt by its id alone": {
        "list": ("privacy request",),
        "page": ("privacy request",),
    },
    "an impersonation ends with its session or by its time, and the log has the beginning alone": {"audit": ("impersonation",)},
}

_OF_RISK: Final = ("rule for risk", "exception from rules for risk")

EXEMPT: Final[Mapping[str, Exempt]] = {
    "all of them are set together, in their order, by one request and on one page, and the log says which there were and are (0201)": {
        **dict.fromkeys(("get", "change", "delete", "page", "audit"), _OF_RISK),
    },
    "there are few, on one page, and their order decides": {"search": _OF_RISK},
    "the list shows all of each, and there are few": {
        "get": (
            *("tier", "signing key", "SCIM token", "client secret", "plan", "claim", "permission", "invitation", "join request"),
            *("profile field", "domain route", "upstream provider", "passkey", "connected identity", "blocked client"),
        ),
    },
    "the installation has the same ones from the first day; the command line and migrations set them": {
        "create": ("tier",),
        "change": ("tier",),
        "delete": ("tier",),
        "page": ("tier",),
        "audit": ("tier",),
        "document in": ("tier",),
        "document out": ("tier",),
    },
    "there are twenty at most, on one page in the order of their buttons": {"search": ("further provider",)},
    "it makes, changes and retires itself: somebody only asks for the next one (0004)": {
        "create": ("signing key",),
        "change": ("signing key",),
        "delete": ("signing key",),
        "page": ("signing key",),
        "audit": ("signing key",),
        "search": ("signing key",),
    },
    "it comes with what a person or a program does: it is no form": {
        "create": (
            *("consent", "agent grant", "end user", "member", "join request", "device", "session", "connected identity", "second factor"),
            *("key of a user", "privacy request"),
        ),
    },
    "it says what somebody did, so nobody changes it: one ends it, and makes another": {
        "change": (
            *(
                "consent",
                "agent grant",
                "SCIM token",
                "API key",
                "key of a user",
                "client secret",
                "management key",
                "set-up link",
                "proposal",
            ),
            *("join request", "session", "connected identity", "second factor", "privacy request", "end user", "blocked client"),
        ),
    },
    "the person or the service ends it, at an address of theirs": {"delete": ("end user",)},
    "it ends by an act with an address of its own: removed, cancelled, approved, declined, signed out, forgotten": {
        "delete": ("member", "invitation", "join request", "account", "session", "impersonation"),
    },
    "a receipt stays as long as we answer for what was erased": {"delete": ("privacy request",), "audit": ("privacy request",)},
    "people see and end it on their pages; programs have no business there": {
        "list": ("consent", "session"),
        "get": ("consent", "session"),
        "delete": ("consent",),
    },
    "one has the state of the second factor at /api/user/mfa/status": {"get": ("second factor",)},
    "it is an act, and its token is the answer: the audit log and the person's list of sessions have it": {"get": ("impersonation",)},
    "the service keeps it by its own key; people see it at the application's plans and in their own list (0018)": {
        "page": ("subscription",),
        "verb": ("subscription",),
        "document in": ("subscription",),
        "document out": ("subscription",),
    },
    "an owner founds and lists organizations; the command line does so as the operator, by commands written by hand (0118)": {
        "verb": ("organization",),
    },
    "it has no name of its own: one comes to it by the application, the person or the API that it belongs to": {
        "search": ("agent grant", "SAML configuration", "subscription", "client secret", "key of a user", "impersonation"),
    },
    "a person makes it by refusing a request, which has an address of its own (0215)": {"create": ("blocked client",)},
    "the log says blocked and unblocked, which is what people call it": {"audit": ("blocked client",)},
    "terms are withdrawn, and the log says so: each version stays": {"audit": ("terms",)},
    "a text is taken back by null in a change, and its page is found by its name": {"delete": ("own text",), "search": ("own text",)},
    "it lives a day, and its link names it": {"search": ("proposal",)},
    "an organization has one at most, at a place of its own": {
        "search": ("mail server", "own credentials at a provider", "terms", "hook", "offboarding deadline")
    },
    "people have searches of their own, by address and name (0136)": {"search": ("member", "end user", "join request")},
    "the entry of the sign-in or of the consent tells of its beginning": {"audit": ("agent grant", "device")},
    "the end of a person's use is the end of the account or of the consent, which the log has": {"audit": ("end user",)},
    "one of each person at each application or organization, and people are bounded by the tier": {
        "bound": ("agent grant", "subscription", "end user", "member", "join request"),
    },
    "the tier bounds them (`max_services`)": {"bound": ("service",)},
    "they go with rows of consents, services or keys, which go in batches": {"batches": ("agent grant", "trusted issuer")},
    "its kind has no such part of its own: the person's whole account is exported": {"credential's export": ("account",)},
}


def reasons() -> Mapping[tuple[str, str], str]:
    """The reasons by noun and obligation. Raises `ValueError` for one that is given twice."""
    found: dict[tuple[str, str], str] = {}
    for reason, exempt in (*OWED.items(), *EXEMPT.items()):
        for obligation, nouns in exempt.items():
            for noun in nouns:
                if (noun, obligation) in found:
                    raise ValueError(f"{noun}, {obligation}: the reason is given twice")
                found[noun, obligation] = reason
    return found


def said_elsewhere(noun: Noun, lack: Lack, house: House) -> str:
    """The reason that another list of the house gives. Empty if none does."""
    table = house.tables.get(noun.table)
    if lack.obligation == "move" and table is not None and isinstance(table.moves, str):
        return table.moves
    if lack.obligation == "batches" and table is not None and not isinstance(table.ends, Ends):
        return table.ends
    if lack.obligation in {"document in", "document out"}:
        setting = [str(one) for one in house.endpoints if one.method != "GET" and is_at(one.path, noun.at)]
        because = [never_because(one) for one in setting]
        return because[0] if because and all(because) else ""
    return ""
