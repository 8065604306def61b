"""Endpoints for tests of the machinery, declared like real endpoints. They do what the machinery must cope with."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any
from uuid import UUID

import msgspec
import psycopg
import trio

from core.domain.errors import Conflict, Forbidden, NotFound, OrganizationNotActive, Overloaded, RateLimited, Unavailable
from core.domain.rate_limits import RateLimit
from core.domain.secrets import Password
from core.domain.services.api_keys import Permission
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Form, Json, Raw
from entrypoints.http.machinery.answers import EMPTY_OBJECT, NO_BODY, Answer, AnswerHeader, EmptyObject, NoBody, PagePolicy
from entrypoints.http.machinery.callers import ANYONE, key
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.errors import OAUTH, SCIM
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.pages.kit.declaring import page

TAGS = ("operations",)
EXTRA = AnswerHeader("X-Extra", "One more.", "1")
FEW = RateLimit("few", burst=3, seconds_per_request=10)
FEWER = RateLimit("fewer", burst=2, seconds_per_request=30)


class Part(msgspec.Struct):
    name: str
    price: int


class Order(msgspec.Struct):
    email: Annotated[str, msgspec.Meta(min_length=3)]
    count: int = 1
    paid: bool = False
    parts: list[Part] = []
    note: str | None = None
    labels: dict[str, str] = {}


class PageQuery(msgspec.Struct):
    page: Annotated[int, msgspec.Meta(ge=1)] = 1
    query: str = ""
    exact: bool = False
    status: list[str] = []


class OrderPath(msgspec.Struct):
    shop: str
    id: UUID


class Credentials(msgspec.Struct):
    email: str
    password: Password


class Echo(msgspec.Struct):
    text: str


@endpoint.post("/orders", caller=ANYONE, limit=UNLIMITED, tags=TAGS, status=201)
async def order(call: Call[Order], _postern: Postern) -> Order:
    """Give back an order"""
    return call.body


@endpoint.get("/orders", caller=ANYONE, limit=UNLIMITED, tags=TAGS)
async def orders(call: Call[None, PageQuery], _postern: Postern) -> PageQuery:
    """Give back a query"""
    return call.query


@endpoint.patch("/shops/{shop}/orders/{id}", caller=ANYONE, limit=UNLIMITED, tags=TAGS, status=202, sends={202: (EXTRA,)})
async def change(call: Call[Order, PageQuery, OrderPath], _postern: Postern) -> Answer[Sequence[str]]:
    """Give back all three"""
    return Answer([call.path.shop, str(call.path.id), call.query.query, call.body.email], 202, ((b"x-extra", b"1"),))


@endpoint.put("/small", caller=ANYONE, limit=UNLIMITED, tags=TAGS, accepts=Json(limit=40))
async def small(call: Call[Order], _postern: Postern) -> Order:
    """Take little"""
    return call.body


@endpoint.post("/sign-in", caller=ANYONE, limit=UNLIMITED, tags=TAGS)
async def give_password(call: Call[Credentials], _postern: Postern) -> Echo:
    """Show what a secret looks like"""
    return Echo(f"{call.body!r} {type(call.body.password).__name__}")


@endpoint.post("/leak", caller=ANYONE, limit=UNLIMITED, tags=TAGS)
async def leak(call: Call[Credentials], _postern: Postern) -> Credentials:
    """Try to give a secret back"""
    return call.body


@endpoint.post("/nothing", caller=ANYONE, limit=UNLIMITED, tags=TAGS)
async def nothing(_call: Call, _postern: Postern) -> EmptyObject:
    """Say nothing"""
    return EMPTY_OBJECT


@endpoint.delete("/nothing", caller=ANYONE, limit=UNLIMITED, tags=TAGS, status=204)
async def delete_nothing(_call: Call, _postern: Postern) -> NoBody:
    """Say even less"""
    return NO_BODY


class Trouble(msgspec.Struct):
    kind: str


FAILURES: dict[str, Callable[[], Exception]] = {
    "conflict": lambda: Conflict("The slug is taken", detail="private: slug of acme"),
    "inactive": OrganizationNotActive,
    "overloaded": lambda: Overloaded(retry_after=0.2),
    "unavailable": lambda: Unavailable(retry_after=2.1, detail="private: connection refused"),
    "limited": lambda: RateLimited(retry_after=59.01),
    "bug": lambda: RuntimeError("private: the password was hunter2hunter2"),
    "database": lambda: psycopg.errors.UniqueViolation("private: duplicate key"),
    "group": lambda: ExceptionGroup("nursery", [ExceptionGroup("inner", [NotFound("No such thing")]), Forbidden()]),
    "mixed": lambda: ExceptionGroup("nursery", [NotFound("No such thing"), RuntimeError("private: a bug beside it")]),
}


@endpoint.get("/troubles/{kind}", caller=ANYONE, limit=UNLIMITED, tags=TAGS, refuses=(Conflict, Forbidden))
async def trouble(call: Call[None, None, Trouble], _postern: Postern) -> EmptyObject:
    """Fail in the way that is asked for"""
    failure = FAILURES[call.path.kind]()
    raise failure


@endpoint.get("/slow/{kind}", caller=ANYONE, limit=UNLIMITED, tags=TAGS)
async def slow(call: Call[None, None, Trouble], _postern: Postern) -> EmptyObject:
    """Take an hour"""
    with trio.fail_after(1 if call.path.kind == "too-slow" else 7200):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 3600 if call.path.kind == "nested" else 0)
            await trio.sleep(3600)
    return EMPTY_OBJECT


@endpoint.get("/caller", caller=ANYONE, limit=UNLIMITED, tags=TAGS)
async def caller(call: Call, _postern: Postern) -> Echo:
    """Ask for a caller where there is none"""
    return Echo(str(call.caller))


@endpoint.get("/address", caller=ANYONE, limit=UNLIMITED, tags=TAGS)
async def address(call: Call, _postern: Postern) -> Echo:
    """Say where the request comes from"""
    return Echo(f"{call.client_address} {call.user_agent}")


@endpoint.get("/limited", caller=ANYONE, tags=TAGS, limit=FEW)
async def limited(_call: Call, _postern: Postern) -> EmptyObject:
    """Be asked seldom"""
    return EMPTY_OBJECT


@endpoint.get("/doubly-limited", caller=ANYONE, tags=TAGS, limit=(FEW, FEWER))
async def doubly_limited(_call: Call, _postern: Postern) -> EmptyObject:
    """Be asked even less"""
    return EMPTY_OBJECT


@endpoint.get("/kept", caller=ANYONE, limit=UNLIMITED, tags=TAGS, cache="public, max-age=60", produces="text/plain")
def kept(_call: Call, _postern: Postern) -> bytes:
    """Be cached"""
    return b"kept"


class TokenRequest(msgspec.Struct, frozen=True):
    grant_type: str
    code: str
    count: int = 0
    scope: list[str] = []


@endpoint.post(
    "/token", caller=ANYONE, limit=UNLIMITED, tags=TAGS, accepts=Form(limit=300, most_fields=6), errors=OAUTH, refuses=(Conflict,)
)
async def token(call: Call[TokenRequest], _postern: Postern) -> TokenRequest:
    """Take a form, and refuse in OAuth's words"""
    if call.body.code == "taken":
        raise Conflict("The code was redeemed")
    return call.body


