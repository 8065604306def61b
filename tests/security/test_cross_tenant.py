"""Cross-tenant access: an administrator of one organization reaches nothing of another organization by any id, and the organization's
counts do not change when the other organization changes.

Both organizations have the same kinds of things. The requests and credentials come from the declarations, so each new route must be listed
here with a body, or the test of the list fails.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import pytest

from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.endpoints import Endpoint, parameters
from entrypoints.http.routes import ROUTES
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.cast import Cast
from tests.http.client import Received
from tests.http.people import People, Person
from tests.http.signing_in import unlimited
from tests.http.tenants import OwnRole, Tenant, UsedService
from tests.security.organizations.world import TRUST

database_url, postern, people = http.database_url, http.postern, http.people

AGENT_GRANTS = """
    select * from resource_consents where service_id in (select id from services where org_id = %s and is_agent) order by id
"""
IN_ORGANIZATION = [one for one in ROUTES if "org_slug" in parameters(one.path)]
# A provider's name belongs to no organization. Bodies other than JSON have their own tests
# (tests/http/federation/saml/test_saml_attacks.py).
# What the log says of a person is asked by any id: of whom it does not name, it says nothing.
OF_ANYBODY = ("/api/organizations/{org_slug}/users/{user_id}/offboarding",)
WITH_IDS = [
    one
    for one in IN_ORGANIZATION
    if len(parameters(one.path)) > 1
    and "provider" not in parameters(one.path)
    and one.body_type is not bytes
    and not one.path.startswith(OF_ANYBODY)
]


@dataclass
class FurnishedOrganization:
    """An organization with people and things of every kind. All their names contain the organization's name."""

    tenant: Tenant
    owner: Person
    admin: Person
    member: Person
    clerk: Person
    role: OwnRole
    service: UsedService
    end_user: Person
    ids: dict[str, list[UUID | str]] = field(default_factory=dict)

    @property
    def slug(self) -> str:
        return self.tenant.slug


