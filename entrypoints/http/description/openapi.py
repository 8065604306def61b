"""The OpenAPI 3.1 document, made from the declarations of the endpoints."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Never

import msgspec

from core.domain.errors import Refusal
from core.domain.identity.callers import CallerContext
from core.domain.secrets import Secret
from core.frozen import replace
from entrypoints.http.description.field_texts import describe
from entrypoints.http.machinery.accepts import FormOrJson, RawOfTypes
from entrypoints.http.machinery.answers import KEPT_FOR, NO_STORE, AnswerHeader, NoBody, RequestHeader
from entrypoints.http.machinery.callers import AdmittedCaller, SecurityScheme
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.errors import OURS, ErrorBody, header_named_by, status_of
from entrypoints.http.machinery.fields import tell_stored_bounds

Json = dict[str, Any]

# Fields of these formats need no example in their declaration, since all values of such a format look alike.
_BY_FORMAT: Final = {
    "uuid": "018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23",
    "date-time": "2026-03-01T09:30:00Z",
    "password": "correct horse battery staple",
}


def example_of(schema: Json, schemas: Mapping[str, Json]) -> Any:
    """An example value for a schema. `schemas` are the components of the document, by name."""
    if "examples" in schema:
        return schema["examples"][0]
    if "$ref" in schema:
        return example_of(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if "anyOf" in schema:
        return example_of(next(choice for choice in schema["anyOf"] if choice.get("type") != "null"), schemas)
    if schema.get("default") not in (None, [], ""):
        return schema["default"]
    if "enum" in schema:
        return schema["enum"][0]
    return _of_type(schema, schemas)


def _of_type(schema: Json, schemas: Mapping[str, Json]) -> Any:
    match schema.get("type"):
        case "object":
            return {name: example_of(one, schemas) for name, one in schema.get("properties", {}).items() if _is_shown(name, one, schema)}
        case "array":
            return [example_of(schema["items"], schemas)] if schema.get("items") else []
        case "boolean":
            return True
        case "integer" | "number":
            return schema.get("minimum", 1)
        case _:
            return _BY_FORMAT.get(schema.get("format", ""), schema.get("title", "text"))


def _is_shown(name: str, field: Json, schema: Json) -> bool:
    """Whether the example of an object has this field. An optional field needs an example or a default for that."""
    return name in schema.get("required", ()) or "examples" in field or field.get("default") is not None


# The ways, each with its explanation. A new list that has no bound uses `after`: such a list skips and repeats nothing while entries come
# and go.
WAYS: Final[Mapping[str, str]] = {
    "after": "The response has `next`. Send it as `after` in the next request. On the last page, `next` is null.",
    "page": "Send the page number as `page`, starting with 1, and the page size as `limit`. A page with fewer entries is the last one.",
    "offset": "Send the number of entries to skip as `offset`, and the maximum number of entries as `limit`.",
    "limit": "The response has the first entries, up to `limit`. You cannot request the rest.",
    "scim": "Send the first entry as `startIndex`, starting with 1, and the number of entries as `count` (RFC 7644 section 3.4.2.4).",
    "token": "The response has `page.next_token`. Send it as `page.token` in the next request. On the last page, it is empty.",
    "whole": "One response contains the whole list. If only the last entries are kept, the description of the operation states this.",
}
# The fields of a request that tell the way. The first way with all its fields is the way of the list.
_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "after": frozenset({"after", "limit"}),
    "page": frozenset({"page", "limit"}),
    "token": frozenset({"page", "subject"}),
    "offset": frozenset({"offset", "limit"}),
    "limit": frozenset({"limit"}),
    "scim": frozenset({"startIndex", "count"}),
    "whole": frozenset(),
}
_LISTS: Final = ("list_", "search_")


def way_of_paging(one: Endpoint) -> str | None:
    """The way in which the list of this endpoint is read. None for an endpoint that lists nothing.

    Each operation that lists states it in `x-paging`, so that a client needs one loop for each way.
    """
    if one.answer_type is Never or not one.handler.__name__.startswith(_LISTS):
        return None
    asked = _fields(one.query_type) | _fields(one.body_type)
    return next(way for way, fields in _FIELDS.items() if fields <= asked)


def _fields(kind: Any) -> frozenset[str]:
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return frozenset()
    return frozenset(field.encode_name for field in msgspec.structs.fields(kind))


# Every tag that an endpoint may carry, in the order of the documentation.
TAGS: Final[Mapping[str, str]] = {
    "registration": "Register an account, verify its email address, and reset the password. Under load, Postern's pages require a bot"
    " challenge; endpoints respond with 429 above a limit.",
    "sign-in": "Sign in, stay signed in, and sign out.",
    "account": "Manage your own account.",
    "devices": "The browsers and apps that you sign in with.",
    "mfa": "Manage your MFA: the codes of an authenticator app, and backup codes.",
    "privacy": "Export or erase all data about a person.",
    "passkeys": "Manage your passkeys, which sign you in without a password.",
    "services": "The applications of an organization, and their client secrets.",
    "proposals": "Configuration files that await an owner's approval for 1 day. The owner applies exactly the proposed plan.",
    "risk": "Risk policies for sign-ins, and the sign-ins that they matched.",
    "trusted-issuers": "Workload identity federation: issuers whose signed tokens replace a secret for build jobs and clusters.",
    "resource-servers": "The APIs of an organization for which Postern issues tokens.",
    "user-keys": "User API keys, which the users of a service create for its API.",
    "api-keys": "API keys that a service's own servers send to the endpoints under `/api/service`.",
    "setup-links": "Links for a customer's administrator without an account, to set up an organization's connections.",
    "management-keys": "Management API keys for scripts. A key can call the endpoints of an organization, or of the platform, that state a"
    " required capability.",
    "claims": "Custom claims: data about people in tokens and assertions, in addition to the standard claims.",
    "plans": "The plans that a service offers its users, and their prices.",
    "billing": "Buy plans on the payment provider's pages, and receive the provider's reports.",
    "rights": "The roles and permissions of a service, and their assignments.",
    "end-users": "The people who use the services of an organization.",
    "service-interface": "Endpoints for a service's own servers, which authenticate with an API key of the service.",
    "organizations": "Organizations are tenants: each organization has its own people, roles and services.",
    "settings": "An organization's own email server, branding, custom texts, custom domain, and clients at social providers.",
    "connections": "An organization's own identity providers (OpenID Connect, SAML, LDAP): settings and tests.",
    "directory-runs": "LDAP directory sync of an organization: sync runs, and the approval of runs that await an owner.",
    "provider-certificates": "The certificates of an organization's SAML providers, and Postern's own certificate for them.",
    "sign-in-domains": "How people of an organization's email domains sign in and become members.",
    "members": "The members of an organization, and its owner.",
    "fields": "Profile fields of an organization or of the installation, and their values.",
    "roles": "Custom roles of an organization, in addition to the built-in roles owner, admin and member.",
    "teams": "Teams of an organization's members. A team can have a role of the organization, and roles of its services.",
    "invitations": "Invite people to become members, and answer invitations.",
    "webhooks": "Send the events of an organization to webhooks, and view the deliveries of each event.",
    "hooks": "Sign-in hooks: URLs that Postern calls before a sign-in, and that can only make it stricter. Owners set and enforce hooks.",
    "siem": "Stream the audit log and the sign-ins of an organization to its SIEM.",
    "analytics": "Sign-in statistics of an organization and its services.",
    "scim": "Provision the people of an organization by SCIM 2.0, and view the SCIM requests.",
    "audit": "The audit log: the changes in an organization, and the people and keys that made them.",
    "platform": "Manage the whole installation. Only platform owners can do this.",
    "installation": "The audit log, the failed jobs, the keys and the settings of the installation. Only platform owners can view them.",
    "installation-texts": "Custom texts of the installation, and a platform owner's approval of organizations' custom texts.",
    "oauth": "OAuth 2.0 and OpenID Connect for applications: tokens, user info, and the discovery documents.",
    "provisioning": "Outbound provisioning by SCIM: connections to applications' systems, sync runs, and provisioned users.",
    "signals": "Shared signals (SSF 1.0): applications receive events about revoked sessions and changed credentials. Owners enable them.",
    "saml": "SAML 2.0: Postern as the identity provider of a service.",
    "keys": "The public keys that verify access tokens.",
    "configuration": "Configuration as code: export all settings as one document, plan a change, and apply it.",
    "operations": "Health, metrics and this API description. These endpoints have no rate limit.",
}

_REFERENCES: Final = "#/components/schemas/"
_ERROR: Final = {"$ref": f"{_REFERENCES}{ErrorBody.__name__}"}
_JSON_TYPE: Final = "application/json"
_REQUEST_ID: Final = "X-Request-Id"
# The headers of many answers, besides the headers that declarations name. Headers for browsers, caches and connections are not described.
_HEADERS: Final[Mapping[str, Json]] = {
    _REQUEST_ID: {"description": "The ID of the request: the one that you sent, or a new one.", "schema": {"type": "string"}},
    "Retry-After": {"description": "How many seconds to wait before the next attempt.", "schema": {"type": "integer", "minimum": 1}},
    "WWW-Authenticate": {
        "description": "The required credentials: a Bearer token (RFC 6750), a client secret, or an API key. After a rejected token,"
        " the header contains the error. For `REAUTHENTICATION_REQUIRED`, `max_age` is the maximum age of the"
        " authentication in seconds (RFC 9470).",
        "schema": {"type": "string"},
    },
}
_OF_ALL: Final = (_REQUEST_ID,)
_PAGING: Final = "Each list operation has its way of paging in `x-paging`:\n\n" + "\n".join(
    f"- `{way}`: {text}" for way, text in WAYS.items()
)
_SOME_TIME: Final = datetime(2026, 1, 1, tzinfo=UTC)
_GOOD_ANSWER: Final = "The request succeeded."
_OTHER_ANSWER: Final = "The request had another outcome."
_ANSWERS: Final[Mapping[int, str]] = {
    **dict.fromkeys((301, 302, 303), "A redirect to `Location`."),
    304: "Your version is the current version.",
}


def document(endpoints: Iterable[Endpoint], *, base_url: str, version: str) -> Json:
    """Builds the document from the declarations, so it states exactly what the endpoints check."""
    endpoints = tuple(one for one in endpoints if one.tags)
    described = _Schemas(endpoints)
    paths: dict[str, Json] = {}
    for one in endpoints:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, described)
    schemes = [scheme for one in endpoints for scheme in _schemes(one) if scheme is not None]
    used = {tag for one in endpoints for tag in one.tags}
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "Postern",
            "version": version,
            "summary": "Single sign-on and identity",
            "description": "Bodies are JSON in UTF-8. Times are ISO 8601 in UTC. A request can have its own ID in `X-Request-Id` (up"
            " to 128 letters, digits, dots, dashes or underscores); the response then has the same ID."
            " `Accept-Language` sets the language of pages and emails for people who have not chosen a language.\n\n" + _PAGING,
            "contact": {"name": "The operator of this installation", "url": base_url},
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": base_url}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items() if name in used],
        "paths": paths,
        "components": {
            "schemas": described.components,
            "headers": dict(_HEADERS),
            "securitySchemes": {scheme.name: scheme.definition for scheme in schemes},
            "responses": {
                "Error": {
                    "description": "Any other error. All errors have this body.",
                    "headers": _ANY_FAILURE,
                    "content": {_JSON_TYPE: {"schema": _ERROR}},
                }
            },
        },
    }


class _Schemas:
    """The JSON schemas of all types in the declarations. One call makes all schemas, so that they share their components."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        kinds: list[Any] = [ErrorBody, *dict.fromkeys(one.errors.kind for one in endpoints if one.errors.kind not in {None, ErrorBody})]
        parameters: list[type[msgspec.Struct]] = []
        for one in endpoints:
            kinds += [kind for kind in (one.body_type, one.answer_type, *one.also.values()) if _has_schema(kind)]
            parameters += [kind for kind in (one.query_type, one.path_type) if kind is not None]
        schemas, self.components = self._of([*kinds, *parameters])
        self._by_kind = list(zip([*kinds, *parameters], schemas, strict=True))
        # The document lists the parameters of queries and paths one by one, so nothing refers to the schemas of their Structs.
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
        return [self._parameter(name, place, definition, required=name in required) for name, definition in schema["properties"].items()]

    def media(self, schema: Json) -> Json:
        """A body of this schema, with an example."""
        return {"schema": schema, "example": example_of(schema, self.components)}

    def _parameter(self, name: str, place: str, definition: Json, *, required: bool) -> Json:
        schema = {word: value for word, value in definition.items() if word not in {"description", "examples"}}
        parameter: Json = {"name": name, "in": place, "required": required, "schema": schema}
        if "description" in definition:
            parameter["description"] = definition["description"]
        if required or "examples" in definition:
            parameter["example"] = example_of(definition, self.components)
        return parameter

    @staticmethod
    def _of(kinds: list[Any]) -> tuple[Iterable[Json], dict[str, Json]]:
        schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCES + "{name}", schema_hook=_schema_of_own_type)
        components = dict(components)
        tell_stored_bounds([schemas, components])
        describe(components, kinds)
        return schemas, components


