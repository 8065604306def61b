"""The server enforces the lengths and forms of texts that the document publishes."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

import pytest

from adapters.mail_address import LibraryEmailSyntax
from core.domain.errors import BadRequest
from core.domain.identity.callers import reason_given, reason_of
from core.domain.identity.devices import device_name
from core.domain.services.plans import plan_currency, plan_name, plan_price_id
from core.domain.services.services import service_name, service_slug
from core.domain.tenancy.management_keys import key_name
from core.domain.tenancy.roles import role_description, role_name, role_slug
from entrypoints.http.description import openapi
from entrypoints.http.routes import ROUTES
from tests.http.people import BASE_URL

EMAIL: Final = LibraryEmailSyntax().parse
# The checker of each text that is checked after decoding. The decoder checks all other texts, by the declaration that makes the document.
CHECKS: Final[Mapping[str, Callable[[str], object]]] = {
    **dict.fromkeys(("NewRegistration.email", "AccountAddress.email", "ProfileChange.email", "NewInvitation.email"), EMAIL),
    **dict.fromkeys(("NewServiceUser.email", "ServiceUserPatch.email"), EMAIL),
    **dict.fromkeys(("NewImpersonation.reason", "OrganizationRejection.reason", "StatedReason.reason"), reason_of),
    "OrganizationSuspension.reason": reason_given,
    "DeviceName.name": device_name,
    "NewApiKey.name": key_name,
    **dict.fromkeys(("NewRole.name", "RolePatch.name"), role_name),
    **dict.fromkeys(("NewRole.description", "RolePatch.description"), role_description),
    "NewRole.slug": role_slug,
    **dict.fromkeys(("NewServiceBody.name", "ServicePatch.name", "ServiceInfoPatch.name"), service_name),
    "NewServiceBody.slug": service_slug,
    **dict.fromkeys(("NewPlan.name", "PlanPatch.name"), plan_name),
    **dict.fromkeys(("NewPlan.currency", "PlanPatch.currency"), plan_currency),
    **dict.fromkeys(("NewPlan.billing_price_id", "PlanPatch.billing_price_id"), plan_price_id),
}
# The form of this text depends on the service's type. Tests of services cover it.
CHECKED_WITH_OTHERS: Final = {"NewServiceBody.device_activation_uri", "ServicePatch.device_activation_uri"}
BOUNDS: Final = {"minLength", "maxLength", "pattern", "format", "enum", "const"}


@cache
def document() -> dict[str, Any]:
    made: dict[str, Any] = openapi.document(ROUTES, base_url=BASE_URL, version="1.2.3")
    return made


def texts() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every text of every body, with its schema."""
    found = document()
    schemas = found["components"]["schemas"]
    for path in found["paths"].values():
        for operation in path.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                if "$ref" not in content["schema"]:
                    # The handler reads the bytes of this body itself.
                    continue
                name = content["schema"]["$ref"].rpartition("/")[2]
                for field, schema in schemas[name]["properties"].items():
                    for one in (schema, *schema.get("anyOf", ())):
                        if one.get("type") == "string":
                            yield f"{name}.{field}", one


def test_every_text_of_a_body_says_its_bounds() -> None:
    unbounded = {name for name, schema in texts() if not BOUNDS & schema.keys()}
    assert unbounded == set()


def test_what_the_domain_checks_is_in_the_document() -> None:
    assert CHECKS.keys() | CHECKED_WITH_OTHERS <= {name for name, _ in texts()}


@pytest.mark.parametrize(("name", "check"), CHECKS.items(), ids=CHECKS)
def test_the_bounds_of_the_document_are_the_servers(name: str, check: Callable[[str], object]) -> None:
    (schema,) = [schema for found, schema in dict(texts()).items() if found == name]
    if schema.get("format") == "email":
        longest = schema["maxLength"]
        domain = ("a" * 60 + ".") * 3 + "example"
        fits = f"{'x' * (longest - 1 - len(domain))}@{domain}"
        assert len(fits) == longest
        check(fits)
        refused = ["x" + fits, "no address"]
    else:
        shortest, longest = schema.get("minLength", 0), schema.get("maxLength", 3)
        check("x" * longest)
        check("x" * max(shortest, 3 if "pattern" in schema and "maxLength" not in schema else shortest))
        refused = ["x" * (longest + 1), *([""] if shortest else [])]
        if "pattern" in schema:
            assert re.fullmatch(schema["pattern"], "x" * longest)
            refused += [text for text in ("-", "a b", "é") if not re.fullmatch(schema["pattern"], text)]
            assert len(refused) > 3
    for text in refused:
        with pytest.raises(BadRequest):
            check(text)


def test_a_body_of_which_nothing_is_needed_may_be_missing() -> None:
    found = document()
    optional = {
        f"{method.upper()} {path}"
        for path, operations in found["paths"].items()
        for method, operation in operations.items()
        if "requestBody" in operation and not operation["requestBody"]["required"]
    }
    assert {
        "POST /api/platform/organizations/{org_id}/approve",
        "POST /api/platform/organizations/{org_id}/suspend",
        "PATCH /api/service/info",
        "PATCH /api/user",
    } <= optional
    assert not {"POST /api/auth/login", "POST /api/auth/register", "POST /api/organizations"} & optional
