"""The tables of organizations."""

from typing import Final, LiteralString

from adapters.postgres.tables.declaring import (
    BY_STATEMENT,
    COMMITMENT,
    DEADLINE,
    DETAILS,
    EXPORT,
    FACT,
    GIVEN_ROLE,
    HOOK,
    ID,
    INSTALLATION,
    LEADS_THERE,
    MEMBERS_ROLE,
    NEW_PROOF,
    NO_CREDENTIAL,
    OF_CALLS,
    OPAQUE,
    ORGANIZATION,
    ORGANIZATIONS_OWN,
    OWN_ORGANIZATION,
    OWN_TIE,
    OWNER_ALONE,
    PROVIDER,
    RELATION,
    THE_INSTALLATIONS,
    WORD,
    Age,
    Ends,
    Eraser,
    ExportPart,
    IdMeaning,
    Moved,
    Table,
    Whose,
    of_account,
    personal,
    plain,
    sealed,
)
from core.domain.identity.endings import CredentialKind
from core.domain.tenancy.trusted_issuers import TrustedIssuerSettings
from core.frozen import names_of

_ONE_OF_FILE: Final[LiteralString] = "exists (select from {} as named where named.id = row.{})"
# An invitation of a key is void once the key has ended. Without any key it would be the inviter's own.
_KEY_OR_NONE: Final[LiteralString] = """case
                    when row.made_by_key is not null then coalesce(
                        (select kept.id from arriving_management_keys as kept where kept.id = row.made_by_key),
                        '00000000-0000-0000-0000-000000000000'::uuid
                    )
                end"""
# A proof stays where it was given. Its text is public, so anybody could put it into a file, and have another's domain.
_PROOF: Final = ("token", "verified_at", "checked_at", "next_check_at", "misses")