def _has_schema(kind: Any) -> bool:
    return kind not in {None, bytes, NoBody, Never}


def _schema_of_own_type(kind: type) -> Json:
    if issubclass(kind, Secret):
        return {"type": "string", "format": "password", "maxLength": kind.longest}
    raise NotImplementedError(f"{kind.__name__} is not a type of the wire")


def _operation(one: Endpoint, schemas: _Schemas) -> Json:
    operation: Json = {
        "operationId": one.handler.__name__,
        "summary": one.summary,
        "tags": list(one.tags),
        "security": _security(one),
        "x-caller": one.caller.name,
        "responses": _responses(one, schemas),
    }
    admitted = getattr(one.caller, "admitted", None)
    if isinstance(admitted, AdmittedCaller):
        contexts = [context.name.lower() for context in CallerContext if context in admitted.contexts]
        operation["x-sessions"] = {"contexts": contexts, "impersonated": admitted.impersonated}
    description = one.description
    if one.keys is not None:
        operation["x-management-key"] = {"capabilities": list(one.keys.needed)}
        description = f"{description}\n\n{_for_keys(one.keys.needed)}".strip()
    if description:
        operation["description"] = description
    parameters = schemas.parameters(one.path_type, "path") + schemas.parameters(one.query_type, "query") + [*map(_parameter, one.reads)]
    if parameters:
        operation["parameters"] = parameters
    if one.body_type is not None:
        media = schemas.media(schemas.of(one.body_type)) if _has_schema(one.body_type) else {"schema": {}}
        operation["requestBody"] = {"required": _is_required(one.body_type), "content": dict.fromkeys(_media_types(one), media)}
    paging = way_of_paging(one)
    if paging is not None:
        operation["x-paging"] = paging
    if one.limits or one.counts:
        operation["x-rate-limit"] = [
            {"name": limit.name, "burst": limit.burst, "seconds_per_request": limit.seconds_per_request}
            for limit in (*one.limits, *one.counts)
        ]
    return operation


