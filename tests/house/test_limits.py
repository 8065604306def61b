"""`docs/security.md` names each limit: who can make it be reached, what happens then, and whether the one it judges gains by it."""

import ast
import re
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from typing import Final

import pytest

from entrypoints.http.machinery.limits import POLICIES
from entrypoints.http.routes import ROUTES
from tests.places import ROOT

_TITLE: Final = "## What happens at each limit\n"
_FLOORS: Final = ("core", "ports", "adapters", "actors", "entrypoints/http")
# A constant with one of these words in its name says how often, for how long or how many at once, or what follows failures.
_WORDS: Final = frozenset(
    {
        *("ATTEMPTS", "BUDGET", "FAILING", "FAILURES", "FAULTS", "MISSES", "PATIENCE", "PAUSE", "PLACES", "POLLS"),
        *("QUEUED", "REST", "SILENCE", "SLOTS", "TIMEOUT", "TRIES", "TURN", "WAIT", "WAITING"),
    }
)
# Bounds that a reader asks for, whatever they are called.
_FURTHER: Final = {
    "actors/recorders.py": {"_CONNECTION_RECORDER_MOST", "_MOST", "_REFUSAL_RECORDER_MOST", "_SCIM_EXCHANGE_WRITER_MOST"},
    "actors/span_recorder.py": {"MOST"},
    "adapters/outbound/hook_places.py": {"MOST_OF_KIND"},
    "adapters/postgres/record/entry_receivers.py": {"_MOST_GONE", "_MOST_READ"},
    "core/domain/far_numbers.py": {"MOST_FAR_NUMBERS"},
    "core/domain/federation/provisioning/listed.py": {"MOST_BYTES_LISTED"},
    "core/domain/federation/provisioning/progress.py": {"LONGEST_RUN"},
    "core/domain/identity/guards/hook_verdicts.py": {"VERDICT_LIFETIME"},
    "core/domain/identity/guards/puzzles.py": {"MOST_BITS"},
    "core/domain/images.py": {"_MOST_IN_FRAME"},
    "core/domain/record/entry_receivers.py": {"MOST_OFFBOARDING", "MOST_RECEIVERS"},
    "core/domain/record/evidence.py": {"MOST_IN_EVIDENCE"},
    "core/domain/tenancy/hooks.py": {"KNOWN_AFTER"},
    "core/domain/tenancy/offboarding.py": {"LONGEST_MINUTES", "MAILS_APART", "WATCHED_FOR"},
    "core/usecases/outbound_reach.py": {"LATELY", "MOST_RECEIVERS"},
    "core/usecases/tenancy/hook_asking.py": {"FAILED_ABOUT", "_MOST_HOOKS", "_MOST_KNOWN"},
    "entrypoints/http/machinery/decoding.py": {"_MOST_BRACKETS"},
}
_PHRASES: Final = ("ASKED_IN_FLOW", "AT_ONCE", "MOST_HOURS", "OF_ONE", "OF_ORGANIZATION", "OF_PERSON", "OF_PROCESS", "UNDER_WAY")
# What these bound is a piece of work: the next piece follows, and nobody is refused, let in or left out. What belongs to an operator's own
# command is not here either.
_NO_LIMITS: Final = {
    "actors/audit_log.py": {"HANDS_FOR_FAILING", "_TURN"},
    "actors/billing.py": {"_REST"},
    "actors/dispatcher.py": {"_FAILING_FIRST", "_TURN"},
    "actors/foundation.py": {"LONGEST_SILENCE"},
    "actors/job_worker.py": {"_LONGEST_REST", "_REST", "_SHORTEST_WAIT"},
    "actors/recorders.py": {"_GATHERED_AT_ONCE"},
    "actors/sweepers.py": {"_AT_ONCE"},
    "actors/upkeep.py": {"_LONGEST_REST", "PURGE_TIMEOUT", "REENCRYPTION_TIMEOUT"},
    "adapters/crypto/factors.py": {"_DRAWN_AT_ONCE", "_READ_AT_ONCE"},
    "adapters/crypto/hashing_threads.py": {"REST"},
    "adapters/ldap/connection.py": {"_AT_ONCE"},
    "adapters/moving_files.py": {"_BYTES_AT_ONCE", "_ROWS_AT_ONCE"},
    "adapters/outbound/connections.py": {"_PARTS_A_TURN", "_PAUSE"},
    "adapters/outbound/scim.py": {"_A_TURN"},
    "adapters/postgres/database.py": {"WRITE_PAUSE"},
    "adapters/postgres/federation/authorizations.py": {"_AT_ONCE"},
    "adapters/postgres/federation/scim/tokens.py": {"_AT_ONCE"},
    "adapters/postgres/identity/upstream/connections.py": {"_AT_ONCE"},
    "adapters/postgres/platform/platform_users.py": {"MOST_ATTEMPTS"},
    "adapters/postgres/presence.py": {"WRITTEN_AT_ONCE"},
    "adapters/postgres/rate_limits.py": {"FORGOTTEN_AT_ONCE"},
    "adapters/postgres/record/audit.py": {"_LINKED_AT_ONCE", "_READ_AT_ONCE", "_TAKEN_AT_ONCE"},
    "adapters/postgres/tenancy/management_keys.py": {"_PAUSE"},
    "adapters/system.py": {"_NOISE_AT_ONCE"},
    "core/domain/identity/guards/guesses.py": {"SLOTS"},
    "core/domain/identity/privacy.py": {"MOST_AT_ONCE"},
    "core/domain/platform/analytics.py": {"COUNTED_AT_ONCE", "MOST_READ_FOR_FAILURES"},
    "core/usecases/federation/device_flow.py": {"_TRIES"},
    "core/usecases/federation/directory_runs/keeping.py": {"_MOST_AT_ONCE"},
    "core/usecases/jobs.py": {"PURGE_PATIENCE"},
    "core/usecases/platform/imports.py": {"_TRIES"},
    "core/usecases/record.py": {"CHAINS_AT_ONCE", "LINKED_AT_ONCE", "READ_AT_ONCE"},
    "core/usecases/tenancy/receivers/offboarding.py": {"AT_ONCE", "ORGANIZATIONS_AT_ONCE"},
    "core/usecases/tenancy/receivers/siem.py": {"_MADE_AT_ONCE", "NUMBERED_AT_ONCE"},
    "entrypoints/http/console/kit/many/__init__.py": {"_AT_ONCE"},
    "entrypoints/http/console/organization/people/why/__init__.py": {"_MOST_TRIES"},
    "entrypoints/http/console/organization/settings/audit_log.py": {"_AT_ONCE"},
    "entrypoints/http/server/connection.py": {"_GIVEN_UP_AT_ONCE"},
    "entrypoints/http/server/protocol.py": {"_STEPS_AT_ONCE"},
    "entrypoints/http/server/serving.py": {"_ACCEPTS_AT_ONCE", "_FULL_HOUSE_PAUSE"},
}
# Driver, migrations and moves are an operator's.
_OPERATORS: Final = (
    "adapters/postgres/driver/",
    "adapters/postgres/migrate.py",
    "adapters/postgres/migrating/",
    "adapters/postgres/moving/",
)
_NAMED: Final = re.compile(r"`([a-z_.]+\.[A-Z_]+)` ([^,|`]+?)(?=,|$)")
_VERDICT: Final = re.compile(r"(no|yes|partly)\b")


