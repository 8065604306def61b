"""The OpenAPI 3.1 document, made from the declarations: what it says is what is checked."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from core.domain.errors import Refusal, RetryLater, Unauthorized
from core.domain.secrets import Secret
from entrypoints.http.answers import NoBody
from entrypoints.http.endpoints import Endpoint
from entrypoints.http.errors import ErrorBody, status_of

Json = dict[str, Any]

# Every tag that an endpoint may carry, in the order of the documentation.
TAGS: Final[Mapping[str, str]] = {
    "registration": "Registering an account, proving its e-mail address, and getting back in without the password. Public.",
    "sign-in": "Signing in and out, and carrying a session on.",
    "account": "The caller's own account.",
    "devices": "What the caller signs in with.",
    "mfa": "The second factor: codes of an authenticator, and backup codes.",
    "services": "The applications of an organization, and the secrets by which they show who they are.",
    "api-keys": "What a service's own servers use the service interface with.",
    "plans": "What a service offers its users, and at what price.",
    "end-users": "Those who use the services of an organization.",
    "service-interface": "For a service's own servers, with an API key of the service.",
    "organizations": "The tenants: each with its own people, roles and services.",
    "members": "The people of an organization, and its ownership.",
    "roles": "Roles that an organization adds to owner, admin and member.",
    "invitations": "Asking people to become members, and answering.",
    "audit": "What was done in an organization, and by whom.",
    "platform": "Governing the whole installation. For platform owners.",
    "keys": "Keys for verifying our tokens.",
    "operations": "Health, metrics and this description. Public and never rate limited.",
}

_REFERENCES: Final = "#/components/schemas/"
_ERROR: Final = {"$ref": f"{_REFERENCES}{ErrorBody.__name__}"}
_JSON_TYPE: Final = "application/json"
_RETRY_AFTER: Final = {"description": "Seconds to wait before the next attempt.", "schema": {"type": "integer", "minimum": 1}}
_CHALLENGE: Final = {"description": "What to present (RFC 6750).", "schema": {"type": "string"}}
_REQUEST_ID: Final = {"description": "The request's id, the caller's own or a new one.", "schema": {"type": "string"}}


def document(endpoints: Iterable[Endpoint], *, base_url: str, version: str) -> Json:
    endpoints = tuple(endpoints)
    described = _Schemas(endpoints)
    paths: dict[str, Json] = {}
    for one in endpoints:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, described)
    schemes = [one.caller.scheme for one in endpoints if one.caller.scheme is not None]
    used = {tag for one in endpoints for tag in one.tags}
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "Postern",
            "version": version,
            "summary": "Single sign-on and identity",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": base_url}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items() if name in used],
        "paths": paths,
        "components": {
            "schemas": described.components,
            "securitySchemes": {scheme.name: scheme.definition for scheme in schemes},
            "responses": {
                "Error": {
                    "description": "Any other failure, with the body that all failures have.",
                    "content": {_JSON_TYPE: {"schema": _ERROR}},
                }
            },
        },
    }


class _Schemas:
    """The JSON schemas of all types that the endpoints name, made together so that they share their components."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        kinds: list[Any] = [ErrorBody]
        parameters: list[type[msgspec.Struct]] = []
        for one in endpoints:
            kinds += [kind for kind in (one.body_type, one.answer_type, *one.also.values()) if _has_schema(kind)]
            parameters += [kind for kind in (one.query_type, one.path_type) if kind is not None]
        schemas, self.components = self._of([*kinds, *parameters])
        self._by_kind = list(zip([*kinds, *parameters], schemas, strict=True))
        # Queries and paths are spelled out parameter by parameter; nothing refers to them as objects.
        self._parameters = {kind.__name__: self.components[kind.__name__] for kind in parameters}
        for kind in set(parameters) - set(kinds):
            del self.components[kind.__name__]

    def of(self, kind: Any) -> Json:
        return next(schema for known, schema in self._by_kind if known == kind)

    def parameters(self, kind: type[msgspec.Struct] | None, place: str) -> list[Json]:
        if kind is None:
            return []
        schema = self._parameters[kind.__name__]
        required = schema.get("required", ())
        return [
            {"name": name, "in": place, "required": name in required, "schema": definition}
            for name, definition in schema["properties"].items()
        ]

    @staticmethod
    def _of(kinds: list[Any]) -> tuple[Iterable[Json], dict[str, Json]]:
        schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCES + "{name}", schema_hook=_schema_of_own_type)
        return schemas, dict(components)


def _has_schema(kind: Any) -> bool:
    return kind not in {None, bytes, NoBody}


def _schema_of_own_type(kind: type) -> Json:
    if issubclass(kind, Secret):
        return {"type": "string", "format": "password"}
    raise NotImplementedError(f"{kind.__name__} is not a type of the wire")


def _operation(one: Endpoint, schemas: _Schemas) -> Json:
    operation: Json = {
        "operationId": one.handler.__name__,
        "summary": one.summary,
        "tags": list(one.tags),
        "security": [] if one.caller.scheme is None else [{one.caller.scheme.name: []}],
        "x-caller": one.caller.name,
        "responses": _responses(one, schemas),
    }
    if one.description:
        operation["description"] = one.description
    parameters = schemas.parameters(one.path_type, "path") + schemas.parameters(one.query_type, "query")
    if parameters:
        operation["parameters"] = parameters
    if one.body_type is not None:
        operation["requestBody"] = {"required": True, "content": {_JSON_TYPE: {"schema": schemas.of(one.body_type)}}}
    if one.limits:
        operation["x-rate-limit"] = [
            {"name": limit.name, "burst": limit.burst, "seconds_per_request": limit.seconds_per_request} for limit in one.limits
        ]
    return operation


def _responses(one: Endpoint, schemas: _Schemas) -> Json:
    responses: Json = {str(one.status): _answer("Done.", one, one.answer_type, schemas)}
    for status, kind in one.also.items():
        responses[str(status)] = _answer("The other answer.", one, kind, schemas)
    by_status: dict[int, list[type[Refusal]]] = {}
    for refusal in one.refusals:
        by_status.setdefault(status_of(refusal), []).append(refusal)
    for status, refusals in by_status.items():
        responses.setdefault(str(status), _refusal(refusals))
    responses["default"] = {"$ref": "#/components/responses/Error"}
    return responses


def _answer(description: str, one: Endpoint, kind: Any, schemas: _Schemas) -> Json:
    answer: Json = {"description": description, "headers": {"X-Request-Id": _REQUEST_ID}}
    if kind is bytes:
        answer["content"] = {one.produces: {"schema": {"type": "string"} if one.produces != _JSON_TYPE else {}}}
    elif _has_schema(kind):
        answer["content"] = {one.produces: {"schema": schemas.of(kind)}}
    return answer


def _refusal(refusals: list[type[Refusal]]) -> Json:
    examples = {
        refusal.code: {"value": {"error": refusal.text, "error_code": refusal.code, "timestamp": "2026-01-01T00:00:00Z"}}
        for refusal in refusals
    }
    answer: Json = {
        "description": "; ".join(f"`{refusal.code}`: {refusal.text}" for refusal in refusals),
        "content": {_JSON_TYPE: {"schema": _ERROR, "examples": examples}},
    }
    if any(issubclass(refusal, RetryLater) for refusal in refusals):
        answer["headers"] = {"Retry-After": _RETRY_AFTER}
    elif any(issubclass(refusal, Unauthorized) for refusal in refusals):
        answer["headers"] = {"WWW-Authenticate": _CHALLENGE}
    return answer