def _for_keys(needed: Sequence[str]) -> str:
    if not needed:
        return "Any management API key of the organization can call this endpoint, whatever its capabilities."
    return f"A management API key needs {' and '.join(f'`{word}`' for word in needed)}."


def _schemes(one: Endpoint) -> tuple[SecurityScheme | None, ...]:
    return (one.caller.scheme, getattr(one.caller, "also_by", None), one.may_present, None if one.keys is None else one.keys.scheme)


def _media_types(one: Endpoint) -> Sequence[str]:
    return one.accepts.media_types if isinstance(one.accepts, RawOfTypes | FormOrJson) else (one.accepts.media_type,)


def _security(one: Endpoint) -> list[Json]:
    """The ways to authenticate, of which one is enough. An empty entry means that the caller sends no credentials in the headers: either no
    credentials at all, or credentials in the body.
    """
    if one.caller.scheme is None:
        return [] if one.may_present is None else [{}, {one.may_present.name: []}]
    presented: list[Json] = [{one.caller.scheme.name: []}]
    also_by = getattr(one.caller, "also_by", None)
    if also_by is not None:
        presented.append({also_by.name: []})
    if one.keys is not None:
        presented.append({one.keys.scheme.name: []})
    return [*presented, {}] if one.body_type is not None and getattr(one.caller, "also_in_body", False) else presented


