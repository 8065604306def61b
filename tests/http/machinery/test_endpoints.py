"""Declarations: their meaning, and faulty ones, with which the server does not start."""

from types import ModuleType
from typing import Any

import msgspec
import pytest

from core.domain.errors import BadRequest, Conflict, NotFound, PayloadTooLarge, RateLimited, UnsupportedMediaType
from core.domain.identity.proofs import StepUp
from core.domain.services.api_keys import Permission
from core.domain.tenancy.management_keys import PlatformCapability
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import EMPTY_OBJECT, Answer, EmptyObject
from entrypoints.http.machinery.callers import (
    ANYONE,
    LEAVING,
    OWNER_IN_PERSON,
    PLATFORM_OWNER,
    PREAUTHENTICATED,
    USER,
    CallerRule,
    ManagementKeyRule,
    able,
    key,
)
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import Endpoint, Endpoints, InvalidDeclaration, endpoint
from entrypoints.http.machinery.limits import AUTH, CREDENTIALS, LOGIN, UNLIMITED
from entrypoints.http.routes import ROUTES


class Body(msgspec.Struct):
    name: str


class Query(msgspec.Struct):
    page: int = 1


class Path(msgspec.Struct):
    shop: str


async def handler(_call: Call, _postern: Postern) -> EmptyObject:
    return EMPTY_OBJECT


async def full_handler(_call: Call[Body, Query, Path], _postern: Postern) -> Answer[Body]:
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
    assert endpoint.get("/shops", caller=ANYONE, limit=UNLIMITED)(handler).refusals == ()


@pytest.mark.parametrize("caller", [None, "user", object()])
def test_a_route_that_does_not_say_who_may_call_is_refused(caller: Any) -> None:
    with pytest.raises(InvalidDeclaration, match=r"^POST /shops does not say who may call it$"):
        endpoint.post("/shops", caller=caller)
    with pytest.raises(InvalidDeclaration, match="who may call"):
        endpoint.post("/shops")  # type: ignore[call-arg]  # what the type checker finds, the start finds too


@pytest.mark.parametrize("caller", [ANYONE, LEAVING, PREAUTHENTICATED, key(Permission.WRITE_USERS), OWNER_IN_PERSON])
def test_a_route_that_owes_a_limit_and_does_not_say_which_is_refused(caller: CallerRule) -> None:
    """Public endpoints, endpoints by which keys write, and endpoints that make or give lasting things must name a limit."""
    path = "/shops" if not caller.reads else "/shops/{org_slug}"
    with pytest.raises(InvalidDeclaration, match=r"^POST /shops.* does not say which rate limits apply$"):
        endpoint.post(path, caller=caller)


def test_management_keys_open_only_what_they_may() -> None:
    settings = able(Capability.SETTINGS_MANAGE, impersonated=True)
    opened = ManagementKeyRule((Capability.SETTINGS_MANAGE, Capability.CONNECTIONS_MANAGE))
    one = "/shops/{org_slug}"
    for capability in (True, Capability.WEBHOOKS_MANAGE):
        with pytest.raises(InvalidDeclaration, match=r"needs a fresh proof, which only connections\.manage and people\.manage stand for"):
            endpoint.get(one, caller=settings, keys=capability, step_up=StepUp.ACCOUNT)
    for rule in (USER, OWNER_IN_PERSON, PLATFORM_OWNER, ANYONE):
        with pytest.raises(InvalidDeclaration, match="no such callers as its rule admits"):
            endpoint.get(one, caller=rule, keys=True, limit=UNLIMITED)
    for rule in (USER, settings):
        with pytest.raises(InvalidDeclaration, match="only endpoints of platform owners"):
            endpoint.get(one, caller=rule, keys=PlatformCapability.PEOPLE_VIEW)
    (declared,) = [found for found in ROUTES if str(found) == "PATCH /api/organizations/{org_slug}/sign-in-rules"]
    assert declared.keys == opened


def test_a_limit_may_be_said_to_be_none_and_is_not_owed_by_all() -> None:
    assert endpoint.get("/shops", caller=ANYONE, limit=UNLIMITED)(handler).limits == ()
    assert endpoint.get("/shops", caller=key(Permission.READ_USERS))(handler).limits == ()
    assert endpoint.post("/shops", caller=USER)(handler).limits == ()