class TwoFurnishedOrganizations(Cast):
    def __post_init__(self) -> None:
        super().__post_init__()
        # This person belongs to both organizations, and uses the services of both.
        self.guest = self.people.add("guest@both.example")

    async def furnish(self, name: str) -> FurnishedOrganization:
        tenants = self.tenants
        tenant = tenants.add(name)
        role = tenants.role(tenant, f"clerk-of-{name}", [Capability.MEMBERS_VIEW])
        service = tenants.service(tenant, f"shop-of-{name}")
        scene = FurnishedOrganization(
            tenant=tenant,
            owner=self.resident(tenant, "owner"),
            admin=self.resident(tenant, "admin"),
            member=self.resident(tenant, "member"),
            clerk=self.resident(tenant, role, "clerk"),
            role=role,
            service=service,
            end_user=tenants.uses(self.people.add(f"user@{name}.example"), service),
        )
        tenants.uses(self.guest, service)
        tenants.join(self.guest, tenant)
        for place in (service, tenant):
            tenants.session(scene.end_user, place)
        agent = tenants.service(tenant, f"agent-of-{name}").id
        self.people.change("update services set is_agent = true where id = %s", agent)
        self.people.change(
            "insert into consents (id, user_id, service_id, scopes, granted_at) values (gen_random_uuid(), %s, %s, '{}', now())",
            *(scene.end_user.user, agent),
        )
        # These are made by the API, so that they leave entries in the audit log.
        answer = await self.ask(scene, "POST", f"/api/organizations/{scene.slug}/services/{service.slug}/client-secrets")
        assert answer.status == 201, answer.body
        self.people.change(
            """
            insert into join_requests (id, org_id, user_id, email, status, created_at)
            values (gen_random_uuid(), %s, %s, %s, 'pending', now())
            """,
            tenant.id,
            scene.end_user.user,
            scene.end_user.email,
        )
        self.people.change(
            "insert into signal_settings (service_id, events, hosts, updated_at) values (%s, '{session-revoked}', '{}', now())", service.id
        )
        self.people.change(
            "insert into signal_streams (id, service_id, method, events, status, created_at, updated_at)"
            " values (gen_random_uuid(), %s, 'poll', '{session-revoked}', 'enabled', now(), now())",
            service.id,
        )
        await self.act(scene, name)
        self.count(scene)
        return scene

    async def act(self, scene: FurnishedOrganization, name: str) -> None:
        """Adds one more of everything."""
        more = uuid4().hex[:8]
        self.people.change(
            "insert into scim_exchanges (id, org_id, token_id, token_name, method, path, status, occurred_at)"
            " values (%s, %s, %s, %s, 'GET', '/scim/v2/Users', 200, now())",
            *(uuid4(), scene.tenant.id, uuid4(), f"Of {name}"),
        )
        self.people.change(
            "insert into upstream_providers (id, org_id, name, issuer, client_id, sealed_client_secret, scopes, enabled, created_at,"
            " updated_at) values (%s, %s, %s, 'https://login.example.org', 'client', 'sealed', '{}', true, now(), now())",
            *(provider := uuid4(), scene.tenant.id, f"Of {name} {more}"),
        )
        self.people.change(
            "insert into directory_runs (id, org_id, connection_id, kind, state, started_at, ended_at, counts, settings_digest, digest)"
            " values (%s, %s, %s, 'plan', 'waiting', now(), now(), '{}', '', %s)",
            *(uuid4(), scene.tenant.id, provider, bytes(32)),
        )
        link = uuid4()
        self.people.change(
            "insert into setup_links (id, org_id, name, prefix, digest, purposes, activates, by_platform, expires_at, created_by,"
            " created_at) values (%s, %s, %s, %s, %s, '{domain}', false, false, now() + interval '1 day', %s, now())",
            *(link, scene.tenant.id, f"Of {name}", f"{name} {more}", link.bytes, scene.owner.user),
        )
        self.people.change(
            "insert into setup_drafts (id, link_id, org_id, purpose, subject, settings, created_at, updated_at)"
            " values (%s, %s, %s, 'scim', %s, '{}', now(), now())",
            *(uuid4(), link, scene.tenant.id, f"Of {name}"),
        )
        user_key = uuid4()
        self.people.change(
            "insert into user_keys (id, service_id, user_id, name, prefix, digest, scopes, created_at)"
            " values (%s, %s, %s, %s, %s, %s, '{}', now())",
            *(user_key, scene.service.id, scene.end_user.user, f"Of {name}", f"{name}_{more[:6]}", user_key.bytes),
        )
        token = await self.tenants.token(scene.owner)
        self.people.change(
            "insert into login_events (id, user_id, organization_id, service_id, provider, success, created_at)"
            " values (gen_random_uuid(), %s, %s, %s, 'password', true, now())",
            scene.end_user.user,
            scene.tenant.id,
            scene.service.id,
        )
        for path, body, status in (
            ("invitations", {"email": f"guest-{more}@{name}.example", "role": "member"}, 200),
            ("invitations", {"email": f"clerk-{more}@{name}.example", "role": scene.role.slug}, 200),
            ("teams", {"slug": f"{name}-{more}", "name": f"Of {name}"}, 201),
            ("profile-fields", {"key": f"{name}_{more}", "label": f"Of {name}", "kind": "text"}, 201),
            (f"services/{scene.service.slug}/permissions", {"key": f"{name}.{more}"}, 201),
            (f"services/{scene.service.slug}/roles", {"slug": f"{name}-{more}", "name": f"Of {name}"}, 201),
            ("roles", {"slug": f"{name}-{more}", "name": f"Of {name}", "permissions": ["services.view"]}, 201),
            ("webhooks", {"name": f"Of {name} {more}", "url": f"https://{name}.example/", "events": ["user.joined", "role.created"]}, 200),
            (
                "smtp",
                {"host": f"smtp.{name}.example", "port": 587, "username": "u", "password": "p", "from_email": f"it@{name}.example"},
                200,
            ),
            ("scim-tokens", {"name": f"Of {name} {more}"}, 200),
            ("proposals", {"document": {"postern": 1, "organizations": {name: {"name": f"Of {name} {more}"}}}}, 201),
            ("domain", {"domain": f"{more}.{name}.example"}, 200),
            ("domain-routes", {"domain": f"{more}.{name}.example", "join_policy": "ask"}, 201),
            ("resource-servers", {"identifier": f"https://{more}.example/", "name": f"Of {name}"}, 201),
            (
                "trusted-issuers",
                {
                    **TRUST,
                    "name": f"Of {name} {more}",
                    "service_slug": scene.service.slug,
                    "subject_pattern": f"repo:{name}/{more}",
                },
                201,
            ),
            ("oauth-credentials/codehost", {"client_id": f"{name}-{more}", "client_secret": "s"}, 200),
            ("siem", {"name": f"Of {name} {more}", "provider_type": "generic", "endpoint_url": f"https://{name}.example/"}, 200),
            (f"services/{scene.service.slug}/plans", {"name": f"Of {name} {more}", "price_cents": 0, "currency": "usd"}, 200),
            (f"services/{scene.service.slug}/api-keys", {"name": f"Of {name} {more}", "permissions": ["read:users"]}, 201),
        ):
            answer = await self.client.post(f"/api/organizations/{scene.slug}/{path}", body, token=token)
            assert answer.status == status, answer.body

        self.people.change(
            "insert into hooks (id, org_id, point, address, silence, seconds, since, created_at, updated_at)"
            " values (gen_random_uuid(), %s, 'sign_in', %s, 'go_on', 2, now(), now(), now()) on conflict do nothing",
            *(scene.tenant.id, f"https://{name}.example/hook"),
        )
        self.people.change(
            "insert into hook_exchanges (id, hook_id, at, milliseconds, outcome, counted, sent)"
            " select gen_random_uuid(), id, now(), 1, 'go_on', false, '{}' from hooks where org_id = %s",
            scene.tenant.id,
        )
        self.people.change(
            "insert into resource_consents (user_id, service_id, resource_id, identifier, scopes, granted_at, id, expires_at)"
            " select %s, services.id, apis.id, apis.identifier, '{read}', now(), gen_random_uuid(), now() + interval '1 day'"
            "   from services join resource_servers as apis using (org_id) where services.org_id = %s and services.is_agent"
            " on conflict do nothing",
            *(scene.end_user.user, scene.tenant.id),
        )
        self.tenants.management_key(scene.tenant, scene.owner, ["services.view"])

    def count(self, scene: FurnishedOrganization) -> None:
        """Every id of the organization."""
        for table, column in (
            ("memberships", "org_id"),
            ("roles", "org_id"),
            ("teams", "org_id"),
            ("management_keys", "org_id"),
            ("setup_links", "org_id"),
            ("setup_drafts", "org_id"),
            ("profile_fields", "org_id"),
            ("invitations", "org_id"),
            ("services", "org_id"),
            ("webhooks", "org_id"),
            ("siem_configurations", "org_id"),
            ("hooks", "org_id"),
            ("scim_tokens", "org_id"),
            ("upstream_providers", "org_id"),
            ("directory_runs", "org_id"),
            ("domain_routes", "org_id"),
            ("resource_servers", "org_id"),
            ("trusted_issuers", "org_id"),
            ("join_requests", "org_id"),
            ("proposals", "org_id"),
            ("audit_entries", "organization_id"),
            ("sessions", "organization_id"),
        ):
            rows = self.people.rows(f"select id from {table} where {column} = %s order by id", scene.tenant.id)
            scene.ids[table] = [row["id"] for row in rows]
        rows = self.people.rows("select id from webhook_deliveries where webhook_id = any (%s) order by id", scene.ids["webhooks"])
        scene.ids["webhook_deliveries"] = [row["id"] for row in rows]
        for table in (*OF_SERVICE, "signal_streams"):
            rows = self.people.rows(f"select id from {table} where service_id = %s order by id", scene.service.id)
            scene.ids[table] = [row["id"] for row in rows]
        rows = self.people.rows(AGENT_GRANTS, scene.tenant.id)
        scene.ids["agent_grants"] = [row["id"] for row in rows]
        scene.ids["slugs"] = [scene.service.slug]
        scene.ids["organizations"] = [scene.tenant.id]
        members = (scene.owner, scene.admin, scene.member, scene.clerk, scene.end_user)
        scene.ids["users"] = [one.user for one in members]

    async def ask(self, scene: FurnishedOrganization, method: str, path: str, body: Any = None, *, by: Person | None = None) -> Received:
        return await self.request(method, path, body, by=by or scene.owner)


