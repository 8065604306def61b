"""What moves with an organization, and what does not. A test reads PostgreSQL's catalogue and fails for a table that may hold rows of an
organization, of a service or of a person and that is on neither list, and for a column of ids whose meaning nobody has said.

Most of it follows from the catalogue, so that a new column travels by itself: the rows of a table are those with the organization's
`org_id`, or with a `service_id` of its services; a foreign key leads into the file, and to nobody else's row; a sealed value is opened
where the organization is, and sealed again where it goes. What is written here is what the catalogue cannot know.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, LiteralString

from core.frozen import Frozen, field


class IdMeaning(StrEnum):
    """The meaning of a column of ids that has no foreign key."""

    ITS_OWN = "its own"
    """The row's own, as `id` is."""
    PERSON = "a person"
    """Becomes the person's id here; the nil id for somebody whom the file does not have."""
    ORGANIZATION = "the organization"
    KEPT = "kept"
    """Says nothing here, and decides nothing."""
    CHECKED = "checked"
    """A `check` of the table says what it may be."""


class Moved(Frozen):
    """`rows` is a further condition on the rows that leave, and `arrives` on those that arrive. `leaves` are columns that arrive with
    their defaults, because they say how things stood there. `sets` are values in place of those in the file: SQL, in which `row` is the row
    of the file. `checks` are conditions that each row must meet, by what it does otherwise. `kept_by` are columns whose rows may be gone.
    """

    rows: LiteralString = "true"
    arrives: LiteralString = "true"
    leaves: tuple[str, ...] = ()
    sets: Mapping[str, LiteralString] = field(default_factory=dict)
    checks: Mapping[str, LiteralString] = field(default_factory=dict)
    kept_by: Mapping[str, str] = field(default_factory=dict)
    ids: Mapping[str, IdMeaning] = field(default_factory=dict)
    of_people: bool = False
    """A person's own, not the organization's: it leaves only for people with an own tie, and arrives only with people who are trusted and
    have had no account here."""


# Columns of any table that say who works on the row at the moment, or how the last calls went.
ALWAYS_LEFT: Final = frozenset({"lease", "leased_until", "rests_until", "failing_since", "fallen_back_at"})

_OWN_TIE: Final[LiteralString] = "case when person.is_trusted then row.own_since end"
_ONE_OF_FILE: Final[LiteralString] = "exists (select from {} as named where named.id = row.{})"
# An invitation of a key is void once the key has ended. Without any key it would be the inviter's own.
_KEY_OR_NONE: Final[LiteralString] = """case
                    when row.made_by_key is not null then coalesce(
                        (select kept.id from arriving_management_keys as kept where kept.id = row.made_by_key),
                        '00000000-0000-0000-0000-000000000000'::uuid
                    )
                end"""
_SAME_PERSON: Final[LiteralString] = "exists (select from arriving_people as people where people.{} and people.new = people.old)"
# The log shows the address of whoever has the id now, so nobody else's id may stand there.
_NO_STRANGER: Final[LiteralString] = f"""
    case when not exists (select from users where users.id = row.{{}}) or {_SAME_PERSON.format("old = row.{}")} then row.{{}}
         else '00000000-0000-0000-0000-000000000000'::uuid
    end
"""
# A proof stays where it was given. Its text is public, so anybody could put it into a file, and have another's domain.
_PROOF: Final = ("token", "verified_at", "checked_at", "next_check_at", "misses")
_NEW_PROOF: Final[Mapping[str, LiteralString]] = {"token": "replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '')"}

