"""The audit log: what of a client is kept, what may be looked for, and that all that is recorded has a name."""

import ast
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from core.domain.audit import ACTIONS, LONGEST_USER_AGENT, AuditFilter, TargetType, kept_user_agent, require_reachable
from core.domain.errors import BadRequest
from core.domain.events import Actor
from core.domain.identifiers import UserId
from core.domain.pages import MOST_COUNTED, Page
from tests.places import ROOT

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def test_a_user_agent_is_kept_up_to_a_length() -> None:
    assert kept_user_agent(Actor()) is None
    assert kept_user_agent(Actor(user_agent="Mozilla")) == "Mozilla"
    assert kept_user_agent(Actor(user_agent="x" * 100_000)) == "x" * LONGEST_USER_AGENT


def test_a_filter_that_says_nothing_is_empty() -> None:
    assert AuditFilter().is_empty
    for one in (
        AuditFilter(action="user.invited"),
        AuditFilter(target_type=TargetType.USER),
        AuditFilter(target_type=TargetType.USER, target_id="7"),
        AuditFilter(actor=UserId(UUID(int=7))),
        AuditFilter(success=False),
        AuditFilter(success=True),
        AuditFilter(since=NOON),
        AuditFilter(until=NOON),
    ):
        assert not one.is_empty


def test_a_target_is_named_with_its_type() -> None:
    with pytest.raises(BadRequest, match="target_type"):
        AuditFilter(target_id="7")


def test_a_span_of_time_ends_after_it_begins() -> None:
    AuditFilter(since=NOON, until=NOON + timedelta(microseconds=1))
    for until in (NOON, NOON - timedelta(days=1)):
        with pytest.raises(BadRequest, match="until"):
            AuditFilter(since=NOON, until=until)


def test_a_filtered_list_is_read_as_far_as_is_counted() -> None:
    require_reachable(Page(MOST_COUNTED // 100, 100))
    require_reachable(Page(MOST_COUNTED, 1))
    for page in (Page(MOST_COUNTED // 100 + 1, 100), Page(MOST_COUNTED + 1, 1), Page(10_000_000, 100)):
        with pytest.raises(BadRequest, match="since and until"):
            require_reachable(page)


def _events() -> Iterator[tuple[str, bool, str]]:
    """Of every `Event(...)` in the code: its name with a gap where something is filled in, whether it is audited, and where it stands."""
    for folder in ("core", "entrypoints", "adapters", "actors"):
        for file in (ROOT / folder).rglob("*.py"):
            for call in ast.walk(ast.parse(file.read_text())):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Event" and call.args:
                    audited = not any(
                        word.arg == "audited" and isinstance(word.value, ast.Constant) and word.value.value is False
                        for word in call.keywords
                    )
                    for name in _names(call.args[0]):
                        yield name, audited, f"{file.relative_to(ROOT)}:{call.lineno}"


def _names(expression: ast.expr) -> Iterator[str]:
    match expression:
        case ast.Constant(value=str(name)):
            yield name
        case ast.IfExp(body=body, orelse=orelse):
            yield from _names(body)
            yield from _names(orelse)
        case ast.JoinedStr(values=values):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in values)


def test_everything_that_is_audited_has_a_label_and_a_category() -> None:
    known = {action.value for action in ACTIONS}
    found = list(_events())
    assert len(found) > 10
    unnamed = {
        (name, place)
        for name, audited, place in found
        if audited and name not in known and not ("*" in name and any(_fits(name, value) for value in known))
    }
    assert unnamed == set()


def _fits(pattern: str, value: str) -> bool:
    before, _, after = pattern.partition("*")
    return value.startswith(before) and value.endswith(after)


def test_labels_and_categories_are_words_for_people() -> None:
    for action in ACTIONS:
        assert action.label[0].isupper()
        assert action.category[0].isupper()
        assert not action.label.endswith(".")