def _words(value: timedelta | float) -> str:
    """As the page writes it: `30 s`, `500 ms`, `5 min`, `2 h`, `7 d`."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{int(seconds) // size} {unit}"
    return f"{seconds:g} s" if seconds >= 1 else f"{seconds * 1000:g} ms"


def _count(value: float) -> str:
    return f"{value:,}".replace(",", " ")


def _read(value: ast.expr) -> str | None:
    """The value of a constant as the page writes it; None if it bounds nothing."""
    text = None
    match value:
        case ast.Call(func=ast.Name(id="RateLimit"), keywords=[ast.keyword(value=burst), ast.keyword(value=pace)]):
            text = f"{_count(_number(burst))} + 1/{_words(_number(pace)).removeprefix('1 ')}"
        case ast.Call(func=ast.Name(id="timedelta"), keywords=keywords):
            text = _words(timedelta(**{str(one.arg): _number(one.value) for one in keywords}))
        case ast.Constant(value=float(seconds)):
            text = _words(seconds)
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            text = _count(number)
        case ast.Dict(values=[ast.Constant(value=int()), *_] as values):
            text = "/".join(_count(_number(one)) for one in values)
        case ast.BinOp() if not any(isinstance(part, ast.Name) for part in ast.walk(value)):
            text = _count(_number(value))
    return text


def _number(value: ast.expr) -> float:
    """A number as a constant says it: `30 * 86_400`, `1 << 16`."""
    match value:
        case ast.Constant(value=int(number) | float(number)):
            return number
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _number(left) * _number(right)
        case ast.BinOp(left=left, op=ast.LShift(), right=right):
            return int(_number(left)) << int(_number(right))
    raise AssertionError(ast.unparse(value))


def _constants(path: str) -> Iterator[tuple[str, ast.expr]]:
    for statement in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) | ast.Assign(targets=[ast.Name(id=name)], value=value):
                if name.isupper():
                    yield name, value


@cache
def limits() -> dict[str, str]:
    """Each limit in the code, by file and name, with its value."""
    found = {}
    for floor in _FLOORS:
        for file in sorted((ROOT / floor).rglob("*.py")):
            path = str(file.relative_to(ROOT))
            for name, value in _constants(path):
                is_rate = isinstance(value, ast.Call) and ast.unparse(value.func) == "RateLimit"
                is_bound = bool(_WORDS & set(name.split("_"))) or any(phrase in name for phrase in _PHRASES)
                is_bound = is_bound or name in _FURTHER.get(path, ())
                if (is_rate or (is_bound and not path.startswith(_OPERATORS))) and name not in _NO_LIMITS.get(path, ()):
                    text = _read(value)
                    if text is not None:
                        found[f"{path}:{name}"] = text
    return found


@cache
def rows() -> list[list[str]]:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    table = page.partition(_TITLE)[2].partition("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def _is_named(place: str, named: str) -> bool:
    """Whether `guesses.WAITING_HERE` names `core/usecases/identity/guards/guesses.py:WAITING_HERE`."""
    path, _, name = place.partition(":")
    dotted = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return f".{dotted}.{name}".endswith(f".{named}")


def test_each_limit_has_a_row_with_its_value() -> None:
    stated = [(named, value.strip()) for row in rows() for named, value in _NAMED.findall(row[0])]
    missing = {place: value for place, value in limits().items() if not any(_is_named(place, named) for named, _ in stated)}
    assert missing == {}
    for named, value in stated:
        meant = {place: text for place, text in limits().items() if _is_named(place, named)}
        assert len(meant) == 1, f"{named}: {meant}"
        assert set(meant.values()) == {value}, named
    assert len(stated) == len(set(stated))


def test_each_row_says_who_and_what_and_whether_it_pays() -> None:
    assert len(rows()) > 50
    for row in rows():
        assert len(row) == 4, row
        assert all(row), row
        assert _VERDICT.match(row[3]), row


def test_the_limit_of_each_endpoint_is_one_of_the_table() -> None:
    """A rate limit that a route makes for itself would stand in no row."""
    used = {limit.name for endpoint in ROUTES for limit in endpoint.limits}
    assert used
    assert used <= {limit.name for limit in POLICIES}


def test_what_is_no_limit_exists() -> None:
    for path, names in _NO_LIMITS.items():
        assert names <= {name for name, _ in _constants(path)}, path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("RateLimit('x', burst=2000, seconds_per_request=0.004)", "2 000 + 1/4 ms"),
        ("RateLimit('x', burst=1, seconds_per_request=30 * 86_400)", "1 + 1/30 d"),
        ("timedelta(minutes=90)", "90 min"),
        ("2.5", "2.5 s"),
        ("1 << 16", "65 536"),
        ("{Kind.ONE: 20, Kind.OTHER: 5}", "20/5"),
        ("OTHER", None),
    ],
)
def test_a_value_is_read_as_the_page_writes_it(text: str, said: str | None) -> None:
    assert _read(ast.parse(text, mode="eval").body) == said