MOVED: Final[Mapping[str, Moved]] = {
    "all_organizations": Moved(
        # The platform here decides who is let in, and how large it may be.
        leaves=(
            *("approved_at", "approved_by", "rejected_at", "rejection_reason", "suspended_at", "suspension_reason"),
            *("max_services", "max_users", "member_count", "tier_id", "deleted_at"),
        ),
        sets={
            "slug": "%(slug)s",
            "tier_id": "%(tier)s::uuid",
            "owner_user_id": "(select people.new from arriving_people as people where people.old = row.owner_user_id)",
            "status": "case when row.status = 'pending' then 'pending' else 'suspended' end",
            "approved_at": "case when row.status = 'pending' then null else now() end",
            "suspended_at": "case when row.status = 'pending' then null else now() end",
            "suspension_reason": "case when row.status = 'pending' then null else %(reason)s end",
        },
        checks={"has another id than the file": "row.id = %(organization)s::uuid"},
        ids={"approved_by": IdMeaning.KEPT},
    ),
    "roles": Moved(),
    "memberships": Moved(
        sets={"own_since": _OWN_TIE},
        checks={
            "name an owner beside the owner": """
                row.role <> 'owner'
                or row.user_id = (select owned.owner_user_id from arriving_all_organizations as owned)
            """
        },
    ),
    "all_services": Moved(rows="row.deleted_at is null", leaves=("user_count", "deleted_at"), ids={"client_id": IdMeaning.ITS_OWN}),
    "all_profile_fields": Moved(rows="row.deleted_at is null", leaves=("deleted_at",)),
    "profile_values": Moved(ids={"asked": IdMeaning.KEPT}),
    "teams": Moved(),
    # Its references are of two columns each, so the catalogue does not tell what each column means.
    "team_members": Moved(
        rows="row.user_id in (select id from leaving_people)", ids={"user_id": IdMeaning.PERSON, "team_id": IdMeaning.CHECKED}
    ),
    "relations": Moved(
        ids={"object_id": IdMeaning.CHECKED},
        checks={
            "names an object of another organization": f"""
                case row.object_type
                    when 'organization' then row.object_id = %(organization)s::uuid
                    when 'role' then {_ONE_OF_FILE.format("arriving_roles", "object_id")}
                    else {_ONE_OF_FILE.format("arriving_service_roles", "object_id")}
                end
            """
        },
    ),
    "former_slugs": Moved(),
    "permissions": Moved(),
    "service_roles": Moved(),
    "service_claims": Moved(),
    "client_secrets": Moved(ids={"created_by": IdMeaning.PERSON}, kept_by={"made_by_key": "management_keys"}),
    "api_keys": Moved(ids={"created_by": IdMeaning.PERSON}, kept_by={"made_by_key": "management_keys"}),
    "management_keys": Moved(
        # An owner here has adopted nothing yet, whatever the file says of them. A former secret has its day at the installation where it
        # was given.
        leaves=("adopted_by", "adopted_at", "former_digest", "former_until", "former_holder"),
        ids={"created_by": IdMeaning.PERSON, "adopted_by": IdMeaning.PERSON},
    ),
    # The mailed token proves an address, since our own server sends it to nobody else. A file proves nothing of the kind.
    "invitations": Moved(leaves=("mailed_digest",), sets={"made_by_key": _KEY_OR_NONE}, kept_by={"made_by_key": "management_keys"}),
    "service_users": Moved(sets={"own_since": _OWN_TIE}),
    "plans": Moved(leaves=("active_count", "past_due_count", "cancelled_count", "expired_count", "billing_price_id")),
    # The payment provider of the other installation says nothing here, so a subscription ends when its period does.
    "subscriptions": Moved(leaves=("managed", "overridden_at")),
    "scim_tokens": Moved(ids={"created_by": IdMeaning.PERSON}),
    "scim_groups": Moved(),
    "provisioned_users": Moved(),
    "former_members": Moved(),
    "login_counts": Moved(ids={"service_id": IdMeaning.KEPT}),
    "former_services": Moved(),
    "logout_receivers": Moved(),
    "saml_configurations": Moved(),
    "saml_certificates": Moved(),
    "mail_servers": Moved(),
    "logos": Moved(),
    "domains": Moved(leaves=_PROOF, sets=_NEW_PROOF),
    "domain_routes": Moved(
        leaves=_PROOF,
        # Whom the organization has removed must not come back by the domain, and the file has only people who have a tie.
        sets={**_NEW_PROOF, "join_policy": "case row.join_policy when 'on' then 'ask' else row.join_policy end"},
    ),
    "oauth_credentials": Moved(),
    "upstream_providers": Moved(),
    "webhooks": Moved(),
    # Its receiver trusts the key of the other installation, so an owner looks at it before it sends anything, from the first entry.
    "siem_configurations": Moved(
        leaves=(
            *("sign_ins", "audit_sequence", "audit_digest", "sign_in_sequence", "sign_in_digest"),
            *("last_delivered_at", "last_error", "failures", "next_at"),
        ),
        sets={"is_active": "false"},
    ),
    "audit_entries": Moved(
        sets={column: _NO_STRANGER.format(column, column, column) for column in ("actor_id", "impersonator_id")},
        ids={"actor_id": IdMeaning.KEPT, "impersonator_id": IdMeaning.KEPT, "request_id": IdMeaning.KEPT},
    ),
    # What identifies people comes along only where those who are forgotten here later can be found by it.
    "audit_personal": Moved(
        rows="row.entry_id in (select id from audit_entries where organization_id = %(organization)s::uuid)",
        arrives=f"""
            (row.actor_id is null or {_SAME_PERSON.format("old = row.actor_id")})
            and not exists (
                select
                  from arriving_audit_entries as entry
                 where entry.id = row.entry_id and entry.target_type = 'user' and not {_SAME_PERSON.format("old::text = entry.target_id")}
            )
        """,
        ids={"actor_id": IdMeaning.PERSON},
    ),
    "consents": Moved(of_people=True),
    "identities": Moved(
        leaves=("made_in",),
        rows="row.upstream_provider_id in (select id from upstream_providers where org_id = %(organization)s::uuid)",
        of_people=True,
        ids={"made_in": IdMeaning.KEPT},
        kept_by={"came_through": "upstream_providers"},
        checks={"is of another provider than it says": "row.provider = row.upstream_provider_id::text"},
    ),
    "pictures": Moved(rows="row.id = (select picture_id from users where users.id = row.user_id)", of_people=True),
    "mfa_secrets": Moved(
        rows="row.enabled_at is not null",
        leaves=("session_id", "made_in"),
        of_people=True,
        ids={"session_id": IdMeaning.KEPT, "made_in": IdMeaning.KEPT},
    ),
    "passkeys": Moved(leaves=("made_in",), of_people=True, ids={"aaguid": IdMeaning.KEPT, "made_in": IdMeaning.KEPT}),
}

