"""The words of a verb and its options, from the declaration of its endpoint.

The words of a verb. An endpoint of an organization is the command `postern NOUN VERB`. Path and method say both, unless the declaration
does (`verb`). `/services/{service_slug}/plans` gives `service-plan list` and `create`; its items give `show`, `set` and `delete`.
"""

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import inspect

from core.frozen import Frozen
from entrypoints.http.description.field_texts import texts_of
from entrypoints.http.machinery.accepts import Json, RawXml
from entrypoints.http.machinery.callers import MemberRule
from entrypoints.http.machinery.endpoints import Endpoint, InvalidDeclaration
from entrypoints.http.machinery.fields import SECRET

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


_OPTION_ORGANIZATION: Final = "org_slug"
_LISTS: Final = (inspect.CollectionType, inspect.VarTupleType)
_PLAIN: Final = (inspect.StrType, inspect.UUIDType, inspect.DateTimeType, inspect.IntType, inspect.EnumType, inspect.LiteralType)
_YES: Final = {"yes": True, "true": True, "no": False, "false": False}
# A service is mostly a web application, so that the command line asks for nothing more than a name and an address.
_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {"service create": {"service_type": "web"}}


class Option(Frozen):
    """How the command line takes a field: by which values, whether by repeating, and whether it may clear the field."""

    read: Callable[[str], Any]
    metavar: str | None
    choices: tuple[str, ...] | None = None
    repeats: bool = False
    nullable: bool = False


def add_options(parser: argparse.ArgumentParser, noun: str, verb: str, endpoint: Endpoint, item: str | None) -> None:
    """`item` is the parameter of the path of one of a collection's things: what is made takes its name under the same option."""
    for field in _fields(endpoint.path_type):
        text = "The organization's slug." if field.name == _OPTION_ORGANIZATION else _text(endpoint.path_type, field)
        name = _option(_of_path(field.name))
        parser.add_argument(name, dest=_dest("path", field), required=True, metavar=_metavar(field.name), help=text)
    defaults = _DEFAULTS.get(f"{noun} {verb}", {})
    for part, kind in (("query", _query_type(endpoint)), ("body", endpoint.body_type)):
        for field in _fields(kind):
            names = _names(parser, noun, field, item)
            _add_field(parser, names, _dest(part, field), field, text=_text(kind, field), default=defaults.get(field.name, msgspec.UNSET))
    if isinstance(endpoint.accepts, RawXml):
        parser.add_argument("--file", required=True, type=Path, dest="body", metavar="FILE", help="The document.")


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
        return Option(_one_or_several, _word_for(item), None, True, nullable)
    if isinstance(only, inspect.BoolType):
        return Option(_yes_or_no, "yes|no", None, False, nullable)
    if isinstance(only, inspect.IntType):
        return Option(_number, "N", None, False, nullable)
    if isinstance(only, inspect.EnumType | inspect.LiteralType):
        return Option(str, None, _choices(only), False, nullable)
    if isinstance(only, _PLAIN):
        return Option(_secret if _is_secret(kind) else str, _word_for(only), None, False, nullable)
    return Option(_json, "JSON", None, False, nullable)


def _query_type(endpoint: Endpoint) -> Any:
    """None when the body is of the same type: the endpoint takes its fields in either."""
    return None if endpoint.query_type is endpoint.body_type else endpoint.query_type


def _fields(kind: Any) -> tuple[inspect.Field, ...]:
    described = inspect.type_info(kind) if kind is not None else None
    return described.fields if isinstance(described, inspect.StructType) else ()


def _given(part: str, given: argparse.Namespace, kind: Any) -> dict[str, Any]:
    values = {field.encode_name: getattr(given, _dest(part, field)) for field in _fields(kind)}
    return {name: value for name, value in values.items() if value is not msgspec.UNSET}


def _add_field(parser: argparse.ArgumentParser, names: list[str], dest: str, field: inspect.Field, *, text: str, default: Any) -> None:
    option = option_of(field.type)
    # A field of a body that may be null, and for which leaving it out means something else, is cleared by an option of its own.
    clears = option.nullable and dest.startswith("body_") and field.default is not None
    parser.add_argument(
        *names,
        dest=dest,
        required=field.required and default is msgspec.UNSET and not clears,
        action=_Repeated if option.repeats else "store",
        type=option.read,
        choices=option.choices,
        metavar=option.metavar,
        default=default,
        help=" ".join(filter(None, (text, _way(option)))),
    )
    if clears:
        cleared = f"--no-{names[-1].removeprefix('--')}"
        parser.add_argument(cleared, dest=dest, action="store_const", const=None, default=default, help="Null in its place.")


def _way(option: Option) -> str:
    """What the help says of how a value is given."""
    if option.repeats:
        return "May be given several times, or once as a JSON list."
    return "@FILE reads it from a file, - from standard input." if option.read in {_secret, _json} else ""


class _Repeated(argparse.Action):
    """Joins the lists of a repeated option."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - as argparse calls it
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,  # noqa: ARG002
    ) -> None:
        before = getattr(namespace, self.dest)
        setattr(namespace, self.dest, [*(before if isinstance(before, list) else []), *values])


def _names(parser: argparse.ArgumentParser, noun: str, field: inspect.Field, item: str | None) -> list[str]:
    """The option's names, the shortest first: `--redirect-uri` before `--redirect-uris`, `--type` of a service before `--service-type`."""
    name = field.name
    names = [name]
    if option_of(field.type).repeats:
        names = [singular(name), name]
    if name.startswith(f"{noun}_"):
        names = [name.removeprefix(f"{noun}_"), name]
    if item is not None and item.endswith(f"_{name}"):
        names = [_of_path(item), name]
    taken = parser._option_string_actions  # noqa: SLF001 - argparse has no public name for it
    free = [one for one in dict.fromkeys(map(_option, names)) if one not in taken]
    if not free:
        raise InvalidDeclaration(f"{parser.prog}: its path and its body both have {name}")
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


def _yes_or_no(text: str) -> bool:
    if text not in _YES:
        raise argparse.ArgumentTypeError(f"must be yes or no, not {text!r}")
    return _YES[text]


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, not {text!r}") from None


def _one_or_several(text: str) -> list[Any]:
    value = _json(text) if text.startswith("[") else [text]
    if not isinstance(value, list):
        raise argparse.ArgumentTypeError("must be a JSON list")
    return value


def _secret(text: str) -> str:
    """`@FILE` is what the file holds, and `-` what standard input brings, so that no secret stands among the processes of the machine. `@@`
    begins a secret with an `@`. No other text is read so: a name that somebody else chose must not give away a file of the operator's.
    """
    if text == "-":
        return _from_standard_input()
    if not text.startswith("@"):
        return text
    return text[1:] if text.startswith("@@") else _in_file(text[1:])


def _json(text: str) -> Any:
    try:
        return json.loads(_from_standard_input() if text == "-" else _in_file(text[1:]) if text.startswith("@") else text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be JSON, @FILE with JSON, or - for standard input: {error}") from None


def _in_file(path: str) -> str:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"{path}: {getattr(error, 'strerror', None) or 'is not UTF-8'}") from None
    return _without_line_break(text)


def _from_standard_input() -> str:
    try:
        text = _without_line_break(sys.stdin.read())
    except UnicodeDecodeError:
        raise argparse.ArgumentTypeError("standard input is not UTF-8") from None
    if not text:
        raise argparse.ArgumentTypeError("standard input is empty; only one option can read it")
    return text


def _without_line_break(text: str) -> str:
    """Editors and `echo` end a file with a line break."""
    return text.removesuffix("\n").removesuffix("\r")