def _parameter(header: RequestHeader) -> Json:
    return {
        "name": header.name,
        "in": "header",
        "required": False,
        "schema": {"type": "string"},
        "description": header.text,
        "example": header.example,
    }


def _is_required(body: Any) -> bool:
    """Whether a request needs a body. A missing JSON body counts as an empty object, so a body without required fields is optional."""
    return not (isinstance(body, type) and issubclass(body, msgspec.Struct)) or any(
        field.required for field in msgspec.structs.fields(body)
    )


def _responses(one: Endpoint, schemas: _Schemas) -> Json:
    """An operation whose handler answers `Never` has refusals alone."""
    responses: Json = {}
    if one.answer_type is not Never:
        responses[str(one.status)] = _answer(one.status, _GOOD_ANSWER, one, one.answer_type, schemas)
    for status, kind in one.also.items():
        responses[str(status)] = _answer(status, _OTHER_ANSWER, one, kind, schemas)
        if kind == one.answer_type:
            # An example would repeat the example of the successful answer.
            responses[str(status)]["content"][one.produces].pop("example", None)
    by_status: dict[int, list[type[Refusal]]] = {}
    for refusal in one.refusals:
        by_status.setdefault(status_of(refusal), []).append(refusal)
    for status, refusals in by_status.items():
        responses.setdefault(str(status), _refusal(one, refusals, schemas))
    responses["default"] = (
        {"$ref": "#/components/responses/Error"}
        if one.errors is OURS
        else {"description": "Any other error.", "headers": _ANY_FAILURE, "content": _other_failure(one, schemas)}
    )
    return responses