@endpoint.get("/token/{kind}", caller=ANYONE, limit=FEW, tags=TAGS, errors=OAUTH, refuses=(Forbidden,))
async def trouble_with_token(call: Call[None, None, Trouble], _postern: Postern) -> EmptyObject:
    """Fail in OAuth's words"""
    failure = FAILURES[call.path.kind]()
    raise failure


@endpoint.get("/keyed-token", caller=key(Permission.READ_SERVICE), tags=TAGS, errors=OAUTH)
async def token_by_key(_call: Call[None, None, None, Any], _postern: Postern) -> EmptyObject:
    """Want an API key, in OAuth's words"""
    return EMPTY_OBJECT


@endpoint.post("/scim/{kind}", caller=ANYONE, limit=UNLIMITED, tags=TAGS, errors=SCIM, refuses=(Conflict,), status=201)
async def provision(call: Call[Part, None, Trouble], _postern: Postern) -> Part:
    """Refuse as SCIM does"""
    if call.path.kind in FAILURES:
        failure = FAILURES[call.path.kind]()
        raise failure
    return call.body


@endpoint.post("/events", caller=ANYONE, limit=UNLIMITED, tags=TAGS, accepts=Raw("application/json", limit=100))
async def receive(call: Call[bytes], _postern: Postern) -> Echo:
    """Take bytes as they are"""
    return Echo(call.body.hex())


def advice(refused: object) -> str:
    return "accept_invitation.expired" if isinstance(refused, Conflict) else ""


@page.get(
    "/pages/{kind}",
    caller=ANYONE,
    limit=FEW,
    policy=PagePolicy(
        scripts=("'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='",), form_action=None, opener="same-origin-allow-popups"
    ),
    advice=advice,
)
async def leaving_page(call: Call[None, None, Trouble], _postern: Postern) -> bytes:
    """Show a page with a policy of its own, or fail"""
    if call.path.kind in FAILURES:
        failure = FAILURES[call.path.kind]()
        raise failure
    return b"<!doctype html><title>Here</title>"


@page.post("/pages", caller=ANYONE, limit=UNLIMITED)
def pressed(_call: Call, _postern: Postern) -> bytes:
    """Take a form that has nothing but a button"""
    return b"<!doctype html><title>Pressed</title>"
