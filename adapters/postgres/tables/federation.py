"""The tables of signing in for other applications."""

from typing import Final

from adapters.postgres.tables.declaring import (
    BY_STATEMENT,
    COMMITMENT,
    CONNECTION,
    CONNECTION_OUTWARDS,
    FACT,
    HIDDEN,
    ID,
    INSTALLATION,
    NO_CREDENTIAL,
    OF_A_SIGN_IN,
    OF_CALLS,
    OPAQUE,
    ORGANIZATION,
    ORGANIZATIONS_OWN,
    RUN_OUTWARDS,
    SERVICE,
    SHORT_LIVED,
    THE_INSTALLATIONS,
    WITH_SESSIONS,
    WORD,
    Age,
    Ends,
    Eraser,
    ExportPart,
    IdMeaning,
    Moved,
    Personal,
    Setting,
    Table,
    of_account,
    personal,
    plain,
    sealed,
)
from core.domain.identity.endings import CredentialKind

_WITH_THE_RUN: Final = (
    "30 days, with the sync run, and as long as a stopped run affects the person; no longer than the connection to the directory."
)
# No token moves, so an owner makes it active anew, and the first run is a plan.
_BY_TRIGGER: Final = "by a trigger: the row no longer refers to the person, and remains until the person is deleted in the target system"
_LOOKED_FOR_ANEW: Final = "A connection that was moved waits for an owner there, and then looks for everybody anew"
# Nobody has let it go on at the other installation.
_KEEPS_ANEW: Final = "The connection keeps in step anew there, and its first run is a plan"

