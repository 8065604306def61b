"""The tables of organizations' applications."""

from typing import Final

from adapters.postgres.tables.declaring import (
    BY_STATEMENT,
    FACT,
    INSTALLATION,
    NEW_PROOF,
    NO_CREDENTIAL,
    OF_PAYMENTS,
    OPAQUE,
    ORGANIZATION,
    OWN_TIE,
    PAYMENT_ID,
    SERVICE,
    THE_INSTALLATIONS,
    WORD,
    Age,
    Ends,
    Eraser,
    ExportPart,
    IdMeaning,
    Moved,
    Table,
    personal,
    plain,
)
from core.domain.identity.endings import CredentialKind

TABLES: Final = (
    Table(
        "subscriptions",
        opens=NO_CREDENTIAL,
        whose=SERVICE,
        holds=(plain(WORD, "status"),),
        # The payment provider of the other installation says nothing here, so a subscription ends when its period does.
        moves=Moved(leaves=("managed", "overridden_at")),
        ends=Ends.OWN,
    ),
    Table(
        "billing_checkouts",
        opens=NO_CREDENTIAL,
        whose=SERVICE,
        holds=(plain(PAYMENT_ID, "external_id"), plain("A digest of a request, by which Postern recognises a repetition", "digest")),
        moves=OF_PAYMENTS,
        ends=Ends.ROWS,
    ),
    Table(
        "billing_subscriptions",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(
            personal(
                "facets",
                "The id of the person whose subscription it is at the payment provider, and nothing else about the person.",
                Eraser.JANITOR,
                "As long as the subscription; 90 days after its cancellation, if its person or service is gone.",
            ),
            plain(PAYMENT_ID, "external_id", "customer"),
        ),
        moves=OF_PAYMENTS,
        ends="They are released, and cancelled at the payment provider",
        until="90 days after they were let go",
        ages=(
            # Subscriptions at the payment provider that belong to nobody here: released and cancelled, or never known to belong to
            # anybody.
            Age(
                "ReleasedBillingSubscriptions",
                "(released_at is not null or service_id is null) and cancel_at is null and updated_at < now() - interval '90 days'",
                oldest_first="updated_at",
                key="external_id",
            ),
        ),
        exported="they have the person's id alone",
        forgotten=BY_STATEMENT,
    ),
    Table(
        "billing_customers",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(plain(PAYMENT_ID, "external_id"),),
        moves=OF_PAYMENTS,
        ends=Ends.ROWS,
    ),
    Table(
        "billing_events",
        opens=NO_CREDENTIAL,
        whose=INSTALLATION,
        holds=(
            personal(
                "payload",
                "The id of the person whose subscription the payment provider reports on, and nothing else about the person.",
                Eraser.JANITOR,
                "90 days.",
            ),
            plain(WORD, "type", "outcome", "error"),
            plain(PAYMENT_ID, "id", "subject"),
        ),
        moves=THE_INSTALLATIONS,
        ends=THE_INSTALLATIONS,
        until="90 days",
        ages=(
            # Applied news has long taken effect by then. News that was never applied is deleted too, because the daily look at all
            # subscriptions has caught up.
            Age("PastBillingEvents", "received_at < now() - interval '90 days'", oldest_first="received_at"),
        ),
        exported="they have the person's id alone",
        forgotten="they have the person's id alone",
    ),
    Table(
        "billing_sweeps",
        opens=NO_CREDENTIAL,
        whose=INSTALLATION,
        holds=(plain(PAYMENT_ID, "cursor"),),
        moves=THE_INSTALLATIONS,
        ends=THE_INSTALLATIONS,
    ),
    Table(
        "plans",
        opens=NO_CREDENTIAL,
        whose=SERVICE,
        holds=(plain(WORD, "currency"), plain(FACT, "key", "name", "features", "billing_price_id")),
        moves=Moved(leaves=("active_count", "past_due_count", "cancelled_count", "expired_count", "billing_price_id")),
        ends=Ends.ROWS,
    ),
    Table(
        "api_keys",
        opens=CredentialKind.API_KEY,
        whose=SERVICE,
        holds=(plain(WORD, "permissions"), plain(FACT, "name", "prefix"), plain(OPAQUE, "digest")),
        moves=Moved(ids={"created_by": IdMeaning.PERSON}, kept_by={"made_by_key": "management_keys"}),
        ends=Ends.ROWS,
    ),
    Table(
        "user_keys",
        opens=CredentialKind.USER_KEY,
        whose=SERVICE,
        holds=(
            personal("name", "The person's name for a key of an application.", Eraser.ACCOUNT, "Until 30 days after its end.", "user_id"),
            plain(WORD, "scopes"),
            plain(FACT, "prefix"),
            plain(OPAQUE, "digest"),
        ),
        moves=Moved(kept_by={"resource_id": "resource_servers", "made_by_key": "api_keys"}),
        ends=Ends.ROWS,
        until="30 days after their end",
        ages=(
            # Expired keys stay listed for thirty days, so that people see why a program stopped.
            Age("ExpiredUserKeys", "expires_at < now() - interval '30 days'", oldest_first="expires_at"),
        ),
        exported=ExportPart("user_keys", shows=("name", "prefix", "scopes", "created_at", "expires_at", "last_used_at")),
        forgotten=BY_STATEMENT,
    ),
    Table("proxies", opens=NO_CREDENTIAL, whose=SERVICE, holds=(plain(FACT, "rules", "headers"),), moves=Moved(), ends=Ends.ONE),
    Table(
        "proxy_hosts",
        opens=NO_CREDENTIAL,
        whose=SERVICE,
        holds=(plain(FACT, "host"),),
        # Neither the proof nor a platform owner's word counts there, and another application may have the host.
        moves="A host is set again where its domain is proved",
        ends=Ends.ONE,
    ),
    Table(
        "service_logos",
        opens=NO_CREDENTIAL,
        whose=SERVICE,
        holds=(plain(FACT, "digest", "media_type", "content"),),
        moves=Moved(),
        ends=Ends.ONE,
    ),
    Table("user_key_settings", opens=NO_CREDENTIAL, whose=SERVICE, holds=(plain(FACT, "prefix"),), moves=Moved(), ends=Ends.ONE),
    Table(
        "client_secrets",
        opens=CredentialKind.CLIENT_SECRET,
        whose=SERVICE,
        holds=(plain(FACT, "prefix"), plain(OPAQUE, "digest")),
        moves=Moved(ids={"created_by": IdMeaning.PERSON}, kept_by={"made_by_key": "management_keys"}),
        ends=Ends.ROWS,
    ),
    Table(
        "service_claims",
        opens=NO_CREDENTIAL,
        whose=SERVICE,
        holds=(plain(WORD, "source", "told_in"), plain(FACT, "name", "argument")),
        moves=Moved(),
        ends=Ends.ROWS,
    ),
    Table("permissions", opens=NO_CREDENTIAL, whose=SERVICE, holds=(plain(FACT, "key", "description"),), moves=Moved(), ends=Ends.ROWS),
    Table(
        "service_roles",
        opens=NO_CREDENTIAL,
        whose=SERVICE,
        holds=(plain(FACT, "slug", "name", "description", "permissions"),),
        moves=Moved(),
        ends=Ends.ROWS,
    ),
    Table(
        "resource_servers",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(
            plain(WORD, "admits", "access_token_alg", "metadata_clients", "registered_clients"),
            plain(FACT, "identifier", "domain", "name", "scopes", "metadata_hosts"),
            plain(OPAQUE, "token"),
        ),
        # Neither the proof nor the approval counts there, and nobody has asked for one.
        moves=Moved(
            leaves=("token", "verified_at", "checked_at", "next_check_at", "misses", "approval_asked_at", "approved_at", "settles_at"),
            sets=NEW_PROOF,
        ),
        ends=Ends.ROWS,
    ),
    Table("resource_admissions", opens=NO_CREDENTIAL, whose=SERVICE, holds=(), moves=Moved(), ends=Ends.ROWS),
    Table("resource_exchanges", opens=NO_CREDENTIAL, whose=SERVICE, holds=(), moves=Moved(), ends=Ends.ROWS),
    Table(
        "resource_identifiers",
        opens=NO_CREDENTIAL,
        whose=INSTALLATION,
        holds=(plain(FACT, "key"),),
        moves=THE_INSTALLATIONS,
        # No other organization ever gets an identifier that tokens were made for.
        ends=THE_INSTALLATIONS,
    ),
    Table(
        "service_users",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(
            personal(
                "metadata", "What an application keeps of its user.", Eraser.ACCOUNT, "As long as the person uses the service.", "user_id"
            ),
        ),
        moves=Moved(sets={"own_since": OWN_TIE}),
        ends=Ends.OWN,
        exported=ExportPart("metadata", shows=("metadata",), named={"service": "service_id"}),
        forgotten=BY_STATEMENT,
    ),
    Table(
        "service_user_marks",
        opens=NO_CREDENTIAL,
        whose=SERVICE,
        holds=(),
        moves="Triggers make it from the rows that arrive",
        ends=Ends.CASCADES,
    ),
    Table("former_services", opens=NO_CREDENTIAL, whose=ORGANIZATION, holds=(plain(FACT, "name"),), moves=Moved(), ends=Ends.ROWS),
    Table(
        "all_services",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(
            plain(WORD, "service_type", "sign_in_policy", "id_token_alg", "access_token_alg", "assertion_audience", "profile"),
            plain(
                FACT,
                "metadata",
                "slug",
                "name",
                "kept_client_id",
                "redirect_uris",
                "device_activation_uri",
                "codehost_scopes",
                "websuite_scopes",
                "officesuite_scopes",
                "jwks",
                "jwks_uri",
                "post_logout_redirect_uris",
                "backchannel_logout_uri",
                "frontchannel_logout_uri",
                "logo_digest",
            ),
            plain(OPAQUE, "document_digest"),
        ),
        moves=Moved(
            rows="row.deleted_at is null",
            # The document is read again before the first request there.
            leaves=("user_count", "deleted_at", "document_digest"),
            # A client id that was kept from elsewhere may be another service's there. That of a metadata client names the organization.
            sets={"kept_client_id": "case when row.service_type = 'metadata' then row.kept_client_id end"},
            ids={"client_id": IdMeaning.ITS_OWN},
        ),
        ends=Ends.ROWS,
    ),
)
