"""Each part that an entry tells before and after has the label of its form, in each language. The walk asks the functions that make the
events, so a new one is found by itself.
"""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import pytest

import core.domain
from core.domain.languages import CONSOLE_LANGUAGES, Language
from core.domain.record.event_types import EVENT_DATA
from core.domain.record.events import Actor, Event
from core.domain.secrets import Secret
from core.frozen import Frozen
from entrypoints.http.console.organization.settings.audit_sentences import changes_in
from entrypoints.http.pages.kit import shipped_pages
from tests.http.pages.console.settings.test_audit_sentences import entry

_SAID: Final = re.compile(r"\"(?:old|new)_([a-z_]+)\"\s*:|\"([a-z_]+)_(?:added|removed)\"\s*:")
# Values that are parsed on their way into the event.
_NAMED: Final[Mapping[str, Callable[[int], Any]]] = {
    "backchannel_logout_uri": lambda turn: f"https://{'ab'[turn]}.example/",
    "url": lambda turn: f"https://{'ab'[turn]}.example/",
    "endpoint": lambda turn: f"https://{'ab'[turn]}.example/",
    "address": lambda turn: f"https://{'ab'[turn]}.example/",
    "jwks": lambda turn: {"keys": [{"kid": "ab"[turn]}]},
}


def changing() -> Iterator[Callable[..., Event]]:
    """The functions that make an event of what was before."""
    for module in pkgutil.walk_packages(core.domain.__path__, "core.domain."):
        loaded = importlib.import_module(module.name)
        for name, function in inspect.getmembers(loaded, inspect.isfunction):
            own = function.__module__ == module.name and not name.startswith("_")
            if own and "before" in inspect.signature(function).parameters and get_type_hints(function).get("return") is Event:
                yield function


def made(hint: Any, turn: int, name: str = "") -> Any:  # noqa: PLR0911 - one for each kind of type
    """A value of this type: another one in each turn."""
    if name in _NAMED:
        return _NAMED[name](turn)
    hint = getattr(hint, "__supertype__", hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {Union, UnionType}:
        # Unchanged fields of a change say nothing.
        return made(next(one for one in arguments if one is not NoneType), turn, name)
    if origin is Literal:
        return arguments[turn % len(arguments)]
    if origin in {tuple, frozenset} or (origin is not None and issubclass(origin, Sequence)):
        one = made(arguments[0], turn)
        return frozenset({one}) if origin is frozenset else (one,)
    if origin is not None and issubclass(origin, Mapping):
        return {made(arguments[0], turn): made(arguments[1], turn)}
    if hint is Actor:
        return Actor()
    if isinstance(hint, type) and issubclass(hint, Enum):
        values = list(hint)
        return values[turn * (len(values) - 1)]
    if isinstance(hint, type) and issubclass(hint, Frozen):
        return hint(**{field: made(kind, turn, field) for field, kind in get_type_hints(hint).items() if field in hint.__struct_fields__})
    simple: Mapping[Any, Any] = {
        bool: bool(turn),
        int: turn,
        float: float(turn),
        str: "ab"[turn] * 4,
        bytes: b"ab"[turn : turn + 1],
        UUID: UUID(int=turn),
        datetime: datetime(2026, 1, 1 + turn, tzinfo=UTC),
        date: date(2026, 1, 1 + turn),
        timedelta: timedelta(days=turn),
        Secret: Secret("x"),
    }
    return simple.get(hint, turn)


def changed(function: Callable[..., Event]) -> Event:
    hints = get_type_hints(function)
    return function(**{name: made(hints[name], int(name == "after"), name) for name in inspect.signature(function).parameters})


def told() -> set[tuple[str, str]]:
    """Every part that some event tells before and after, with the event."""
    found = {(event.name, part) for event in map(changed, changing()) for part in parts(event.details)}
    found |= {(event, part) for event, data in EVENT_DATA.items() for part in parts(data.example)}
    # Where an event tells one part alone, in whatever function.
    known = {part for _, part in found}
    for path in Path(core.domain.__path__[0]).rglob("*.py"):
        found |= {(path.name, part) for one in _SAID.findall(path.read_text()) if (part := one[0] or one[1]) not in known}
    return found


def parts(details: Mapping[str, Any]) -> Sequence[str]:
    text = shipped_pages().text(Language.ENGLISH)
    return [one.part for one in changes_in(entry("x", **details), text)]


def test_the_walk_finds_what_there_is() -> None:
    assert len(list(changing())) > 20
    assert {
        *(("resource_server.updated", "admits"), ("trusted_issuer.updated", "subject_pattern"), ("service.user_keys.updated", "most_keys")),
        *(("organization.sign_in_rules.updated", "admin_factor"), ("organization.upstream_provider.updated", "assertion_subject")),
    } <= told()


@pytest.mark.parametrize("language", CONSOLE_LANGUAGES)
def test_each_part_has_a_label(language: Language) -> None:
    text = shipped_pages().text(language)
    unlabelled = set()
    for action, part in told():
        details: dict[str, Any] = {f"old_{part}": 1}
        (change,) = changes_in(entry(action, **details), text)
        if not change.label:
            unlabelled.add((action, part))
    assert unlabelled == set()


def test_a_label_is_that_of_the_thing_s_own_form() -> None:
    text = shipped_pages().text(Language.ENGLISH)
    for action, part, label in (
        ("trusted_issuer.updated", "issuer", "Issuer (iss)"),
        ("organization.upstream_provider.updated", "issuer", text("console.field.issuer")),
        ("resource_server.updated", "admits", "Who can request tokens"),
        ("service.user_keys.updated", "enabled", text("console.user_keys.enabled")),
    ):
        details: dict[str, Any] = {f"old_{part}": 1}
        (change,) = changes_in(entry(action, **details), text)
        assert change.label == label
