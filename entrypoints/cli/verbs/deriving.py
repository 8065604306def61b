"""Derives the words of a verb and its options from the declaration of its endpoint."""

import argparse
import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import inspect

from core.frozen import Frozen
from entrypoints.cli.verbs.offering import VerbOption, VerbWords
from entrypoints.cli.verbs.values import json_value, number, one_or_several, secret, text, yes_or_no
from entrypoints.http.description.field_texts import texts_of
from entrypoints.http.machinery.accepts import Json, RawXml
from entrypoints.http.machinery.callers import MemberRule
from entrypoints.http.machinery.endpoints import Endpoint, InvalidDeclaration, parameters
from entrypoints.http.machinery.fields import SECRET
from entrypoints.http.routes import ROUTES

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
    """An endpoint of an organization is the command `postern NOUN VERB`. Path and method determine both, unless the declaration does
    (`verb`). `/services/{service_slug}/plans` gives `service-plan list` and `create`; its items give `show`, `set` and `delete`. Only the
    writer of the table `verbs.jsonl`, and a running verb, load this module, and with it all routes.

    Raises `InvalidDeclaration` when two endpoints have the same words, or when an endpoint needs words of its own.
    """
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


_OPTION_ORGANIZATION: Final = "org_slug"
_LISTS: Final = (inspect.CollectionType, inspect.VarTupleType)
_PLAIN: Final = (inspect.StrType, inspect.UUIDType, inspect.DateTimeType, inspect.IntType, inspect.EnumType, inspect.LiteralType)
# A service is mostly a web application, so that the command line asks for nothing more than a name and an address.
_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {"service create": {"service_type": "web"}}


class Option(Frozen):
    """How the command line takes a field: by which values, whether by repeating, and whether it may clear the field."""

    read: Callable[[str], Any]
    metavar: str | None
    choices: tuple[str, ...] | None = None
    repeats: bool = False
    nullable: bool = False


@cache
def all_verbs() -> Verbs:
    return verbs_of(ROUTES)


def table_of(verbs: Verbs) -> Iterator[VerbWords]:
    """The lines of the table."""
    for noun, of_noun in verbs.items():
        item = of_noun.get("show") or of_noun.get("set") or of_noun.get("delete")
        for verb, endpoint in of_noun.items():
            summary = endpoint.summary.replace("%", "%%")
            yield {
                "noun": noun,
                "verb": verb,
                "help": f"{summary[0].lower()}{summary[1:]}",
                "description": f"{summary}.\n\n{endpoint.description}",
                "deletes": endpoint.method == "DELETE",
                "options": _options(noun, verb, endpoint, _last(item) if verb == "create" else None),
            }


def _last(item: Endpoint | None) -> str | None:
    return parameters(item.path)[-1] if item is not None else None


def _options(noun: str, verb: str, endpoint: Endpoint, item: str | None) -> list[VerbOption]:
    """`item` is the parameter of the path of one of a collection's things: what is made takes its name under the same option."""
    options: list[VerbOption] = []
    for field in _fields(endpoint.path_type):
        help_ = "The organization's slug." if field.name == _OPTION_ORGANIZATION else _text(endpoint.path_type, field)
        name = _option(_of_path(field.name))
        dest, metavar = _dest("path", field), _metavar(field.name)
        options.append({"names": [name], "dest": dest, "required": True, "reads": text.__name__, "metavar": metavar, "help": help_})
    defaults = _DEFAULTS.get(f"{noun} {verb}", {})
    for part, kind in (("query", _query_type(endpoint)), ("body", endpoint.body_type)):
        for field in _fields(kind):
            taken = {name for one in options for name in (*one["names"], one.get("clears"))}
            names = _names(f"postern {noun} {verb}", noun, field, item, taken)
            options.append(_of_field(names, _dest(part, field), field, _text(kind, field), defaults))
    if isinstance(endpoint.accepts, RawXml):
        options.append(
            {"names": ["--file"], "dest": "body", "required": True, "reads": Path.__name__, "metavar": "FILE", "help": "The document."}
        )
    return options


def given_path(given: argparse.Namespace, endpoint: Endpoint) -> dict[str, str]:
    return _given("path", given, endpoint.path_type)


def given_query(given: argparse.Namespace, endpoint: Endpoint) -> dict[str, Any]:
    return _given("query", given, _query_type(endpoint))


def given_body(given: argparse.Namespace, endpoint: Endpoint) -> bytes:
    """As a request would carry it."""
    if isinstance(endpoint.accepts, RawXml):
        return Path(given.body).read_bytes()
    return msgspec.json.encode(_given("body", given, endpoint.body_type))