@pytest.fixture
def street(postern: Postern, people: People, log: CapturedLog) -> TwoFurnishedOrganizations:
    return TwoFurnishedOrganizations(postern, people, unlimited(postern), log)


@pytest.fixture
async def acme(street: TwoFurnishedOrganizations) -> FurnishedOrganization:
    return await street.furnish("acme")


@pytest.fixture
async def globex(street: TwoFurnishedOrganizations) -> FurnishedOrganization:
    return await street.furnish("globex")


# The body for each route, so that only the id in the request is wrong. Routes that are not listed have no body.
Asked = Callable[[FurnishedOrganization], Mapping[str, Any]]
BODIES: Mapping[str, Asked] = {
    "POST /api/organizations/{org_slug}/proposals/{proposal_id}/apply": lambda _: {"digest": "0" * 64},
    "POST /api/organizations/{org_slug}/upstream-providers/{provider_id}/runs/{run_id}/go-on": lambda _: {"digest": "0" * 64},
    "POST /api/organizations/{org_slug}/upstream-providers/{provider_id}/runs/{run_id}/take-over": lambda _: {"digest": "0" * 64},
    "POST /api/organizations/{org_slug}/upstream-providers/{provider_id}/runs/{run_id}/keep": lambda _: {"digest": "0" * 64},
    "POST /api/organizations/{org_slug}/upstream-providers/{provider_id}/runs/{run_id}/end": lambda _: {"digest": "0" * 64},
    "PATCH /api/organizations/{org_slug}/domain-routes/{domain_id}": lambda _: {"join_policy": "on"},
    "PATCH /api/organizations/{org_slug}/resource-servers/{resource_id}": lambda _: {"name": "Taken over"},
    "PATCH /api/organizations/{org_slug}/trusted-issuers/{rule_id}": lambda _: {"name": "Taken over"},
    "PATCH /api/organizations/{org_slug}/members/{user_id}": lambda _: {"role": "admin"},
    "DELETE /api/organizations/{org_slug}/members/{user_id}/mfa": lambda _: {"reason": "Lost it"},
    "PATCH /api/organizations/{org_slug}/roles/{role_id}": lambda _: {"name": "Taken over", "permissions": []},
    "PATCH /api/organizations/{org_slug}/profile-fields/{key}": lambda _: {"label": "Taken over"},
    "PATCH /api/organizations/{org_slug}/users/{user_id}/profile": lambda _: {"values": {}},
    "PATCH /api/organizations/{org_slug}/teams/{team_slug}": lambda _: {"name": "Taken over"},
    "POST /api/organizations/{org_slug}/services/{service_slug}/permissions": lambda _: {"key": "taken"},
    "PATCH /api/organizations/{org_slug}/services/{service_slug}/permissions/{permission_key}": lambda _: {"description": "Taken over"},
    "POST /api/organizations/{org_slug}/services/{service_slug}/roles": lambda _: {"slug": "taken", "name": "Taken over"},
    "PATCH /api/organizations/{org_slug}/services/{service_slug}/roles/{role_slug}": lambda _: {"name": "Taken over"},
    "POST /api/organizations/{org_slug}/services/{service_slug}/assignments": lambda scene: {
        "role": f"{scene.slug}-1",
        "user_id": str(scene.member.user),
    },
    "PATCH /api/organizations/{org_slug}/services/{service_slug}": lambda _: {"name": "Taken over"},
    "PATCH /api/organizations/{org_slug}/services/{service_slug}/proxy": lambda _: {"rules": ["/ open"]},
    "POST /api/organizations/{org_slug}/services/{service_slug}/provisioning/runs/{run_id}/go-on": lambda _: {"digest": "0" * 64},
    "PUT /api/organizations/{org_slug}/services/{service_slug}/signals": lambda _: {"events": ["session-revoked"]},
    "PUT /api/organizations/{org_slug}/services/{service_slug}/provisioning": lambda _: {"base_url": "https://board.example/scim/v2"},
    "POST /api/organizations/{org_slug}/services/{service_slug}/provisioning/activate": lambda _: {"digest": "0" * 64},
    "PATCH /api/organizations/{org_slug}/services/{service_slug}/user-key-settings": lambda _: {"enabled": True, "prefix": "taken"},
    "POST /api/organizations/{org_slug}/services/{service_slug}/saml": lambda _: {"enabled": False},
    "PATCH /api/organizations/{org_slug}/services/{service_slug}/plans/{plan_id}": lambda _: {"name": "Taken over"},
    "PATCH /api/organizations/{org_slug}/webhooks/{webhook_id}": lambda _: {"name": "Taken over"},
    "PATCH /api/organizations/{org_slug}/upstream-providers/{provider_id}": lambda _: {"name": "Taken over"},
    "POST /api/organizations/{org_slug}/upstream-providers/{provider_id}/certificate": lambda _: {},
    "PUT /api/organizations/{org_slug}/upstream-providers/{provider_id}/assertions": lambda _: {"issues": False},
    "POST /api/organizations/{org_slug}/upstream-providers/{provider_id}/assertions/check": lambda _: {"assertion": "x"},
    "POST /api/organizations/{org_slug}/upstream-providers/{provider_id}/activate": lambda _: {"digest": "0" * 64},
    "POST /api/organizations/{org_slug}/setup-links/{link_id}/drafts/{draft_id}/activate": lambda _: {"digest": "0" * 64},
    "POST /api/organizations/{org_slug}/upstream-providers/{provider_id}/succeed": lambda _: {"provider_id": str(uuid4())},
    "POST /api/organizations/{org_slug}/mails/{mail}/send-to-me": lambda _: {},
    "POST /api/organizations/{org_slug}/webhooks/{webhook_id}/replay": lambda _: {"since": "2026-01-01T00:00:00Z"},
    "POST /api/organizations/{org_slug}/services/{service_slug}/claims": lambda _: {"name": "x", "source": "plan", "into": ["saml"]},
    "PATCH /api/organizations/{org_slug}/services/{service_slug}/claims/{claim_id}": lambda _: {"name": "taken"},
    "POST /api/organizations/{org_slug}/services/{service_slug}/api-keys": lambda _: {"name": "X", "permissions": ["read:users"]},
    "POST /api/organizations/{org_slug}/services/{service_slug}/checkout": lambda scene: {
        "plan_id": str(scene.ids["plans"][0]),
        "success_url": "https://app.example.com/",
        "cancel_url": "https://app.example.com/",
    },
    "POST /api/organizations/{org_slug}/services/{service_slug}/plans": lambda _: {"name": "X", "price_cents": 0, "currency": "usd"},
}
# Routes whose body names a thing of the organization: the body with a thing of the other organization, which must be refused.
FIELDS: Mapping[str, Callable[[FurnishedOrganization], Mapping[str, Any]]] = {
    "POST /api/organizations/{org_slug}/transfer-ownership": lambda theirs: {"new_owner_user_id": str(theirs.member.user)},
    "POST /api/organizations/{org_slug}/invitations": lambda theirs: {"email": "new@example.org", "role": theirs.role.slug},
}
# Queries that a route needs.
QUERIES: Mapping[str, str] = {
    "GET /api/organizations/{org_slug}/services/{service_slug}/token-preview": f"?user_id={uuid4()}",
    "GET /api/organizations/{org_slug}/services/{service_slug}/proxy/preview": "?path=/admin",
}
# Routes without ids.
WITHOUT_IDS = {
    # Documents name things by slugs, and a document with another organization's is refused (tests/http/configuration).
    "POST /api/organizations/{org_slug}/configuration/apply",
    "POST /api/organizations/{org_slug}/configuration/plan",
    "POST /api/organizations/{org_slug}/proposals",
    "DELETE /api/organizations/{org_slug}",
    "DELETE /api/organizations/{org_slug}/domain",
    "DELETE /api/organizations/{org_slug}/oauth-credentials/{provider}",
    "DELETE /api/organizations/{org_slug}/smtp",
    "DELETE /api/organizations/{org_slug}/offboarding-deadline",
    "PUT /api/organizations/{org_slug}/offboarding-deadline",
    # Of whom the log does not name, the file says nothing (tests/security/receivers/test_evidence.py).
    "POST /api/organizations/{org_slug}/users/{user_id}/offboarding/evidence",
    "DELETE /api/organizations/{org_slug}/siem",
    "PATCH /api/organizations/{org_slug}",
    "PATCH /api/organizations/{org_slug}/branding",
    "PATCH /api/organizations/{org_slug}/languages",
    "PATCH /api/organizations/{org_slug}/texts",
    "PUT /api/organizations/{org_slug}/texts",
    "PUT /api/organizations/{org_slug}/notice",
    "PUT /api/organizations/{org_slug}/branding/logo",
    "DELETE /api/organizations/{org_slug}/branding/logo",
    # Its body is a picture; `tests/http/tenancy/looks/test_service_logos.py` tries it from another organization.
    "PUT /api/organizations/{org_slug}/services/{service_slug}/logo",
    *(
        f"{method} /api/organizations/{{org_slug}}/branding/{picture}"
        for method in ("PUT", "DELETE")
        for picture in ("dark-logo", "favicon", "background")
    ),
    "POST /api/organizations/{org_slug}/billing/portal",
    "PATCH /api/organizations/{org_slug}/sign-in-rules",
    # What its rules and exceptions name decides about sign-ins to this organization alone.
    "PUT /api/organizations/{org_slug}/risk-policies",
    "PUT /api/organizations/{org_slug}/terms",
    "DELETE /api/organizations/{org_slug}/terms",
    "POST /api/organizations/{org_slug}/domain",
    "POST /api/organizations/{org_slug}/domain-routes",
    "POST /api/organizations/{org_slug}/resource-servers",
    # tests/security/grants/test_workloads.py tries another organization's service and key.
    "POST /api/organizations/{org_slug}/trusted-issuers",
    "POST /api/organizations/{org_slug}/domain/verify",
    "POST /api/organizations/{org_slug}/oauth-credentials/{provider}",
    "POST /api/organizations/{org_slug}/management-keys",
    "POST /api/organizations/{org_slug}/ownership",
    "POST /api/organizations/{org_slug}/profile-fields",
    "POST /api/organizations/{org_slug}/roles",
    "PATCH /api/organizations/{org_slug}/scim/settings",
    "POST /api/organizations/{org_slug}/scim-tokens",
    "POST /api/organizations/{org_slug}/select",
    "POST /api/organizations/{org_slug}/services/{service_slug}/saml/metadata",
    "POST /api/organizations/{org_slug}/services",
    "POST /api/organizations/{org_slug}/smtp",
    "POST /api/organizations/{org_slug}/smtp/test",
    *(f"{method} /api/organizations/{{org_slug}}/hooks/sign-in" for method in ("PUT", "DELETE")),
    *(f"POST /api/organizations/{{org_slug}}/hooks/sign-in/{act}" for act in ("rotate-secret", "count", "shadow", "try")),
    "POST /api/organizations/{org_slug}/siem",
    "POST /api/organizations/{org_slug}/siem/test",
    "POST /api/organizations/{org_slug}/teams",
    "POST /api/organizations/{org_slug}/webhooks",
    "POST /api/organizations/{org_slug}/upstream-providers",
    # With a document that says what is asked.
    "POST /api/organizations/{org_slug}/upstream-providers/{provider_id}/metadata",
    "POST /api/organizations/{org_slug}/setup-links",
}


