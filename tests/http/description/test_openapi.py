"""The OpenAPI document says what the declarations say, and is well formed."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from core.domain.identity.accounts import LONGEST_PASSWORD
from entrypoints.http.application import PAGES
from entrypoints.http.description import openapi
from entrypoints.http.machinery.endpoints import Endpoints
from entrypoints.http.machinery.errors import OURS, status_of
from entrypoints.http.routes import ROUTES
from tests.http import examples
from tests.http.client import Client
from tests.http.people import BASE_URL

Json = dict[str, Any]
ALL = Endpoints([*ROUTES, *Endpoints.of(examples)])


@pytest.fixture(scope="module")
def document() -> Json:
    return openapi.document(ALL, base_url=BASE_URL, version="1.2.3")


def operation(document: Json, method: str, path: str) -> Json:
    found: Json = document["paths"][path][method]
    return found


def references(value: Any) -> Iterator[str]:
    """All references, also those in examples, since some tools look for references there too."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_every_declared_route_is_there_and_nothing_else(document: Json) -> None:
    told = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert told == {(one.method, one.path) for one in ALL if one.tags}


def test_the_document_is_well_formed(document: Json) -> None:
    assert document["openapi"] == "3.1.0"
    assert set(document["info"]) >= {"title", "version"}
    for reference in references(document):
        node: Any = document
        for step in reference.removeprefix("#/").split("/"):
            node = node[step]
    tags = {tag["name"] for tag in document["tags"]}
    names: list[str] = []
    for path, methods in document["paths"].items():
        for one in methods.values():
            names.append(one["operationId"])
            assert set(one["tags"]) <= tags
            assert all(set(scheme) <= set(document["components"]["securitySchemes"]) for scheme in one["security"])
            in_path = {parameter["name"] for parameter in one.get("parameters", ()) if parameter["in"] == "path"}
            assert in_path == set(re.findall(r"\{(\w+)\}", path))
            assert all(parameter["required"] for parameter in one.get("parameters", ()) if parameter["in"] == "path")
            for status, response in one["responses"].items():
                assert re.fullmatch(r"[2345]\d\d|default", status)
                assert "$ref" in response or response["description"]
    assert len(names) == len(set(names))


def test_who_may_call_is_told_as_security(document: Json) -> None:
    assert operation(document, "get", "/api/user")["security"] == [{"bearer": []}, {"dpop": []}]
    assert operation(document, "get", "/api/user/devices")["security"] == [{"bearer": []}]
    assert operation(document, "get", "/api/user")["x-caller"] == "user"
    assert operation(document, "get", "/health")["security"] == []
    assert operation(document, "get", "/api/user")["x-sessions"] == {
        "contexts": ["platform", "organization", "service"],
        "impersonated": True,
    }
    assert operation(document, "get", "/api/user/devices")["x-sessions"] == {
        "contexts": ["platform", "organization"],
        "impersonated": False,
    }
    assert "x-sessions" not in operation(document, "get", "/api/service/info")
    assert document["components"]["securitySchemes"]["bearer"] == {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}


@pytest.mark.parametrize("one", [one for one in ALL if one.tags], ids=str)
def test_every_refusal_is_told_with_its_code(document: Json, one: Any) -> None:
    responses = operation(document, one.method.lower(), one.path)["responses"]
    schema = {"type": "string"} if one.errors.kind is None else {"$ref": f"#/components/schemas/{one.errors.kind.__name__}"}
    for refusal in one.refusals:
        told = responses[str(status_of(refusal))]
        if status_of(refusal) not in one.also:
            assert refusal.code in told["description"]
            content = told["content"][one.errors.media_type]
            assert content["schema"] == schema
            assert one.is_page or refusal.code in content["examples"]
    if one.errors is OURS:
        assert responses["default"] == {"$ref": "#/components/responses/Error"}
    else:
        assert responses["default"]["content"][one.errors.media_type]["schema"] == schema