def option_of(kind: inspect.Type) -> Option:
    types = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    nullable = any(isinstance(one, inspect.NoneType) for one in types)
    bare = [_bare(one) for one in types if not isinstance(one, inspect.NoneType)]
    only = bare[0] if len(bare) == 1 else None
    if isinstance(only, _LISTS) and isinstance(item := _bare(only.item_type), _PLAIN):
        return Option(one_or_several, _word_for(item), None, True, nullable)
    if isinstance(only, inspect.BoolType):
        return Option(yes_or_no, "yes|no", None, False, nullable)
    if isinstance(only, inspect.IntType):
        return Option(number, "N", None, False, nullable)
    if isinstance(only, inspect.EnumType | inspect.LiteralType):
        return Option(text, None, _choices(only), False, nullable)
    if isinstance(only, _PLAIN):
        return Option(secret if _is_secret(kind) else text, _word_for(only), None, False, nullable)
    return Option(json_value, "JSON", None, False, nullable)


def _query_type(endpoint: Endpoint) -> Any:
    """None when the body is of the same type: the endpoint takes its fields in either."""
    return None if endpoint.query_type is endpoint.body_type else endpoint.query_type


def _fields(kind: Any) -> tuple[inspect.Field, ...]:
    described = inspect.type_info(kind) if kind is not None else None
    return described.fields if isinstance(described, inspect.StructType) else ()


def _given(part: str, given: argparse.Namespace, kind: Any) -> dict[str, Any]:
    values = {field.encode_name: getattr(given, _dest(part, field), msgspec.UNSET) for field in _fields(kind)}
    return {name: value for name, value in values.items() if value is not msgspec.UNSET}


def _of_field(names: list[str], dest: str, field: inspect.Field, said: str, defaults: Mapping[str, Any]) -> VerbOption:
    option = option_of(field.type)
    # A field of a body that may be null, and for which leaving it out means something else, is cleared by an option of its own.
    clears = option.nullable and dest.startswith("body_") and field.default is not None
    described: VerbOption = {"names": names, "dest": dest, "reads": option.read.__name__}
    if field.required and field.name not in defaults and not clears:
        described["required"] = True
    if option.repeats:
        described["repeats"] = True
    if option.choices is not None:
        described["choices"] = list(option.choices)
    if option.metavar is not None:
        described["metavar"] = option.metavar
    if field.name in defaults:
        described["default"] = defaults[field.name]
    if clears:
        described["clears"] = f"--no-{names[-1].removeprefix('--')}"
    described["help"] = " ".join(filter(None, (said, _way(option))))
    return described


def _way(option: Option) -> str:
    """What the help says of how a value is given."""
    if option.repeats:
        return "May be repeated, or sent once as a JSON list."
    return "@FILE reads it from a file, - from standard input." if option.read in {secret, json_value} else ""


def _names(command: str, noun: str, field: inspect.Field, item: str | None, taken: Container[str | None]) -> list[str]:
    """The option's names, the shortest first: `--redirect-uri` before `--redirect-uris`, `--type` of a service before `--service-type`."""
    name = field.name
    names = [name]
    if option_of(field.type).repeats:
        names = [singular(name), name]
    if name.startswith(f"{noun}_"):
        names = [name.removeprefix(f"{noun}_"), name]
    if item is not None and item.endswith(f"_{name}"):
        names = [_of_path(item), name]
    free = [one for one in dict.fromkeys(map(_option, names)) if one not in taken]
    if not free:
        raise InvalidDeclaration(f"{command}: its path and its body both have {name}")
    return free


def _text(kind: Any, field: inspect.Field) -> str:
    """The field's own description, or that of its type."""
    described = texts_of(kind).get(field.name) or _described(field.type)
    return described.replace("%", "%%")  # argparse formats its help


def _described(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.UnionType):
        return next(filter(None, map(_described, kind.types)), "")
    if not isinstance(kind, inspect.Metadata):
        return ""
    return str((kind.extra_json_schema or {}).get("description", "")) or _described(kind.type)


def _bare(kind: inspect.Type) -> inspect.Type:
    return _bare(kind.type) if isinstance(kind, inspect.Metadata) else kind


def _is_secret(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.UnionType):
        return any(map(_is_secret, kind.types))
    return isinstance(kind, inspect.Metadata) and ((kind.extra or {}).items() >= (SECRET.extra or {}).items() or _is_secret(kind.type))


def _choices(kind: inspect.Type) -> tuple[str, ...]:
    values = [one.value for one in kind.cls] if isinstance(kind, inspect.EnumType) else getattr(kind, "values", ())
    return tuple(map(str, values))


def _word_for(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.EnumType | inspect.LiteralType):
        return "|".join(_choices(kind))
    return {inspect.UUIDType: "ID", inspect.DateTimeType: "TIME", inspect.IntType: "N"}.get(type(kind), "TEXT")


def _of_path(name: str) -> str:
    if name == _OPTION_ORGANIZATION:
        return "organization"
    return name.removesuffix("_id").removesuffix("_slug").removesuffix("_key")


def _metavar(name: str) -> str:
    return "ID" if name.endswith("_id") else "SLUG" if name.endswith("_slug") else "KEY"


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _dest(part: str, field: inspect.Field) -> str:
    return f"{part}_{field.name}"
