"""Three organizations with everything that an organization can have, and with the same people. Their objects have equal names wherever
names may be equal, so a statement that looks for a name alone finds three rows.

The tests ask the organization in the middle, so that neither the first row of a table nor the last is the right one.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any, Final
from uuid import UUID, uuid4

from psycopg.types.json import Jsonb

from adapters.postgres.tables.declaring import SERVICE
from adapters.postgres.tables.every import TABLES
from core.domain.federation.scim.tokens import MOST_TOKENS
from core.domain.identity.upstream.providers import FurtherKind, FurtherSettings
from core.domain.record.event_types import WEBHOOK_EVENTS
from core.domain.secrets import Token
from core.domain.services.api_keys import Permission
from core.domain.tenancy.domains import MOST_ROUTES
from core.domain.tenancy.management_keys import MOST_KEYS
from core.domain.tenancy.roles import MOST_ROLES, Capability
from core.domain.tenancy.teams import MOST_TEAMS
from core.domain.tenancy.trusted_issuers import MOST_OF_ONE
from core.domain.tenancy.upstream_providers import MOST_PROVIDERS
from core.domain.tenancy.webhooks import MOST_WEBHOOKS
from entrypoints.bootstrap import Postern
from tests.http.people import People, Person
from tests.http.tenants import OwnRole, Tenant, Tenants, UsedService

FIRST, ASKED, LAST = "acme", "globex", "initech"
SLUGS: Final = (FIRST, ASKED, LAST)
# For each table with rows of organizations, the expression that gives a row's organization. The row is called `one`. A row that another
# row's organization decides about comes before it, and organizations come last.
WHOSE: Final[Mapping[str, str]] = dict(
    sorted(
        ((name, table.whose.organization) for name, table in TABLES.items() if table.whose.organization),
        key=lambda one: ("select" not in one[1], one[0] == "all_organizations"),
    )
)
# Tables of people and of the installation.
NOBODYS: Final = TABLES.keys() - WHOSE.keys()
_EMPTY: Final[Mapping[str, Any]] = {"text": "", "bool": False, "_text": [], "jsonb": Jsonb({}), "timestamptz": "now", "json": Jsonb({})}
TRUST: Final[Mapping[str, Any]] = {
    "issuer": "https://ci.example",
    "audience": "https://id.example",
    "jwks": {
        "keys": [
            {
                "kty": "EC",
                "crv": "P-256",
                "use": "sig",
                "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
                "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
            }
        ]
    },
    "subject_pattern": "repo:owner/name",
}
_TRUST: Final = {**TRUST, "jwks": Jsonb(TRUST["jwks"])}
_PEM: Final = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n"


@dataclass
class FilledOrganization:
    tenant: Tenant
    shop: UsedService
    app: UsedService
    clerk: OwnRole
    owner: Person
    admin: Person
    member: Person
    customer: Person
    key: str
    directory: str
    """A SCIM token."""
    management_key: str
    secret: str
    """Of the shop, as a client."""
    client: str
    ids: dict[str, UUID] = field(default_factory=dict)
    """Of one row of each table."""

    @property
    def slug(self) -> str:
        return self.tenant.slug


Row = tuple[str, str, str]
"""The table, whose the row is, and its text."""


class World:
    """Ada is an administrator of acme, the owner of globex, and a clerk of initech; Bob is a member of all three, and uses their services;
    Cleo uses the services and is no member; Quinn owns acme and is a member of globex; Dan is deactivated by each directory; Joan asks to
    join each.
    """

    def __init__(self, postern: Postern, people: People) -> None:
        self._postern = postern
        self._people = people
        self._tenants = Tenants(postern, people)
        self._columns = self._required_columns()
        self._number = 0
        self.ada, self.bob, self.cleo, self.quinn, self.dan, self.joan, self.max, self.nat, self.zoe, self.governor = map(
            self._registered, ("ada", "bob", "cleo", "quinn", "dan", "joan", "max", "nat", "zoe", "governor")
        )
        people.change("update users set is_platform_owner = true where id = %s", self.governor.user)
        self.houses = {slug: self._house(slug) for slug in SLUGS}
        for scene in self.houses.values():
            self._furnish(scene)
        self.asked = self.houses[ASKED]
        self.others = [scene for slug, scene in self.houses.items() if slug != ASKED]
        self._settle_nat()
        owners = {str(scene.tenant.id) for scene in self.others}
        kept = [json.loads(text) for _, whose, text in self.rows() if whose in owners]
        self._ids_of_others = {str(row["id"]) for row in kept if row.get("id")} | {str(one.user) for one in self._only_elsewhere()}

    def _required_columns(self) -> Mapping[str, Mapping[str, str]]:
        """The required columns of each table, with their types."""
        found: dict[str, dict[str, str]] = {}
        for row in self._people.rows(
            """
            select relname, attname, typname
              from pg_attribute
              join pg_class on pg_class.oid = attrelid and relkind in ('r', 'p') and relnamespace = 'public'::regnamespace
              join pg_type on pg_type.oid = atttypid
             where attnum > 0 and not attisdropped and attnotnull and not atthasdef
            """
        ):
            found.setdefault(row["relname"], {})[row["attname"]] = row["typname"]
        return found

    def _put(self, table: str, **columns: Any) -> UUID:
        """Inserts a row, with made-up values for required columns that are not given. Returns the row's id, if the table has ids."""
        required = self._columns[table]
        identifier: UUID = columns.get("id") or self._id()
        if "id" in required and required["id"] == "uuid":
            columns["id"] = identifier
        for name, kind in required.items():
            if name not in columns:
                columns[name] = self._made_up(table, name, kind, columns)
        self._people.change(
            f"insert into {table} ({', '.join(columns)}) values ({', '.join(['%s'] * len(columns))})",
            *(Jsonb(value) if isinstance(value, dict) else value for value in columns.values()),
        )
        return identifier

    def _made_up(self, table: str, name: str, kind: str, columns: Mapping[str, Any]) -> Any:
        self._number += 1
        if name.startswith("sealed_") and "id" in columns:
            return self._people.sealed("secret", f"{table}.{name}:{columns['id']}")
        if name in {"expires_at", "current_period_end"}:
            return "tomorrow"
        if kind == "bytea":
            return Token(f"{table} {self._number}").digest()
        if kind == "uuid":
            return self._id()
        return _EMPTY.get(kind, 0)

    def _id(self) -> UUID:
        return self._postern.foundation.ids.new()

    def _registered(self, name: str) -> Person:
        person = self._people.add(f"{name}@people.example")
        self._people.change(
            "update users set email_verified_at = now(), created_at = now() - interval '9 years' where id = %s", person.user
        )
        self._put("refresh_tokens", session_id=person.session)
        device = self._put("devices", user_id=person.user, device_type="browser", name="Laptop", token_digest=Token(name).digest())
        self._people.change("update sessions set device_id = %s where id = %s", device, person.session)
        self._people.connect(person, "websuite", subject=name)
        return person

    def _house(self, slug: str) -> FilledOrganization:
        tenant = self._tenants.add(slug, name="A company")
        # Roles of the same names, each with other rights.
        clerk = self._tenants.role(tenant, "clerk", [Capability.MEMBERS_VIEW, Capability.END_USERS_VIEW])
        shop, app = (self._tenants.service(tenant, name) for name in ("shop", "app"))
        owners = {FIRST: self.quinn, ASKED: self.ada}
        owner = owners.get(slug) or self._registered(f"iris-of-{slug}")
        scene = FilledOrganization(
            tenant=tenant,
            shop=shop,
            app=app,
            clerk=clerk,
            owner=owner,
            admin=self._registered(f"admin-of-{slug}"),
            member=self._registered(f"member-of-{slug}"),
            customer=self._registered(f"customer-of-{slug}"),
            key=f"sk_{slug:.4}_0123456789abcdef",
            directory=f"scim_live_{slug}_0123456789abcdef",
            management_key=f"pto_{slug}_0123456789abcdef",
            secret=f"secret of {slug}",
            client=str(self._people.rows("select client_id from services where id = %s", shop.id)[0]["client_id"]),
        )
        self._join(scene, owner, "owner")
        self._join(scene, scene.admin, "admin")
        self._join(scene, scene.member, "member")
        if slug != ASKED:
            self._join(scene, self.ada, "admin" if slug == FIRST else clerk)
        else:
            self._join(scene, self.quinn, "member")
        self._join(scene, self.bob, clerk if slug == FIRST else "member")
        return scene

    def _join(self, scene: FilledOrganization, person: Person, role: str | OwnRole) -> None:
        self._tenants.join(person, scene.tenant, role)
        self._people.change(
            "update memberships set came_by = 'accepted', created_at = now() - interval '1 year' where org_id = %s and user_id = %s",
            *(scene.tenant.id, person.user),
        )

    def _furnish(self, scene: FilledOrganization) -> None:
        self._settings_of(scene)
        self._deadline_of(scene)
        self._hook_of(scene)
        self._setup_links_of(scene)
        self._people_of(scene)
        self._record_of(scene)
        self._federation_of(scene)
        self._billing_of(scene)

    def _setup_links_of(self, scene: FilledOrganization) -> None:
        org, ids = scene.tenant.id, scene.ids
        ids["setup_links"] = self._put(
            "setup_links",
            org_id=org,
            name="Link",
            prefix=f"pts_{scene.slug}",
            digest=Token(f"pts_{scene.slug}").digest(),
            purposes=["domain"],
            expires_at="tomorrow",
            by_platform=True,
            created_by=scene.owner.user,
        )
        ids["setup_drafts"] = self._put(
            "setup_drafts",
            link_id=ids["setup_links"],
            org_id=org,
            purpose="scim",
            subject="Draft",
            settings=Jsonb({"prefix": "scim_live"}),
            digest=Token(f"scim {scene.slug}").digest(),
            state="waiting",
        )

    def _providers_of(self, scene: FilledOrganization) -> None:
        org, ids = scene.tenant.id, scene.ids
        ids["upstream_providers"] = provider = self._id()
        self._put(
            "upstream_providers",
            org_id=org,
            name="Ours",
            issuer="https://login.example",
            client_id="c",
            id=provider,
            sealed_client_secret=self._people.sealed("secret", f"upstream_providers.sealed_client_secret:{provider}"),
            enabled=True,
            kind="oidc",
            state="active",
        )
        ids["fingerprints"] = self._id()
        directory = self._id()
        self._put(
            "upstream_providers",
            id=directory,
            org_id=org,
            name="Directory",
            kind="saml",
            state="draft",
            saml={},
            certificate=_PEM.format("MIIC"),
            sealed_private_key=self._people.sealed("secret", f"upstream_providers.sealed_private_key:{directory}"),
        )
        self._put("connection_answers", upstream_provider_id=provider, code_digest=f"code of {scene.slug}".encode())
        self._put("identity_assertions", upstream_provider_id=provider, digest=f"assertion of {scene.slug}".encode(), expires_at="tomorrow")
        self._put("connection_tests", upstream_provider_id=provider, digest=f"test of {scene.slug}".encode(), expires_at="tomorrow")
        self._put("connection_certificates", upstream_provider_id=provider, fingerprint=scene.slug, signed_at="now")
        self._put("connection_warnings", upstream_provider_id=provider, ending="directory", ends_at="tomorrow", days=1)
        self._put("connection_exchanges", upstream_provider_id=provider, kind="sign_in", succeeded=False, reason=scene.slug)
        self._put("directory_failures", upstream_provider_id=directory)
        self._put("directory_steps", connection_id=provider, org_id=org)
        run = self._put("directory_runs", connection_id=provider, org_id=org, kind="plan", state="waiting", counts={})
        ids["directory_runs"] = run
        self._put("directory_run_people", run_id=run, org_id=org, what="left_out", reason="no_address", named=scene.slug)

    def _apis_of(self, scene: FilledOrganization) -> None:
        org, ids = scene.tenant.id, scene.ids
        ids["resource_servers"] = self._put(
            "resource_servers",
            org_id=org,
            # Everybody may claim it; nobody has proved it.
            identifier="https://api.example/",
            domain="api.example",
            name=f"API of {scene.slug}",
            service_id=scene.shop.id,
            admits="named",
            # Its page says how long ago, and the words of what was asked today change within a walk.
            approval_asked_at="yesterday",
        )
        self._put("resource_admissions", resource_id=ids["resource_servers"], service_id=scene.shop.id)
        refused = {"address": f"https://{scene.slug}.example/client.json", "reason": "document_lies", "said": scene.slug}
        self._put("document_refusals", org_id=org, resource_id=ids["resource_servers"], **refused)
        self._put("resource_exchanges", resource_id=ids["resource_servers"], service_id=scene.shop.id)
        self._put("resource_identifiers", key=f"https://{scene.slug}.example", org_id=org, is_proved=True)

    def _proposal_of(self, scene: FilledOrganization) -> UUID:
        """A team is proposed. The plan's digest is none, so nobody applies it."""
        proposal, key = self._id(), scene.ids["management_keys"]
        tree = {"postern": 1, "organizations": {scene.slug: {"teams": {"proposed": {"name": "Proposed"}}}}}
        document = self._people.sealed(json.dumps(tree), f"proposals.sealed_document:{proposal}")
        return self._put("proposals", id=proposal, org_id=scene.tenant.id, sealed_document=document, key_id=key)

    def _pictures_of(self, scene: FilledOrganization) -> None:
        org = scene.tenant.id
        self._put("logos", org_id=org, digest=f"digest of {scene.slug}", media_type="image/png", content=b"png")
        for kind in ("dark_logo", "favicon", "background"):
            digest = f"{kind} of {scene.slug}"
            self._put("look_pictures", org_id=org, kind=kind, digest=digest, media_type="image/png", content=b"png")

    def _deadline_of(self, scene: FilledOrganization) -> None:
        deadline = self._put("offboarding_deadlines", org_id=scene.tenant.id, removal_minutes=60, seen_to="now")
        self._put("offboarding_watches", entry_id=uuid4(), deadline_id=deadline, act="removal", act_at="now", look_at="tomorrow", missing=1)

    def _hook_of(self, scene: FilledOrganization) -> None:
        scene.ids["hooks"] = self._put(
            "hooks", org_id=scene.tenant.id, point="sign_in", address=f"https://{scene.slug}.example/hook", silence="go_on", seconds=2
        )
        scene.ids["hook_exchanges"] = self._put(
            "hook_exchanges", hook_id=scene.ids["hooks"], milliseconds=1, outcome="go_on", counted=False, sent="{}"
        )

    def _settings_of(self, scene: FilledOrganization) -> None:
        org, ids = scene.tenant.id, scene.ids
        self._people.change(
            "update organizations set max_users = 900, max_services = 3, logo_url = 'https://a.example/', tier_id = %s where id = %s",
            *("01900000-0000-7000-8000-000000000002", org),
        )
        ids["mail_servers"] = self._put(
            "mail_servers", org_id=org, host="smtp.example", port=587, username="u", from_email=f"it@{scene.slug}.example"
        )
        self._pictures_of(scene)
        self._put("domains", org_id=org, domain=f"{scene.slug}.example", token="t", verified_at="now", next_check_at="tomorrow")
        self._providers_of(scene)
        for name in ("codehost", "websuite") if scene.slug == ASKED else ("codehost", "websuite", "officesuite"):
            self._put("oauth_credentials", org_id=org, provider=name, client_id=f"{name} of {scene.slug}")
        ids["domain_routes"] = self._put(
            "domain_routes",
            org_id=org,
            domain=f"{scene.slug}.example",
            verified_at="now",
            next_check_at="tomorrow",
            own_provider=ids["upstream_providers"],
            login_policy="password_allowed",
            join_policy="ask",
        )
        self._put("domain_routes", org_id=org, domain="unverified.example", login_policy="password_allowed", join_policy="off")
        self._apis_of(scene)
        ids["webhooks"] = self._put(
            "webhooks", org_id=org, name="CRM", url=f"https://{scene.slug}.example/", events=["user.joined", "role.created"]
        )
        ids["another_webhook"] = self._put(
            "webhooks", org_id=org, name="All", url="https://all.example/", events=[one.name for one in WEBHOOK_EVENTS]
        )
        ids["siem_configurations"] = self._put(
            "siem_configurations",
            org_id=org,
            name="SIEM",
            provider_type="generic",
            endpoint_url=f"https://{scene.slug}.example/",
            batch_size=10,
            sign_ins=1,
        )
        ids["management_keys"] = self._put(
            "management_keys",
            org_id=org,
            name="Robot",
            prefix=scene.management_key.rpartition("_")[0],
            digest=Token(scene.management_key).digest(),
            capabilities=[one.value for one in Capability],
            expires_at="tomorrow",
            created_by=scene.owner.user,
        )
        ids["trusted_issuers"] = self._put("trusted_issuers", org_id=org, name="Deploy", service_id=scene.shop.id, **_TRUST)
        self._put("trusted_issuers", org_id=org, name="Robot", key_id=ids["management_keys"], **_TRUST)
        ids["scim_tokens"] = self._put(
            "scim_tokens", org_id=org, name="D", prefix=scene.directory.rpartition("_")[0], digest=Token(scene.directory).digest()
        )
        self._put("scim_groups", org_id=org, external_id="group", groups="teams")
        ids["teams"] = self._put("teams", org_id=org, slug="staff", name="Staff", role="clerk", role_id=scene.clerk.id)
        ids["pushed_team"] = self._put("teams", org_id=org, slug="sales", name="Sales", source="directory", external_id="sales")
        self._people.change(
            "insert into relations (organization_id, team_id, relation, object_type, object_id) values (%s, %s, 'holder', 'role', %s)",
            *(org, ids["teams"], scene.clerk.id),
        )
        for team in (ids["teams"], ids["pushed_team"]):
            self._put("team_members", team_id=team, org_id=org, user_id=self.bob.user)
        self._put("former_slugs", org_id=org, noun="team", slug="old" if scene.slug == ASKED else "new")
        ids["scim_exchanges"] = self._put(
            "scim_exchanges", org_id=org, token_name="D", method="GET", path=f"/scim/v2/{scene.slug}", status=200
        )
        self._put("former_services", id=self._id(), org_id=org, name="Old")
        for service, key, secret in ((scene.shop, scene.key, scene.secret), (scene.app, f"sk_app_{scene.slug}", f"app {scene.slug}")):
            ids[f"client_secrets of {service.slug}"] = self._put(
                "client_secrets", service_id=service.id, prefix=service.slug, digest=Token(secret).digest(), created_by=scene.owner.user
            )
            ids[f"service_claims of {service.slug}"] = self._put(
                "service_claims",
                service_id=service.id,
                name="tenant",
                source="constant",
                argument=Jsonb(f"{service.slug} of {scene.slug}"),
                told_in=["id_token", "userinfo", "access_token", "saml"],
            )
            ids[f"api_keys of {service.slug}"] = self._put(
                "api_keys",
                service_id=service.id,
                name=f"key of {service.slug}",
                prefix=f"{service.slug}_{scene.slug}",
                digest=Token(key).digest(),
                permissions=[one.value for one in Permission],
                created_by=scene.owner.user,
            )
            resource = ids["resource_servers"] if service is scene.shop else None
            self._put(
                "user_key_settings", service_id=service.id, enabled=True, prefix="key", most_keys=10, resource_id=resource, updated_at="now"
            )
            self._put("proxies", service_id=service.id, rules=["/read permission read"], headers=["Remote-User id"], updated_at="now")
            self._put("proxy_hosts", host=f"{service.slug}.{scene.slug}.example", service_id=service.id)
            self._rights_of(scene, service)
            self._put("logout_notices", service_id=service.id, user_id=self.bob.user, error=service.slug, created_at="now")
            refused = {"place": "token", "reason": "secret_wrong", "received": "", "expected": ""}
            self._put("authorization_refusals", service_id=service.id, **refused)
            self._put("saml_exchanges", service_id=service.id, kind="response", binding="post", succeeded=True, reason=service.slug)
            self._put("plans", service_id=service.id, key="only", name=f"Only of {service.slug}", price_cents=7, currency="usd")
            self._put("consents", user_id=self.quinn.user, service_id=service.id, scopes=["openid"])
        ids["service_claims"] = ids["service_claims of shop"]
        ids["client_secrets"], ids["api_keys"] = ids["client_secrets of shop"], ids["api_keys of shop"]
        self._people.change(
            """
            update all_services
               set sign_in_policy = case slug when 'app' then 'members' else sign_in_policy end,
                   redirect_uris = '{https://app.example/back}', backchannel_logout_uri = 'https://app.example/out',
                   codehost_scopes = '{a}',
                   metadata = jsonb_build_object('of', org_id)
             where org_id = %s
            """,
            org,
        )
        self._people.change("update all_organizations set metadata = jsonb_build_object('of', slug) where id = %s", org)
        self._people.change("update service_users set metadata = jsonb_build_object('of', org_id) where org_id = %s", org)
        ids["roles"] = scene.clerk.id
        ids["all_profile_fields"] = self._put(
            "all_profile_fields",
            org_id=org,
            key="department",
            label=f"Department of {scene.slug}",
            kind="text",
            written_by=["person", "administrator", "directory", "service"],
        )
        if scene.slug != ASKED:
            # Names that only this organization does not use.
            self._tenants.role(scene.tenant, "theirs", list(Capability))
            self._tenants.service(scene.tenant, "only-of-acme")
        ids["unused_role"] = self._tenants.role(scene.tenant, "unused", [Capability.MEMBERS_VIEW]).id

    def _rights_of(self, scene: FilledOrganization, service: UsedService) -> None:
        logo = {"digest": f"{service.slug} of {scene.slug}", "media_type": "image/png", "content": b"png"}
        self._put("service_logos", service_id=service.id, **logo)
        org = scene.tenant.id
        # A name that only the other organizations and the other service use.
        theirs = ["only-theirs"] if scene.slug != ASKED or service is scene.app else []
        for name in ("read", *theirs):
            self._put("permissions", service_id=service.id, key=name, description=f"{name} in {service.slug} of {scene.slug}")
        for slug in ("editor", *theirs):
            role = self._put("service_roles", org_id=org, service_id=service.id, slug=slug, name=slug, permissions=["read"])
            for subject in ({"user_id": self.bob.user}, {"user_id": self.cleo.user}, {"built_in_role": "admin"})[:: 1 if theirs else 2]:
                assignment = self._put(
                    "relations",
                    **subject,
                    organization_id=org,
                    relation="holder",
                    object_type="service_role",
                    object_id=role,
                    id=self._id(),
                    service_id=service.id,
                    created_at="now",
                )
                if service is scene.shop:
                    scene.ids["relations"] = assignment

    def _people_of(self, scene: FilledOrganization) -> None:
        org, ids, slug = scene.tenant.id, scene.ids, scene.slug
        self._people.change(
            "insert into ownerships (org_id, membership_id, former_role, since) select org_id, id, 'member', now()"
            "  from memberships where org_id = %s and role = 'owner'",
            org,
        )
        for person in (self.ada, self.bob, self.cleo, self.dan, scene.customer):
            for service in (scene.shop, scene.app) if person is self.bob else (scene.shop,):
                self._tenants.uses(person, service)
                self._people.change(
                    "update service_users set first_login_at = now() - interval '1 day', last_login_at = now() where service_id = %s",
                    service.id,
                )
        for service, name in ((scene.shop, "shop"), (scene.shop, "another"), (scene.app, "app")):
            ids[f"user_keys of {name}"] = self._put(
                "user_keys",
                service_id=service.id,
                user_id=self.bob.user,
                name=f"key for {name}",
                prefix=f"{name}_user_{slug}",
                digest=Token(f"user {name} {slug}").digest(),
                scopes=[],
                created_at="now",
            )
        ids["user_keys"] = ids["user_keys of shop"]
        for person in (self.ada, self.bob, self.cleo, scene.customer):
            for place in (scene.tenant, scene.shop, scene.app):
                session = self._tenants.session(person, place)
                if place is scene.tenant and person is self.cleo:
                    continue
                self._put("refresh_tokens", session_id=session.session)
                if place is scene.shop:
                    self._put("saml_sessions", session_id=session.session, service_id=scene.shop.id, name_id="n", name_id_format="f")
        browser = self._tenants.session(self.bob).session
        key = self._put("bound_keys", algorithm="ES256", public_key="{}", created_at="now")
        self._put("browser_sessions", session_id=browser, chosen_organization=org, bound_to=key)
        self._put("directory_sessions", session_id=browser, upstream_provider_id=ids["upstream_providers"])
        for person, is_member, is_away in ((self.ada, True, False), (self.bob, True, False), (self.dan, False, True)):
            self._put(
                "provisioned_users",
                org_id=org,
                user_id=person.user,
                external_id=f"x-{person.email}",
                work_email=f"{person.user}@{slug}.example",
                display_name=f"Somebody of {slug}",
                is_member=is_member,
                is_deactivated=is_away,
            )
        for person in (self.ada, self.bob, self.cleo, self.dan):
            values = Jsonb({str(ids["all_profile_fields"]): f"Secret of {slug}"})
            self._put("profile_values", org_id=org, user_id=person.user, values=values)
        self._newcomers_of(scene)
        self._identities_of(scene)

    def _newcomers_of(self, scene: FilledOrganization) -> None:
        org, ids, slug = scene.tenant.id, scene.ids, scene.slug
        # These people will join or leave. The other organizations' rows about them must stay.
        for person in (self.max, self.joan, self.quinn):
            self._tenants.session(person, scene.tenant)
            self._tenants.session(person, scene.app)
            if scene.slug != ASKED or person is self.quinn:
                is_member = person is self.quinn and scene.slug != LAST
                self._put("provisioned_users", org_id=org, user_id=person.user, is_member=is_member, external_id=f"x-{person.email}")
                self._put("directory_people", connection_id=scene.ids["upstream_providers"], org_id=org, user_id=person.user)
        ids["join_requests"] = self._put("join_requests", org_id=org, user_id=self.joan.user, email=self.joan.email, status="pending")
        self._people.change("update users set origin_org_id = %s where id = %s", org, scene.member.user)
        self._put("mfa_secrets", user_id=scene.member.user, enabled_at="now", sealed_secret=b"s")
        ids["another_request"] = self._put(
            "join_requests", org_id=org, user_id=self.governor.user, email=self.governor.email, status="pending"
        )
        self._put("former_members", org_id=org, user_id=self.zoe.user, removed_at="now")
        for number, (email, role, role_id) in enumerate(
            (
                ("new@people.example", "member", None),
                (self.max.email, "clerk", scene.clerk.id),
                ("third@people.example", "admin", None),
                (self.quinn.email, "member", None),
            )
        ):
            ids[f"invitation {number}"] = self._put(
                "invitations",
                org_id=org,
                email=email,
                email_key=email,
                role=role,
                role_id=role_id,
                invited_by=scene.owner.user,
                token_digest=Token(f"{slug} {email}").digest(),
                status="pending",
            )

    def _identities_of(self, scene: FilledOrganization) -> None:
        self._put("directory_groups", connection_id=scene.ids["upstream_providers"], team_id=scene.ids["teams"])
        slug, provider = scene.slug, scene.ids["upstream_providers"]
        for person in (self.ada, self.bob):
            identity = self._put(
                "identities",
                user_id=person.user,
                provider=str(provider),
                upstream_provider_id=provider,
                issuer="https://login.example",
                subject=person.email,
                came_through=provider,
            )
            self._put("identity_grants", identity_id=identity, service_id=scene.shop.id, client_id="c")
        (shared,) = self._people.rows("select id from identities where user_id = %s and provider = 'websuite'", self.bob.user)
        self._put("identity_grants", identity_id=shared["id"], service_id=scene.shop.id, client_id=f"websuite of {slug}")

    def _record_of(self, scene: FilledOrganization) -> None:
        org, ids = scene.tenant.id, scene.ids
        for person in (self.ada, self.bob, scene.customer):
            for service, provider, success in ((scene.shop, "password", True), (None, "websuite", True), (scene.app, "codehost", False)):
                ids["login_events"] = self._put(
                    "login_events",
                    user_id=person.user,
                    organization_id=org,
                    service_id=service and service.id,
                    provider=provider,
                    success=success,
                    address="198.51.100.7",
                )
        decided = {"organization": str(org), "policy": str(self._id()), "name": f"Rule of {scene.slug}", "action": "tell_person"}
        self._put("risk_decisions", login_event_id=ids["login_events"], organization_id=org, decided=decided)
        # They are in force no more, so no walk through pages meets the question.
        address = f"https://{scene.slug}.example/terms"
        ids["terms"] = self._put(
            "terms", id=self._id(), organization_id=org, version="1", address=address, due_at="tomorrow", set_at="now", ended_at="now"
        )
        self._put("terms_acceptances", user_id=self.cleo.user, terms_id=ids["terms"], organization_id=org, accepted_at="now")
        self._put(
            "organization_texts",
            id=self._id(),
            org_id=org,
            key="sign_in.title",
            language="es",
            text=f"Title of {scene.slug}",
            based_on="",
            updated_at="now",
        )
        digest = sha256(scene.slug.encode()).hexdigest()
        self._people.change("update all_organizations set texts_digest = %s where id = %s", digest, org)
        self._put("login_counts", org_id=org, hour="yesterday", service_id=scene.shop.id, provider="password", logins=7)
        self._put("sign_in_pending", event_id=ids["login_events"], export_id=ids["siem_configurations"])
        for sequence in range(1, 2 if scene.slug == ASKED else 5):
            self._put("sign_in_links", export_id=ids["siem_configurations"], sequence=sequence, event_id=self._id())
        for person in (self.cleo, self.dan):
            entry = self._put(
                "audit_entries", organization_id=org, action="user.x", target_type="user", target_id=str(person.user), success=True
            )
            self._put("audit_personal", entry_id=entry, address="198.51.100.7")
            self._put("audit_pending", entry_id=entry, chain_id=org)
        # The other organizations have more of everything that has a number.
        more = () if scene.slug == ASKED else ("user.updated", "role.updated")
        for number, action in enumerate(("user.joined", "role.created", "user.removed", *more)):
            # Pictures show these entries: a member has joined, and the one who was removed is none.
            kind, target = {"role.created": ("role", scene.clerk.id), "user.removed": ("user", self.zoe.user)}.get(
                action, ("user", self.bob.user)
            )
            entry = ids["audit_entries"] = self._put(
                "audit_entries",
                organization_id=org,
                actor_id=self.ada.user,
                action=action,
                target_type=kind,
                target_id=str(target),
                success=True,
                details={"number": number},
            )
            self._put("audit_personal", entry_id=entry, actor_id=self.ada.user, address="198.51.100.7", user_agent=f"Of {scene.slug}")
            self._put("changed_settings", entry_id=entry, organization_id=org, place=f"/ui/o/{scene.slug}/settings", section="change")
            if number:
                self._put("audit_links", chain_id=org, sequence=number, entry_id=entry)
            else:
                self._put("audit_pending", entry_id=entry, chain_id=org)
            event = self._put(
                "events", name=action, organization_id=org, actor_id=self.ada.user, target_type="user", target_id=str(self.bob.user)
            )
            ids["webhook_deliveries"] = self._put(
                "webhook_deliveries", webhook_id=ids["webhooks"], event_id=event, event_name=action, delivered_at="now", status_code=200
            )

    def _federation_of(self, scene: FilledOrganization) -> None:
        shop = scene.shop.id
        for person in (self.ada, self.bob, self.cleo):
            self._put("consents", user_id=person.user, service_id=shop, scopes=["openid", "email"])
            self._put("resource_consents", user_id=person.user, service_id=shop, identifier="https://api.example/", scopes=["read"])
        helper = self._tenants.service(scene.tenant, "helper").id
        self._people.change("update all_services set is_agent = true where id = %s", helper)
        self._people.change("update all_organizations set max_services = 4 where id = %s", scene.tenant.id)
        self._put("consents", user_id=self.bob.user, service_id=helper, scopes=[])
        grant: dict[str, Any] = {"id": self._id(), "scopes": ["read"], "expires_at": "tomorrow"}
        self._put("resource_consents", user_id=self.bob.user, service_id=helper, identifier="https://api.example/", **grant)
        scene.ids["agent_grants"] = grant["id"]
        self._put(
            "authorization_codes",
            service_id=shop,
            user_id=self.bob.user,
            parent_id=self.bob.session,
            redirect_uri="https://app.example/back",
            scopes=["openid"],
            digest=Token(f"code of {scene.slug}").digest(),
        )
        self._put("device_codes", service_id=shop, scopes=["openid"], poll_interval=5, digest=Token(f"device of {scene.slug}").digest())
        self._put("pushed_requests", service_id=shop)
        self._put(
            "afar_requests",
            service_id=shop,
            user_id=self.bob.user,
            scopes=["openid"],
            foreign_scopes=[],
            poll_interval=5,
            digest=Token(f"afar of {scene.slug}").digest(),
        )
        self._put("afar_blocks", user_id=self.bob.user, service_id=helper)
        self._put("client_assertions", service_id=shop, digest=b"the same")
        self._put("managed_objects", org_id=scene.tenant.id, service="", kind="roles", name="support", object_id="x", named=["name"])
        scene.ids["proposals"] = self._proposal_of(scene)
        self._put("logout_receivers", service_id=shop)
        self._put("signal_settings", service_id=shop, events=["session-revoked"], hosts=[f"{scene.slug}.example"], updated_at="now")
        connection = self._put(
            "provisioning_connections",
            org_id=scene.tenant.id,
            service_id=shop,
            preset="generic",
            base_url=f"https://{scene.slug}.example/scim",
            sealed_token=b"of no ring",
            token_set_at="now",
            mapping='[{"attribute": "userName", "source": "address"}]',
            state="draft",
        )
        sent = {"connection_id": connection, "user_id": self.bob.user}
        self._put("provisioned_people", **sent, far_id=f"{scene.slug}-7", active=True, state="left_out", why="no_answer")
        self._put("provisioning_marks", **sent)
        self._put("provisioning_progress", connection_id=connection, name="said", place=0, part=b"{}")
        run = self._put("provisioning_runs", connection_id=connection, kind="plan", state="waiting", settings_digest=b"d", digest=b"d")
        self._put("provisioning_run_people", run_id=run, what="made", user_id=self.bob.user)
        self._people.change(
            "insert into provisioning_exchanges (connection_id, at, method, path, said, has_failed)"
            " values (%s, now(), 'GET', '/Users', '', false)",
            connection,
        )
        scene.ids["provisioning_runs"] = run
        scene.ids["signal_streams"] = self._put(
            "signal_streams", service_id=shop, method="poll", events=["session-revoked"], status="enabled"
        )
        self._put("flows", purpose="account", service_id=shop)
        waiting = scene.member
        self._put("awaited_sign_ins", user_id=waiting.user, session_id=waiting.session, service_id=shop, began_at="now", ends_at="now")
        self._put("preauthentications", user_id=self.bob.user, organization_id=scene.tenant.id, service_id=shop)
        self._put(
            "oauth_states",
            provider="websuite",
            user_id=self.bob.user,
            session_id=self.bob.session,
            client_id="c",
            realm_id=scene.tenant.id,
        )
        self._put(
            "saml_configurations",
            service_id=shop,
            enabled=True,
            entity_id="https://sp.example",
            acs_url="https://sp.example/acs",
            metadata_fetched_at="now",
        )
        for state in ("active", "next"):
            # This value is only shown.
            self._put(
                "saml_certificates",
                service_id=shop,
                state=state,
                certificate=_PEM.format(scene.slug),
                valid_until="tomorrow",
                created_at="yesterday",
            )
        self._put("saml_requests", service_id=shop, digest=b"the same")

    def _billing_of(self, scene: FilledOrganization) -> None:
        shop, ids, org = scene.shop.id, scene.ids, scene.tenant.id
        ids["plans"], ids["dear_plan"] = (
            self._put("plans", service_id=shop, key=name.lower(), name=name, price_cents=cents, currency="usd")
            for name, cents in (("Free", 0), ("Pro", 900))
        )
        ids["unused_plan"] = self._put("plans", service_id=shop, key="unused", name="Unused", price_cents=5, currency="usd")
        plan = ids["plans"] if scene.slug == ASKED else ids["dear_plan"]
        for person in (self.ada, self.bob, scene.customer):
            subscription = self._put("subscriptions", service_id=shop, user_id=person.user, plan_id=plan, status="active")
            self._put(
                "billing_subscriptions",
                external_id=f"sub {subscription}",
                org_id=org,
                service_id=shop,
                user_id=person.user,
                plan_id=plan,
                subscription_id=subscription,
                is_over=True,
            )
        self._put("billing_customers", org_id=org, external_id=f"customer of {scene.slug}")
        self._put("billing_checkouts", service_id=shop, user_id=self.bob.user)

    def rows(self) -> frozenset[Row]:
        """All rows of the database."""
        columns = "'{0}' as place, ({1})::text as whose, to_jsonb(one)::text as text from {0} as one"
        tables = [(table, whose) for table, whose in WHOSE.items()] + [(table, "null") for table in NOBODYS - {"rate_limit_buckets"}]
        statement = " union all ".join("select " + columns.format(table, whose) for table, whose in tables)
        return frozenset((row["place"], row["whose"] or "", row["text"]) for row in self._people.rows(statement))

    @cached_property
    def of_platform(self) -> Mapping[str, UUID]:
        """Things of the installation itself, which are added when somebody asks for them: the ids of one row of each table."""
        return {
            "all_profile_fields": self._put(
                "all_profile_fields", key="badge", label="Badge", kind="text", rule={}, written_by=["person"], created_at="now"
            ),
            "further_providers": self._put(
                "further_providers",
                key="badge",
                name="Badge",
                preset="",
                client_id="postern",
                enabled=False,
                position=1,
                settings=dict(FurtherSettings(kind=FurtherKind.OPENID, issuer="https://badge.example", scopes=("openid",)).stored()),
            ),
            "management_keys": self._put(
                "management_keys", name="Robot", prefix="pk_platform", capabilities=[], created_by=self.governor.user
            ),
            "audit_entries": self._put(
                "audit_entries", action="platform.x", target_type="user", target_id=str(self.governor.user), success=True
            ),
            "mail_budgets": self._put(
                "mail_budgets",
                id=self._id(),
                lane="open",
                scope="network",
                key="203.0.113.0/24",
                hour="today",
                size=20,
                taken=0,
                waiting=0,
                exempt_until="tomorrow",
            ),
        }

    def let_others_fill_up(self) -> None:
        """Fills the other organizations up to every limit."""
        for scene in self.others:
            org = scene.tenant.id
            for name in ("Theirs", *(f"Theirs {number}" for number in range(MOST_WEBHOOKS))):
                self._put("webhooks", org_id=org, name=name, url="https://a.example/", events=["user.joined"])
            for name in ("Theirs", *map(str, range(MOST_TOKENS))):
                self._put("scim_tokens", org_id=org, name=name, prefix=f"{scene.slug} {name}", digest=Token(f"{org} {name}").digest())
            for name in ("Theirs", *map(str, range(MOST_KEYS))):
                self._put(
                    "management_keys",
                    org_id=org,
                    name=name,
                    prefix=f"{scene.slug} key {name}",
                    digest=Token(f"{org} key {name}").digest(),
                    expires_at="tomorrow",
                )
            for name in ("Theirs", *map(str, range(MOST_OF_ONE))):
                self._put("trusted_issuers", org_id=org, name=name, service_id=scene.shop.id, **_TRUST)
            for name in ("Theirs", *map(str, range(MOST_PROVIDERS))):
                self._put(
                    "upstream_providers", org_id=org, name=name, kind="oidc", state="active", client_id="c", sealed_client_secret=b"sealed"
                )
            for number in range(MOST_ROLES):
                self._put("roles", org_id=org, slug=f"role-{number}", name="Theirs")
            for number in range(MOST_TEAMS):
                self._put("teams", org_id=org, slug=f"team-{number}", name="Theirs", external_id=str(number))
            for domain in ("theirs.example", *(f"{number}.example" for number in range(MOST_ROUTES))):
                self._put("domain_routes", org_id=org, domain=domain, login_policy="password_allowed", join_policy="off")
                self._put("resource_servers", org_id=org, identifier=f"https://{domain}/", domain=domain, name="Theirs", admits="all")

    def ids_of_others(self) -> Collection[str]:
        """The ids of everything that another organization has, and of its own people."""
        return self._ids_of_others

    def _only_elsewhere(self) -> list[Person]:
        return [one for scene in self.others for one in (scene.admin, scene.member, scene.customer)]

    def _settle_nat(self) -> None:
        """Nat's account was made by acme's directory; only globex has him now."""
        self._join(self.asked, self.nat, "member")
        self._people.change("update users set origin_org_id = %s where id = %s", self.houses[FIRST].tenant.id, self.nat.user)
        self._put("provisioned_users", org_id=self.asked.tenant.id, user_id=self.nat.user, is_member=True)
        self._put("mfa_secrets", user_id=self.nat.user, enabled_at="now", sealed_secret=b"s")

    def without_others(self) -> None:
        """The same world, but with one organization only."""
        others = [scene.tenant.id for scene in self.others]
        for table, whose in WHOSE.items():
            self._people.change(f"delete from {table} as one where ({whose}) = any (%s)", others)

    def without_other_service(self) -> None:
        """The same world, but the organization has only the shop."""
        for table, whose in WHOSE.items():
            if whose == SERVICE.organization or table in {"service_users", "sessions", "billing_subscriptions", "relations"}:
                self._people.change(f"delete from {table} as one where service_id = %s", self.asked.app.id)

    def whose(self, rows: Iterable[Row]) -> set[str]:
        """The slugs of the organizations that these rows belong to."""
        slugs = {str(scene.tenant.id): slug for slug, scene in self.houses.items()}
        return {slugs.get(whose, whose) for _, whose, _ in rows}
