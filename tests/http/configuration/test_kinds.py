"""The kinds of objects: whatever an administrator can set is in a document, or stands here with the reason why not."""

from typing import Any, Final

import msgspec
import pytest

from core.domain.platform.configuration.objects import ObjectPlace, organization_place, pointer, service_place
from entrypoints.http.routes import ROUTES
from entrypoints.http.routes.configuration.kinds import named_fields
from entrypoints.http.routes.configuration.registry import BY_ID, KINDS
from entrypoints.http.routes.configuration.schema import schema
from tests.http.configuration.documents import WHOLE

ORGANIZATION: Final = "/api/organizations/{org_slug}"
SERVICE: Final = f"{ORGANIZATION}/services/{{service_slug}}"
PLATFORM: Final = "/api/platform"
# What no document has, each with the reason. Decisions 11, "Documents".
NEVER: Final = {
    "people, and what they hold": (
        *(f"{ORGANIZATION}/members/", f"{ORGANIZATION}/users/", f"{ORGANIZATION}/invitations", f"{ORGANIZATION}/join-requests/"),
        *(f"{ORGANIZATION}/teams/{{team_slug}}/members/", f"{ORGANIZATION}/transfer-ownership", f"{ORGANIZATION}/select"),
        f"{ORGANIZATION}/ownership",
        *(f"{ORGANIZATION}/agent-grants/", f"{SERVICE}/agent-grants"),
        *(f"{PLATFORM}/users/", f"{PLATFORM}/owners", f"{PLATFORM}/impersonate/"),
    ),
    "keys, secrets and certificates of our own": (
        *(
            f"{SERVICE}/client-secrets",
            f"{SERVICE}/api-keys",
            f"{SERVICE}/user-keys",
            f"{ORGANIZATION}/scim-tokens",
            f"{SERVICE}/saml/certificate",
        ),
        *(
            f"{PLATFORM}/signing-keys",
            f"{ORGANIZATION}/management-keys",
            f"{PLATFORM}/management-keys",
            f"{ORGANIZATION}/webhooks/{{webhook_id}}/rotate-secret",
            *(f"{place}/hooks/sign-in/rotate-secret" for place in (ORGANIZATION, PLATFORM)),
        ),
    ),
    "proofs": tuple(
        f"{ORGANIZATION}/{place}/verify" for place in ("domain", "domain-routes/{domain_id}", "resource-servers/{resource_id}")
    ),
    "exceptions of a week at most": (f"{PLATFORM}/mail-budgets",),
    "states and approvals": (
        *(f"{PLATFORM}/organizations/{{org_id}}/{act}" for act in ("approve", "reject", "suspend", "activate")),
        f"{PLATFORM}/organizations/{{org_id}}/texts/approval",
        *(f"{ORGANIZATION}/resource-servers/{{resource_id}}/ask-approval", f"{PLATFORM}/resource-servers/{{resource_id}}/approval"),
    ),
    "the end of an organization, which people decide": (f"DELETE {ORGANIZATION}", f"DELETE {PLATFORM}/organizations/{{org_id}}"),
    "organizations are founded by people, and by the command": ("POST /api/organizations",),
    "a version is asked for once, from a date that is over the next time: nothing to apply again": (
        f"{ORGANIZATION}/terms",
        f"{PLATFORM}/terms",
    ),
    "who may hear of people, and where, is the word of an owner who has just proved who they are": (f"{SERVICE}/signals",),
    "states, tests and certificates of our own; metadata, whose settings the entry has itself": tuple(
        f"{ORGANIZATION}/upstream-providers/{{provider_id}}/{act}" for act in ("test", "activate", "metadata", "certificate", "succeed")
    ),
    "whether a provider's assertions count follows from its test and its owner's word": (
        f"{ORGANIZATION}/upstream-providers/{{provider_id}}/assertions",
    ),
    "whether a hook counts is an owner's word about what its report showed; a trial sets nothing": tuple(
        f"{place}/hooks/sign-in/{act}" for place in (ORGANIZATION, PLATFORM) for act in ("count", "shadow", "try")
    ),
    "an owner's word about what a run would do, and a reading that begins now": (
        f"{ORGANIZATION}/upstream-providers/{{provider_id}}/runs",
        *(f"{SERVICE}/provisioning/{act}" for act in ("activate", "stop", "end", "runs", "people/")),
    ),
    "links that end by themselves, and drafts that wait for an owner": (
        f"{ORGANIZATION}/setup-links",
        f"{ORGANIZATION}/proposals",
        f"{PLATFORM}/organizations/{{org_id}}/setup-links",
    ),
    "nothing is set": (
        *(f"{ORGANIZATION}/smtp/test", f"{ORGANIZATION}/siem/test", f"{ORGANIZATION}/webhooks/{{webhook_id}}/"),
        *(f"{SERVICE}/checkout", f"{ORGANIZATION}/billing/portal", f"{ORGANIZATION}/configuration/", f"{PLATFORM}/configuration/"),
        f"{PLATFORM}/jobs/",
        f"{ORGANIZATION}/mails/{{mail}}/send-to-me",
    ),
    "a notice has an end, and is over the next time": (f"{ORGANIZATION}/notice",),
    "one text after the other; documents set the texts of a whole language": (
        f"PATCH {ORGANIZATION}/texts",
        f"PATCH {PLATFORM}/texts",
    ),
    "a picture is no text; documents have the address of a logo": (
        *(f"{ORGANIZATION}/branding/{picture}" for picture in ("logo", "dark-logo", "favicon", "background")),
        *(f"{ORGANIZATION}/services/{{service_slug}}/logo", f"{PLATFORM}/providers/{{key}}/logo"),
    ),
    "a test in a browser comes before it; `active` is the document's own word": (f"{PLATFORM}/providers/{{key}}/activate",),
    "`enabled: false` disables it, and the end also removes our certificates": (f"DELETE {SERVICE}/saml",),
}