def test_making_keys_and_secrets_is_limited() -> None:
    organization, platform = "/api/organizations/{org_slug}", "/api/platform/organizations/{org_id}"
    connection = f"{organization}/upstream-providers/{{provider_id}}"
    limited = {str(one) for one in ROUTES if CREDENTIALS in one.limits}
    service = "/api/organizations/{org_slug}/services/{service_slug}"
    webhooks = "/api/organizations/{org_slug}/webhooks"
    webhook = f"{webhooks}/{{webhook_id}}"
    assert limited == {
        *(f"POST {service}/api-keys", f"POST {service}/client-secrets", f"POST {webhooks}", f"PATCH {webhook}"),
        *(f"POST {service}/provisioning/runs{act}" for act in ("", "/{run_id}/go-on", "/{run_id}/leave")),
        f"POST {service}/provisioning/people/{{user_id}}/try-again",
        f"POST {service}/signals/streams/{{stream_id}}/verification",
        *(
            f"POST {connection}/runs{act}"
            for act in ("", *(f"/{{run_id}}/{act}" for act in ("go-on", "leave", "take-over", "keep", "end")))
        ),
        *(f"{act} {organization}/hooks/sign-in{step}" for act, step in (("PUT", ""), ("POST", "/rotate-secret"), ("POST", "/try"))),
        *(f"{act} /api/platform/hooks/sign-in{step}" for act, step in (("PUT", ""), ("POST", "/rotate-secret"), ("POST", "/try"))),
        *("POST /api/organizations/{org_slug}/siem", "POST /api/organizations/{org_slug}/siem/test"),
        *(f"POST {service}/saml{act}" for act in ("", "/metadata", "/certificate", "/certificate/activate")),
        *(f"{method} /api/organizations/{{org_slug}}/smtp" for method in ("POST", "DELETE")),
        *(f"{method} /api/organizations/{{org_slug}}/domain" for method in ("POST", "DELETE")),
        "POST /api/organizations/{org_slug}/domain-routes",
        *(f"{method} /api/organizations/{{org_slug}}/domain-routes/{{domain_id}}" for method in ("PATCH", "DELETE")),
        "POST /api/organizations/{org_slug}/domain-routes/{domain_id}/verify",
        *(f"POST {organization}/resource-servers{act}" for act in ("", *(f"/{{resource_id}}/{one}" for one in ("verify", "ask-approval")))),
        *(f"{one} {organization}/trusted-issuers{place}" for one, place in (("POST", ""), ("PATCH", "/{rule_id}"))),
        *(f"{method} /api/organizations/{{org_slug}}/oauth-credentials/{{provider}}" for method in ("POST", "DELETE")),
        *(f"POST /api/organizations/{{org_slug}}/{act}" for act in ("smtp/test", "domain/verify")),
        "PATCH /api/organizations/{org_slug}/branding",
        "PATCH /api/organizations/{org_slug}/languages",
        *(
            f"{method} /api/organizations/{{org_slug}}/{thing}"
            for method in ("PUT", "DELETE")
            for thing in (
                *("branding/logo", "branding/dark-logo", "branding/favicon", "branding/background"),
                "services/{service_slug}/logo",
            )
        ),
        "PUT /api/organizations/{org_slug}/notice",
        *(f"{method} /api/organizations/{{org_slug}}/texts" for method in ("PATCH", "PUT")),
        *(
            f"POST {place}/management-keys{act}"
            for place in ("/api/organizations/{org_slug}", "/api/platform")
            for act in ("", "/{key_id}/adopt")
        ),
        "POST /api/organizations/{org_slug}/scim-tokens",
        "POST /api/organizations/{org_slug}/upstream-providers",
        *(f"{method} /api/organizations/{{org_slug}}/upstream-providers/{{provider_id}}" for method in ("PATCH", "DELETE")),
        *(f"POST {connection}/{act}" for act in ("test", "activate", "succeed", "metadata", "certificate")),
        *(f"{method} {connection}/certificate/waiting/{{fingerprint}}" for method in ("POST", "DELETE")),
        f"DELETE {connection}/certificate/former",
        *(f"PUT {connection}/assertions", f"POST {connection}/assertions/check"),
        *(f"POST {place}/setup-links{act}" for place in (organization, platform) for act in ("", "/{link_id}/release")),
        f"POST {organization}/setup-links/{{link_id}}/drafts/{{draft_id}}/activate",
        *("POST /api/user/identities/{provider}/link", "DELETE /api/user/identities/{provider}"),
        *("POST /api/user/passkeys", "POST /api/user/passkeys/options"),
        *("PUT /api/user/picture", "DELETE /api/user/picture"),
        "POST /api/platform/signing-keys/rotate",
        *("POST /api/user/terms", "POST /api/user/requests/{request_id}/allow"),
        "POST /api/platform/providers",
        "POST /api/platform/providers/{key}/activate",
        *(f"{method} /api/platform/providers/{{key}}" for method in ("PATCH", "DELETE")),
        *(f"{method} /api/platform/providers/{{key}}/logo" for method in ("PUT", "DELETE")),
        *(f"POST {webhook}/{act}" for act in ("rotate-secret", "test", "replay", "deliveries/{delivery_id}/redeliver")),
    }


