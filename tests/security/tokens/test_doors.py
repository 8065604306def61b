"""The table of doors: each way to tokens for a service, and each rule of the service that has to stop it. A cell is walked on real
requests, or says in words why there is nothing to walk. A way that is missing here fails the last tests.
"""

import ast
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, get_args

import msgspec
import pytest

import core
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.fields import AccessTokenText
from entrypoints.http.routes import ROUTES
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.client import Received
from tests.http.people import People
from tests.http.upstream import conftest as upstream
from tests.http.upstream.scene import Fakes
from tests.security.tokens.doors import DOORS, RULES, Meeting, Ready

database_url, people = http.database_url, http.people
postern, fakes = upstream.postern, upstream.fakes

_NOBODY: Final = "The client acts for itself: there is no person whom the rule is about"
_BEGUN: Final = "Risk policies judge a sign-in when it begins, and leave sessions alone (0201)"
_NO_SIGN_IN: Final = "An impersonation is no sign-in of the person: it looks at what the person cannot enter, too (0011)"
_MINUTE: Final = "The step before the code asks for the factor, the code lasts a minute, and each refresh asks again"
_COOKIE: Final = "The setting is refused for such a service: its people have a cookie, and no tokens that could be bound (0206)"

REASONS: Final[Mapping[tuple[str, str], str]] = {
    ("a code", "second factor"): _MINUTE,
    ("a code of a public client", "second factor"): _MINUTE,
    ("a second factor", "second factor"): "The person shows it here",
    **{(door, rule): _NOBODY for door in ("the client's credentials", "a workload") for rule in ("second factor", "terms", "risk")},
    **{("an impersonation", rule): _NO_SIGN_IN for rule in ("second factor", "terms", "risk")},
    **{("a proxy", rule): _COOKIE for rule in ("bound tokens", "FAPI 2.0")},
    **{
        (door, "risk"): _BEGUN
        for door in (
            *("a code", "a code of a public client", "a refresh token", "our own refresh", "an exchange", "a yes from afar", "a proxy"),
        )
    },
    **{(door, "hooks"): _NOBODY for door in ("the client's credentials", "a workload")},
    ("an impersonation", "hooks"): _NO_SIGN_IN,
    ("an identity assertion", "hooks"): "Servers bring it: nobody has come here (0239)",
    ("an identity assertion", "risk"): "Servers bring it: there is no address, country or device to judge (0201)",
}
"""The cells that are not walked."""
_WALKED: Final = [(door, rule) for door in DOORS for rule in RULES if (door, rule) not in REASONS]
NO_SERVICE: Final = {
    "POST /api/organizations": "The token is for the organization that was founded, whose tokens no service receives",
    "POST /api/organizations/{org_slug}/select": "The token is for the organization, whose tokens no service receives",
}
"""Endpoints that give tokens for no service."""
_OTHER_SIGNATURES: Final = {
    "core/usecases/identity/sign_in/sign_in_results.py:_preauthenticated": "It opens the second step of a sign-in, and nothing else",
    "core/usecases/tenancy/management_keys.py:issue": "It is the token of a management key, which opens the interface of administrators",
    "core/usecases/tenancy/organizations.py:found": NO_SERVICE["POST /api/organizations"],
    "core/usecases/tenancy/members.py:_select": NO_SERVICE["POST /api/organizations/{org_slug}/select"],
}


@asynccontextmanager
async def _met(postern: Postern, people: People, log: CapturedLog, fakes: Fakes, door: str) -> AsyncIterator[Ready]:
    async with AsyncExitStack() as stack:
        yield await DOORS[door].lead(Meeting(postern, people, log, fakes, stack))


def _gives(answer: Received) -> bool:
    """In the body, behind the `#` of a redirect, or in the header for a proxy."""
    return b'"access_token"' in answer.body or "access_token=" in (answer.header("location") or "") or _assertion(answer)


def _assertion(answer: Received) -> bool:
    return bool(answer.header("x-postern-assertion"))


def _sessions(ready: Ready) -> list[dict[str, Any]]:
    return ready.scene.people.rows("select id from sessions where service_id = %s order by id", ready.service.id)


@pytest.mark.parametrize("door", DOORS)
async def test_a_door_is_open(postern: Postern, people: People, log: CapturedLog, fakes: Fakes, door: str) -> None:
    """Otherwise the walk below would find every door closed."""
    async with _met(postern, people, log, fakes, door) as ready:
        assert _gives(await ready.knock())


@pytest.mark.parametrize(("door", "rule"), _WALKED)
async def test_a_rule_closes_it(postern: Postern, people: People, log: CapturedLog, fakes: Fakes, door: str, rule: str) -> None:
    async with _met(postern, people, log, fakes, door) as ready:
        await RULES[rule](ready, ready.scene.resident(ready.scene.acme, "owner", "ruler"))  # type: ignore[attr-defined]  # each scene has acme
        before = _sessions(ready)
        answer = await ready.knock()
        assert not _gives(answer), answer.body
        assert _sessions(ready) == before


def test_each_reason_is_for_a_cell() -> None:
    assert set(REASONS) <= {(door, rule) for door in DOORS for rule in RULES}


def test_every_endpoint_that_answers_with_an_access_token_is_a_door() -> None:
    found = {str(one) for one in ROUTES if _answers_with_a_token(one)}
    known = {named for door in DOORS.values() for named in door.endpoints}
    # A callback and a check answer with redirects and headers.
    assert found == (known - {"GET /auth/{provider}/callback", "GET /proxy/check"}) | set(NO_SERVICE)


async def test_every_grant_is_a_door(postern: Postern) -> None:
    assert set(postern.federation.grants.types) == {door.grant for door in DOORS.values() if door.grant is not None}


def test_every_place_that_signs_such_tokens_belongs_to_a_door() -> None:
    known = {place for door in DOORS.values() for place in door.signs}
    assert set(_signing_places()) == known | set(_OTHER_SIGNATURES)


def _answers_with_a_token(endpoint: Endpoint) -> bool:
    return any(
        field.type == AccessTokenText
        for answer in (endpoint.answer_type, *endpoint.also.values())
        for struct in _structs(answer)
        for field in msgspec.structs.fields(struct)
    )


def _structs(answer: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(answer, type) and issubclass(answer, msgspec.Struct):
        yield answer
    for part in get_args(answer):
        yield from _structs(part)


def _signing_places() -> Iterator[str]:
    """Each function that signs an access token or an assertion for a proxy, or has a session's tokens made."""
    root = Path(next(iter(core.__path__))).parent
    for path in sorted(one for layer in ("core", "adapters", "actors", "entrypoints") for one in (root / layer).rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and any(map(_signs, ast.walk(function))):
                yield f"{path.relative_to(root)}:{function.name}"


def _signs(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    name, of = node.func.attr, ast.unparse(node.func.value)
    return name in {"sign_access", "sign_for_application", "sign_proxy"} or (name == "tokens" and (of.endswith("sessions") or of == "self"))