def test_every_route_of_an_organization_is_tried() -> None:
    tried = {str(one) for one in WITH_IDS} | set(FIELDS) | WITHOUT_IDS
    assert {str(one) for one in IN_ORGANIZATION if one.method != "GET" or one in WITH_IDS} == tried
    assert {str(one) for one in WITH_IDS if one.body_type is not None} == set(BODIES)


def at(one: Endpoint, scene: FurnishedOrganization, identity: object, service: str = "") -> str:
    """The path with this identity as its last parameter, and with the organization and its service in the parameters before."""
    path = one.path.replace(f"{{{parameters(one.path)[-1]}}}", str(identity))
    path = path.replace("{provider_id}", str(scene.ids["upstream_providers"][0]))
    path = path.replace("{link_id}", str(scene.ids["setup_links"][0]))
    path = path.replace("{webhook_id}", str(scene.ids["webhooks"][0])).replace("{team_slug}", f"{scene.slug}-1")
    return path.replace("{org_slug}", scene.slug).replace("{service_slug}", service or scene.service.slug)


KEPT = (
    "all_organizations",
    "memberships",
    "ownerships",
    "relations",
    "roles",
    "teams",
    "management_keys",
    "setup_links",
    "setup_drafts",
    "profile_fields",
    "invitations",
    "services",
    "service_users",
    "sessions",
    "audit_entries",
    "webhooks",
    "upstream_providers",
    "scim_tokens",
    "mail_servers",
    "offboarding_deadlines",
    "domains",
    "oauth_credentials",
    "siem_configurations",
    "hooks",
    "domain_routes",
    "resource_servers",
    "trusted_issuers",
    "join_requests",
    "proposals",
    "directory_runs",
)
OF_SERVICE = ("client_secrets", "service_logos", "plans", "api_keys", "user_keys", "service_claims", "service_roles", "permissions")


