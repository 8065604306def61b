"""The words of a verb. An endpoint of an organization is the command `postern NOUN VERB`. Path and method say both, unless the declaration
does (`verb`). `/services/{service_slug}/plans` gives `service-plan list` and `create`; its items give `show`, `set` and `delete`.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from entrypoints.http.machinery.accepts import Json, RawXml
from entrypoints.http.machinery.callers import MemberRule
from entrypoints.http.machinery.endpoints import Endpoint, InvalidDeclaration

Verbs = Mapping[str, Mapping[str, Endpoint]]
"""The endpoints by noun and verb."""

_PREFIX: Final = "/api/organizations/{org_slug}"
_ITEM: Final = re.compile(r"/\{")
_ORGANIZATION: Final = "organization"
# `postern user` is about accounts of the whole installation.
_CALLED: Final = {"users": "end-users"}
_OF_ITEM: Final = {"GET": "show", "PATCH": "set", "PUT": "add", "DELETE": "delete"}
_OF_COLLECTION: Final = {"GET": "list", "POST": "create"}
_OF_THE_ONLY_ONE: Final = {"GET": "show", "POST": "set", "PATCH": "set", "PUT": "set", "DELETE": "delete"}


def verbs_of(endpoints: Iterable[Endpoint]) -> Verbs:
    """Raises `InvalidDeclaration` when two endpoints have the same words, or when an endpoint needs words of its own."""
    offered = [one for one in endpoints if _is_offered(one)]
    methods: dict[str, set[str]] = defaultdict(set)
    for one in offered:
        methods[one.path].add(one.method)
    collections = {path[: found.start()] for path in methods for found in _ITEM.finditer(path)}
    verbs: dict[str, dict[str, Endpoint]] = defaultdict(dict)
    for one in offered:
        noun, verb = one.verb.split() if one.verb is not None else _derived(one, methods[one.path], collections)
        if verbs[noun].setdefault(verb, one) is not one:
            raise InvalidDeclaration(f"{one} and {verbs[noun][verb]} are both `{noun} {verb}`: one of them needs a `verb`")
    return {noun: verbs[noun] for noun in sorted(verbs)}


def singular(word: str) -> str:
    return f"{word[:-3]}y" if word.endswith("ies") else word.removesuffix("s")


def _is_offered(one: Endpoint) -> bool:
    """An operator acts for the owner of an organization, so the rule must admit members."""
    is_documented = bool(one.tags) and one.produces == "application/json"
    return is_documented and isinstance(one.caller, MemberRule) and isinstance(one.accepts, Json | RawXml) and one.verb != ""


def _derived(one: Endpoint, methods: set[str], collections: set[str]) -> tuple[str, str]:
    path = one.path
    if path in collections:
        of_method = _OF_COLLECTION
    elif path.endswith("}") and path != _PREFIX:
        of_method = _OF_ITEM
    elif methods == {"GET"} and path != _PREFIX:
        of_method = _OF_COLLECTION
    elif methods == {"POST"}:
        # What somebody does with the thing before: `/webhooks/{webhook_id}/replay` is `webhook replay`.
        thing, _, verb = path.rpartition("/")
        return _noun(thing, collections), verb
    else:
        of_method = _OF_THE_ONLY_ONE
    if one.method not in of_method:
        raise InvalidDeclaration(f"{one}: path and method do not say what the command line calls it; it needs a `verb`")
    return _noun(path, collections), of_method[one.method]


def _noun(path: str, collections: set[str]) -> str:
    words, so_far = [], _PREFIX
    for step in path.removeprefix(_PREFIX).split("/")[1:]:
        so_far += f"/{step}"
        if not step.startswith("{"):
            called = _CALLED.get(step, step)
            words.append(singular(called) if so_far in collections else called)
    return "-".join(words) or _ORGANIZATION