def test_bodies_queries_paths_and_limits_are_told(document: Json) -> None:
    change = operation(document, "patch", "/shops/{shop}/orders/{id}")
    assert change["requestBody"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Order"}
    parameters = {parameter["name"]: parameter for parameter in change["parameters"]}
    assert parameters["id"]["schema"] == {"type": "string", "format": "uuid"}
    assert (parameters["page"]["in"], parameters["page"]["required"]) == ("query", False)
    assert parameters["page"]["schema"] == {"type": "integer", "minimum": 1, "default": 1}
    limited = operation(document, "get", "/doubly-limited")
    assert [limit["name"] for limit in limited["x-rate-limit"]] == ["few", "fewer"]
    assert "Retry-After" in limited["responses"]["429"]["headers"]
    assert "WWW-Authenticate" in operation(document, "get", "/api/user")["responses"]["401"]["headers"]
    assert document["components"]["schemas"]["Credentials"]["properties"]["password"] == {
        "type": "string",
        "format": "password",
        "maxLength": LONGEST_PASSWORD,
    }
    assert "PageQuery" in document["components"]["schemas"], "it is an answer too"
    assert "OrderPath" not in document["components"]["schemas"]


def test_answers_are_told_with_their_media_types(document: Json) -> None:
    assert operation(document, "get", "/metrics")["responses"]["200"]["content"] == {
        "text/plain; version=0.0.4": {"schema": {"type": "string"}}
    }
    assert "content" not in operation(document, "get", "/health/live")["responses"]["200"]
    assert "content" not in operation(document, "delete", "/nothing")["responses"]["204"]
    ready = operation(document, "get", "/health/ready")["responses"]
    schema = {"schema": {"$ref": "#/components/schemas/Readiness"}}
    good = {"status": "ready", "version": "1.0.0", "database": "connected"}
    assert ready["200"]["content"] == {"application/json": {**schema, "example": good}}
    assert ready["503"]["content"] == {"application/json": schema}, "the example is of the good answer"


def test_forms_raw_bodies_and_other_words_for_errors_are_told(document: Json) -> None:
    token = operation(document, "post", "/token")
    assert list(token["requestBody"]["content"]) == ["application/x-www-form-urlencoded"]
    assert token["requestBody"]["content"]["application/x-www-form-urlencoded"]["schema"] == {"$ref": "#/components/schemas/TokenRequest"}
    assert token["responses"]["409"]["content"]["application/json"]["examples"]["CONFLICT"]["value"] == {
        "error": "invalid_request",
        "error_description": "The request conflicts with existing data",
        "error_code": "CONFLICT",
        "timestamp": "2026-01-01T00:00:00Z",
    }
    assert operation(document, "post", "/events")["requestBody"]["content"] == {"application/json": {"schema": {}}}
    scim = operation(document, "post", "/scim/{kind}")["responses"]["409"]["content"]["application/scim+json"]
    assert scim["schema"] == {"$ref": "#/components/schemas/ScimError"}
    assert scim["examples"]["CONFLICT"]["value"]["scimType"] == "uniqueness"
    verify = operation(document, "get", "/auth/verify-email")["responses"]
    assert list(verify["429"]["content"]) == list(verify["200"]["content"]) == ["text/html; charset=utf-8"]


def test_an_issuer_that_may_be_empty_is_no_uri(document: Json) -> None:
    """A draft of a provider of SAML has no entity id yet."""
    schemas = document["components"]["schemas"]
    assert schemas["NewUpstreamProvider"]["properties"]["issuer"]["format"] == "uri"
    assert "format" not in schemas["UpstreamProviderRecord"]["properties"]["issuer"]


def test_an_operation_that_is_always_refused_has_no_good_answer() -> None:
    told = operation(openapi.document(ROUTES, base_url=BASE_URL, version="1.2.3"), "post", "/access/v1/search/resource")
    assert not [status for status in told["responses"] if status.startswith("2")]
    assert "NOT_IMPLEMENTED" in told["responses"]["501"]["description"]
    assert "x-paging" not in told


def test_each_method_by_which_a_proxy_asks_is_told() -> None:
    told = openapi.document(PAGES, base_url=BASE_URL, version="1.2.3")["paths"]["/proxy/check"]
    assert {method.upper() for method in told} == {one.method for one in PAGES if one.path == "/proxy/check"}
    for method in ("post", "put", "patch", "delete", "options"):
        assert told[method]["responses"] == told["get"]["responses"], method
        assert told[method]["parameters"] == told["get"]["parameters"], method


async def test_pages_that_the_interface_does_not_name_are_not_described(lonely_client: Client) -> None:
    assert not [path for path in (await lonely_client.get("/openapi.json")).json()["paths"] if path.startswith(("/ui", "/docs", "/assets"))]


async def test_the_document_is_served_with_the_configured_address(lonely_client: Client) -> None:
    answer = await lonely_client.get("/openapi.json", headers=[("host", "evil.example")])
    assert (answer.status, answer.header("content-type")) == (200, "application/json")
    assert answer.json()["servers"] == [{"url": BASE_URL}]
    assert {"/api/user", "/openapi.json"} <= set(answer.json()["paths"])
    assert answer.header("cache-control") == "public, max-age=300"