def state(street: TwoFurnishedOrganizations, scene: FurnishedOrganization) -> Mapping[str, Any]:
    """All rows of the organization."""
    columns = {"all_organizations": "id", "relations": "organization_id", "sessions": "organization_id", "audit_entries": "organization_id"}
    conditions = {table: f"{columns.get(table, 'org_id')} = %s" for table in KEPT}
    conditions |= dict.fromkeys(
        (*OF_SERVICE, "user_key_settings", "proxies", "proxy_hosts", "signal_settings", "signal_streams"),
        "service_id in (select id from services where org_id = %s)",
    )
    rows = {
        table: street.people.rows(f"select * from {table} where {condition} order by 1, 2, 3", scene.tenant.id)
        for table, condition in conditions.items()
    }
    return {**rows, "agent_grants": street.people.rows(AGENT_GRANTS, scene.tenant.id)}


async def test_no_id_of_another_organization_opens_anything(
    street: TwoFurnishedOrganizations, acme: FurnishedOrganization, globex: FurnishedOrganization
) -> None:
    before, own = state(street, globex), state(street, acme)
    everything = [(kind, identity) for kind, ids in globex.ids.items() for identity in ids]
    for one in WITH_IDS:
        body = BODIES[str(one)](globex) if str(one) in BODIES else None
        for kind, identity in everything:
            # The thing is also tried through a service of the organization that owns the thing.
            for service in {acme.service.slug, globex.service.slug} if len(parameters(one.path)) > 2 else {""}:
                answer = await street.ask(acme, one.method, at(one, acme, identity, service) + QUERIES.get(str(one), ""), body)
                assert (answer.status, answer.error_code) == (404, "NOT_FOUND"), f"{kind} {identity} at {one}"
                assert b"globex" not in answer.body
        # The answer must be the same as for an id that does not exist.
        query = QUERIES.get(str(one), "")
        stranger = await street.ask(acme, one.method, at(one, acme, uuid4()) + query, body)
        known = await street.ask(acme, one.method, at(one, acme, globex.ids["users"][0]) + query, body)
        assert (stranger.status, stranger.json()["error"]) == (known.status, known.json()["error"]), one
    assert state(street, globex) == before
    assert state(street, acme) == own