def _common(names: Iterable[str]) -> Json:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


_ANY_FAILURE: Final = _common((*_OF_ALL, "Retry-After"))


def _header(one: AnswerHeader) -> Json:
    return {"description": one.text, "required": one.always, "schema": {"type": "string"}, "example": one.example}


def _answer(status: int, description: str, one: Endpoint, kind: Any, schemas: _Schemas) -> Json:
    kept = KEPT_FOR if one.cache != NO_STORE and status < 400 else None
    own = [*one.sends.get(status, ()), *([replace(kept, example=one.cache)] if kept is not None else [])]
    answer: Json = {
        "description": _ANSWERS.get(status, description),
        "headers": {**_common(_OF_ALL), **{header.name: _header(header) for header in own}},
    }
    if kind is bytes:
        answer["content"] = {one.produces: {"schema": {"type": "string"} if one.produces != _JSON_TYPE else {}}}
    elif _has_schema(kind):
        answer["content"] = {one.produces: schemas.media(schemas.of(kind))}
    return answer


def _failure(one: Endpoint, schemas: _Schemas) -> Json:
    """The content of an error answer. The page of an error is for people, so the schema of a page is plain text."""
    return {one.errors.media_type: {"schema": {"type": "string"} if one.errors.kind is None else schemas.of(one.errors.kind)}}


def _other_failure(one: Endpoint, schemas: _Schemas) -> Json:
    return _failure(one, schemas) if one.errors.kind is None else {one.errors.media_type: schemas.media(schemas.of(one.errors.kind))}


def _refusal(one: Endpoint, refusals: list[type[Refusal]], schemas: _Schemas) -> Json:
    content = _failure(one, schemas)
    if one.errors.kind is not None:
        content[one.errors.media_type]["examples"] = {
            refusal.code: {"summary": refusal.text, "value": msgspec.to_builtins(one.errors.value(refusal, _SOME_TIME))}
            for refusal in refusals
        }
    answer: Json = {"description": "; ".join(f"`{refusal.code}`: {refusal.text}" for refusal in refusals), "content": content}
    own = sorted({name for name in map(header_named_by, refusals) if name is not None})
    answer["headers"] = _common((*_OF_ALL, *own))
    return answer