def is_never(route: str) -> bool:
    return never_because(route) != ""


def never_because(route: str) -> str:
    """The reason why no document has what an endpoint sets. Empty if documents have it."""
    return next((reason for reason, ones in NEVER.items() if any(_names(one, route) for one in ones)), "")


def _names(one: str, route: str) -> bool:
    if " " in one:
        return route == one
    return route.partition(" ")[2].startswith(one) if one.endswith("/") else _under(route, one)


def _under(route: str, path: str) -> bool:
    asked = route.partition(" ")[2]
    return asked == path or asked.startswith(f"{path}/")


def test_every_endpoint_that_sets_something_is_in_documents_or_named_here() -> None:
    covered = {str(one) for kind in KINDS for one in (kind.make, kind.change, kind.end) if one is not None}
    setting = {str(one) for one in ROUTES if one.method != "GET" and one.path.startswith(("/api/organizations", "/api/platform"))}
    assert sorted(one for one in setting - covered if not is_never(one)) == [], "give it a kind in entrypoints/http/routes/configuration"
    assert sorted(one for one in covered if is_never(one)) == []
    assert [one for ones in NEVER.values() for one in ones if not any(_is_of(route, one) for route in setting)] == []


def _is_of(route: str, one: str) -> bool:
    return route == one if " " in one else route.partition(" ")[2].startswith(one.rstrip("/"))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.id)
def test_an_entry_has_every_field_of_its_endpoints(kind: Any) -> None:
    fields = {*kind.entry.__struct_fields__, kind.key}
    for endpoint in (kind.make, kind.change):
        body = None if endpoint is None else endpoint.body_type
        if isinstance(body, type) and issubclass(body, msgspec.Struct):
            translated = (
                {"tier_id", "upstream_provider_id", "user_id", "organization_role", "team", "role", "team_ids", "digest"}
                if kind.translate
                else set()
            )
            if kind.name == "trusted_issuers":
                # Management keys are no part of a document.
                translated.add("management_key_id")
            # The name of an entry is its key: to rename a webhook or a provider is to make another.
            assert named_fields(body) - fields - translated == set(), endpoint


def test_a_place_is_told_as_a_document_has_it() -> None:
    assert organization_place("acme").steps == ("organizations", "acme")
    assert service_place("acme", "billing").steps == ("organizations", "acme", "services", "billing")
    assert str(ObjectPlace("acme", "billing", "service_roles", "a/b~c")) == "/organizations/acme/services/billing/roles/a~1b~0c"
    assert ObjectPlace("", "", "platform_fields", "x").steps == ("platform", "profile_fields", "x")
    assert ObjectPlace("acme", "", "siem", "").steps == ("organizations", "acme", "siem")
    assert pointer(()) == ""


def test_a_document_of_every_kind_fits_the_schema_and_the_schema_knows_every_kind() -> None:
    made = schema()
    assert set(made["$defs"]) >= {kind.entry.__name__ for kind in KINDS}
    assert faults(WHOLE, made, made) == []
    assert faults({**WHOLE, "surprise": 1}, made, made) == ["surprise"]
    described = [name for kind in KINDS for name, one in made["$defs"][kind.entry.__name__]["properties"].items() if "description" in one]
    assert {"redirect_uris", "permissions", "mfa_policy", "price_cents"} <= set(described)
    text = msgspec.json.encode(made).decode()
    assert '"title"' in text
    assert BY_ID["limits"].entry.__name__ in text


def faults(value: Any, one: Any, root: Any) -> list[str]:
    """What is in the value and not in the schema: a check of names alone."""
    if "$ref" in one:
        one = root["$defs"][one["$ref"].rpartition("/")[2]]
    if "anyOf" in one:
        found = [faults(value, choice, root) for choice in one["anyOf"]]
        return min(found, key=len)
    if not isinstance(value, dict) or one.get("type") != "object":
        return []
    properties, more = one.get("properties", {}), one.get("additionalProperties", True)
    missing = [name for name in one.get("required", ()) if name not in value]
    wrong = [name for name in value if name not in properties and more is False]
    inner = [
        fault
        for name, inside in value.items()
        for fault in faults(inside, properties.get(name) or (more if isinstance(more, dict) else {}), root)
    ]
    return [*missing, *wrong, *inner]
