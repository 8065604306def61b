"""The rows of made worlds: which tables and columns there are, and what stands in them unless somebody says otherwise.

Other columns have the schema's defaults.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final, TypeVar
from uuid import UUID

Row = dict[str, Any]
T = TypeVar("T")

URI: Final = "https://app.example/callback"
HOST: Final = "app.example"
DAY: Final = timedelta(days=1)
HOUR: Final = timedelta(hours=1)

# In an order in which they can be filled: what a row names comes before it.
TABLES: Final = (
    "all_organizations", "users", "devices", "login_events", "guess_counts", "rate_limit_buckets", "domains",
    "former_members", "former_addresses", "provisioned_users", "invitations", "join_requests", "hooks", "installation_risk_policies",
    "all_profile_fields", "held_accounts", "roles", "all_services", "upstream_providers", "domain_routes", "identities", "memberships",
    "teams", "team_members", "service_roles", "permissions", "relations", "consents", "resource_servers", "resource_admissions",
    "resource_consents", "terms", "terms_acceptances", "client_secrets", "mfa_secrets", "passkeys", "plans", "subscriptions",
    "service_claims", "service_users", "siem_configurations", "webhooks", "flows", "sessions", "directory_sessions",
    "authorization_codes", "refresh_tokens",
)  # fmt: skip


class Draw(Random):
    """Draws from a world's number, and never from the clock or the machine."""

    def chance(self, of: float) -> bool:
        return self.random() < of

    def one(self, *of: T) -> T:
        return self.choice(of)

    def perhaps(self, of: float, what: T) -> T | None:
        return what if self.chance(of) else None

    def id(self) -> str:
        return str(UUID(int=self.getrandbits(128), version=4))

    def some(self, of: Sequence[str]) -> list[str]:
        return [one for one in of if self.chance(0.5)]


def blank(table: str, draw: Draw, now: datetime) -> Row:
    return _BLANK[table](draw.id(), now)


def _made(now: datetime) -> Row:
    return dict.fromkeys(("created_at", "updated_at"), now - 9 * DAY)


def as_hex(value: bytes) -> str:
    return f"\\x{value.hex()}"