async def test_what_is_asked_by_any_id_says_nothing_of_another_organization(
    street: TwoFurnishedOrganizations, acme: FurnishedOrganization, globex: FurnishedOrganization
) -> None:
    for identity in (one for ids in globex.ids.values() for one in ids if isinstance(one, UUID)):
        answer = await street.ask(acme, "GET", f"/api/organizations/acme/users/{identity}/offboarding")
        assert (answer.status, answer.json()) == (200, {"user_id": str(identity), "entries": []})


async def test_a_member_of_both_is_treated_in_each_separately(
    street: TwoFurnishedOrganizations, acme: FurnishedOrganization, globex: FurnishedOrganization
) -> None:
    guest = street.guest
    for scene in (acme, globex):
        street.tenants.session(guest, scene.service)
    there = state(street, globex)
    assert (await street.ask(acme, "DELETE", f"/api/organizations/acme/users/{guest.user}/sessions")).json()["sessions_revoked"] == 1
    assert (await street.ask(acme, "PATCH", f"/api/organizations/acme/members/{guest.user}", {"role": "admin"})).status == 200
    assert (await street.ask(acme, "POST", f"/api/organizations/acme/members/{guest.user}")).status == 200
    assert state(street, globex) == there
    assert (await street.ask(globex, "GET", "/api/organizations/globex/members", by=guest)).status == 200
    assert (await street.ask(globex, "GET", "/api/organizations/acme/members", by=guest)).status == 403


