"""Endpoints that do what the machinery must cope with, declared as real ones are."""

from collections.abc import Callable, Sequence
from typing import Annotated
from uuid import UUID

import msgspec
import psycopg
import trio

from core.domain.errors import Conflict, Forbidden, NotFound, OrganizationNotActive, Overloaded, RateLimited, Unavailable
from core.domain.rate_limits import RateLimit
from core.domain.secrets import Password
from entrypoints.bootstrap import Services
from entrypoints.http.answers import NO_BODY, NOTHING, Answer, NoBody, Nothing
from entrypoints.http.callers import ANYONE
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import endpoint

TAGS = ("operations",)
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


class Page(msgspec.Struct):
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


@endpoint.post("/orders", caller=ANYONE, tags=TAGS, status=201)
async def order(call: Call[Order], _services: Services) -> Order:
    """Give back an order"""
    return call.body


@endpoint.get("/orders", caller=ANYONE, tags=TAGS)
async def orders(call: Call[None, Page], _services: Services) -> Page:
    """Give back a query"""
    return call.query


@endpoint.patch("/shops/{shop}/orders/{id}", caller=ANYONE, tags=TAGS)
async def change(call: Call[Order, Page, OrderPath], _services: Services) -> Answer[Sequence[str]]:
    """Give back all three"""
    return Answer([call.path.shop, str(call.path.id), call.query.query, call.body.email], 202, ((b"x-extra", b"1"),))


@endpoint.put("/small", caller=ANYONE, tags=TAGS, body_limit=40)
async def small(call: Call[Order], _services: Services) -> Order:
    """Take little"""
    return call.body


@endpoint.post("/sign-in", caller=ANYONE, tags=TAGS)
async def give_password(call: Call[Credentials], _services: Services) -> Echo:
    """Show what a secret looks like"""
    return Echo(f"{call.body!r} {type(call.body.password).__name__}")


@endpoint.post("/leak", caller=ANYONE, tags=TAGS)
async def leak(call: Call[Credentials], _services: Services) -> Credentials:
    """Try to give a secret back"""
    return call.body


@endpoint.post("/nothing", caller=ANYONE, tags=TAGS)
async def nothing(_call: Call, _services: Services) -> Nothing:
    """Say nothing"""
    return NOTHING


@endpoint.delete("/nothing", caller=ANYONE, tags=TAGS, status=204)
async def delete_nothing(_call: Call, _services: Services) -> NoBody:
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


@endpoint.get("/troubles/{kind}", caller=ANYONE, tags=TAGS, refuses=(Conflict, Forbidden))
async def trouble(call: Call[None, None, Trouble], _services: Services) -> Nothing:
    """Fail in the way that is asked for"""
    failure = FAILURES[call.path.kind]()
    raise failure


@endpoint.get("/slow/{kind}", caller=ANYONE, tags=TAGS)
async def slow(call: Call[None, None, Trouble], _services: Services) -> Nothing:
    """Take an hour"""
    with trio.fail_after(1 if call.path.kind == "too-slow" else 7200):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 3600 if call.path.kind == "nested" else 0)
            await trio.sleep(3600)
    return NOTHING


@endpoint.get("/caller", caller=ANYONE, tags=TAGS)
async def caller(call: Call, _services: Services) -> Echo:
    """Ask for a caller where there is none"""
    return Echo(str(call.caller))


@endpoint.get("/address", caller=ANYONE, tags=TAGS)
async def address(call: Call, _services: Services) -> Echo:
    """Say where the request comes from"""
    return Echo(f"{call.client_address} {call.user_agent}")


@endpoint.get("/limited", caller=ANYONE, tags=TAGS, limit=FEW)
async def limited(_call: Call, _services: Services) -> Nothing:
    """Be asked seldom"""
    return NOTHING


@endpoint.get("/doubly-limited", caller=ANYONE, tags=TAGS, limit=(FEW, FEWER))
async def doubly_limited(_call: Call, _services: Services) -> Nothing:
    """Be asked even less"""
    return NOTHING


@endpoint.get("/kept", caller=ANYONE, tags=TAGS, cache="public, max-age=60", produces="text/plain")
def kept(_call: Call, _services: Services) -> bytes:
    """Be cached"""
    return b"kept"
