"""Reads a configuration file, in YAML or JSON, or the body of a request, as wanted objects. Every fault is one line."""

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from core.domain.platform.configuration.objects import (
    ORGANIZATION,
    SERVICE,
    ObjectPlace,
    digest_of,
    organization_place,
    pointer,
    service_place,
)
from core.domain.platform.configuration.planning import Problem, WantedConfiguration, WantedObject
from core.domain.secrets import Secret
from core.frozen import Frozen
from entrypoints.http.machinery.decoding import decode_own_type, explained
from entrypoints.http.routes.configuration.kinds import ObjectKind, Within
from entrypoints.http.routes.configuration.registry import BY_ID, within

VERSION: Final = 1
MOST_PROBLEMS: Final = 100
_LONGEST_NAME: Final = 300
Steps = tuple[str, ...]
Resolve = Callable[[Steps, Any], Secret | None]
"""Turns the value of a secret in a document into the secret. Raises `ValueError`, with words for the person who wrote the document."""


class Document(Frozen, kw_only=True):
    """A document that was read. `secrets` has the values of the secrets in `wanted`, by object and field."""

    digest: str
    wanted: WantedConfiguration
    secrets: Mapping[tuple[ObjectPlace, str], Secret | None]
    problems: tuple[Problem, ...]

    @property
    def organizations(self) -> list[str]:
        """The organizations that the document names, sorted."""
        return sorted({place.organization for place in (*self.wanted.objects, *self.wanted.whole, *self.wanted.absent)} - {""})

    @property
    def names_platform(self) -> bool:
        return any(not place.organization for place in (*self.wanted.objects, *self.wanted.whole, *self.wanted.absent))


def read(tree: Any, resolve: Resolve) -> Document:
    """Reads all that can be read: the caller refuses a document with problems."""
    reader = _Reader(resolve)
    reader.read_top(tree)
    return Document(
        digest=digest_of(tree) if not reader.problems else "",
        wanted=WantedConfiguration(objects=reader.objects, whole=frozenset(reader.whole), absent=frozenset(reader.absent)),
        secrets=reader.secrets,
        problems=tuple(reader.problems[:MOST_PROBLEMS]),
    )


