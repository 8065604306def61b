"""Declarations: what one says, and which do not start the server."""

from types import ModuleType
from typing import Any

import msgspec
import pytest

from core.domain.errors import BadRequest, Conflict, NotFound, PayloadTooLarge, RateLimited, UnsupportedMediaType
from entrypoints.bootstrap import Services
from entrypoints.http.answers import NOTHING, Answer, Nothing
from entrypoints.http.callers import ANYONE, USER
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import Endpoint, Endpoints, InvalidDeclaration, endpoint
from entrypoints.http.limits import AUTH, LOGIN


class Body(msgspec.Struct):
    name: str


class Query(msgspec.Struct):
    page: int = 1


class Path(msgspec.Struct):
    shop: str


async def handler(_call: Call, _services: Services) -> Nothing:
    return NOTHING


async def full_handler(_call: Call[Body, Query, Path], _services: Services) -> Answer[Body]:
    """Change a shop

    In every respect.
    """
    raise NotImplementedError


def test_a_declaration_takes_its_types_from_the_handler() -> None:
    declared = endpoint.patch("/shops/{shop}", caller=USER, limit=(AUTH, LOGIN), refuses=(Conflict,), tags=("shops",))(full_handler)
    assert (declared.body_type, declared.query_type, declared.path_type, declared.answer_type) == (Body, Query, Path, Body)
    assert (declared.summary, declared.description) == ("Change a shop", "In every respect.")
    assert (declared.limits, declared.waits, str(declared)) == ((AUTH, LOGIN), True, "PATCH /shops/{shop}")


def test_a_declaration_knows_all_refusals_that_follow_from_it() -> None:
    declared = endpoint.patch("/shops/{shop}", caller=USER, limit=AUTH, refuses=(Conflict,))(full_handler)
    assert set(declared.refusals) == {
        *USER.refuses, BadRequest, Conflict, NotFound, PayloadTooLarge, RateLimited, UnsupportedMediaType
    }  # fmt: skip
    assert endpoint.get("/shops", caller=ANYONE)(handler).refusals == ()


@pytest.mark.parametrize("caller", [None, "user", object()])
def test_a_route_that_does_not_say_who_may_call_is_refused(caller: Any) -> None:
    with pytest.raises(InvalidDeclaration, match=r"^POST /shops does not say who may call it$"):
        endpoint.post("/shops", caller=caller)
    with pytest.raises(InvalidDeclaration, match="who may call"):
        endpoint.post("/shops")  # type: ignore[call-arg]  # what the type checker finds, the start finds too


@pytest.mark.parametrize("path", ["", "shops", "/shops/", "//shops", "/shops/{shop", "/shops/a{shop}", "/shops/:shop", "/shops?x", "/a b"])
def test_a_path_that_is_no_template_is_refused(path: str) -> None:
    with pytest.raises(InvalidDeclaration, match="is not a path template"):
        endpoint.get(path, caller=ANYONE)


@pytest.mark.parametrize("path", ["/shops", "/shops/{slug}", "/shops/{shop}/{id}"])
def test_parameters_without_a_field_and_fields_without_a_parameter_are_refused(path: str) -> None:
    with pytest.raises(InvalidDeclaration, match="parameters are not the fields"):
        endpoint.patch(path, caller=ANYONE)(full_handler)


def test_get_takes_no_body() -> None:
    with pytest.raises(InvalidDeclaration, match="cannot take a body"):
        endpoint.get("/shops/{shop}", caller=ANYONE)(full_handler)


def test_a_handler_must_say_what_it_takes_and_gives() -> None:
    async def no_call(_call: int, _services: Services) -> Nothing:
        return NOTHING

    async def no_answer(_call: Call, _services):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - what is tested
        return NOTHING

    async def odd_query(_call: Call[None, dict[str, str]], _services: Services) -> Nothing:
        return NOTHING

    for wrong, words in ((no_call, "must be a Call"), (no_answer, "does not say what it answers"), (odd_query, "described by Structs")):
        with pytest.raises(InvalidDeclaration, match=words):
            endpoint.get("/shops", caller=ANYONE)(wrong)


def test_a_route_declared_twice_is_refused() -> None:
    class Other(msgspec.Struct):
        slug: str

    async def other(_call: Call[Body, None, Other], _services: Services) -> Nothing:
        return NOTHING

    one = endpoint.patch("/shops/{shop}", caller=ANYONE)(full_handler)
    two = endpoint.patch("/shops/{slug}", caller=ANYONE)(other)
    with pytest.raises(InvalidDeclaration, match=r"^PATCH /shops/\{slug\} is declared twice$"):
        Endpoints([one, two])


def test_endpoints_are_collected_from_modules() -> None:
    module = ModuleType("shops")
    vars(module).update(shops=endpoint.get("/shops", caller=ANYONE)(handler), something=5)
    collected = Endpoints.of(module)
    assert [str(one) for one in collected] == ["GET /shops"]
    assert len(collected) == 1
    assert isinstance(next(iter(collected)), Endpoint)
