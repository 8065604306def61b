"""Requests about one organization. Each request names the organization by a slug in its path, or by the organization's own key or token."""

from base64 import b64encode
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from entrypoints.http.machinery.endpoints import parameters
from entrypoints.http.routes import ROUTES
from tests.http.client import Client, Pairs, Received
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD
from tests.http.tenants import Tenants
from tests.security.organizations.world import TRUST, FilledOrganization, World

ORGANIZATION: Final = "/api/organizations/{org_slug}"
SHOP: Final = ORGANIZATION + "/services/{service_slug}"
USER: Final = "{user_id}"
DOCUMENT: Final = {
    "document": {
        "postern": 1,
        "organizations": {"globex": {"roles": {"documented": {"name": "Documented", "permissions": ["end_users.view"]}}}},
    }
}


@dataclass(frozen=True, eq=False)
class Step:
    method: str
    path: str
    """As it is declared; what it names is the organization's own, and `user_id` is Bob."""
    body: Any = None
    """Texts in braces are ids of the organization's."""
    by: str = "ada"
    """Somebody, or somebody in the organization or in its shop; or a credential."""
    query: str = ""
    ids: Mapping[str, str] | None = None
    """What the path names instead."""
    refused: int = 0
    """The status, where nothing may happen."""
    touches: Collection[str] = ()
    """Tables of people and of the platform that it may change."""
    first: str = ""
    """A statement that makes it possible, in all organizations."""

    @property
    def is_of_shop(self) -> bool:
        """Whether the request is about the shop, and about no other service."""
        names_shop = "{service_slug}" in self.path and (self.ids or {}).get("service_slug", "shop") == "shop"
        return names_shop or self.by in {"key", "client"} or self.by.endswith(" in shop")

    def __str__(self) -> str:
        told = [f"?{self.query}"] if self.query else []
        told += [str(value) for value in (self.body, self.ids) if value]
        return f"{self.method} {self.path} by {self.by} {' '.join(told)}"


# The table of each id that a path can name.
_NAMED: Final[Mapping[str, str]] = {
    "role_id": "roles",
    "invitation_id": "invitation 0",
    "request_id": "join_requests",
    "webhook_id": "webhooks",
    "delivery_id": "webhook_deliveries",
    "provider_id": "upstream_providers",
    "domain_id": "domain_routes",
    "resource_id": "resource_servers",
    "grant_id": "agent_grants",
    "key_id": "management_keys",
    "rule_id": "trusted_issuers",
    "proposal_id": "proposals",
    "token_id": "scim_tokens",
    "link_id": "setup_links",
    "draft_id": "setup_drafts",
    "exchange_id": "scim_exchanges",
    "question_id": "hook_exchanges",
    "entry_id": "audit_entries",
    "api_key_id": "api_keys",
    "user_key_id": "user_keys",
    "assignment_id": "relations",
    "claim_id": "service_claims",
    "client_secret_id": "client_secrets",
    "plan_id": "plans",
    "stream_id": "signal_streams",
    "fingerprint": "fingerprints",
    "run_id": "directory_runs",
}
# The readers: an administrator here, who has other roles elsewhere; the owner, who is less elsewhere; a member and user; and a mere user.
READERS: Final = ("ada", "quinn", "bob", "cleo")
QUERIES: Final[Mapping[str, tuple[str, ...]]] = {
    f"{ORGANIZATION}/users": ("search=people", "service_id={shop}", "search=bob&service_id={shop}"),
    f"{ORGANIZATION}/members": ("role=clerk", "role=member", "search=bob", "search=m", "search={bob}", "search={first member}"),
    f"{ORGANIZATION}/services": ("service_type=web",),
    f"{ORGANIZATION}/invitations": ("status=pending",),
    f"{ORGANIZATION}/join-requests": ("status=pending",),
    f"{ORGANIZATION}/audit-log": (
        *("action=user.joined", "target_type=user", "target_type=user&target_id={bob}", "actor_id={ada}", "success=true"),
        "since=2020-01-01T00:00:00Z",
    ),
    f"{ORGANIZATION}/agent-grants": ("user_id={bob}", "service_id={shop}", "limit=1"),
    f"{SHOP}/assignments": ("role=editor", "user_id={bob}", "user_id={bob}&role=editor", "limit=1"),
    f"{ORGANIZATION}/webhooks/{{webhook_id}}/deliveries": ("delivered=true", "event_type=user.joined"),
    f"{SHOP}/signals/streams/{{stream_id}}/deliveries": ("delivered=true", "limit=1"),
    "/api/service/subscriptions": ("status=active",),
    "/scim/v2/Users": tuple(
        f"filter={quote(text)}"
        for text in (
            'userName eq "bob@people.example"',
            'externalId eq "x-bob@people.example"',
            'emails.value co "people"',
            'userName sw "b"',
            "active eq false",
            'id eq "{bob}"',
        )
    ),
    "/scim/v2/Groups": ("filter=" + quote('displayName eq "A company"'),),
}
# Queries without which nothing is answered.
NEEDED: Final[Mapping[str, str]] = {
    f"{SHOP}/token-preview": "user_id={bob}",
    f"{SHOP}/proxy/preview": "path=/admin",
    f"{ORGANIZATION}/search": "q=e",
    # An invitation says until when, in words, and that moves with the minute.
    f"{ORGANIZATION}/texts/preview": "mail=welcome",
}
# Requests that are not about one organization, or that call another server, which is missing here.
OUTSIDE: Final = frozenset(
    (
        f"POST {ORGANIZATION}/smtp/test",
        f"POST {ORGANIZATION}/siem/test",
        f"POST {ORGANIZATION}/hooks/sign-in/try",
        f"POST {ORGANIZATION}/domain/verify",
        f"POST {ORGANIZATION}/domain-routes/{{domain_id}}/verify",
        f"POST {ORGANIZATION}/resource-servers/{{resource_id}}/verify",
        f"POST {ORGANIZATION}/upstream-providers",
        # About a directory by SAML, whose metadata and key pairs each take their time.
        f"POST {ORGANIZATION}/upstream-providers/{{provider_id}}/metadata",
        f"POST {ORGANIZATION}/upstream-providers/{{provider_id}}/certificate",
        f"POST {ORGANIZATION}/upstream-providers/{{provider_id}}/activate",
        f"POST {ORGANIZATION}/upstream-providers/{{provider_id}}/succeed",
        f"POST {ORGANIZATION}/billing/portal",
        f"POST {SHOP}/checkout",
        f"POST {SHOP}/saml/metadata",
        # Its body is a picture; the removal of it is walked.
        *(f"PUT {ORGANIZATION}/branding/{picture}" for picture in ("logo", "dark-logo", "favicon", "background")),
        f"PUT {ORGANIZATION}/services/{{service_slug}}/logo",
        # Always refused.
        "POST /scim/v2/Bulk",
        # About no organization.
        "GET /scim/v2/ServiceProviderConfig",
        # As the lists of both.
        "GET /scim/v2/ResourceTypes/{name}",
        "GET /scim/v2/Schemas/{urn}",
    )
)