class _Reader:
    def __init__(self, resolve: Resolve) -> None:
        self.objects: dict[ObjectPlace, WantedObject] = {}
        self.whole: set[ObjectPlace] = set()
        self.absent: set[ObjectPlace] = set()
        self.secrets: dict[tuple[ObjectPlace, str], Secret | None] = {}
        self.problems: list[Problem] = []
        self._resolve = resolve

    def read_top(self, tree: Any) -> None:
        top = self._mapping((), tree)
        if top is None:
            return
        self._only((), top, {"postern", "platform", "organizations"})
        version = top.get("postern")
        if version != VERSION or isinstance(version, bool):
            self._say(("postern",), f"must be {VERSION}: the version of this form of document")
        platform = top.get("platform")
        if platform is not None and (held := self._mapping(("platform",), platform)) is not None:
            self._read_holder(("platform",), held, Within.PLATFORM, ("", ""))
        for slug, one in self._entries(("organizations",), top.get("organizations")):
            steps = ("organizations", slug)
            if (held := self._mapping(steps, {} if one is None else one)) is not None:
                self._read_holder(steps, held, Within.ORGANIZATION, (slug, ""), own=BY_ID[ORGANIZATION])

    def _read_holder(
        self, steps: Steps, held: Mapping[str, Any], place: Within, named: tuple[str, str], own: ObjectKind | None = None
    ) -> None:
        """An organization, a service, or the installation: its own fields, and beside them other kinds of objects."""
        organization, service = named
        kinds = within(place)
        fields = frozenset() if own is None else frozenset(own.entry.__struct_fields__)
        self._only(steps, held, fields | kinds.keys())
        if own is not None:
            at = service_place(organization, service) if service else organization_place(organization)
            self._read_object(steps, own, at, {name: value for name, value in held.items() if name in fields})
        for name, value in held.items():
            if name in kinds:
                self._read_kind((*steps, name), kinds[name], value, organization, service)

    def _read_kind(self, steps: Steps, kind: ObjectKind, value: Any, organization: str, service: str) -> None:
        collection = ObjectPlace(organization, service, kind.id, "")
        if kind.is_single:
            if value is None and kind.end is not None:
                self.absent.add(collection)
            elif (fields := self._mapping(steps, value)) is not None:
                self._read_object(steps, kind, collection, fields)
            return
        entries, is_whole = value, False
        if isinstance(value, Mapping) and isinstance(value.get("whole"), bool):
            self._only(steps, value, {"whole", "entries"})
            if "entries" not in value:
                self._say(steps, "entries is missing: write `entries: {}` for a collection that must be empty")
            entries, is_whole = value.get("entries"), value["whole"]
            steps = (*steps, "entries")
        if is_whole:
            self.whole.add(collection)
        for name, one in self._entries(steps, entries):
            at = (*steps, name)
            fields = self._mapping(at, {} if one is None else one)
            if fields is None:
                continue
            if kind.id == SERVICE:
                self._read_holder(at, fields, Within.SERVICE, (organization, name), own=kind)
            else:
                self._read_object(at, kind, collection._replace(name=name), fields)

    def _read_object(self, steps: Steps, kind: ObjectKind, place: ObjectPlace, fields: Mapping[str, Any]) -> None:
        self._only(steps, fields, kind.entry.__struct_fields__)
        plain = {name: value for name, value in fields.items() if name in kind.entry.__struct_fields__ and name not in kind.secrets}
        try:
            kept = msgspec.to_builtins(msgspec.convert(plain, kind.entry, dec_hook=decode_own_type))
            kept = kind.as_stored(kept)
        except msgspec.ValidationError as error:
            self._say(steps, explained(error, kind.entry))
            return
        except (ValueError, TypeError) as error:
            self._say(steps, str(error))
            return
        given = set[str]()
        for name in kind.secrets:
            try:
                secret = self._resolve((*steps, name), fields[name]) if name in fields else self._resolve((*steps, name), msgspec.UNSET)
            except ValueError as error:
                self._say((*steps, name), str(error))
                continue
            except LookupError:
                continue
            self.secrets[place, name] = secret
            given.add(name)
        self.objects[place] = WantedObject(fields=kept, secrets=frozenset(given))

    def _entries(self, steps: Steps, value: Any) -> Iterator[tuple[str, Any]]:
        if value is None:
            return
        entries = self._mapping(steps, value)
        if entries is None:
            return
        for name, one in entries.items():
            if not name or len(name) > _LONGEST_NAME or "\x00" in name:
                self._say((*steps, name[:_LONGEST_NAME]), f"a name has 1 to {_LONGEST_NAME} characters, and no NUL")
            else:
                yield name, one

    def _mapping(self, steps: Steps, value: Any) -> Mapping[str, Any] | None:
        if isinstance(value, Mapping):
            return value
        self._say(steps, f"must be a map, not {_WORDS.get(type(value), 'a list')}")
        return None

    def _only(self, steps: Steps, value: Mapping[str, Any], known: Collection[str]) -> None:
        for name in islice((name for name in value if name not in known), MOST_PROBLEMS):
            self._say((*steps, name), _unknown(known))

    def _say(self, steps: Steps, message: str) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(Problem(steps, message))
        elif len(self.problems) == MOST_PROBLEMS:
            self.problems.append(Problem((), "there is more: these are the first problems"))


_WORDS: Final[Mapping[type, str]] = {str: "a text", int: "a number", float: "a number", bool: "true or false", type(None): "empty"}


def _unknown(known: Collection[str]) -> str:
    return f"unknown name; known names are {', '.join(sorted(known)) or 'no fields'}"


def without_references(secrets: Mapping[str, Secret]) -> Resolve:
    """For the API: secrets come beside the document, by the JSON Pointer of their place in it."""

    def resolve(steps: Steps, value: Any) -> Secret | None:
        at = pointer(steps)
        if value is None:
            return None
        if value is not msgspec.UNSET:
            raise ValueError(
                f"send the value in `secrets`, under {at}: a document cannot contain secrets here, and references are rejected"
            )
        return secrets[at]

    return resolve


def unused_secrets(document: Document, secrets: Collection[str]) -> list[Problem]:
    """Secrets of a request that belong to nothing in the document."""
    used = {pointer((*place.steps, name)) for place, name in document.secrets}
    return [Problem((at,), "this secret belongs to nothing in the document") for at in secrets if at not in used]