# Each with the reason why it stays where it is.
LEFT: Final[Mapping[str, tuple[str, ...]]] = {
    "The account itself, of which `people` takes what may leave": ("users",),
    "It ends with the sign-in or the request that it belongs to": (
        *("sessions", "preauthentications", "authorization_codes", "device_codes", "pushed_requests", "client_assertions", "flows"),
        *("saml_requests", "saml_sessions", "oauth_states", "mailed_tokens", "impersonations", "devices", "browser_sessions"),
    ),
    "It is about calls that the other installation has received or made": (
        *("authorization_refusals", "scim_exchanges", "saml_exchanges", "logout_notices", "events"),
    ),
    "Sign-ins belong to the people; an organization's counts of them travel": ("login_events", "uncounted_logins", "mfa_events"),
    "Triggers make it from the rows that arrive": ("service_user_marks",),
    "The chain is made anew, in the same order": ("audit_links", "audit_pending"),
    "It is what the other installation's payment provider knows": ("billing_customers", "billing_checkouts", "billing_subscriptions"),
    "The person asked for it with an address that the other installation has proved, and may ask again": ("join_requests",),
    "Whoever owns an organization that was moved has to confirm it here": ("ownerships",),
    "A provider gave it to the other installation's client": ("identity_grants",),
    "It is a digest under a key of the other installation": ("backup_codes", "imported_people"),
    "It leads to the other installation, or to a document there": ("setup_links", "setup_drafts", "managed_objects"),
    "It is a matter between the person and the other installation": ("privacy_requests", "former_addresses", "held_accounts"),
}


def reasons() -> Mapping[str, str]:
    """The tables that stay, each with its reason."""
    return {table: reason for reason, tables in LEFT.items() for table in tables}