def about_one_organization() -> set[str]:
    """All endpoints that are declared to be about one organization."""
    kinds = {"_Key": "key", "_KeyWithBody": "key", "_Directory": "directory"}
    return {
        str(one)
        for one in ROUTES
        if "org_slug" in parameters(one.path) or "org_id" in parameters(one.path) or type(one.caller).__name__ in kinds
    }


def reads() -> Iterator[Step]:
    for one in ROUTES:
        name = type(one.caller).__name__
        if one.method != "GET" or str(one) in OUTSIDE:
            continue
        readers = ("key",) if name == "_Key" else ("directory",) if name == "_Directory" else READERS if "org_slug" in one.path else ()
        for by in readers:
            plain = NEEDED.get(one.path, "")
            for query in (plain, *QUERIES.get(one.path, ())) if by in {"ada", "key", "directory"} else (plain,):
                yield Step("GET", one.path, by=by, query=query)
        if one.keys is not None and one.keys.of_platform is None:
            yield Step("GET", one.path, by="robot", query=NEEDED.get(one.path, ""))
    for place in ("Users/", "Groups/", ""):
        yield Step("POST", f"/scim/v2/{place}.search", {"filter": 'id eq "{bob}"' if place == "Users/" else None}, by="directory")
    yield Step("GET", "/scim/v2/Users/{user_id}", by="directory", ids={"user_id": "{dan}"})
    # Sessions in the organization, or in its shop.
    for by in ("bob in organization", "bob in shop", "cleo in shop", "ada in organization"):
        yield Step("GET", "/api/user", by=by)
    for by in ("bob in shop", "bob in app", "cleo in shop"):
        yield Step("GET", "/api/subscription", by=by)


# Exports add an audit entry themselves, so they are no mere reads.
EXPORTS: Final = (
    Step("GET", "/api/privacy/export/{user_id}"),
    Step("GET", "/api/privacy/export/{user_id}", by="ada in organization"),
    Step("GET", "/api/privacy/export/{user_id}", ids={"user_id": "{quinn}"}),
    Step("GET", "/api/privacy/export/{user_id}", ids={"user_id": "{cleo}"}, refused=403),
)


def _moved(name: str) -> Mapping[str, Any]:
    return {"Operations": [{"op": "replace", "value": {"userName": f"{name}-moved@people.example"}}]}


