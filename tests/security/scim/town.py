"""Two organizations and the people around them, for a fuzzer of directories. The accounts have all that an account can have, and every kind
of tie that decides who owns an account. Data that only one organization knows carry its mark, which no request contains.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from core.domain.secrets import Token
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from tests.http.people import People, Person
from tests.http.tenants import OwnRole, Tenant, Tenants, UsedService

SLUGS: Final = ("acme", "globex")


def mark(slug: str) -> str:
    return f"canary-of-{slug}"


@dataclass
class DirectoryOrganization:
    tenant: Tenant
    service: UsedService
    token: str
    refused: Sequence[str]
    """What opens nothing here: tokens that expired, were deleted, never were or are too long, and a service's key."""
    invited: list[str] = field(default_factory=list)
    """Addresses that no account has."""

    @property
    def slug(self) -> str:
        return self.tenant.slug

    @property
    def id(self) -> str:
        return str(self.tenant.id)


class DirectoryOrganizations:
    def __init__(self, postern: Postern, people: People) -> None:
        self._postern = postern
        self._people = people
        self._tenants = Tenants(postern, people)
        self._number = 0
        # People are sorted by address in every list, so that a seed always picks the same people.
        self.houses = {slug: self._house(slug) for slug in SLUGS}
        for slug, other in (SLUGS, SLUGS[::-1]):
            self._settle(self.houses[slug], self.houses[other])
        self._settle_between(*self.houses.values())

    def _house(self, slug: str) -> DirectoryOrganization:
        tenant = self._tenants.add(slug, name=f"{slug.title()} {mark(slug)}")
        service = self._tenants.service(tenant, f"shop-{mark(slug)}")
        tokens = {why: f"scim_live_{slug}_{why}_0123456789abcdef" for why in ("live", "expired", "deleted")}
        for why in ("live", "expired"):
            self._insert(
                "scim_tokens",
                id=self._id(),
                org_id=tenant.id,
                name=f"{why} {mark(slug)}",
                prefix=f"scim_live_{slug}_{why}",
                digest=Token(tokens[why]).digest(),
                expires_at=None if why == "live" else "2020-01-01",
                created_by=self._id(),
                created_at="now",
            )
        key = f"sk_{slug}_0123456789"
        at: dict[str, Any] = {"created_at": "now", "updated_at": "now"}
        self._insert(
            "api_keys",
            id=self._id(),
            service_id=service.id,
            name=mark(slug),
            prefix=f"sk_{slug}",
            digest=Token(key).digest(),
            permissions=["read:users", "write:users"],
            created_by=self._id(),
            created_at="now",
        )
        self._insert(
            "webhooks",
            id=self._id(),
            org_id=tenant.id,
            name=mark(slug),
            url="https://a.example/",
            events=["user.joined"],
            sealed_secret=b"s",
            **at,
        )
        self._insert(
            "mail_servers",
            id=self._id(),
            org_id=tenant.id,
            host=f"{mark(slug)}.example",
            port=587,
            username="u",
            sealed_password=b"s",
            from_email=f"it@{mark(slug)}.example",
            **at,
        )
        self._insert("domains", id=self._id(), org_id=tenant.id, domain=f"{slug}.example", token=mark(slug), **at)
        self._insert(
            "upstream_providers",
            id=self._id(),
            org_id=tenant.id,
            name=mark(slug),
            issuer="https://a.example",
            client_id="c",
            sealed_client_secret=b"s",
            scopes=[],
            enabled=True,
            **at,
        )
        refused = (tokens["expired"], tokens["deleted"], "scim_live_x_0", f"{tokens['live']}x", "", key)
        return DirectoryOrganization(tenant, service, tokens["live"], refused)

    def _settle(self, scene: DirectoryOrganization, other: DirectoryOrganization) -> None:
        """Adds the people of this organization alone, and the people who belong to it first."""
        slug, tenant = scene.slug, scene.tenant
        self._join(scene, self._registered(f"Owner@{slug}.example"), "owner")
        self._join(scene, self._registered(f"Admin@{slug}.example"), "admin")
        clerk = self._tenants.role(tenant, f"clerk-{mark(slug)}", [Capability.MEMBERS_VIEW, Capability.END_USERS_VIEW])
        self._tenants.join(self._registered(f"Clerk@{slug}.example"), tenant, clerk)
        self._join(scene, self._registered(f"Member@{slug}.example"), "member")
        self._join(scene, self._registered(f"Joined@{slug}.example"), "member", came_by="created")
        # Made through its directory, and its own.
        for name in ("Ada", "Bob", "Cleo", "Dan", "Eve"):
            self._provide(scene, self._made(scene, f"{name}@{slug}.example"), "member")
        self._provide(scene, self._made(scene, f"Unproved@{slug}.example", verified=False), "member")
        self._provide(scene, self._made(scene, f"Away@{slug}.example", deactivated_by=tenant), None)
        # Made through its directory, but no longer its own.
        for name in ("Barred", "Banned"):
            self._provide(scene, self._made(scene, f"{name}@{slug}.example", deactivated=True), None)
        self._provide(scene, self._made(scene, f"Promoted@{slug}.example"), "admin")
        mighty = self._tenants.role(tenant, f"mighty-{mark(slug)}", list(Capability))
        hooks = self._tenants.role(tenant, f"hooks-{mark(slug)}", [Capability.WEBHOOKS_MANAGE])
        self._provide(scene, self._made(scene, f"Mighty@{slug}.example"), mighty)
        self._provide(scene, self._made(scene, f"Hooks@{slug}.example"), hooks)
        founder = self._made(scene, f"Founder@{slug}.example")
        self._provide(scene, founder, "member")
        self._join(scene, founder, "owner", self._tenants.add(f"third-of-{slug}", name=f"Third {mark(slug)}"))
        self._provide(scene, self._made(scene, f"Governor@{slug}.example", platform_owner=True), "member")
        buyer = self._tenants.uses(self._made(scene, f"Buyer@{slug}.example"), other.service)
        self._provide(scene, buyer, "member")
        self._tenants.session(buyer, other.service)
        # Members of no organization.
        self._tenants.uses(self._registered(f"Customer@{slug}.example"), scene.service)
        self._registered(f"Stranger@{slug}.example")
        self._registered(f"Hasty@{slug}.example", verified=False)
        asking = self._registered(f"Asking@{slug}.example")
        seeker = self._made(scene, f"Seeker@{slug}.example")
        self._provide(scene, seeker, "member")
        for one, person in ((scene, asking), (other, asking), (other, seeker)):
            self._insert(
                "join_requests",
                id=self._id(),
                org_id=one.tenant.id,
                user_id=person.user,
                email=person.email,
                status="pending",
                created_at="now",
            )
        scene.invited = [f"Invited@{slug}.example", f"Asked@{slug}.example"]
        for email in (*scene.invited, f"Stranger@{slug}.example", f"Ada@{other.slug}.example"):
            self._insert(
                "invitations",
                id=self._id(),
                org_id=tenant.id,
                email=email,
                email_key=email.lower(),
                role="admin",
                token_digest=Token(f"{slug} {email}").digest(),
                status="pending",
                expires_at="tomorrow",
                created_at="now",
            )

    def _settle_between(self, acme: DirectoryOrganization, globex: DirectoryOrganization) -> None:
        governor = self._registered("Governor@platform.example", platform_owner=True)
        self._join(acme, governor, "member")
        guest = self._registered("Guest@both.example")
        for scene in (acme, globex):
            self._provide(scene, guest, "member")
        for scene, other in ((acme, globex), (globex, acme)):
            lent = self._made(scene, f"Lent-by-{scene.slug}@both.example")
            self._provide(scene, lent, "member")
            self._provide(other, lent, "member")
            known = self._made(scene, f"Known-to-{other.slug}@both.example")
            self._provide(scene, known, "member")
            self._provide(other, known, None)

    def _made(self, scene: DirectoryOrganization, email: str, *, deactivated_by: Tenant | None = None, **more: Any) -> Person:
        """An account made by the organization's directory."""
        person = self._registered(email, **more)
        self._people.change(
            "update users set origin_org_id = %s, deactivated_by_org_id = %s, deactivated_at = coalesce(deactivated_at, %s) where id = %s",
            *(scene.tenant.id, deactivated_by and deactivated_by.id, "now" if deactivated_by else None, person.user),
        )
        if deactivated_by is not None:
            self._people.change("update sessions set revoked_at = now() where user_id = %s", person.user)
        return person

    def _registered(self, email: str, *, verified: bool = True, deactivated: bool = False, platform_owner: bool = False) -> Person:
        """A registered account with everything that an account can have."""
        person = self._people.add(email, platform_owner=platform_owner)
        self._number += 1
        number, user = self._number, person.user
        self._people.change(
            "update users set password_hash = %s, password_changed_at = now(), email_verified_at = %s, deactivated_at = %s where id = %s",
            *(f"$argon2id$v=19$m=8,t=1,p=1$c2FsdA${number}", "now" if verified else None, "now" if deactivated else None, user),
        )
        self._insert("mfa_secrets", user_id=user, sealed_secret=b"s", created_at="now", enabled_at="now")
        for code in range(2):
            self._insert("backup_codes", user_id=user, digest=f"{number} {code}".encode())
        self._insert(
            "passkeys",
            id=self._id(),
            user_id=user,
            credential_id=str(number).encode(),
            public_key=b"k",
            sign_count=0,
            name="Key",
            aaguid=self._id(),
            transports=[],
            backup_eligible=False,
            backed_up=False,
            created_at="now",
            second_factor_since="now",
        )
        self._people.connect(person, subject=str(number))
        device = self._id()
        self._insert(
            "devices",
            id=device,
            user_id=user,
            token_digest=Token(f"device {number}").digest(),
            name="Phone",
            device_type="mobile",
            last_used_at="now",
            trust_digest=Token(f"trust {number}").digest(),
            trusted_until="tomorrow",
            trusted_at="now",
            created_at="now",
            updated_at="now",
        )
        self._people.change("update sessions set device_id = %s where id = %s", device, person.session)
        self._insert("refresh_tokens", digest=Token(f"refresh {number}").digest(), session_id=person.session, created_at="now")
        self._insert("browser_sessions", digest=Token(f"browser {number}").digest(), session_id=person.session)
        self._insert(
            "mailed_tokens",
            digest=Token(f"mailed {number}").digest(),
            purpose="reset_password",
            user_id=user,
            email=email,
            created_at="now",
            expires_at="tomorrow",
        )
        self._insert("preauthentications", id=self._id(), user_id=user, device_id=device, created_at="now", expires_at="tomorrow")
        return person

    def _provide(self, scene: DirectoryOrganization, person: Person, role: str | OwnRole | None) -> None:
        """The organization's directory has added the person: as a member, or, with None, as deactivated."""
        if role is not None:
            self._join(scene, person, role)
        note = f"{mark(scene.slug)} {person.email.partition('@')[0]}"
        self._insert(
            "provisioned_users",
            org_id=scene.tenant.id,
            user_id=person.user,
            external_id=f"x-{note}",
            work_email=f"{person.user}@{mark(scene.slug)}.example" if self._number % 2 else None,
            formatted_name=note,
            given_name=note,
            family_name=note,
            display_name=note,
            is_member=role is not None,
            is_deactivated=role is None,
            created_at="now",
            updated_at="now",
        )

    def _join(
        self, scene: DirectoryOrganization, person: Person, role: str | OwnRole, tenant: Tenant | None = None, came_by: str = "added"
    ) -> None:
        place = tenant or scene.tenant
        self._tenants.join(person, place, role)
        self._people.change("update memberships set came_by = %s where org_id = %s and user_id = %s", came_by, place.id, person.user)
        inside = self._tenants.session(person, place)
        self._tenants.session(person, scene.service)
        self._number += 1
        self._insert("refresh_tokens", digest=Token(f"inside {self._number}").digest(), session_id=inside.session, created_at="now")

    def _insert(self, table: str, **columns: Any) -> None:
        self._people.change(f"insert into {table} ({', '.join(columns)}) values ({', '.join(['%s'] * len(columns))})", *columns.values())

    def _id(self) -> UUID:
        return self._postern.foundation.ids.new()