async def test_no_field_takes_what_is_anothers(
    street: TwoFurnishedOrganizations, acme: FurnishedOrganization, globex: FurnishedOrganization
) -> None:
    before, own = state(street, globex), state(street, acme)
    for path, content in FIELDS.items():
        method, _, template = path.partition(" ")
        answer = await street.ask(acme, method, template.replace("{org_slug}", "acme"), content(globex))
        assert answer.status in {400, 404}, path
        assert b"globex" not in answer.body
    assert (state(street, globex), state(street, acme)) == (before, own)


def reads(scene: FurnishedOrganization, *, of: FurnishedOrganization) -> list[str]:
    """Reads every list and every single thing of the organization, also filtered and searched, with the ids and names of `of`."""
    lists = [one.path for one in IN_ORGANIZATION if one.method == "GET" and one not in WITH_IDS]
    # A search without a word is refused.
    lists.remove("/api/organizations/{org_slug}/search")
    # It repeats the id that it is asked about.
    lists.remove("/api/organizations/{org_slug}/users/{user_id}/offboarding")
    # A preview is one of something.
    lists.remove("/api/organizations/{org_slug}/texts/preview")
    filtered = [
        f"members?role={of.role.slug}",
        f"members?search={of.member.email}",
        "invitations?status=pending&page=1&limit=100",
        f"users?search={of.slug}",
        f"search?q={of.slug}",
        f"users?service_id={of.service.id}",
        f"audit-log?actor_id={of.owner.user}",
        f"audit-log?target_type=role&target_id={of.ids['roles'][-1]}",
        "audit-log?action=user.invited",
        "audit-log?success=true",
        f"sign-ins?person={of.member.email}",
        f"sign-ins?service_id={of.service.id}",
        "services?service_type=web&limit=10&offset=0",
        "texts/preview?mail=reset",
        "texts/preview?on_page=sign_in",
    ]
    single = [
        f"members/{of.member.user}",
        f"roles/{of.role.id}",
        f"users/{of.end_user.user}",
        f"services/{of.service.slug}",
        f"services/{of.service.slug}/api-keys",
        f"services/{of.service.slug}/api-keys/{of.ids['api_keys'][0]}",
        f"services/{of.service.slug}/user-keys",
        f"services/{of.service.slug}/user-keys/{of.ids['user_keys'][0]}",
        f"services/{of.service.slug}/client-secrets",
        f"services/{of.service.slug}/plans",
    ]
    named = [f"/api/organizations/{scene.slug}/{end}" for end in filtered + single]
    return [path.replace("{org_slug}", scene.slug).replace("{provider}", "codehost") for path in lists] + named