@pytest.mark.parametrize("path", ["", "shops", "/shops/", "//shops", "/shops/{shop", "/shops/a{shop}", "/shops/:shop", "/shops?x", "/a b"])
def test_a_path_that_is_no_template_is_refused(path: str) -> None:
    with pytest.raises(InvalidDeclaration, match="is not a path template"):
        endpoint.get(path, caller=ANYONE, limit=UNLIMITED)


def test_types_in_quotes_are_refused() -> None:
    def quoted(call: Call, postern: Any) -> "Body":
        raise NotImplementedError

    with pytest.raises(InvalidDeclaration, match="stands in quotes"):
        endpoint.get("/shops", caller=ANYONE, limit=UNLIMITED)(quoted)


@pytest.mark.parametrize("path", ["/shops", "/shops/{slug}", "/shops/{shop}/{id}"])
def test_parameters_without_a_field_and_fields_without_a_parameter_are_refused(path: str) -> None:
    with pytest.raises(InvalidDeclaration, match="parameters are not the fields"):
        endpoint.patch(path, caller=ANYONE, limit=UNLIMITED)(full_handler)


def test_get_takes_no_body() -> None:
    with pytest.raises(InvalidDeclaration, match="cannot take a body"):
        endpoint.get("/shops/{shop}", caller=ANYONE, limit=UNLIMITED)(full_handler)


def test_a_handler_must_say_what_it_takes_and_gives() -> None:
    async def no_call(_call: int, _postern: Postern) -> EmptyObject:
        return EMPTY_OBJECT

    async def no_answer(_call: Call, _services):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - what is tested
        return EMPTY_OBJECT

    async def odd_query(_call: Call[None, dict[str, str]], _postern: Postern) -> EmptyObject:
        return EMPTY_OBJECT

    for wrong, words in (
        (no_call, "must be a Call"),
        (no_answer, "does not declare the type of its answer"),
        (odd_query, "must be Structs"),
    ):
        with pytest.raises(InvalidDeclaration, match=words):
            endpoint.get("/shops", caller=ANYONE, limit=UNLIMITED)(wrong)


def test_a_route_declared_twice_is_refused() -> None:
    class Other(msgspec.Struct):
        slug: str

    async def other(_call: Call[Body, None, Other], _postern: Postern) -> EmptyObject:
        return EMPTY_OBJECT

    one = endpoint.patch("/shops/{shop}", caller=ANYONE, limit=UNLIMITED)(full_handler)
    two = endpoint.patch("/shops/{slug}", caller=ANYONE, limit=UNLIMITED)(other)
    with pytest.raises(InvalidDeclaration, match=r"^PATCH /shops/\{slug\} is declared twice$"):
        Endpoints([one, two])


def test_endpoints_are_collected_from_modules() -> None:
    module = ModuleType("shops")
    vars(module).update(shops=endpoint.get("/shops", caller=ANYONE, limit=UNLIMITED)(handler), something=5)
    collected = Endpoints.of(module)
    assert [str(one) for one in collected] == ["GET /shops"]
    assert len(collected) == 1
    assert isinstance(next(iter(collected)), Endpoint)
