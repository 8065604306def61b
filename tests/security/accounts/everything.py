"""Every table that has something of a person, and what of it would let somebody in. A table that neither part speaks of fails the test: say
whether its rows go when somebody comes who proves the address, or why they stay.
"""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from tests.http.people import People

_LIVING_SESSION: Final = "exists (select from sessions where sessions.id = one.session_id and revoked_at is null)"
_PENDING: Final = "expires_at > now()"
# For each table whose rows a page or an endpoint of the account writes and that let somebody in: the condition of a row that does so.
OPENS: Final[Mapping[str, str]] = {
    "authorization_codes": f"redeemed_at is null and {_PENDING}",
    "afar_requests": f"state in ('pending', 'allowed') and {_PENDING}",
    "backup_codes": "used_at is null",
    "consents": "true",
    # A known browser guesses more often, and no mail tells of its sign-ins.
    "devices": "revoked_at is null",
    "device_codes": f"state = 'approved' and {_PENDING}",
    "flows": f"completed_at is null and {_PENDING} and {_LIVING_SESSION}",
    "identities": "true",
    "mailed_tokens": f"used_at is null and {_PENDING}",
    "mfa_secrets": "true",
    "oauth_states": f"used_at is null and {_PENDING} and {_LIVING_SESSION}",
    "passkeys": "true",
    "preauthentications": f"consumed_at is null and {_PENDING}",
    "resource_consents": "true",
    "sessions": f"revoked_at is null and {_PENDING}",
    "user_keys": "true",
}
_TIE: Final = "it is a tie to an organization, which the organization has made, and says nothing about who signs in (0108)"
_SENT: Final = "it says whom the organization has sent to another system, and lets nobody in here (0238)"
_RECORD: Final = "it is a record"
_ORGANIZATIONS: Final = "it is the organization's, whose pages list it (core/domain/identity/endings.py)"
_GOES: Final = "it opens no account, and goes all the same (tests/http/tenancy/terms/test_terms_attacks.py)"
_NEEDS_PROOF: Final = "nobody gets one whose address is not proved"
STAYS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("memberships", "relations", "team_members", "provisioned_users", "service_users", "subscriptions"), _TIE),
    **dict.fromkeys(("directory_people", "directory_run_people"), _TIE),
    **dict.fromkeys(("provisioned_people", "provisioning_marks", "provisioning_run_people"), _SENT),
    **dict.fromkeys(("service_user_marks", "billing_checkouts", "billing_subscriptions", "join_requests", "former_members"), _TIE),
    **dict.fromkeys(("audit_entries", "audit_log", "audit_personal", "events", "login_events", "mfa_events", "impersonations"), _RECORD),
    **dict.fromkeys(("logout_notices", "former_addresses", "imported_people", "privacy_requests"), _RECORD),
    "terms_acceptances": _GOES,
    "awaited_sign_ins": "it lets nobody in: it says which refused requests a browser sent, to that browser's session alone (0233)",
    **dict.fromkeys(("guess_counts", "guess_alerts"), _RECORD),
    **dict.fromkeys(("api_keys", "client_secrets", "scim_tokens", "management_keys", "setup_links", "invitations"), _ORGANIZATIONS),
    **dict.fromkeys(("managed_objects", "proposals"), _ORGANIZATIONS),
    **dict.fromkeys(("all_organizations", "held_accounts"), _NEEDS_PROOF),
    "afar_blocks": "it lets nobody in: it keeps an application from asking, and the person's page lists it",
    **dict.fromkeys(("pictures", "profile_values"), "name, picture and fields stay, since a directory has vouched for the person (0108)"),
}
_NAMING: Final = """
    select distinct relname::text as name
      from pg_attribute
      join pg_class on pg_class.oid = attrelid and relkind in ('r', 'p') and not relispartition and relnamespace = 'public'::regnamespace
     where attnum > 0 and not attisdropped and attname in ('user_id', 'created_by', 'invited_by', 'actor_id', 'owner_user_id', 'managed_by')
"""


def unspoken(people: People) -> list[str]:
    """The tables with something of a person that nobody has spoken of."""
    found = {row["name"] for row in people.rows(_NAMING)}
    return sorted((found - OPENS.keys() - STAYS.keys()) | ((OPENS.keys() | STAYS.keys()) - found - {"audit_log"}))


def left_open(people: People, user: UUID) -> Mapping[str, set[str]]:
    """What lets somebody into the account at this moment, by tables: each row as a text of its keys."""
    return {
        table: {_named(row) for row in people.rows(f"select * from {table} as one where user_id = %s and {condition}", user)}
        for table, condition in OPENS.items()
    }


def _named(row: Mapping[str, Any]) -> str:
    """The row, without what changes while it stays."""
    keys = ("id", "digest", "service_id", "resource_id", "sealed_secret")
    return repr([row[key] for key in keys if key in row])


def kept(before: Mapping[str, set[str]], after: Mapping[str, set[str]]) -> Mapping[str, int]:
    """How much of what was there before is there still, by tables."""
    return {table: len(rows & after[table]) for table, rows in before.items() if rows & after[table]}