TABLES: Final = (
    Table(
        "authorization_codes",
        opens=CredentialKind.UNFINISHED,
        whose=SERVICE,
        holds=(
            personal(
                "nonce",
                "The `nonce` of the application, which can contain information about the person.",
                Eraser.ACCOUNT,
                "Until one day after the code has expired.",
                "user_id",
            ),
            plain(WORD, "authenticated_by", "scopes", "provider"),
            plain(FACT, "redirect_uri", "audiences"),
            plain(OPAQUE, "digest", "code_challenge", "redeemed_with", "key_thumbprint"),
        ),
        moves=OF_A_SIGN_IN,
        ends=Ends.ROWS,
        until="a day after their end",
        ages=(
            # Expired codes are kept for a day: when a code comes back in that time, the session that it was exchanged for ends.
            Age("ExpiredAuthorizationCodes", "expires_at < now() - interval '1 day'"),
        ),
        exported=SHORT_LIVED,
        forgotten=BY_STATEMENT,
    ),
    Table(
        "authorization_refusals",
        opens=NO_CREDENTIAL,
        whose=SERVICE,
        holds=(plain(WORD, "place", "reason", "received", "expected"),),
        moves=OF_CALLS,
        ends=Ends.ROWS,
        until="7 days",
        ages=(
            # Refused requests are kept for a week, so that people can find out why a sign-in failed.
            Age("PastAuthorizationRefusals", "occurred_at < now() - interval '7 days'", oldest_first="occurred_at"),
        ),
    ),
    Table(
        "awaited_sign_ins",
        opens=NO_CREDENTIAL,
        whose=SERVICE,
        holds=(
            personal(
                "session_id",
                "The browser session in which a person waits for the first sign-in to an application.",
                Eraser.JANITOR,
                "Ten minutes, and no longer than the session or the account.",
                "user_id",
            ),
            personal(
                "refusals",
                "The failed requests that this browser session has sent in the meantime.",
                Eraser.JANITOR,
                "Ten minutes, and no longer than the session or the account.",
                "user_id",
            ),
        ),
        moves=OF_A_SIGN_IN,
        ends=Ends.ROWS,
        until="ten minutes after the page has begun to wait",
        ages=(Age("PastAwaitedSignIns", "ends_at < now()", oldest_first="ends_at"),),
        exported=SHORT_LIVED,
        forgotten=WITH_SESSIONS,
    ),
    Table(
        "device_codes",
        opens=CredentialKind.UNFINISHED,
        whose=SERVICE,
        holds=(
            personal(
                "address",
                "The IP address from which a device requested a code.",
                Eraser.JANITOR,
                "Until one hour after the code has expired.",
            ),
            personal("user_agent", "The device's `User-Agent`.", Eraser.JANITOR, "Until one hour after the code has expired."),
            plain(WORD, "state", "scopes", "authenticated_by"),
            plain(FACT, "audiences"),
            plain(OPAQUE, "digest", "user_code_hmac"),
        ),
        moves=OF_A_SIGN_IN,
        ends=Ends.ROWS,
        until="an hour after their end",
        ages=(
            # Expired device codes are kept for an hour, so that a device that asks too late is told so.
            Age("ExpiredDeviceCodes", "expires_at < now() - interval '1 hour'"),
        ),
        exported=SHORT_LIVED,
        forgotten=BY_STATEMENT,
    ),
    Table(
        "afar_requests",
        opens=CredentialKind.UNFINISHED,
        whose=SERVICE,
        holds=(
            personal(
                "binding_message",
                "The message of an application in a backchannel request (CIBA) to the person.",
                Eraser.ACCOUNT,
                "Until one hour after the request has expired.",
                "user_id",
            ),
            plain(WORD, "state", "scopes", "foreign_scopes"),
            plain(FACT, "identifier", "audiences"),
            plain(OPAQUE, "digest", "key_thumbprint"),
        ),
        moves=OF_A_SIGN_IN,
        ends=Ends.ROWS,
        until="an hour after their end",
        ages=(
            # Expired requests are kept for an hour, so that an application that asks too late is told so.
            Age("ExpiredAfarRequests", "expires_at < now() - interval '1 hour'"),
        ),
        exported=SHORT_LIVED,
        forgotten=BY_STATEMENT,
    ),
    Table(
        "afar_blocks",
        opens=NO_CREDENTIAL,
        whose=SERVICE,
        holds=(of_account("blocked_at", "The time when the person blocked backchannel requests (CIBA) of an application."),),
        moves="At the other installation nobody has asked the person yet",
        ends=Ends.ROWS,
        exported=ExportPart("blocked_clients", shows=("blocked_at",)),
        forgotten=BY_STATEMENT,
    ),
    Table(
        "client_assertions",
        opens=NO_CREDENTIAL,
        whose=SERVICE,
        holds=(plain(OPAQUE, "digest"),),
        moves=OF_A_SIGN_IN,
        ends=Ends.ROWS,
        until="5 minutes after their end",
        ages=(
            # Postern would refuse these assertions as expired, so it need not remember their ids.
            Age("ExpiredClientAssertions", "expires_at < now() - interval '5 minutes'"),
        ),
    ),
    Table(
        "pushed_requests",
        opens=NO_CREDENTIAL,
        whose=SERVICE,
        holds=(
            personal("request", "The email address with which an application expects the person to sign in.", Eraser.JANITOR, "One hour."),
            plain(OPAQUE, "digest"),
        ),
        moves=OF_A_SIGN_IN,
        ends=Ends.ROWS,
        until="an hour after their end",
        ages=(
            # A request is good for one code. Each flow that began with it in time, and lives for an hour, has to see that.
            Age("ExpiredPushedRequests", "expires_at < now() - interval '1 hour'"),
        ),
        exported=SHORT_LIVED,
        forgotten=BY_STATEMENT,
    ),
    Table(
        "consents",
        opens=CredentialKind.CONSENT,
        whose=SERVICE,
        holds=(plain(WORD, "scopes", "saml_scopes"), plain(FACT, "saml_entity_id")),
        moves=Moved(of_people=True),
        ends=Ends.ROWS,
    ),
    Table(
        "resource_consents",
        opens=(CredentialKind.API_CONSENT, CredentialKind.AGENT_GRANT),
        whose=SERVICE,
        holds=(plain(WORD, "scopes", "withheld"), plain(FACT, "identifier"), plain(OPAQUE, "document_digest")),
        # The other installation has to prove the API's host first, and then the person is asked again.
        moves="The API is no API of the other installation yet",
        ends=Ends.CASCADES,
    ),
    Table(
        "document_refusals",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(plain(WORD, "reason", "said"), plain(FACT, "address")),
        moves=OF_CALLS,
        ends=Ends.ROWS,
        until="7 days",
        ages=(
            # As the refusals of applications.
            Age("PastDocumentRefusals", "occurred_at < now() - interval '7 days'", oldest_first="occurred_at"),
        ),
    ),
    Table(
        "metadata_documents",
        opens=NO_CREDENTIAL,
        whose=INSTALLATION,
        holds=(plain(FACT, "url", "document"), plain(OPAQUE, "url_digest")),
        moves=THE_INSTALLATIONS,
        ends=THE_INSTALLATIONS,
        until="30 days after they were last fresh",
        ages=(
            # Whoever still uses such a client has its document fetched again at the next sign-in.
            Age("StaleMetadataDocuments", "fresh_until < now() - interval '30 days'"),
        ),
    ),
    Table(
        "identity_grants",
        opens=CredentialKind.PROVIDER_TOKEN,
        whose=SERVICE,
        holds=(
            sealed(
                "sealed_access_token",
                personal=Personal(
                    "The access token with which a service acts on behalf of the person at a provider, encrypted.",
                    None,
                    Eraser.ACCOUNT,
                    "As long as the account is linked at the provider.",
                ),
            ),
            sealed(
                "sealed_refresh_token",
                personal=Personal(
                    "The refresh token for that access token, encrypted.",
                    None,
                    Eraser.ACCOUNT,
                    "As long as the account is linked at the provider.",
                ),
            ),
            plain(WORD, "scopes"),
            plain(FACT, "client_id"),
        ),
        moves="A provider gave it to the other installation's client",
        ends=Ends.ROWS,
        exported=HIDDEN,
        forgotten="they are deleted with their identities",
    ),
    Table(
        "logout_notices",
        opens=NO_CREDENTIAL,
        whose=SERVICE,
        holds=(plain(WORD, "error"),),
        moves=OF_CALLS,
        ends=Ends.ROWS,
        until="POSTERN_DELIVERY_RETENTION",
        ages=(
            # Outcomes of logout notices, which tell services that sessions have ended.
            Age("PastNotices", "created_at < now() - %(retention)s::interval", oldest_first="created_at", kept=Setting.DELIVERIES),
            # Notices that no service has received within a day. Postern gives these up, and deletes none.
            Age("ForsakenNotices"),
            # Ended sessions that no stream has heard of within 7 days, or whose stream is gone. Postern gives these up, and deletes none.
            Age("ForsakenSessionSignals"),
        ),
    ),
    Table(
        "signal_settings",
        opens=NO_CREDENTIAL,
        whose=SERVICE,
        holds=(plain(WORD, "events"), plain(FACT, "hosts")),
        moves="An owner turns signals on there: the application's streams, and who may hear of people, are the other installation's",
        ends=Ends.ONE,
    ),
    Table(
        "signal_streams",
        opens=NO_CREDENTIAL,
        whose=SERVICE,
        holds=(
            plain(WORD, "method", "events", "status"),
            plain(FACT, "endpoint", "description", "status_reason"),
            sealed("sealed_header"),
        ),
        moves="The application makes its streams there, as it made them here",
        ends=Ends.ROWS,
        until="the end of the right of whoever let the application make it",
        ages=(
            # Streams whose person may no longer grant them. Each is told nothing from the end of the right on.
            Age("EndedSignalGrants"),
        ),
    ),
    Table("logout_receivers", opens=NO_CREDENTIAL, whose=SERVICE, holds=(), moves=Moved(), ends=Ends.ONE),
    Table(
        "logout_expiry",
        opens=NO_CREDENTIAL,
        whose=INSTALLATION,
        holds=(),
        moves=THE_INSTALLATIONS,
        ends=THE_INSTALLATIONS,
        until="nothing: a row for all",
        ages=(
            # Writes the notices that tell services of their expired sessions. Deletes nothing.
            Age("ExpiredLogins"),
        ),
    ),
    Table(
        "saml_configurations",
        opens=NO_CREDENTIAL,
        whose=SERVICE,
        holds=(
            plain(WORD, "slo_binding", "name_id_format"),
            plain(FACT, "entity_id", "acs_url", "slo_url", "slo_response_url", "attribute_mapping", "acs_endpoints"),
            plain(OPAQUE, "signing_certificates", "encryption_certificate"),
        ),
        moves=Moved(),
        ends=Ends.ONE,
    ),
    Table(
        "saml_certificates",
        opens=NO_CREDENTIAL,
        whose=SERVICE,
        holds=(plain(WORD, "state"), plain(OPAQUE, "certificate"), sealed("sealed_private_key")),
        moves=Moved(),
        ends=Ends.ROWS,
    ),
    Table(
        "saml_requests",
        opens=NO_CREDENTIAL,
        whose=SERVICE,
        holds=(plain(OPAQUE, "digest"),),
        moves=OF_A_SIGN_IN,
        ends=Ends.ROWS,
        until="5 minutes after their end",
        ages=(
            # Postern would refuse these requests as too old, so it need not remember their ids.
            Age("ExpiredSamlRequests", "expires_at < now() - interval '5 minutes'"),
        ),
    ),
    Table(
        "saml_sessions",
        opens=CredentialKind.APPLICATION_SESSION,
        whose=SERVICE,
        holds=(
            personal(
                "name_id",
                "A service provider's name ID of the person.",
                Eraser.ACCOUNT,
                "As long as the session with which the person signed in to the service provider.",
            ),
            plain(WORD, "name_id_format"),
            plain(FACT, "audience"),
        ),
        moves=OF_A_SIGN_IN,
        ends=Ends.ROWS,
        exported=WITH_SESSIONS,
        forgotten=WITH_SESSIONS,
    ),
    Table(
        "saml_exchanges",
        opens=NO_CREDENTIAL,
        whose=SERVICE,
        holds=(plain(WORD, "kind", "binding", "status", "reason", "advice"), plain(ID, "message_id", "in_response_to")),
        moves=OF_CALLS,
        ends=Ends.ROWS,
        until="7 days",
        ages=(
            # Exchanges are kept for a week, so that people can find out why an exchange failed.
            Age("PastSamlExchanges", "created_at < now() - interval '7 days'", oldest_first="created_at"),
        ),
    ),
    Table(
        "scim_tokens",
        opens=CredentialKind.DIRECTORY_TOKEN,
        whose=ORGANIZATION,
        holds=(plain(FACT, "name", "prefix"), plain(OPAQUE, "digest")),
        moves=Moved(ids={"created_by": IdMeaning.PERSON}),
        ends=Ends.ROWS,
    ),
    Table(
        "scim_exchanges",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(
            plain(FACT, "token_name"),
            plain(
                "A directory's request without everything that it says about people; a week",
                "method",
                "path",
                "query",
                "request",
                "scim_type",
                "reason",
            ),
        ),
        moves=OF_CALLS,
        ends=Ends.ROWS,
        until="7 days",
        ages=(
            # Requests of directories are kept for a week: after that nobody looks them up any more.
            Age("PastScimExchanges", "occurred_at < now() - interval '7 days'", oldest_first="occurred_at"),
        ),
    ),
    Table(
        "scim_groups",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(plain(WORD, "groups"), plain(FACT, "external_id", "profile_mapping")),
        moves=Moved(),
        ends=Ends.ONE,
    ),
    Table(
        "provisioned_users",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(
            personal(
                "external_id",
                "The ID of the person in an organization's directory.",
                Eraser.ACCOUNT,
                "Until the organization's directory deletes the user, and no longer than the account.",
                "user_id",
            ),
            personal(
                "work_email",
                "The work email address that an organization's directory sends, if it is not the email address of the account.",
                Eraser.ACCOUNT,
                "Until the organization's directory deletes the user, and no longer than the account.",
                "user_id",
            ),
            personal(
                "formatted_name",
                "The person's name from an organization's directory.",
                Eraser.ACCOUNT,
                "Until the organization's directory deletes the user, and no longer than the account.",
                "user_id",
            ),
            personal(
                "given_name",
                "The given name from an organization's directory.",
                Eraser.ACCOUNT,
                "Until the organization's directory deletes the user, and no longer than the account.",
                "user_id",
            ),
            personal(
                "family_name",
                "The family name from an organization's directory.",
                Eraser.ACCOUNT,
                "Until the organization's directory deletes the user, and no longer than the account.",
                "user_id",
            ),
            personal(
                "display_name",
                "The display name from an organization's directory.",
                Eraser.ACCOUNT,
                "Until the organization's directory deletes the user, and no longer than the account.",
                "user_id",
            ),
        ),
        # The token is one of the other installation.
        moves=Moved(leaves=("scim_token_id",)),
        ends=Ends.PEOPLE,
        exported=ExportPart(
            "profiles",
            shows=("external_id", "work_email", "formatted_name", "given_name", "family_name", "display_name"),
            named={"organization": "org_id"},
        ),
        forgotten=BY_STATEMENT,
    ),
    Table(
        "directory_steps",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(plain(FACT, "marks"), plain(COMMITMENT, "agreed_digest", "held_digest")),
        moves=_KEEPS_ANEW,
        ends=Ends.CASCADES,
    ),
    Table(
        "directory_runs",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(plain(WORD, "kind", "state", "fault"), plain(FACT, "counts"), plain(COMMITMENT, "settings_digest", "digest")),
        moves=_KEEPS_ANEW,
        ends=Ends.ROWS,
        until="30 days",
        ages=(
            # Whoever asks why somebody has gone asks within weeks. The people whom a run names go with it.
            # A run that names whom a stop holds stays as long as the stop.
            Age(
                "PastDirectoryRuns",
                "started_at < now() - interval '30 days' and not exists (select from directory_steps where held_run = directory_runs.id)",
                oldest_first="started_at",
            ),
        ),
    ),
    Table(
        "directory_run_people",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(
            personal(
                "named",
                "The email address, the name, or the DN of a person whom an LDAP sync run adds, removes or skips.",
                Eraser.ORGANIZATION,
                _WITH_THE_RUN,
            ),
            personal(
                "external_id",
                "The permanent ID of the person in the directory.",
                Eraser.ORGANIZATION,
                _WITH_THE_RUN,
            ),
            plain(WORD, "what", "reason"),
        ),
        moves=_KEEPS_ANEW,
        ends=Ends.CASCADES,
        exported=ORGANIZATIONS_OWN,
        forgotten=BY_STATEMENT,
    ),
    Table(
        "directory_people",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(
            personal(
                "external_id",
                "The permanent ID of the person in an LDAP directory.",
                Eraser.ACCOUNT,
                "As long as the connection to the directory, and no longer than the account.",
                "user_id",
            ),
            plain(COMMITMENT, "digest"),
        ),
        moves=_KEEPS_ANEW,
        ends=Ends.PEOPLE,
        exported=ORGANIZATIONS_OWN,
        forgotten=BY_STATEMENT,
    ),
    Table(
        "directory_groups",
        opens=NO_CREDENTIAL,
        whose=CONNECTION,
        holds=(plain(OPAQUE, "external_id"), plain(COMMITMENT, "digest")),
        moves=_KEEPS_ANEW,
        ends=Ends.CASCADES,
    ),
    Table(
        "provisioning_connections",
        opens=NO_CREDENTIAL,
        whose=SERVICE,
        holds=(
            plain(WORD, "preset", "state", "stopped_why"),
            plain(FACT, "base_url", "people_url", "mapping", "attributes_left_out"),
            plain(COMMITMENT, "active_digest", "agreed_digest", "held_digest"),
            sealed("sealed_token"),
        ),
        # An owner of there gives a token and makes it active: whoever was sent from here is looked for anew.
        moves=Moved(
            leaves=(
                *("sealed_token", "token_set_at", "active_digest", "people_url", "whole_due_at", "whole_at", "mailed_at", "taken"),
                *("holder", "agreed_digest", "agreed_run", "held_run", "held_digest", "held_since"),
                *("claimed_at", "turn_over_at"),
            ),
            sets={"state": "'stopped'", "stopped_why": "'arrived'"},
            checks={
                "it names a team that the file does not have": """
                    not exists (
                        select
                          from unnest(row.team_ids) as chosen (id)
                         where chosen.id not in (select arriving_teams.id from arriving_teams)
                    )
                """,
            },
            ids={"made_by": IdMeaning.PERSON, "team_ids": IdMeaning.CHECKED},
        ),
        ends=Ends.ROWS,
    ),
    Table(
        "provisioned_people",
        opens=NO_CREDENTIAL,
        whose=CONNECTION_OUTWARDS,
        holds=(
            personal(
                "user_name",
                "The username under which the person was provisioned to the system of an application.",
                Eraser.DELETION,
                "As long as the connection to the application, and no longer than the account.",
                "user_id",
            ),
            personal(
                "far_id",
                "The ID of the person in the system of an application.",
                Eraser.DELETION,
                "As long as the connection to the application. For a deleted account, until the person is deleted there: the row"
                " no longer refers to the person.",
                "user_id",
            ),
            plain(WORD, "state", "why"),
            plain(FACT, "kept_there"),
            plain(COMMITMENT, "sent_digest"),
        ),
        moves=_LOOKED_FOR_ANEW,
        ends=Ends.CASCADES,
        exported=ExportPart(
            "people_there",
            shows=("user_name", "far_id"),
            named={"is_active": "active"},
        ),
        forgotten=_BY_TRIGGER,
    ),
    Table(
        "provisioning_marks",
        opens=NO_CREDENTIAL,
        whose=CONNECTION_OUTWARDS,
        holds=(),
        moves=_LOOKED_FOR_ANEW,
        ends=Ends.CASCADES,
        until="when the worker has looked at the person, or with the connection",
    ),
    Table(
        "provisioning_progress",
        opens=NO_CREDENTIAL,
        whose=CONNECTION_OUTWARDS,
        holds=(
            plain(WORD, "name"),
            plain(
                "Ids and digests of those whom the other system lists, and of people the ids: what a run knows between two of its turns",
                "part",
            ),
        ),
        moves=_LOOKED_FOR_ANEW,
        ends=Ends.CASCADES,
        until="the next turn, the end of the run, or with the connection",
    ),
    Table(
        "provisioning_runs",
        opens=NO_CREDENTIAL,
        whose=CONNECTION_OUTWARDS,
        holds=(plain(WORD, "kind", "state", "why"), plain(COMMITMENT, "settings_digest", "digest")),
        moves=_LOOKED_FOR_ANEW,
        ends=Ends.CASCADES,
        until="30 days",
        ages=(
            # The people whom a run names go with it. A run that names whom a stop holds stays as long as the stop.
            Age(
                "PastProvisioningRuns",
                "begun_at < now() - interval '30 days'"
                " and not exists (select from provisioning_connections where held_run = provisioning_runs.id)",
                oldest_first="begun_at",
            ),
        ),
    ),
    Table(
        "provisioning_run_people",
        opens=NO_CREDENTIAL,
        whose=RUN_OUTWARDS,
        holds=(
            personal(
                "far_id",
                "The ID of the person in the system of an application.",
                Eraser.ACCOUNT,
                "30 days, with the sync run, and as long as a stopped run affects the person; no longer than the account.",
                "user_id",
            ),
            personal(
                "former_external_id",
                "The previous external ID of the person's account in the system of an application, before it was or could be taken over.",
                Eraser.ACCOUNT,
                "30 days, with the sync run, and as long as a stopped run affects the person; no longer than the account.",
                "user_id",
            ),
            plain(WORD, "what", "why"),
            plain(FACT, "attributes"),
        ),
        moves=_LOOKED_FOR_ANEW,
        ends=Ends.CASCADES,
        exported=ORGANIZATIONS_OWN,
        forgotten="they are deleted with their sync run, and identify the person by an ID of the other system",
    ),
    Table(
        "provisioning_exchanges",
        opens=NO_CREDENTIAL,
        whose=CONNECTION_OUTWARDS,
        holds=(plain("A call without everything that it says about people; a week", "method", "path", "scim_type", "said"),),
        moves=OF_CALLS,
        ends=Ends.CASCADES,
        until="7 days",
        ages=(
            # Calls are kept for a week, so that people can find out why somebody was refused.
            Age("PastFarExchanges", "at < now() - interval '7 days'", oldest_first="at"),
        ),
    ),
)