_BLANK: Final[Mapping[str, Callable[[str, datetime], Row]]] = {
    "all_organizations": lambda one, now: {
        "id": one, "slug": f"o-{one}", "name": "Acme", "status": "active", "deleted_at": None, "asks_terms": False, "most_sessions": None,
        "agents": "allowed", "agents_since": None, "session_hours": None, "session_idle_minutes": None, "metadata_clients": "off",
        "metadata_hosts": [], "registered_clients": "off", "mfa_required_since": None, "mfa_grace_days": 7, "admin_factor": None,
        "admin_required_since": None, "all_factor": None, "all_factor_role_id": None, "all_required_since": None,
        "breached_at_sign_in": None, "passkey_offers": True, "risk_counts_since": None, "risk_policies": [], "risk_exceptions": [],
        "device_trust_days": 30, **_made(now),
    },
    "users": lambda one, now: {
        "id": one, "email": f"{one}@example.org", "email_key": f"{one}@example.org", "is_platform_owner": False, "email_verified_at": None,
        "address_vouched_by": None, "deactivated_at": None, "origin_org_id": None, "name": None, "given_name": None, "family_name": None,
        "username": None, "zoneinfo": None, "picture_id": None, "language": None, "profile_updated_at": None, "password_hash": None,
        "password_changed_at": None, "passkey_offered_at": None, "passkey_offers_ended_at": None, **_made(now),
    },
    "devices": lambda one, now: {
        "id": one, "user_id": None, "token_digest": None, "name": "Firefox", "device_type": "browser", "browser": "Firefox", "os": "Linux",
        "last_used_at": now - DAY, "trust_digest": None, "trusted_until": None, "trusted_at": None, "revoked_at": None, **_made(now),
    },
    "login_events": lambda one, now: {
        "id": one, "user_id": None, "organization_id": None, "service_id": None, "device_id": None, "provider": "password",
        "success": True, "reason": None, "flagged": False, "country": None, "spot": None, "created_at": now - DAY, "salt": one,
    },
    "guess_counts": lambda _, now: {
        "kind": "network", "slot": 1, "key": "", "hour": now, "failures": 1, "seen": 1, "first_at": now, "last_at": now,
    },
    "rate_limit_buckets": lambda _, now: {
        "limit_name": "sign_in_account", "key": "", "tokens": 3.5, "at": now, "wait": 0, "full_at": now + HOUR,
    },
    "domains": lambda one, now: {
        "id": one, "org_id": None, "domain": "example.org", "token": one, "verified_at": None, "next_check_at": None, **_made(now),
    },
    "domain_routes": lambda one, now: {
        "id": one, "org_id": None, "domain": "example.org", "token": one, "verified_at": None, "next_check_at": None,
        "shared_provider": None, "own_provider": None, "login_policy": "password_allowed", "join_policy": "off", **_made(now),
    },
    "former_members": lambda _, now: {"org_id": None, "user_id": None, "removed_at": now - DAY},
    "former_addresses": lambda _, now: {"user_id": None, "email_key": "", "held_until": now - DAY},
    "provisioned_users": lambda _, now: {
        "org_id": None, "user_id": None, "is_member": True, "is_deactivated": False, "in_group": False, "is_scims": True, **_made(now),
    },
    "invitations": lambda one, now: {
        "id": one, "org_id": None, "email": "", "email_key": "", "role": "member", "token_digest": f"\\x{one.replace('-', '')}",
        "status": "pending", "expires_at": now + DAY, "created_at": now - DAY, "closed_at": None,
    },
    "join_requests": lambda one, now: {
        "id": one, "org_id": None, "user_id": None, "email": "", "status": "pending", "created_at": now - DAY, "decided_at": None,
    },
    "hooks": lambda one, now: {
        "id": one, "org_id": None, "point": "sign_in", "address": "https://hook.example", "silence": "go_on", "seconds": 1,
        "since": now - DAY, "asked": 0, "silent": 0, "refused": 0, "factors": 0, "milliseconds": 0, "slowest": 0, **_made(now),
    },
    "installation_risk_policies": lambda _, now: {
        "is_only": True, "policies": [], "exceptions": [], "counts_since": now - DAY,
    },
    "all_profile_fields": lambda one, now: {
        "id": one, "org_id": None, "key": f"f-{one}", "label": "Field", "kind": "text", "rule": {}, "written_by": ["person"],
        "scope": None, "required": False, "asked_at": None, "position": 0, "deleted_at": None, **_made(now),
    },
    "flows": lambda one, now: {
        "id": one, "browser_digest": f"\\x{one.replace('-', '')}", "purpose": "account", "service_id": None, "request": {},
        "wanted": {}, "user_id": None, "created_at": now - HOUR, "expires_at": now + HOUR, "signed_in_at": None, "proof_digest": None,
        "hooks_asked": 0,
    },
    "held_accounts": lambda _, now: {"user_id": None, "held_since": now - 4 * DAY},
    "roles": lambda one, now: {"id": one, "org_id": None, "slug": f"r-{one}", "name": "Role", **_made(now)},
    "all_services": lambda one, now: {
        "id": one, "org_id": None, "slug": f"s-{one}", "name": "Shop", "service_type": "web", "client_id": one,
        "kept_client_id": None, "redirect_uris": [URI], "deleted_at": None, "sign_in_policy": "anyone", "trusted": False, "jwks": None,
        "jwks_uri": None, "jwks_fetched_at": None, "credential_removed_at": None, "access_token_alg": "ES256", "document_digest": None,
        "is_agent": False, "agent_since": None, "session_lifetime_hours": None, "session_idle_minutes": None, "most_sessions": None,
        "dpop_bound_access_tokens": False, "profile": "standard", **_made(now),
    },
    "upstream_providers": lambda one, now: {
        "id": one, "org_id": None, "kind": "oidc", "name": f"p-{one}", "issuer": "https://idp.example", "client_id": "c",
        "sealed_client_secret": "\\x00", "scopes": [], "enabled": True, "second_factor_values": ["mfa"], **_made(now),
    },
    "identities": lambda one, now: {
        "id": one, "user_id": None, "provider": "codehost", "upstream_provider_id": None, "issuer": "i", "subject": one,
        "email": "a@b.example", "linked_at": now - 2 * DAY,
    },
    "memberships": lambda one, now: {
        "id": one, "org_id": None, "user_id": None, "role": "member", "role_id": None, "created_at": now - 30 * DAY, "own_since": None,
    },
    "teams": lambda one, now: {
        "id": one, "org_id": None, "slug": f"t-{one}", "name": "Team", "role": None, "role_id": None, **_made(now),
    },
    "team_members": lambda _, now: {"team_id": None, "org_id": None, "user_id": None, "added_at": now - DAY},
    "service_roles": lambda one, now: {
        "id": one, "org_id": None, "service_id": None, "slug": f"r-{one}", "name": "Role", "permissions": [], "given_to_everybody": False,
        **_made(now),
    },
    "permissions": lambda one, now: {"id": one, "service_id": None, "key": "write.all", "created_at": now - DAY},
    "relations": lambda _, __: dict.fromkeys(
        ("organization_id", "user_id", "role_id", "relation", "object_type", "object_id", "built_in_role", "id", "created_at", "team_id",
         "service_id")
    ),
    "consents": lambda one, now: {"id": one, "user_id": None, "service_id": None, "scopes": [], "granted_at": now - HOUR},
    "resource_servers": lambda one, now: {
        "id": one, "org_id": None, "identifier": f"https://api.example/{one}", "domain": "api.example", "name": "API", "service_id": None,
        "token_lifetime": None, "admits": "all", "access_token_alg": "ES256", "scopes": [], "token": "t", "verified_at": None,
        "next_check_at": None, "approved_at": None, "settles_at": None, "metadata_clients": "off", "metadata_hosts": [],
        "registered_clients": "off", **_made(now),
    },
    "resource_admissions": lambda one, _: {"id": one, "resource_id": None, "service_id": None},
    "resource_consents": lambda one, now: {
        "id": one, "user_id": None, "service_id": None, "resource_id": None, "identifier": "", "scopes": [], "withheld": [],
        "granted_at": now - HOUR, "document_digest": None, "expires_at": None,
    },
    "terms": lambda one, now: {
        "id": one, "organization_id": None, "version": one, "address": "https://acme.example", "due_at": now - DAY,
        "set_at": now - 3 * DAY, "ended_at": None,
    },
    "terms_acceptances": lambda _, now: {
        "user_id": None, "terms_id": None, "organization_id": None, "accepted_at": now - DAY,
    },
    "client_secrets": lambda one, now: {"id": one, "service_id": None, "prefix": "cs", "digest": None, "created_at": now - DAY},
    "mfa_secrets": lambda _, now: {"user_id": None, "sealed_secret": "\\x00", "created_at": now - DAY, "enabled_at": None},
    "passkeys": lambda one, now: {
        "id": one, "user_id": None, "credential_id": f"\\x{one.replace('-', '')}", "public_key": "\\x00", "sign_count": 0, "name": "Key",
        "aaguid": one, "transports": [], "backup_eligible": False, "backed_up": False, "created_at": now - DAY,
        "second_factor_since": None,
    },
    "plans": lambda one, now: {
        "id": one, "service_id": None, "name": "Plan", "price_cents": 0, "currency": "usd", "features": [], "key": f"p-{one}", **_made(now),
    },
    "subscriptions": lambda one, now: {
        "id": one, "service_id": None, "user_id": None, "plan_id": None, "status": "active", "current_period_end": now + DAY,
        "managed": False, **_made(now),
    },
    "service_claims": lambda one, now: {
        "id": one, "service_id": None, "name": "tier", "source": "plan", "told_in": ["id_token"], "created_at": now - DAY,
    },
    "service_users": lambda _, now: {
        "service_id": None, "user_id": None, "org_id": None, "first_login_at": None, "last_login_at": None, "created_at": now - DAY,
        "own_since": None,
    },
    "siem_configurations": lambda one, now: {
        "id": one, "org_id": None, "name": "SIEM", "provider_type": "generic", "endpoint_url": "https://siem.example", "batch_size": 1,
        "is_active": True, **_made(now),
    },
    "webhooks": lambda one, now: {
        "id": one, "org_id": None, "name": one, "url": "https://receiver.example", "events": [], "is_active": True,
        "sealed_secret": "\\x00", **_made(now),
    },
    "sessions": lambda one, now: {
        "id": one, "user_id": None, "device_id": None, "organization_id": None, "service_id": None, "created_at": now - 2 * HOUR,
        "last_seen_at": now - timedelta(minutes=5), "expires_at": now + DAY, "ends_at": now + 2 * DAY, "revoked_at": None,
        "authenticated_by": [], "impersonator_id": None, "impersonation_id": None, "parent_id": None, "depth": 0, "proved_at": None,
        "second_factor_at": None, "stated_at": None, "scopes": None, "audiences": None, "minutes_idle": None, "key_thumbprint": None,
        "factor_through": None, "factor_stated": None,
    },
    "directory_sessions": lambda _, now: {
        "session_id": None, "upstream_provider_id": None, "name_digest": "\\x00", "session_index": "1", "context_class": "urn:loa:2",
        "created_at": now - 2 * HOUR,
    },
    "authorization_codes": lambda one, _: {
        "id": one, "digest": None, "service_id": None, "user_id": None, "parent_id": None, "redirect_uri": URI, "code_challenge": None,
        "nonce": None, "scopes": [], "auth_time": None, "stated_at": None, "authenticated_by": [], "provider": "session",
        "created_at": None, "expires_at": None, "redeemed_at": None, "redeemed_with": None, "session_id": None, "audiences": None,
        "key_thumbprint": None,
    },
    "refresh_tokens": lambda _, now: {
        "digest": None, "session_id": None, "created_at": now - timedelta(minutes=20), "rotated_at": None, "rotated_by": None,
    },
}  # fmt: skip
