"""The names of the API are names that a stranger would choose, since generators of clients make functions and types of them. Lists say how
they are read.
"""

import re
from collections import Counter, defaultdict
from typing import Final

import pytest

from entrypoints.http.description.openapi import WAYS
from tests.http.description.test_texts import DOCUMENT, OPERATIONS, SCHEMAS

# Words with which the name of an operation begins. A new one is a word that a stranger would look for.
VERBS: Final = frozenset(
    [
        "accept",
        "activate",
        "add",
        "adopt",
        "answer",
        "apply",
        "approve",
        "authorize",
        "begin",
        "block",
        "cancel",
        "change",
        "check",
        "complete",
        "configure",
        "create",
        "deactivate",
        "decline",
        "delete",
        "demote",
        "disable",
        "enable",
        "end",
        "exchange",
        "export",
        "forget",
        "get",
        "impersonate",
        "introspect",
        "keep",
        "lift",
        "link",
        "list",
        "lock",
        "look",
        "open",
        "plan",
        "poll",
        "preview",
        "promote",
        "push",
        "reauthenticate",
        "receive",
        "redeliver",
        "refresh",
        "register",
        "reject",
        "release",
        "remove",
        "rename",
        "renew",
        "replace",
        "replay",
        "request",
        "resend",
        "reset",
        "restore",
        "retry",
        "revoke",
        "rotate",
        "run",
        "search",
        "select",
        "set",
        "sign",
        "succeed",
        "suspend",
        "take",
        "test",
        "transfer",
        "unblock",
        "unlink",
        "upload",
        "verify",
    ]
)
# Names that say what a type is for us, and not what it is for the reader: participles that stand alone, and words without a noun.
FORBIDDEN: Final = re.compile(
    r"(Wish|Word|Thing|Things|Whole|Done|Tried|Taken|Kept|Nothing|Too)$|^(Because|CameBy|Asked|Barred|Governed|Forgotten|Matter|Reason|Reset"
    r"|Renamed?|Refresh|Transfer(red)?|Portal|Receipt|Alerts|Tokens|Directory)$|Of[A-Z]"
)
# These grew before `after` was there. New lists do not join them.
OLDER_WAYS: Final = {
    "page": {
        "list_audit_log",
        "list_directory_run_people",
        "list_end_users",
        "list_invitations",
        "list_join_requests",
        "list_logout_notices",
        "list_members",
        "list_platform_audit_log",
        "list_webhook_deliveries",
    },
    "offset": {"list_api_keys", "list_platform_organizations", "list_service_users", "list_services", "list_subscriptions"},
    "limit": {"list_recent_logins", "list_scim_exchanges", "search_users"},
    # OpenID AuthZEN has its own.
    "token": {"search_access_actions", "search_access_subjects"},
    "scim": {"list_scim_groups", "list_scim_users", "search_scim", "search_scim_groups", "search_scim_users"},
}
OF_PAGING: Final = {"limit", "page", "offset", "after", "count", "startIndex"}


def test_each_operation_begins_with_a_verb() -> None:
    assert {name for name in OPERATIONS if not re.fullmatch(r"[a-z]+(_[a-z0-9]+)*", name)} == set()
    used = Counter(name.partition("_")[0] for name in OPERATIONS)
    assert used.keys() - VERBS == set()
    assert VERBS - used.keys() == set(), "nothing begins with these verbs any more"
    assert {name for name in OPERATIONS if re.search(r"_(too|detail|whole)$", name)} == set()


def test_the_names_of_operations_are_told_apart_in_every_style() -> None:
    """Generators write `list_roles` as `listRoles` or `ListRoles`."""
    styles = Counter(name.replace("_", "") for name in OPERATIONS)
    assert {name for name, count in styles.items() if count > 1} == set()


def test_each_type_has_a_name_that_says_what_it_is() -> None:
    assert {name for name in SCHEMAS if FORBIDDEN.search(name) or not re.fullmatch(r"([A-Z]+[a-z0-9]*)+", name)} == set()


@pytest.mark.parametrize("name", ["ServiceWish", "CameBy", "Barred", "Matter", "Nothing", "RightsOfUser", "SamlDone", "OwnershipWord"])
def test_a_name_that_says_nothing_is_seen(name: str) -> None:
    assert FORBIDDEN.search(name)


def test_each_list_says_how_it_is_read() -> None:
    ways = defaultdict(set)
    for name, one in OPERATIONS.items():
        body = one.get("requestBody", {}).get("content", {})
        inside = {field for media in body.values() for field in _properties(media["schema"])}
        asked = ({parameter["name"] for parameter in one.get("parameters", ())} | inside) & OF_PAGING
        listed = name.startswith(("list_", "search_")) and "200" in one["responses"]
        assert (one.get("x-paging") is not None) == listed, name
        assert listed or not asked or "200" not in one["responses"], f"{name} lists something: its name begins with list_ or search_"
        assert listed or not any(
            media["schema"].get("type") == "array" for media in one["responses"].get("200", {}).get("content", {}).values()
        )
        if listed:
            ways[one["x-paging"]].add(name)
            assert bool(asked) == (one["x-paging"] != "whole"), name
            if one["x-paging"] == "after":
                (media,) = one["responses"]["200"]["content"].values()
                assert "next" in _properties(media["schema"]), name
    assert {way: names for way, names in ways.items() if way not in {"whole", "after"}} == OLDER_WAYS
    assert ways.keys() == WAYS.keys()


def test_the_introduction_explains_each_way_of_paging() -> None:
    introduction = DOCUMENT["info"]["description"]
    assert [way for way, text in WAYS.items() if f"- `{way}`: {text}" not in introduction] == []


def _properties(schema: dict[str, str]) -> set[str]:
    found = SCHEMAS[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return set(found.get("properties", ()))