async def test_no_answer_contains_anything_of_another(
    street: TwoFurnishedOrganizations, acme: FurnishedOrganization, globex: FurnishedOrganization
) -> None:
    street.people.change("update all_organizations set invitation_domains = array[slug || '.example'], logo_url = slug")
    foreign = [str(identity) for ids in globex.ids.values() for identity in ids]
    for path in ("/api/organizations", *reads(acme, of=acme)):
        answer = await street.ask(acme, "GET", path)
        assert answer.status == 200, (path, answer.body)
        text = answer.body.decode().lower()
        assert "globex" not in text, path
        assert [one for one in foreign if one in text] == [], path
        # The answer must not be empty either: an empty answer would prove nothing.
        assert len(answer.body) > 2, path
        if (
            not path.endswith(
                (
                    *("event-types", "client-secrets", "scim/settings", "management-keys", "login-trends", "logins-by-provider"),
                    *(
                        "recent-logins",
                        "sign-ins",
                        "todos",
                        "failed-logins",
                        "mail-budget",
                        "risk-policies",
                        "risk-policies/report",
                        "risk-events",
                        "hooks/sign-in/exchanges",
                        "terms",
                        "offboarding-deadline",
                        "languages",
                        "texts",
                        "notice",
                    ),
                )
            )
            and "sign-ins?" not in path
        ):
            assert "acme" in text, path


async def test_filters_by_what_is_anothers_find_nothing(
    street: TwoFurnishedOrganizations, acme: FurnishedOrganization, globex: FurnishedOrganization
) -> None:
    foreign = [str(identity) for ids in globex.ids.values() for identity in ids]
    for path in reads(acme, of=globex):
        answer = await street.ask(acme, "GET", path)
        assert answer.status in {200, 400, 404}, path
        text = answer.body.decode().lower()
        assert [one for one in foreign if one in text] == [], path
        assert "globex" not in text, path


async def test_no_list_and_no_count_moves_with_anothers(
    street: TwoFurnishedOrganizations, acme: FurnishedOrganization, globex: FurnishedOrganization, postern: Postern
) -> None:
    paths = ["/api/organizations", *reads(acme, of=acme)]

    async def seen() -> Mapping[str, Any]:
        return {path: (await street.ask(acme, "GET", path)).json() for path in paths}

    # Whether an entry of the log is linked yet does not matter here.
    before = await seen()
    for _ in range(3):
        await street.act(globex, "globex")
        someone = street.tenants.member(globex.tenant, globex.role)
        street.tenants.uses(someone, street.tenants.service(globex.tenant, f"more-{uuid4().hex[:8]}"), last=postern.foundation.clock.now())
        street.tenants.session(someone, globex.service)
    street.tenants.session(street.guest, globex.service)
    street.people.change("update service_users set last_login_at = now() where org_id = %s", globex.tenant.id)
    street.people.change("update all_organizations set max_users = 1, max_services = 1 where id = %s", globex.tenant.id)
    assert await seen() == before
    # Changes in the organization itself do change the counts, so the comparison can fail.
    await street.act(acme, "acme")
    assert await seen() != before


async def test_a_persons_own_invitations_are_those_to_their_own_address(
    street: TwoFurnishedOrganizations, acme: FurnishedOrganization, globex: FurnishedOrganization
) -> None:
    for scene, email in ((acme, "member@globex.example"), (globex, "member@acme.example"), (globex, "MEMBER@acme.example.org")):
        answer = await street.ask(scene, "POST", f"/api/organizations/{scene.slug}/invitations", {"email": email, "role": "member"})
        assert answer.status == 200
    street.people.change("update users set email_verified_at = now()")
    for person, inviting in ((acme.member, "globex"), (globex.member, "acme")):
        found = (await street.ask(acme, "GET", "/api/invitations", by=person)).json()
        assert [(one["email"], one["organization"]["slug"]) for one in found] == [(person.email, inviting)]
    assert (await street.ask(acme, "GET", "/api/invitations", by=acme.owner)).json() == []


async def test_a_deleted_organization_is_in_nobodys_answers(
    street: TwoFurnishedOrganizations, acme: FurnishedOrganization, globex: FurnishedOrganization
) -> None:
    assert (await street.ask(globex, "DELETE", "/api/organizations/globex")).status == 204
    listed = (await street.ask(acme, "GET", "/api/organizations", by=street.guest)).json()
    assert [one["organization"]["slug"] for one in listed] == ["acme"]
    for method, path in (("GET", "/api/organizations/globex"), ("POST", "/api/organizations/globex/select")):
        assert (await street.ask(globex, method, path)).status == 404
    # The slug is free again, and its next owner gets nothing of the deleted organization.
    street.people.change("update users set email_verified_at = now() where id = %s", acme.owner.user)
    founded = await street.ask(acme, "POST", "/api/organizations", {"slug": "globex", "name": "Another"})
    assert founded.status == 200
    street.people.change("update organizations set status = 'active' where slug = 'globex'")
    for path in reads(globex, of=globex):
        answer = await street.ask(acme, "GET", path)
        assert answer.status in {200, 404}, path
        assert [str(one) for one in globex.ids["users"] if str(one) in answer.body.decode()] == [], path