TABLES: Final = (
    Table(
        "memberships",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(plain(WORD, "came_by"), plain(FACT, "role")),
        moves=Moved(
            sets={"own_since": OWN_TIE},
            checks={
                "name an owner beside the owner": f"row.role <> 'owner' or {OWNER_ALONE}",
                "their role is none that there is": MEMBERS_ROLE,
            },
        ),
        ends=Ends.OWN,
    ),
    Table(
        "member_words",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(
            personal(
                "word",
                "Words of the member's name and of the email address before the @, by which the console finds the member.",
                Eraser.ACCOUNT,
                "As long as the membership. Words of a name only while the person is a member by their own act.",
                None,
            ),
        ),
        moves="Triggers make the words of the memberships that arrive",
        ends=Ends.CASCADES,
        exported="the words are those of the person's name and address, which the export has",
        forgotten="by a trigger, with the name and the address",
    ),
    Table(
        "ownerships",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(plain(FACT, "former_role"),),
        moves="Whoever owns an organization that was moved has to confirm it here",
        ends=Ends.CASCADES,
    ),
    Table(
        "invitations",
        opens=CredentialKind.INVITATION,
        whose=ORGANIZATION,
        holds=(
            personal(
                "email",
                "The email address of the invited person.",
                Eraser.ORGANIZATION,
                "As long as the organization, which can list its invitations.",
            ),
            personal(
                "email_key",
                "The same email address, in the form that Postern compares.",
                Eraser.ORGANIZATION,
                "As long as the organization.",
            ),
            plain(WORD, "status"),
            plain(FACT, "role"),
            plain(OPAQUE, "token_digest", "mailed_digest"),
        ),
        # The mailed token proves an address, since our own server sends it to nobody else. A file proves nothing of the kind.
        # The role of an invitation that is over may be gone.
        moves=Moved(
            leaves=("mailed_digest",),
            sets={"made_by_key": _KEY_OR_NONE},
            kept_by={"made_by_key": "management_keys"},
            checks={"their role is none that can be given": f"row.status <> 'pending' and length(row.role) <= 50 or {GIVEN_ROLE}"},
        ),
        ends=Ends.ROWS,
        exported=ORGANIZATIONS_OWN,
        forgotten=BY_STATEMENT,
    ),
    Table(
        "join_requests",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(of_account("email", "The email address of a person who asked to become a member by its domain."), plain(WORD, "status")),
        moves="The person asked for it with an address that the other installation has proved, and may ask again",
        ends=Ends.ROWS,
        exported=ORGANIZATIONS_OWN,
        forgotten=BY_STATEMENT,
    ),
    Table("former_members", opens=NO_CREDENTIAL, whose=ORGANIZATION, holds=(), moves=Moved(), ends=Ends.PEOPLE),
    Table(
        "team_members",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(),
        # Its references are of two columns each, so the catalogue does not tell what each column means.
        moves=Moved(rows="row.user_id in (select id from leaving_people)", ids={"user_id": IdMeaning.PERSON, "team_id": IdMeaning.CHECKED}),
        ends=Ends.CASCADES,
    ),
    Table(
        "organization_texts",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(plain(FACT, "key", "language", "text", "based_on"), plain(OPAQUE, "compared_with")),
        # No proof of a domain moves, so links are words until their domains are proved here.
        moves=Moved(leaves=("unlinked", "outdated", "compared_with"), sets={"unlinked": "position('](https://' in row.text) > 0"}),
        ends=Ends.ROWS,
        until="nothing: the installation's stay until they are taken back",
    ),
    Table(
        "text_approval_rules",
        opens=NO_CREDENTIAL,
        whose=INSTALLATION,
        holds=(),
        moves=THE_INSTALLATIONS,
        ends=THE_INSTALLATIONS,
        until="nothing: it has one row at most",
    ),
    Table(
        "installation_texts",
        opens=NO_CREDENTIAL,
        whose=INSTALLATION,
        holds=(plain(OPAQUE, "digest"),),
        moves=THE_INSTALLATIONS,
        ends=THE_INSTALLATIONS,
        until="nothing: it has one row at most",
    ),
    Table(
        "teams",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(plain(WORD, "source"), plain(FACT, "slug", "name", "external_id", "role")),
        moves=Moved(checks={"their role is none that can be given": f"row.role is null and row.role_id is null or {GIVEN_ROLE}"}),
        ends=Ends.ROWS,
    ),
    Table(
        "roles", opens=NO_CREDENTIAL, whose=ORGANIZATION, holds=(plain(FACT, "slug", "name", "description"),), moves=Moved(), ends=Ends.ROWS
    ),
    Table(
        "relations",
        opens=NO_CREDENTIAL,
        whose=OWN_ORGANIZATION,
        holds=(plain(WORD, "object_type", "relation", "built_in_role"),),
        moves=Moved(
            ids={"object_id": IdMeaning.CHECKED},
            checks={
                "names an object of another organization": f"""
                case row.object_type
                    when 'organization' then row.object_id = %(organization)s::uuid
                    when 'role' then {_ONE_OF_FILE.format("arriving_roles", "object_id")}
                    else {_ONE_OF_FILE.format("arriving_service_roles", "object_id")}
                end
            """,
                "name an owner beside the owner": f"row.relation <> 'owner' or {OWNER_ALONE}",
                "give what neither a membership nor a role gives": RELATION,
            },
        ),
        ends=Ends.OWN,
    ),
    Table(
        "former_slugs",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(plain(WORD, "noun"), plain(FACT, "slug")),
        moves=Moved(),
        ends=Ends.OWN,
    ),
    Table(
        "profile_values",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(
            personal(
                "values",
                "The values of profile fields that an organization, or the installation, stores for the person.",
                Eraser.ACCOUNT,
                "As long as the account; an organization's values until the person's last link to it is removed, or the field is deleted.",
                "user_id",
            ),
        ),
        moves=Moved(ids={"asked": IdMeaning.KEPT}),
        ends=Ends.PEOPLE,
        exported=ExportPart("fields", shows=("values",), named={"organization": "org_id"}),
        forgotten=BY_STATEMENT,
    ),
    Table(
        "all_profile_fields",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(plain(FACT, "key", "label", "kind", "rule", "written_by", "scope", "asked_at"),),
        moves=Moved(rows="row.deleted_at is null", leaves=("deleted_at",)),
        ends=Ends.ROWS,
    ),
    Table(
        "management_keys",
        opens=(CredentialKind.MANAGEMENT_KEY,),
        whose=ORGANIZATION,
        holds=(plain(WORD, "capabilities"), plain(FACT, "name", "prefix"), plain(OPAQUE, "digest", "former_digest")),
        moves=Moved(
            # An owner here has adopted nothing yet, whatever the file says of them. A former secret has its day at the installation
            # where it was given.
            leaves=("adopted_by", "adopted_at", "former_digest", "former_until", "former_holder"),
            ids={"created_by": IdMeaning.PERSON, "adopted_by": IdMeaning.PERSON},
        ),
        ends=Ends.ROWS,
        until="30 days after their end",
        ages=(
            # Expired management keys stay listed for thirty days, so that people see why a program stopped.
            Age("ExpiredManagementKeys", "expires_at < now() - interval '30 days'", oldest_first="expires_at"),
        ),
    ),
    Table(
        "trusted_issuers",
        opens=(CredentialKind.TRUSTED_ISSUER, CredentialKind.WORKLOAD_TOKEN),
        whose=ORGANIZATION,
        holds=(plain(FACT, *names_of(TrustedIssuerSettings)),),
        # A rule goes with its service. A management key has to be let in again: whoever looks after the other installation decides.
        moves=Moved(rows="row.key_id is null"),
        # A service or a key has few of them.
        ends=Ends.CASCADES,
    ),
    Table(
        "setup_drafts",
        opens=CredentialKind.SETUP_LINK,
        whose=ORGANIZATION,
        holds=(plain(FACT, "purpose", "subject", "settings", "state", "came"), plain(OPAQUE, "digest"), sealed("sealed_credentials")),
        moves=LEADS_THERE,
        ends=Ends.ROWS,
    ),
    Table(
        "setup_links",
        opens=CredentialKind.SETUP_LINK,
        whose=ORGANIZATION,
        holds=(
            personal(
                "mailed_to",
                "The email address that a setup link was sent to.",
                Eraser.ORGANIZATION,
                "Until 30 days after the link has expired.",
            ),
            personal(
                "used_by",
                "The name that the user of the link entered.",
                Eraser.ORGANIZATION,
                "Until 30 days after the link has expired.",
            ),
            personal(
                "used_from",
                "The IP address of the browser that owns the link.",
                Eraser.ORGANIZATION,
                "Until 30 days after the link has expired.",
            ),
            personal("used_with", "The `User-Agent` of that browser.", Eraser.ORGANIZATION, "Until 30 days after the link has expired."),
            plain(FACT, "name", "prefix", "purposes"),
            plain(OPAQUE, "digest", "browser_digest"),
        ),
        moves=LEADS_THERE,
        ends=Ends.ROWS,
        until="30 days after their end",
        ages=(
            # Ended set-up links stay listed for thirty days, so that people see what was set up with them, by whom. Drafts go with
            # their link, and so do the connections that never became active.
            Age("PastSetupLinks"),
        ),
        exported=ORGANIZATIONS_OWN,
        forgotten="they are not related to a known account; they are deleted 30 days after they expire",
    ),
    Table(
        "mail_servers",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(plain(FACT, "host", "username", "from_email", "from_name"), sealed("sealed_password")),
        moves=Moved(),
        ends=Ends.ROWS,
    ),
    Table(
        "offboarding_deadlines",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(),
        moves=Moved(leaves=("late", "mailed_at"), sets={"created_at": "now()", "seen_to": "now()"}),
        ends=Ends.ROWS,
    ),
    Table(
        "offboarding_watches",
        opens=NO_CREDENTIAL,
        whose=DEADLINE,
        holds=(plain(WORD, "act"), plain(OPAQUE, "reported")),
        moves=OF_CALLS,
        ends=Ends.CASCADES,
        until="when all receivers have accepted, at most 7 days after the deadline",
    ),
    Table(
        "logos",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(plain(FACT, "digest", "media_type", "content"),),
        moves=Moved(),
        ends=Ends.ROWS,
    ),
    Table(
        "look_pictures",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(plain(WORD, "kind"), plain(FACT, "digest", "media_type", "content")),
        moves=Moved(),
        ends=Ends.ROWS,
    ),
    Table(
        "domains",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(plain(FACT, "domain"), plain(OPAQUE, "token")),
        moves=Moved(leaves=_PROOF, sets=NEW_PROOF),
        ends=Ends.ROWS,
    ),
    Table(
        "domain_routes",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(plain(WORD, "shared_provider", "login_policy", "join_policy"), plain(FACT, "domain"), plain(OPAQUE, "token")),
        moves=Moved(
            leaves=_PROOF,
            # Whom the organization has removed must not come back by the domain, and the file has only people who have a tie.
            sets={**NEW_PROOF, "join_policy": "case row.join_policy when 'on' then 'ask' else row.join_policy end"},
        ),
        ends=Ends.ROWS,
    ),
    Table(
        "oauth_credentials",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(plain(FACT, "provider", "client_id"), sealed("sealed_client_secret")),
        moves=Moved(),
        ends=Ends.ROWS,
    ),
    Table(
        "connection_certificates",
        opens=NO_CREDENTIAL,
        whose=PROVIDER,
        holds=(plain(FACT, "fingerprint"),),
        moves="The next sign-ins note them anew",
        ends=Ends.CASCADES,
    ),
    Table(
        "connection_warnings",
        opens=NO_CREDENTIAL,
        whose=PROVIDER,
        holds=(plain(FACT, "ending"),),
        moves="The installation that they move to warns by itself",
        ends=Ends.CASCADES,
    ),
    Table(
        "upstream_providers",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(
            plain(ID, "succeeds"),
            plain(FACT, "name", "issuer", "client_id", "scopes", "profile_mapping", "saml", "ldap", "kind", "state", "refresh_fault"),
            plain(FACT, "second_factor_values"),
            plain(FACT, "assertion_issuer", "assertion_jwks_uri", "assertion_jwks", "assertion_subject"),
            plain(OPAQUE, "certificate", "next_certificate", "tested_digest", "former_certificate"),
            sealed("sealed_client_secret", "sealed_private_key", "next_sealed_private_key", "former_sealed_private_key"),
            sealed("sealed_bind_password"),
        ),
        # An owner decides anew about assertions: those of before were for another installation.
        moves=Moved(
            leaves=("issues_assertions", "assertion_issuer", "assertion_jwks_uri", "assertion_jwks", "assertion_subject"),
            checks={
                "succeed a provider of another organization": """
                not exists (
                    select from unnest(row.succeeds) as former where not starts_with(former, %(organization)s::uuid::text || '/')
                )
            """
            },
        ),
        ends=Ends.ROWS,
    ),
    Table(
        "webhooks",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(plain(WORD, "events"), plain(FACT, "name", "url"), sealed("sealed_secret", "previous_sealed_secret")),
        moves=Moved(),
        ends=Ends.ROWS,
    ),
    Table(
        "hooks",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(
            plain(WORD, "point", "silence"),
            plain(FACT, "address"),
            sealed("sealed_secret", "previous_sealed_secret"),
        ),
        # It arrives in shadow, and nobody asks it before an owner has given it a secret: its receiver knows the other installation.
        moves=Moved(
            leaves=(
                *("sealed_secret", "previous_sealed_secret", "previous_until", "secret_made_at", "counts_as"),
                *("asked", "silent", "refused", "factors", "milliseconds", "slowest"),
            ),
            sets={"since": "now()"},
        ),
        ends=Ends.ROWS,
    ),
    Table(
        "hook_exchanges",
        opens=NO_CREDENTIAL,
        whose=HOOK,
        holds=(
            plain(WORD, "outcome", "why"),
            plain("A call in which the length stands in place of each text; a week", "sent", "answered"),
        ),
        moves=OF_CALLS,
        ends=Ends.CASCADES,
        until="7 days, and the newest fifty of each hook",
        ages=(
            # Calls are kept for a week, so that owners can find out why somebody was refused.
            Age("PastHookExchanges", "at < now() - interval '7 days'", oldest_first="at"),
        ),
    ),
    Table(
        "siem_configurations",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(
            plain(WORD, "provider_type"),
            plain(FACT, "name", "endpoint_url", "last_error"),
            plain(COMMITMENT, "audit_digest", "sign_in_digest"),
            sealed("sealed_credentials"),
        ),
        # Its receiver trusts the key of the other installation, so an owner looks at it before it sends anything, from the first entry.
        moves=Moved(
            leaves=(
                *("sign_ins", "audit_sequence", "audit_digest", "sign_in_sequence", "sign_in_digest"),
                *("last_delivered_at", "last_error", "failures", "next_at"),
            ),
            sets={"is_active": "false"},
        ),
        ends=Ends.ROWS,
    ),
    Table(
        "sign_in_pending",
        opens=NO_CREDENTIAL,
        whose=EXPORT,
        holds=(),
        moves="An export that was moved begins anew",
        ends="The next turn of the forwarder takes them up",
        until="when a worker has taken them, within seconds",
    ),
    Table(
        "sign_in_links",
        opens=NO_CREDENTIAL,
        whose=EXPORT,
        holds=(plain(DETAILS, "content"), plain(COMMITMENT, "commitment")),
        moves="An export that was moved begins anew",
        ends="The janitor removes them once their export is gone",
        until="when the SIEM has got them",
        ages=(
            # Numbered sign-ins that a SIEM has received, and numbered sign-ins of deleted exports.
            Age("ReceivedSignIns"),
        ),
    ),
    Table(
        "all_organizations",
        opens=NO_CREDENTIAL,
        whose=Whose("organization", "one.id"),
        holds=(
            plain(WORD, "status", "admin_factor", "metadata_clients", "registered_clients", "agents", "breached_at_sign_in"),
            plain(WORD, "registration_policy", "all_factor"),
            plain(
                FACT,
                "slug",
                "name",
                "logo_url",
                "primary_color",
                "help_url",
                "privacy_url",
                "terms_url",
                "logo_digest",
                "look",
                "languages",
                "texts_digest",
                "approved_texts",
                "rejection_reason",
                "suspension_reason",
                "invitation_domains",
                "registration_domains",
                "metadata_hosts",
                "metadata",
                "risk_policies",
                "risk_exceptions",
            ),
        ),
        moves=Moved(
            # The platform here decides who is let in, and how large it may be.
            leaves=(
                # It is made of the texts that arrive.
                "texts_digest",
                *("approved_at", "approved_by", "rejected_at", "rejection_reason", "suspended_at", "suspension_reason"),
                *("max_services", "max_users", "member_count", "tier_id", "deleted_at", "approved_texts"),
                # Their networks and people are those of another installation; an owner writes them anew.
                *("risk_policies", "risk_exceptions", "risk_counts_since"),
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
            kept_by={"all_factor_role_id": "service_roles"},
        ),
        ends=Ends.OWN,
    ),
    Table(
        "tiers",
        opens=NO_CREDENTIAL,
        whose=INSTALLATION,
        holds=(plain(WORD, "display_name", "name"),),
        moves=THE_INSTALLATIONS,
        ends=THE_INSTALLATIONS,
        until="nothing",
    ),
)