_DEVICES: Final = ("devices",)
# The tables whose rows are removed with a forgotten person.
_OF_PEOPLE: Final = ("users", "devices", "mfa_secrets", "backup_codes", "mfa_events", "former_addresses", "privacy_requests")
_LED: Final = """
    insert into domain_routes (id, org_id, domain, token, own_provider, login_policy, join_policy, created_at, updated_at)
    select gen_random_uuid(), org_id, 'led.example', 't', id, 'password_allowed', 'off', now(), now()
      from upstream_providers where kind = 'oidc' and name <> 'New'
"""
_USED_LINK: Final = "update setup_links set browser_digest = 'b', used_by = 'Grace', used_at = now()"
# As the digest of some texts.
_TEXTS: Final = "0f" * 32
_OF_PLATFORM_LINK: Final = "/api/platform/organizations/{org_id}/setup-links/{link_id}"
_BEHIND_A_PROXY: Final = "update all_services set service_type = 'proxy' where slug = 'app'"
_PENDING: Final = "update all_organizations set status = 'pending'"
_MAY_BOB: Final = {
    "subject": {"type": "user", "id": "{bob}"},
    "action": {"name": "read"},
    "resource": {"type": "service", "id": "shop"},
}
CHANGES: Final = (
    Step("POST", f"{ORGANIZATION}/services", {"slug": "another", "name": "Another", "service_type": "web"}),
    Step("PATCH", SHOP, {"name": "Renamed"}),
    Step("PATCH", SHOP, {"metadata": {"of": "{slug}"}}),
    Step("POST", f"{SHOP}/client-secrets"),
    Step("POST", f"{SHOP}/claims", {"name": "level", "source": "plan", "into": ["id_token"]}),
    Step("PATCH", f"{SHOP}/claims/{{claim_id}}", {"name": "grade"}),
    Step("POST", f"{SHOP}/api-keys", {"name": "Another", "permissions": ["read:users"]}),
    Step("POST", f"{SHOP}/permissions", {"key": "new"}),
    Step("PATCH", f"{SHOP}/proxy", {"idle_minutes": 30}, ids={"service_slug": "app"}, first=_BEHIND_A_PROXY),
    Step("PUT", f"{SHOP}/signals", {"events": ["session-revoked"], "hosts": ["{slug}.example"]}, by="owner"),
    Step("POST", f"{SHOP}/signals/streams/{{stream_id}}/verification"),
    Step("DELETE", f"{SHOP}/signals", by="owner"),
    Step("PUT", f"{SHOP}/provisioning", {"base_url": "https://board.example/scim"}),
    Step("POST", f"{SHOP}/provisioning/activate", {"digest": "0" * 64}, by="owner", refused=409),
    Step("POST", f"{SHOP}/provisioning/stop"),
    Step("POST", f"{SHOP}/provisioning/people/{{user_id}}/try-again"),
    Step("POST", f"{SHOP}/provisioning/runs", refused=409),
    Step("POST", f"{SHOP}/provisioning/runs/{{run_id}}/go-on", {"digest": "0" * 64}, by="owner", refused=409),
    Step("POST", f"{SHOP}/provisioning/runs/{{run_id}}/leave", by="owner"),
    Step("POST", f"{SHOP}/provisioning/end", by="owner", refused=409),
    Step("DELETE", f"{SHOP}/provisioning", by="owner"),
    Step("PATCH", f"{SHOP}/user-key-settings", {"most_keys": 3, "resource": "https://api.example/"}),
    Step("PATCH", f"{SHOP}/permissions/{{permission_key}}", {"description": "Described anew"}),
    Step("POST", f"{SHOP}/roles", {"slug": "new", "name": "New", "permissions": ["read"]}),
    Step("PATCH", f"{SHOP}/roles/{{role_slug}}", {"name": "Renamed", "permissions": ["read"]}),
    Step("POST", f"{SHOP}/assignments", {"role": "editor", "user_id": "{cleo}"}),
    Step("POST", f"{SHOP}/assignments", {"role": "editor", "organization_role": "clerk"}),
    Step("POST", "/api/service/check", {"user_id": "{bob}", "permission": "read"}, by="key"),
    Step("POST", "/api/service/user-keys", {"user_id": "{bob}", "name": "Another"}, by="key"),
    Step("POST", "/api/service/user-keys/verify", {"key": "user shop {slug}"}, by="key"),
    Step("DELETE", "/api/service/user-keys/{user_key_id}", by="key", ids={"user_key_id": "{user_keys of shop}"}),
    Step("DELETE", f"{SHOP}/user-keys/{{user_key_id}}", ids={"user_key_id": "{user_keys of another}"}),
    *(Step("POST", f"/access/v1/{path}", _MAY_BOB, by="key") for path in ("evaluation", "evaluations", "search/action", "search/subject")),
    Step("POST", "/access/v1/search/resource", _MAY_BOB, by="key", refused=501),
    Step("POST", f"{SHOP}/plans", {"name": "Another", "price_cents": 0, "currency": "usd"}),
    Step("PATCH", f"{SHOP}/plans/{{plan_id}}", {"name": "Renamed"}),
    Step("DELETE", f"{SHOP}/plans/{{plan_id}}", ids={"plan_id": "{unused_plan}"}),
    Step("POST", f"{SHOP}/saml", {"enabled": True, "entity_id": "https://another.example", "acs_url": "https://another.example/acs"}),
    Step("POST", f"{SHOP}/saml/certificate", query="activate=false"),
    Step("POST", f"{SHOP}/saml/certificate/activate"),
    Step("POST", f"{ORGANIZATION}/management-keys", {"name": "Another", "capabilities": ["services.view"]}),
    Step("POST", f"{ORGANIZATION}/management-keys/{{key_id}}/adopt", by="owner"),
    Step("POST", f"{ORGANIZATION}/proposals", DOCUMENT),
    Step("POST", f"{ORGANIZATION}/proposals/{{proposal_id}}/apply", {"digest": "0" * 64}, by="owner", refused=409),
    Step("POST", f"{ORGANIZATION}/setup-links", {"name": "Another", "purposes": ["domain"]}),
    Step("POST", f"{ORGANIZATION}/setup-links/{{link_id}}/drafts/{{draft_id}}/activate", {"digest": "0" * 64}, by="owner", refused=409),
    Step("POST", f"{ORGANIZATION}/setup-links/{{link_id}}/release", first=_USED_LINK),
    Step("POST", f"{ORGANIZATION}/scim-tokens", {"name": "Another"}),
    Step("POST", f"{SHOP}/api-keys", {"name": "Of the robot", "permissions": ["read:users"]}, by="robot"),
    Step("PATCH", f"{ORGANIZATION}/sign-in-rules", {"device_trust_days": 4}, by="robot"),
    Step("POST", f"{ORGANIZATION}/invitations", {"email": "robot-asks@people.example", "role": "member"}, by="robot"),
    Step("PATCH", ORGANIZATION, {"name": "Another name"}),
    Step("PATCH", ORGANIZATION, {"metadata": {"of": "{slug}"}}),
    Step("POST", f"{ORGANIZATION}/configuration/plan", DOCUMENT),
    Step("POST", f"{ORGANIZATION}/configuration/apply", DOCUMENT),
    Step("PATCH", f"{ORGANIZATION}/branding", {"primary_color": "#123456", "help_url": "https://help.example/"}),
    Step("PATCH", f"{ORGANIZATION}/languages", {"languages": ["fr", "de"]}),
    *(Step("DELETE", f"{ORGANIZATION}/branding/{picture}") for picture in ("logo", "dark-logo", "favicon", "background")),
    Step("DELETE", f"{ORGANIZATION}/services/{{service_slug}}/logo"),
    Step("PATCH", f"{ORGANIZATION}/texts", {"language": "en", "texts": {"sign_in.title": "Welcome to {slug}"}}),
    Step("PUT", f"{ORGANIZATION}/texts", {"de": {"sign_in.title": "Willkommen"}}),
    Step("PUT", f"{ORGANIZATION}/notice", {"begins_at": "2099-01-01T00:00:00Z", "ends_at": "2099-02-01T00:00:00Z"}),
    Step("POST", f"{ORGANIZATION}/mails/{{mail}}/send-to-me", {}),
    Step(
        "PUT",
        f"{ORGANIZATION}/risk-policies",
        {
            "policies": [
                {
                    "id": "7d2f9f2c-4f0e-4c43-9f0a-6a3f0c1c9d10",
                    "name": "Not from there",
                    "when": {"networks": ["198.51.100.0/24"]},
                    "action": "passkey",
                }
            ]
        },
    ),
    Step("PUT", f"{ORGANIZATION}/terms", {"version": "2", "address": "https://new.example/", "due_at": "2099-01-01T00:00:00Z"}, by="owner"),
    Step("DELETE", f"{ORGANIZATION}/terms", by="owner"),
    Step("PATCH", f"{ORGANIZATION}/sign-in-rules", {"sign_in_links": False, "device_trust_days": 3, "invitation_domains": []}),
    # The key of the installation that signs it is made with the first file.
    Step("POST", f"{ORGANIZATION}/users/{{user_id}}/offboarding/evidence", touches=("server_secrets",)),
    Step("PUT", f"{ORGANIZATION}/offboarding-deadline", {"removal_minutes": 5}),
    Step(
        "POST",
        f"{ORGANIZATION}/smtp",
        {"host": "smtp.new.example", "port": 587, "username": "u", "password": "p", "from_email": "it@new.example"},
    ),
    Step("POST", f"{ORGANIZATION}/domain", {"domain": "new.example"}),
    Step("POST", f"{ORGANIZATION}/oauth-credentials/{{provider}}", {"client_id": "new", "client_secret": "s"}),
    Step("PATCH", f"{ORGANIZATION}/upstream-providers/{{provider_id}}", {"name": "Renamed", "enabled": False}),
    Step("POST", f"{ORGANIZATION}/upstream-providers/{{provider_id}}/test"),
    Step("PUT", f"{ORGANIZATION}/upstream-providers/{{provider_id}}/assertions", {"issues": False, "subject": "oid"}),
    Step("POST", f"{ORGANIZATION}/upstream-providers/{{provider_id}}/assertions/check", {"assertion": "x"}),
    Step("POST", f"{ORGANIZATION}/upstream-providers/{{provider_id}}/certificate/waiting/{{fingerprint}}", refused=404),
    Step("DELETE", f"{ORGANIZATION}/upstream-providers/{{provider_id}}/certificate/waiting/{{fingerprint}}", refused=404),
    Step("DELETE", f"{ORGANIZATION}/upstream-providers/{{provider_id}}/certificate/former"),
    Step("POST", f"{ORGANIZATION}/upstream-providers/{{provider_id}}/runs", refused=400),
    Step("POST", f"{ORGANIZATION}/upstream-providers/{{provider_id}}/runs/{{run_id}}/go-on", {"digest": "0" * 64}, refused=400),
    Step("POST", f"{ORGANIZATION}/upstream-providers/{{provider_id}}/runs/{{run_id}}/leave"),
    *(
        Step("POST", f"{ORGANIZATION}/upstream-providers/{{provider_id}}/runs/{{run_id}}/{act}", {"digest": "0" * 64}, refused=400)
        for act in ("take-over", "keep", "end")
    ),
    Step("POST", f"{ORGANIZATION}/domain-routes", {"domain": "new.example", "upstream_provider_id": "{upstream_providers}"}),
    Step("POST", f"{ORGANIZATION}/resource-servers", {"identifier": "https://new.example/", "name": "New", "admitted_services": ["app"]}),
    Step("PATCH", f"{ORGANIZATION}/resource-servers/{{resource_id}}", {"name": "Renamed", "admits": "all", "admitted_services": []}),
    Step("POST", f"{ORGANIZATION}/resource-servers/{{resource_id}}/ask-approval"),
    Step("POST", f"{ORGANIZATION}/trusted-issuers", {**TRUST, "name": "New", "service_slug": "shop"}),
    Step("PATCH", f"{ORGANIZATION}/trusted-issuers/{{rule_id}}", {"name": "Renamed", "audience": "https://new.example"}),
    Step("PATCH", f"{ORGANIZATION}/domain-routes/{{domain_id}}", {"join_policy": "on", "upstream_provider_id": None}),
    Step("PATCH", f"{ORGANIZATION}/members/{{user_id}}", {"role": "clerk"}),
    Step("POST", f"{ORGANIZATION}/invitations", {"email": "another@people.example", "role": "clerk"}),
    Step("POST", f"{ORGANIZATION}/invitations/{{invitation_id}}"),
    Step("POST", f"{ORGANIZATION}/invitations/{{invitation_id}}/accept", ids={"invitation_id": "{invitation 1}"}),
    Step("POST", "/api/invitations/decline", {"token": "{slug} third@people.example"}, by="joan", touches=("server_secrets",)),
    Step("POST", f"{ORGANIZATION}/join-requests/{{request_id}}/decline", ids={"request_id": "{another_request}"}),
    Step("POST", f"{ORGANIZATION}/webhooks", {"name": "New", "url": "https://new.example/", "events": ["user.joined"]}),
    Step("PATCH", f"{ORGANIZATION}/webhooks/{{webhook_id}}", {"name": "Renamed"}),
    Step("POST", f"{ORGANIZATION}/webhooks/{{webhook_id}}/rotate-secret"),
    Step("POST", f"{ORGANIZATION}/webhooks/{{webhook_id}}/test"),
    Step("POST", f"{ORGANIZATION}/webhooks/{{webhook_id}}/deliveries/{{delivery_id}}/redeliver"),
    Step("POST", f"{ORGANIZATION}/webhooks/{{webhook_id}}/replay", {"since": "2020-01-01T00:00:00Z"}),
    Step("POST", f"{ORGANIZATION}/siem", {"name": "New", "provider_type": "generic", "endpoint_url": "https://new.example/"}),
    # Other settings than those that the owner has seen.
    Step(
        "PUT",
        f"{ORGANIZATION}/hooks/sign-in",
        {"address": "https://new.example/", "silence": "refuse", "digest": "0" * 64},
        by="owner",
        refused=409,
    ),
    Step("POST", f"{ORGANIZATION}/hooks/sign-in/count", {"digest": "0" * 64}, by="owner", refused=409),
    Step("POST", f"{ORGANIZATION}/hooks/sign-in/shadow", by="owner"),
    Step("POST", f"{ORGANIZATION}/hooks/sign-in/rotate-secret", by="owner"),
    Step("POST", f"{ORGANIZATION}/profile-fields", {"key": "new", "label": "New", "kind": "text"}),
    Step("PATCH", f"{ORGANIZATION}/profile-fields/{{key}}", {"label": "Renamed"}, ids={"key": "department"}),
    Step("PATCH", f"{ORGANIZATION}/users/{{user_id}}/profile", {"values": {"department": "Renamed"}}),
    Step("PATCH", "/api/user/profile", {"organization": "{slug}", "values": {"department": "Mine"}}, by="bob"),
    Step("PATCH", "/api/service/users/{user_id}", {"profile": {"department": "Served"}, "metadata": {"a": 1}}, by="key"),
    Step("POST", f"{ORGANIZATION}/roles", {"slug": "new", "name": "New", "permissions": ["services.view"]}),
    Step("PATCH", f"{ORGANIZATION}/roles/{{role_id}}", {"name": "Renamed", "permissions": ["org.members.view"]}),
    Step("POST", f"{ORGANIZATION}/teams", {"slug": "new", "name": "New", "role": "clerk"}),
    Step("PATCH", f"{ORGANIZATION}/teams/{{team_slug}}", {"name": "Renamed", "role": "member"}),
    Step("PUT", f"{ORGANIZATION}/teams/{{team_slug}}/members/{{user_id}}", ids={"user_id": "{quinn}"}),
    Step("DELETE", f"{ORGANIZATION}/teams/{{team_slug}}/members/{{user_id}}"),
    Step("POST", f"{ORGANIZATION}/ownership", {"answer": "confirm"}),
    Step("POST", f"{ORGANIZATION}/select"),
    Step("POST", f"{ORGANIZATION}/select", by="quinn"),
    Step("PATCH", "/api/service/info", {"name": "Renamed by key"}, by="key"),
    Step("POST", "/api/service/users", {"email": "joan@people.example"}, by="key"),
    Step("POST", "/api/service/users", {"email": "nobody-yet@people.example"}, by="key", touches=("users",)),
    Step("PATCH", "/api/service/users/{user_id}", {}, by="key"),
    Step("POST", "/api/service/subscriptions", {"user_id": "{cleo}", "plan_id": "{plans}"}, by="key"),
    Step("PATCH", "/api/service/subscriptions/{user_id}", {"status": "past_due"}, by="key"),
    Step("POST", "/scim/v2/Users", {"userName": "from-directory@people.example", "externalId": "new"}, by="directory", touches=("users",)),
    Step("POST", "/scim/v2/Users", {"userName": "cleo@people.example", "externalId": "cleo"}, by="directory"),
    Step("PUT", "/scim/v2/Users/{user_id}", {"userName": "bob@people.example", "displayName": "Robert"}, by="directory"),
    Step("PATCH", "/scim/v2/Users/{user_id}", {"Operations": [{"op": "replace", "value": {"displayName": "Bobby"}}]}, by="directory"),
    Step(
        *("PATCH", "/scim/v2/Groups/{group_id}"),
        {"Operations": [{"op": "add", "path": "members", "value": [{"value": "{dan}"}]}]},
        by="directory",
    ),
    Step("PATCH", "/scim/v2/Groups/{group_id}", {"Operations": [{"op": "replace", "value": {"externalId": "another"}}]}, by="directory"),
    Step("POST", "/scim/v2/Groups", {"displayName": "Pushed", "externalId": "p", "members": [{"value": "{bob}"}]}, by="directory"),
    Step(
        *("PATCH", "/scim/v2/Groups/{group_id}"),
        {"Operations": [{"op": "replace", "value": {"displayName": "Selling", "members": [{"value": "{ada}"}]}}]},
        by="directory",
        ids={"group_id": "{pushed_team}"},
    ),
    Step("POST", "/oauth/token", {"grant_type": "client_credentials"}, by="client"),
    Step(
        "POST",
        "/oauth/token",
        {"grant_type": "authorization_code", "code": "code of {slug}", "redirect_uri": "https://app.example/back"},
        by="client",
    ),
    Step(
        "POST",
        "/oauth/token",
        {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": "device of {slug}"},
        by="client",
        refused=400,
    ),
    Step(
        "POST",
        "/oauth/token",
        {"grant_type": "urn:openid:params:grant-type:ciba", "auth_req_id": "afar of {slug}"},
        by="client",
        refused=400,
        touches=("afar_requests",),
    ),
    Step("POST", "/oauth/bc-authorize", {"scope": "openid", "login_hint": "bob@people.example"}, by="client", refused=400),
    Step("POST", "/auth/device/code", {"scope": "openid"}, by="client", touches=("server_secrets",)),
    Step("POST", "/oauth/par", {"redirect_uri": "https://app.example/back", "response_type": "code", "scope": "openid"}, by="client"),
    Step(
        "POST",
        "/api/auth/login",
        {"email": "bob@people.example", "password": "{password}", "org_slug": "{slug}", "service_slug": "shop"},
        by="nobody",
        touches=_DEVICES,
    ),
    Step("POST", "/api/auth/logout", by="bob in organization"),
    Step("GET", "/api/platform/organizations/{org_id}", by="governor"),
    Step("GET", "/api/platform/organizations/{org_id}/setup-links", by="governor"),
    Step("GET", _OF_PLATFORM_LINK, by="governor"),
    Step(
        "POST",
        "/api/platform/organizations/{org_id}/texts/approval",
        {"version": _TEXTS},
        by="governor",
        first=f"update all_organizations set texts_digest = '{_TEXTS}', approved_texts = null",
    ),
    Step(
        "DELETE",
        "/api/platform/organizations/{org_id}/texts/approval",
        by="governor",
        first=f"update all_organizations set texts_digest = '{_TEXTS}', approved_texts = '{_TEXTS}'",
    ),
    Step("POST", "/api/platform/organizations/{org_id}/suspend", {"reason": "Late"}, by="governor"),
    Step("POST", "/api/platform/organizations/{org_id}/activate", by="governor", first="update all_organizations set status = 'suspended'"),
    Step("PATCH", "/api/platform/organizations/{org_id}/tier", {"tier_id": "01900000-0000-7000-8000-000000000001"}, by="governor"),
    Step("POST", "/api/platform/organizations/{org_id}/setup-links", {"name": "Theirs", "purposes": ["domain"]}, by="governor"),
    Step("POST", f"{_OF_PLATFORM_LINK}/release", by="governor", first=_USED_LINK),
    Step("DELETE", _OF_PLATFORM_LINK, by="governor", first=_USED_LINK),
    Step("POST", "/api/platform/organizations/{org_id}/approve", {}, by="governor", first=_PENDING),
    Step("POST", "/api/platform/organizations/{org_id}/reject", {"reason": "No"}, by="governor", first=_PENDING),
    # Requests that end something.
    Step("DELETE", f"{ORGANIZATION}/users/{{user_id}}/sessions", first="update all_organizations set status = 'active'"),
    Step("DELETE", f"{ORGANIZATION}/members/{{user_id}}/sessions"),
    Step("POST", f"{ORGANIZATION}/users/{{user_id}}/lock"),
    Step("POST", f"{ORGANIZATION}/members/{{user_id}}/lock"),
    # A directory may not move an account that it did not make, or that another organization knows.
    Step("PATCH", "/scim/v2/Users/{user_id}", _moved("bob"), by="directory", refused=400),
    Step("PATCH", "/scim/v2/Users/{user_id}", _moved("nat"), by="directory", ids={"user_id": "{nat}"}, refused=400),
    # A directory may not move an account whose owner has proved the address.
    Step("PATCH", "/scim/v2/Users/{user_id}", _moved("member"), by="directory", ids={"user_id": "{member}"}, refused=400),
    Step(
        "PATCH",
        "/scim/v2/Users/{user_id}",
        _moved("member"),
        by="directory",
        ids={"user_id": "{member}"},
        touches=_OF_PEOPLE,
        first="update users set email_verified_at = null where email like 'member-of-%%'",
    ),
    # The second factor of a person whom another organization has made, of one who is in other organizations too, and of one who is only
    # here.
    Step("DELETE", f"{ORGANIZATION}/members/{{user_id}}/mfa", {"reason": "Lost it"}, ids={"user_id": "{nat}"}, refused=403),
    Step("DELETE", f"{ORGANIZATION}/members/{{user_id}}/mfa", {"reason": "Lost it"}, refused=403),
    Step(
        "DELETE",
        f"{ORGANIZATION}/members/{{user_id}}/mfa",
        {"reason": "Lost it"},
        ids={"user_id": "{member}"},
        touches=("mfa_secrets", "mfa_events", "backup_codes", "devices"),
    ),
    Step("POST", f"{ORGANIZATION}/join-requests/{{request_id}}/approve"),
    *(Step("DELETE", "/api/privacy/forget/{user_id}", ids={"user_id": of}, refused=403) for of in ("{bob}", "{cleo}", "{first member}")),
    # The new holder of the address has confirmed nothing yet, and nobody has made the account.
    Step(
        "DELETE",
        "/api/privacy/forget/{user_id}",
        ids={"user_id": "{member}"},
        refused=403,
        first="update users set origin_org_id = null where origin_org_id is not null",
    ),
    Step(
        "DELETE",
        "/api/privacy/forget/{user_id}",
        ids={"user_id": "{member}"},
        touches=_OF_PEOPLE,
        first="update memberships set own_since = now() where own_since is null",
    ),
    Step("POST", f"{ORGANIZATION}/members/{{user_id}}", ids={"user_id": "{quinn}"}),
    Step("DELETE", "/api/service/subscriptions/{user_id}", by="key"),
    Step("DELETE", "/api/service/users/{user_id}", by="key", ids={"user_id": "{cleo}"}),
    Step("DELETE", f"{SHOP}/saml"),
    Step(
        "PUT",
        "/scim/v2/Groups/{group_id}",
        {"displayName": "A company", "externalId": "yet another", "members": [{"value": "{bob}"}, {"value": "{ada}"}]},
        by="directory",
        touches=("users", "sessions"),
    ),
    Step("DELETE", "/scim/v2/Groups/{group_id}", by="directory", ids={"group_id": "{pushed_team}"}),
    Step("PATCH", f"{ORGANIZATION}/scim/settings", {"groups": "organization"}, first="delete from teams where source = 'directory'"),
    Step("DELETE", f"{ORGANIZATION}/teams/{{team_slug}}"),
    Step("DELETE", "/scim/v2/Users/{user_id}", by="directory"),
    Step("DELETE", f"{ORGANIZATION}/profile-fields/{{key}}", ids={"key": "department"}),
    Step("DELETE", f"{ORGANIZATION}/roles/{{role_id}}", ids={"role_id": "{unused_role}"}),
    Step("DELETE", f"{ORGANIZATION}/webhooks/{{webhook_id}}"),
    Step("DELETE", f"{ORGANIZATION}/siem"),
    Step("DELETE", f"{ORGANIZATION}/hooks/sign-in", by="owner"),
    Step("DELETE", f"{ORGANIZATION}/smtp"),
    Step("DELETE", f"{ORGANIZATION}/offboarding-deadline"),
    Step("DELETE", f"{ORGANIZATION}/domain"),
    Step("DELETE", f"{ORGANIZATION}/oauth-credentials/{{provider}}"),
    Step("DELETE", f"{ORGANIZATION}/domain-routes/{{domain_id}}"),
    Step("DELETE", f"{ORGANIZATION}/agent-grants/{{grant_id}}"),
    Step("DELETE", f"{SHOP}/agent-grants", ids={"service_slug": "helper"}),
    Step("DELETE", f"{ORGANIZATION}/resource-servers/{{resource_id}}"),
    Step("DELETE", f"{ORGANIZATION}/trusted-issuers/{{rule_id}}"),
    Step("DELETE", f"{ORGANIZATION}/upstream-providers/{{provider_id}}", refused=409, first=_LED),
    Step("DELETE", f"{ORGANIZATION}/upstream-providers/{{provider_id}}", first="delete from domain_routes"),
    Step("DELETE", f"{ORGANIZATION}/proposals/{{proposal_id}}"),
    Step("DELETE", f"{ORGANIZATION}/management-keys/{{key_id}}", query="end_made=true"),
    Step("DELETE", f"{ORGANIZATION}/scim-tokens/{{token_id}}"),
    Step("DELETE", f"{ORGANIZATION}/setup-links/{{link_id}}", first="update setup_links set revoked_at = null"),
    Step("DELETE", f"{SHOP}/assignments/{{assignment_id}}"),
    Step("DELETE", f"{SHOP}/permissions/{{permission_key}}"),
    Step("DELETE", f"{SHOP}/roles/{{role_slug}}"),
    Step("DELETE", f"{SHOP}/claims/{{claim_id}}"),
    Step("DELETE", f"{SHOP}/client-secrets/{{client_secret_id}}"),
    Step("DELETE", f"{SHOP}/api-keys/{{api_key_id}}"),
    Step("DELETE", SHOP),
    Step("DELETE", ORGANIZATION),
    Step(
        "POST",
        f"{ORGANIZATION}/transfer-ownership",
        {"new_owner_user_id": "{admin}"},
        first="update all_organizations set deleted_at = null",
    ),
    Step(
        "DELETE",
        "/api/platform/organizations/{org_id}",
        by="governor",
    ),
)

_THEIRS: Final = ({"user_id": "{first member}"}, {"user_id": "{first customer}"})
_ANOTHER_SERVICE: Final = {"service_slug": "app"}
# Requests with the id in the body or in the query.
_WITH_FIELDS: Final = (
    Step("GET", f"{ORGANIZATION}/users", query="service_id={first shop}", refused=404),
    Step(
        "POST", f"{ORGANIZATION}/domain-routes", {"domain": "a.example", "upstream_provider_id": "{first upstream_providers}"}, refused=400
    ),
    Step("PATCH", f"{ORGANIZATION}/domain-routes/{{domain_id}}", {"upstream_provider_id": "{first upstream_providers}"}, refused=400),
    # Both other organizations have a client at this provider.
    Step("POST", f"{ORGANIZATION}/domain-routes", {"domain": "a.example", "upstream_provider_id": "officesuite"}, refused=400),
    Step("PATCH", f"{ORGANIZATION}/domain-routes/{{domain_id}}", {"upstream_provider_id": "officesuite"}, refused=400),
    Step("PATCH", f"{ORGANIZATION}/resource-servers/{{resource_id}}", {"admitted_services": ["only-of-acme"]}, refused=400),
    Step("PATCH", f"{ORGANIZATION}/resource-servers/{{resource_id}}", {"service_slug": "only-of-acme"}, refused=400),
    Step("POST", f"{ORGANIZATION}/trusted-issuers", {**TRUST, "name": "New", "service_slug": "only-of-acme"}, refused=404),
    Step(
        "PATCH",
        f"{ORGANIZATION}/resource-servers/{{resource_id}}",
        {"scopes": [{"name": "a", "description": "A", "permission": "only-theirs"}]},
        refused=400,
    ),
    Step("POST", f"{ORGANIZATION}/invitations", {"email": "a@people.example", "role": "theirs"}, refused=400),
    Step("PATCH", f"{ORGANIZATION}/members/{{user_id}}", {"role": "theirs"}, refused=400),
    Step("POST", f"{ORGANIZATION}/transfer-ownership", {"new_owner_user_id": "{first member}"}, refused=400),
    Step("POST", "/api/service/subscriptions", {"user_id": "{cleo}", "plan_id": "{first plans}"}, by="key", refused=403),
    Step("POST", "/api/service/subscriptions", {"user_id": "{first customer}", "plan_id": "{plans}"}, by="key", refused=404),
    Step(
        *("PATCH", "/scim/v2/Groups/{group_id}"),
        {"Operations": [{"op": "add", "path": "members", "value": [{"value": "{first member}"}]}]},
        by="directory",
        refused=400,
    ),
    Step("GET", "/scim/v2/Groups/{group_id}", by="directory", ids={"group_id": "{first org_id}"}, refused=404),
    Step(
        "PATCH",
        "/scim/v2/Groups/{group_id}",
        {"Operations": [{"op": "replace", "value": {"externalId": "x"}}]},
        by="directory",
        ids={"group_id": "{first org_id}"},
        refused=404,
    ),
    Step("POST", f"{SHOP}/assignments", {"role": "editor", "user_id": "{first member}"}, refused=400),
    Step("POST", f"{SHOP}/assignments", {"role": "editor", "organization_role": "theirs"}, refused=400),
    Step("POST", f"{SHOP}/assignments", {"role": "only-theirs", "user_id": "{bob}"}, refused=400),
    Step("POST", f"{SHOP}/roles", {"slug": "new", "name": "New", "permissions": ["only-theirs"]}, refused=400),
    *(
        Step(method, f"{SHOP}/{path}", body, ids={name: "only-theirs"}, refused=404)
        for path, name in (("roles/{role_slug}", "role_slug"), ("permissions/{permission_key}", "permission_key"))
        for method, body in (("GET", None), ("PATCH", {"description": "x"}), ("DELETE", None))
        if (method, name) != ("GET", "permission_key")
    ),
    Step("POST", "/api/service/check", {"user_id": "{first customer}", "permission": "read"}, by="key", refused=404),
    Step("POST", "/api/service/user-keys", {"user_id": "{first customer}", "name": "Theirs"}, by="key", refused=404),
    *(
        Step(method, "/scim/v2/Groups/{group_id}", body, by="directory", ids={"group_id": f"{{{team}}}"}, refused=404)
        for team in ("first pushed_team", "first teams", "teams")
        for method, body in (
            ("GET", None),
            ("PUT", {"displayName": "X", "members": []}),
            ("PATCH", {"Operations": [{"op": "replace", "path": "displayName", "value": "X"}]}),
            ("DELETE", None),
        )
    ),
    Step("GET", f"{ORGANIZATION}/services/{{service_slug}}", ids={"service_slug": "only-of-acme"}, refused=404),
    Step("PATCH", f"{ORGANIZATION}/services/{{service_slug}}", {"name": "X"}, ids={"service_slug": "only-of-acme"}, refused=404),
    Step("DELETE", f"{ORGANIZATION}/services/{{service_slug}}", ids={"service_slug": "only-of-acme"}, refused=404),
)

# Names that the other organizations use already.
NAMED_ALIKE: Final = (
    Step("POST", f"{ORGANIZATION}/webhooks", {"name": "Theirs", "url": "https://new.example/", "events": ["user.joined"]}),
    Step("PATCH", f"{ORGANIZATION}/webhooks/{{webhook_id}}", {"name": "Theirs 2"}),
    Step("POST", f"{ORGANIZATION}/management-keys", {"name": "Theirs", "capabilities": ["services.view"]}),
    Step("POST", f"{ORGANIZATION}/scim-tokens", {"name": "Theirs"}),
    Step("POST", f"{ORGANIZATION}/roles", {"slug": "theirs", "name": "Theirs", "permissions": ["services.view"]}),
    Step("POST", f"{ORGANIZATION}/teams", {"slug": "team-0", "name": "Theirs"}),
    Step("POST", f"{ORGANIZATION}/teams", {"slug": "new", "name": "Theirs"}),
    Step("POST", "/scim/v2/Groups", {"displayName": "New", "externalId": "0"}, by="directory"),
    Step("POST", f"{ORGANIZATION}/domain-routes", {"domain": "theirs.example"}),
    Step("POST", f"{ORGANIZATION}/resource-servers", {"identifier": "https://theirs.example/", "name": "Theirs"}),
    Step("POST", f"{ORGANIZATION}/trusted-issuers", {**TRUST, "name": "Theirs", "service_slug": "shop"}),
    Step("POST", f"{ORGANIZATION}/services", {"slug": "only-of-acme", "name": "Theirs", "service_type": "web"}),
    Step("PATCH", f"{ORGANIZATION}/upstream-providers/{{provider_id}}", {"name": "Theirs"}),
)


def with_ids_of_others() -> Iterator[Step]:
    """The same requests with an id of another organization or of another service. Each is answered as not found, and changes nothing."""
    for one in (*reads(), *CHANGES):
        names = parameters(one.path)
        if one.by not in {"ada", "key", "directory", "robot"} or one.query or one.refused or "privacy" in one.path or "org_id" in names:
            continue
        others = [{name: f"{{first {of}}}"} for name, of in _NAMED.items() if name == names[-1]] if names else []
        if "user_id" in names:
            others += _THEIRS
        if names and names[-1] in {"api_key_id", "assignment_id", "client_secret_id", "plan_id"}:
            others.append(_ANOTHER_SERVICE)
        if names and names[-1] == "delivery_id":
            others.append({"webhook_id": "{another_webhook}"})
        # Of whom the log does not name, it says nothing, whoever it is. That a file says so is an entry of the log.
        is_of_anybody = one.path.startswith(f"{ORGANIZATION}/users/{{user_id}}/offboarding")
        if is_of_anybody and one.method == "POST":
            continue
        refused = 0 if is_of_anybody else 404
        for ids in others:
            yield Step(one.method, one.path, one.body, one.by, ids=ids, refused=refused)
    yield from _WITH_FIELDS


class OrganizationWalker:
    def __init__(self, world: World, people: People, tenants: Tenants, client: Client) -> None:
        self._world = world
        self._people = people
        self._tenants = tenants
        self._client = client

    async def ask(self, step: Step) -> Received:
        scene = self._world.asked
        known = {**known_of(self._world, scene), **known_of(self._world, self._world.others[0], "first ")}
        path = step.path
        named = {**known, **named_in(self._world, scene, path)}
        for name, value in (step.ids or {}).items():
            named[name] = _filled(value, known)
        for name in parameters(path):
            path = path.replace(f"{{{name}}}", named[name])
        if step.query:
            path += "?" + _filled(step.query, known, quoted=True)
        body = _filled(step.body, known)
        headers: Pairs = (("user-agent", "walker/1"),)
        token = None
        match step.by:
            case "nobody":
                pass
            case "key":
                headers = (*headers, ("x-api-key", scene.key))
            case "directory":
                token = scene.directory
            case "robot":
                token = scene.management_key
            case "client":
                pair = b64encode(f"{scene.client}:{quote(scene.secret)}".encode()).decode()
                headers = (*headers, ("authorization", f"Basic {pair}"), ("content-type", "application/x-www-form-urlencoded"))
                body = "&".join(f"{name}={quote(value, safe='')}" for name, value in body.items()).encode()
            case _:
                token = await self._token(step.by, scene)
        return await self._client.request(step.method, path, body=body, token=token, headers=headers)

    async def _token(self, by: str, scene: FilledOrganization) -> str:
        name, _, place = by.partition(" in ")
        person: Person = getattr(self._world, name, None) or getattr(scene, name)
        if not place:
            return await self._tenants.token(person)
        where = {"shop": scene.shop, "app": scene.app}.get(place, scene.tenant)
        service = None if where is scene.tenant else where.id
        (row, *_) = self._people.rows(
            "select id from sessions where user_id = %s and organization_id = %s and service_id is not distinct from %s order by id",
            *(person.user, scene.tenant.id, service),
        )
        return await self._tenants.token(Person(person.user, row["id"], person.email), where)


def known_of(world: World, scene: FilledOrganization, prefix: str = "") -> Mapping[str, str]:
    """The ids and names that requests may mention, as this organization has them."""
    people = {name: getattr(world, name) for name in ("ada", "bob", "cleo", "quinn", "dan", "joan", "max", "nat")}
    known = {
        **{name: str(one) for name, one in scene.ids.items()},
        **{name: str(one.user) for name, one in people.items()},
        "admin": str(scene.admin.user),
        "member": str(scene.member.user),
        "customer": str(scene.customer.user),
        "user_id": str(world.bob.user),
        "org_slug": scene.slug,
        "slug": scene.slug,
        "service_slug": scene.shop.slug,
        "role_slug": "editor",
        "permission_key": "read",
        "team_slug": "staff",
        "shop": str(scene.shop.id),
        "org_id": str(scene.tenant.id),
        "provider": "codehost",
        "mail": "invitation",
        "password": PASSWORD,
    }
    return {f"{prefix}{name}": text for name, text in known.items()}


def named_in(world: World, scene: FilledOrganization, path: str = "") -> Mapping[str, str]:
    """What the parameters of paths name in this organization. A run is one of its directory, or of a connection outwards."""
    known = known_of(world, scene)
    outwards = {"run_id": "provisioning_runs"} if "/provisioning/" in path or "/people-there/" in path else {}
    ids = {name: str(scene.ids[of]) for name, of in {**_NAMED, **outwards}.items()}
    return {**known, **ids, **dict.fromkeys(("org_id", "group_id"), known["org_id"])}


def _filled(value: Any, known: Mapping[str, str], *, quoted: bool = False) -> Any:
    if isinstance(value, dict):
        return {name: _filled(one, known) for name, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, known) for one in value]
    if isinstance(value, str):
        for name, text in known.items():
            value = value.replace(f"{{{name}}}", text)
            if quoted:
                value = value.replace(quote(f"{{{name}}}"), text)
    return value
