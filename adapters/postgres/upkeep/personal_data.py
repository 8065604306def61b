"""The personal data in the database. One list has every column that can hold personal data, with the eraser and the time of erasure. A
second list has every other column of such a type, with the reason why it holds none. A test reads PostgreSQL's catalogue and fails for a
column that is on neither list.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from core.frozen import Frozen


class Eraser(StrEnum):
    """The eraser of a column, apart from the janitor."""

    ACCOUNT = "with the account"
    """A foreign key that cascades."""
    DELETION = "when the account is deleted"
    """A statement of the deletion, since the row has no foreign key to the account or outlives it."""
    ORGANIZATION = "with the organization"
    JANITOR = "by the janitor alone"


class Personal(Frozen):
    """`person` is the column of the same table that names the person; None if no column does. `sweep` names the janitor's class in
    `housekeeping`.
    """

    what: str
    person: str | None
    eraser: Eraser
    retention: str
    sweep: str | None = None


_WHILE_ACCOUNT: Final = "As long as the account."
_SIGN_INS: Final = "`POSTERN_LOGIN_EVENT_RETENTION`, 400 days by default."
_WHOLE_MONTHS: Final = "They go by whole months, so some stay up to a month longer."
_WHILE_DEVICE: Final = "Until the week a year after the last sign-in with the device has ended, or 30 days after its revocation."
_UNTIL_SENT: Final = "Until the job is done; 30 days after Postern has given the job up."
_WHILE_LOG: Final = "As long as the audit log, which Postern keeps for good. The entry keeps a salted digest."


def _of_account(what: str, person: str = "user_id") -> Personal:
    return Personal(what, person, Eraser.ACCOUNT, _WHILE_ACCOUNT)


def _of_device(what: str) -> Personal:
    return Personal(what, "user_id", Eraser.ACCOUNT, _WHILE_DEVICE, "UnusedDevices")


def _of_sign_in(what: str) -> Personal:
    return Personal(what, "user_id", Eraser.DELETION, f"{_SIGN_INS} {_WHOLE_MONTHS}", "PastLoginEvents")


def _of_second_factor(what: str) -> Personal:
    return Personal(what, "user_id", Eraser.DELETION, _SIGN_INS, "PastMfaEvents")


def _of_entry(what: str) -> Personal:
    return Personal(what, "actor_id", Eraser.DELETION, _WHILE_LOG)


def _of_device_code(what: str) -> Personal:
    return Personal(what, None, Eraser.JANITOR, "An hour after the code has expired.", "ExpiredDeviceCodes")


def _of_setup_link(what: str) -> Personal:
    return Personal(what, None, Eraser.ORGANIZATION, "Until thirty days after the link has ended.", "PastSetupLinks")


PERSONAL: Final[Mapping[str, Personal]] = {
    "users.email": _of_account("The e-mail address.", "id"),
    "users.email_key": _of_account("The same address, in the form that Postern compares.", "id"),
    "users.pending_email": _of_account("A new address, until its owner has confirmed it.", "id"),
    "users.pending_email_key": _of_account("The same address, in the form that Postern compares.", "id"),
    "users.password_hash": _of_account(
        "The password, as an Argon2id hash; of people who were brought along, as the hash of the system before until they sign in.", "id"
    ),
    "users.address_vouched_by": _of_account("The organization and its provider that have vouched for the address.", "id"),
    "users.language": _of_account("The language that the person reads.", "id"),
    "users.name": _of_account("The person's name.", "id"),
    "users.given_name": _of_account("The person's first name.", "id"),
    "users.family_name": _of_account("The person's last name.", "id"),
    "users.username": _of_account("The person's user name.", "id"),
    "users.zoneinfo": _of_account("The person's time zone.", "id"),
    "pictures.content": _of_account("The person's picture, without its metadata."),
    "mfa_secrets.sealed_secret": _of_account("The secret of the second factor, encrypted."),
    "passkeys.name": _of_account("The person's name for a passkey."),
    "passkeys.credential_id": _of_account("The authenticator's name for a passkey, which tells it apart from all others."),
    "passkeys.public_key": _of_account("The public key of a passkey."),
    "passkeys.user_handle": _of_account("The person's name at an authenticator, where another system made the passkey."),
    "backup_codes.digest": _of_account("Backup codes, as digests under a key of the server."),
    "identities.subject": _of_account("The person's id at a provider that they sign in with."),
    "identities.email": _of_account("The address that the provider states."),
    "connection_answers.sealed_answer": Personal(
        "What a directory has said about a person who signs in, encrypted, until their browser comes back.",
        None,
        Eraser.JANITOR,
        "Until the browser comes back. What nobody fetches goes with the assertion, after some minutes.",
        "ExpiredConnectionAnswers",
    ),
    "connection_tests.sealed_result": Personal(
        "What a provider has said about the person who tested it, encrypted.",
        None,
        Eraser.JANITOR,
        "An hour after the test.",
        "ExpiredConnectionTests",
    ),
    "directory_sessions.name_digest": Personal(
        "The person's name at a directory by SAML, as a digest.", None, Eraser.ACCOUNT, "As long as the session."
    ),
    "directory_sessions.session_index": Personal(
        "The directory's number of the person's session there.", None, Eraser.ACCOUNT, "As long as the session."
    ),
    "preauthentications.directory_visit": Personal(
        "The person's visit to a directory, until the second factor.",
        "user_id",
        Eraser.ACCOUNT,
        "Until the sign-in ends or expires.",
        "ExpiredPreauthentications",
    ),
    "identity_grants.sealed_access_token": Personal(
        "The access token with which a service acts for the person at a provider, encrypted.",
        None,
        Eraser.ACCOUNT,
        "As long as the person is connected at the provider.",
    ),
    "identity_grants.sealed_refresh_token": Personal(
        "The refresh token for that access token, encrypted.", None, Eraser.ACCOUNT, "As long as the person is connected at the provider."
    ),
    "impersonations.reason": _of_account("The reason why a platform owner acted in the person's name."),
    "setup_links.mailed_to": _of_setup_link("The address that a set-up link was mailed to."),
    "setup_links.used_by": _of_setup_link("The name that somebody typed who uses the link."),
    "setup_links.used_from": _of_setup_link("The address of the browser that owns the link."),
    "setup_links.used_with": _of_setup_link("The `User-Agent` of that browser."),
    "join_requests.email": _of_account("The address of a person who asked to become a member by the address's domain."),
    "flows.email": Personal(
        "The address with which a person began to sign in.", None, Eraser.JANITOR, "An hour from the first page.", "ExpiredFlows"
    ),
    "flows.wanted": Personal(
        "The e-mail address with which an application expects the person to sign in.",
        None,
        Eraser.JANITOR,
        "An hour from the first page.",
        "ExpiredFlows",
    ),
    "flows.request": Personal(
        "The request with which the person goes on after the sign-in.", None, Eraser.JANITOR, "An hour from the first page.", "ExpiredFlows"
    ),
    "device_codes.address": _of_device_code("The address from which a device asked for a code."),
    "device_codes.user_agent": _of_device_code("The device's `User-Agent`."),
    "mailed_tokens.email": Personal(
        "The address that a mailed link confirms.",
        "user_id",
        Eraser.ACCOUNT,
        "Until seven days after the link has expired.",
        "PastMailedTokens",
    ),
    "refresh_tokens.rotated_by": Personal(
        "A digest of the client that used the token.",
        None,
        Eraser.ACCOUNT,
        "30 days after its use, and no longer than the session.",
        "RotatedRefreshTokens",
    ),
    "authorization_codes.nonce": Personal(
        "The `nonce` of the application, which may say something about the person.",
        "user_id",
        Eraser.ACCOUNT,
        "A day after the code has expired.",
        "ExpiredAuthorizationCodes",
    ),
    "pushed_requests.request": Personal(
        "The e-mail address with which an application expects the person to sign in.",
        None,
        Eraser.JANITOR,
        "A minute.",
        "ExpiredPushedRequests",
    ),
    "saml_sessions.name_id": Personal(
        "A service provider's name for the person.",
        None,
        Eraser.ACCOUNT,
        "As long as the session from which the person went to the service provider.",
    ),
    "devices.name": _of_device("The person's name for the device."),
    "devices.browser": _of_device("The browser."),
    "devices.browser_version": _of_device("The version of the browser."),
    "devices.os": _of_device("The operating system."),
    "devices.os_version": _of_device("The version of the operating system."),
    "devices.last_address": _of_device("The address of the last sign-in."),
    "devices.last_country": _of_device("The country of that address."),
    "devices.last_city": _of_device("The city of that address."),
    "login_events.address": _of_sign_in("The address from which a person signed in, or tried to."),
    "login_events.user_agent": _of_sign_in("The client's `User-Agent`."),
    "login_events.country": _of_sign_in("The country of that address."),
    "login_events.city": _of_sign_in("The city of that address."),
    "mfa_events.address": _of_second_factor("The address from which a person used or changed a second factor."),
    "mfa_events.user_agent": _of_second_factor("The client's `User-Agent`."),
    "mfa_events.details": _of_second_factor("Other data, such as the reason why a platform owner disabled the second factor."),
    "invitations.email": Personal(
        "The address of the invited person.", None, Eraser.ORGANIZATION, "As long as the organization, which can list its invitations."
    ),
    "invitations.email_key": Personal(
        "The same address, in the form that Postern compares.", None, Eraser.ORGANIZATION, "As long as the organization."
    ),
    "profile_values.values": Personal(
        "What an organization, or the installation, keeps of the person by fields.",
        "user_id",
        Eraser.ACCOUNT,
        "As long as the account; an organization's values until the person's last tie to it ends, or the field is deleted.",
    ),
    "service_users.metadata": Personal(
        "What an application keeps of its user.", "user_id", Eraser.ACCOUNT, "As long as the person uses the service."
    ),
    **{
        f"provisioned_users.{column}": Personal(
            what, "user_id", Eraser.ACCOUNT, "Until the organization's directory deletes the user, and no longer than the account."
        )
        for column, what in {
            "external_id": "The id of the person in an organization's directory.",
            "work_email": "The work address that an organization's directory states, if it is not the address of the account.",
            "formatted_name": "The person's name, as an organization's directory states it.",
            "given_name": "The given name, as an organization's directory states it.",
            "family_name": "The family name, as an organization's directory states it.",
            "display_name": "The display name, as an organization's directory states it.",
        }.items()
    },
    "events.personal": Personal(
        "The part of an event about a person: an address, a name, a reason.", "actor_id", Eraser.JANITOR, "90 days.", "PastEventDetails"
    ),
    "privacy_requests.email_keys": Personal(
        "The addresses of a person who is being forgotten. The erasure searches for these addresses.",
        "user_id",
        Eraser.DELETION,
        "Until everything else is removed.",
    ),
    "former_addresses.email_key": Personal(
        "An earlier, proved address of the person, as it was written and in the form that Postern compares. By this address, Postern"
        " recognises a person whom an organization has removed or declined.",
        "user_id",
        Eraser.DELETION,
        "As long as the account, and until everything else is removed.",
    ),
    "webhook_deliveries.response_body": Personal(
        "The answer of an organization's receiver.",
        None,
        Eraser.JANITOR,
        f"`POSTERN_DELIVERY_RETENTION`, 30 days by default. {_WHOLE_MONTHS}",
        "PastDeliveries",
    ),
    "audit_personal.address": _of_entry("The address from which a person acted."),
    "audit_personal.user_agent": _of_entry("The client's `User-Agent`."),
    "audit_personal.details": _of_entry("The part of the entry about a person: an address, a name, a reason."),
    "billing_events.payload": Personal(
        "The id of the person whose subscription the payment provider reports on, and nothing else about the person.",
        None,
        Eraser.JANITOR,
        "90 days.",
        "PastBillingEvents",
    ),
    "billing_subscriptions.facets": Personal(
        "The id of the person whose subscription it is at the payment provider, and nothing else about the person.",
        None,
        Eraser.JANITOR,
        "As long as the subscription; 90 days after its cancellation, if its person or service is gone.",
        "ReleasedBillingSubscriptions",
    ),
    "jobs.payload": Personal("The person whom the job is about.", None, Eraser.JANITOR, _UNTIL_SENT, "DeadJobs"),
    "jobs.sealed_payload": Personal("A mail with its addresses, encrypted.", None, Eraser.JANITOR, _UNTIL_SENT, "DeadJobs"),
    "jobs.last_error": Personal("A mail server's answer, which may name an address.", None, Eraser.JANITOR, _UNTIL_SENT, "DeadJobs"),
    "rate_limit_buckets.key": Personal(
        "A client's address, or an account's id or digest.",
        None,
        Eraser.JANITOR,
        "Until the bucket is full again, which takes hours at most.",
        "FullBuckets",
    ),
}

# Grouped by the reason why a column holds nothing personal.
_NOT_PERSONAL: Final[Mapping[str, tuple[str, ...]]] = {
    "A word from a closed list, or a name that the program gives": (
        *(
            "all_organizations.status",
            "all_services.service_type",
            "all_services.sign_in_policy",
            "all_services.id_token_alg",
            "all_services.assertion_audience",
            "invitations.status",
            "join_requests.status",
            "domain_routes.shared_provider",
            "domain_routes.login_policy",
            "domain_routes.join_policy",
            "jobs.kind",
            "jobs.state",
            "plans.currency",
            "managed_objects.kind",
            "managed_objects.named",
        ),
        *("webhooks.events", "webhook_deliveries.event_name", "webhook_deliveries.error", "logout_notices.error"),
        *("siem_configurations.provider_type", "storage_samples.name"),
        *("memberships.came_by", "login_counts.provider", "platform_login_counts.provider", "uncounted_logins.provider"),
        *(
            "saml_configurations.slo_binding",
            "saml_configurations.name_id_format",
            "saml_certificates.state",
            "saml_sessions.name_id_format",
        ),
        *("authorization_refusals.place", "authorization_refusals.reason", "authorization_refusals.received"),
        *("authorization_refusals.expected",),
        *("connection_exchanges.kind", "connection_exchanges.fault", "connection_exchanges.reason", "connection_exchanges.advice"),
        *("connection_exchanges.checks", "directory_sessions.context_class"),
        *("saml_exchanges.kind", "saml_exchanges.binding", "saml_exchanges.status", "saml_exchanges.reason", "saml_exchanges.advice"),
        *("devices.device_type", "events.name", "events.target_type", "audit_entries.action", "audit_entries.target_type"),
        *("login_events.provider", "login_events.reason", "login_events.risk_factors", "mailed_tokens.purpose", "mfa_events.name"),
        *("flows.purpose", "devices.risk_factors", "passkeys.transports"),
        *("teams.source", "former_slugs.noun", "scim_groups.groups"),
        *(
            "rate_limit_buckets.limit_name",
            "relations.object_type",
            "relations.relation",
            "relations.built_in_role",
            "schema_migrations.checksum",
        ),
        *(
            "schema_migrations.name",
            "sessions.authenticated_by",
            "sessions.scopes",
            "authorization_codes.authenticated_by",
            "authorization_codes.scopes",
            "device_codes.state",
            "device_codes.scopes",
            "device_codes.authenticated_by",
            "consents.scopes",
            "consents.saml_scopes",
            "service_claims.source",
            "service_claims.told_in",
            "preauthentications.provider",
            "authorization_codes.provider",
            "identities.provider",
            "oauth_states.provider",
            "identity_grants.scopes",
            "preauthentications.authenticated_by",
            "all_signing_keys.purpose",
            "pictures.type",
            "all_signing_keys.state",
            "server_secrets.purpose",
        ),
        *("billing_events.type", "billing_events.outcome", "billing_events.error"),
        *("subscriptions.status", "tiers.display_name", "tiers.name", "api_keys.permissions", "management_keys.capabilities"),
    ),
    "The payment provider's id of a thing. It says nothing without the provider": (
        *("billing_events.id", "billing_events.subject", "billing_subscriptions.external_id", "billing_subscriptions.customer"),
        *("billing_customers.external_id", "billing_checkouts.external_id", "billing_sweeps.cursor"),
    ),
    "A digest of a request, by which Postern recognises a repetition": ("billing_checkouts.digest",),
    "An id": (
        "upstream_providers.succeeds",
        *("connection_exchanges.message_id", "connection_exchanges.in_response_to", "connection_exchanges.certificate"),
        "saml_exchanges.message_id",
        "saml_exchanges.in_response_to",
        "events.target_id",
        "audit_entries.target_id",
        "all_signing_keys.id",
    ),
    "A fact about an organization, its roles, services, plans or keys": (
        *("all_organizations.slug", "all_organizations.name", "all_organizations.logo_url", "all_organizations.primary_color"),
        *("all_organizations.help_url", "all_organizations.privacy_url", "all_organizations.terms_url"),
        *("mail_servers.host", "mail_servers.username", "mail_servers.from_email", "mail_servers.from_name"),
        *("all_organizations.logo_digest", "logos.digest", "logos.media_type", "logos.content", "domains.domain"),
        *("oauth_credentials.provider", "oauth_credentials.client_id", "oauth_states.client_id", "identity_grants.client_id"),
        *("upstream_providers.name", "upstream_providers.issuer", "upstream_providers.client_id", "upstream_providers.scopes"),
        *("upstream_providers.profile_mapping", "upstream_providers.saml", "upstream_providers.kind", "upstream_providers.state"),
        *("upstream_providers.refresh_fault", "connection_certificates.fingerprint", "connection_warnings.ending"),
        *("oauth_states.led_to", "identities.issuer", "domain_routes.domain", "provider_outages.provider"),
        *("all_organizations.rejection_reason", "all_organizations.suspension_reason", "all_organizations.invitation_domains"),
        *("permissions.key", "permissions.description", "service_roles.slug", "service_roles.name", "service_roles.description"),
        "service_roles.permissions",
        *("all_profile_fields.key", "all_profile_fields.label", "all_profile_fields.kind", "all_profile_fields.rule"),
        *("all_profile_fields.written_by", "all_profile_fields.scope", "all_profile_fields.asked_at"),
        *("all_organizations.metadata", "all_services.metadata"),
        *("roles.slug", "roles.name", "roles.description", "memberships.role", "ownerships.former_role", "invitations.role"),
        *("teams.slug", "teams.name", "teams.external_id", "teams.role", "former_slugs.slug"),
        *("all_services.slug", "all_services.name", "all_services.redirect_uris", "all_services.device_activation_uri"),
        *("all_services.codehost_scopes", "all_services.websuite_scopes", "all_services.officesuite_scopes"),
        *(
            "all_services.jwks",
            "all_services.jwks_uri",
            "all_services.post_logout_redirect_uris",
            "all_services.backchannel_logout_uri",
            "authorization_codes.redirect_uri",
        ),
        *("managed_objects.service", "managed_objects.name", "managed_objects.object_id"),
        *("former_services.name", "plans.key", "plans.name", "plans.features", "plans.billing_price_id"),
        *("saml_configurations.entity_id", "saml_sessions.audience", "consents.saml_entity_id"),
        *("service_claims.name", "service_claims.argument"),
        *("saml_configurations.acs_url", "saml_configurations.slo_url"),
        *("saml_configurations.slo_response_url", "saml_configurations.attribute_mapping", "saml_configurations.acs_endpoints"),
        *("api_keys.name", "api_keys.prefix", "client_secrets.prefix", "webhooks.name", "webhooks.url"),
        *("siem_configurations.name", "siem_configurations.endpoint_url", "siem_configurations.last_error"),
        *("management_keys.name", "management_keys.prefix"),
        *("setup_links.name", "setup_links.prefix", "setup_links.purposes", "setup_drafts.purpose", "setup_drafts.subject"),
        *("setup_drafts.settings", "setup_drafts.state", "setup_drafts.came"),
        *("scim_tokens.name", "scim_tokens.prefix", "scim_groups.external_id", "scim_exchanges.token_name"),
    ),
    "A directory's request without everything that it says about people; a week": (
        *("scim_exchanges.method", "scim_exchanges.path", "scim_exchanges.query", "scim_exchanges.request"),
        *("scim_exchanges.scim_type", "scim_exchanges.reason"),
    ),
    "Details of an act. What they say about a person is kept in a column of its own": (
        *("events.details", "audit_entries.details", "sign_in_links.content"),
    ),
    "A key, or a digest of random bits": (
        *("managed_objects.document", "managed_objects.fields_digest"),
        *(
            "browser_sessions.digest",
            "flows.browser_digest",
            "users.registered_in",
            "passkey_challenges.digest",
            "oauth_states.digest",
            "oauth_states.browser_digest",
        ),
        *(
            "api_keys.digest",
            "management_keys.digest",
            "management_keys.former_digest",
            "setup_links.digest",
            "setup_links.browser_digest",
            "setup_drafts.digest",
            "scim_tokens.digest",
            "client_secrets.digest",
            "devices.token_digest",
            "devices.trust_digest",
            "invitations.token_digest",
            "invitations.mailed_digest",
        ),
        *("authorization_codes.digest", "authorization_codes.code_challenge", "authorization_codes.redeemed_with"),
        *("client_assertions.digest", "pushed_requests.digest", "device_codes.digest", "device_codes.user_code_hmac"),
        *(
            "mailed_tokens.digest",
            "mailed_tokens.code_digest",
            "refresh_tokens.digest",
            "server_secrets.sealed_secret",
            "all_signing_keys.public_jwk",
        ),
        *("all_signing_keys.sealed_private_key", "audit_personal.salt"),
        *("mail_servers.sealed_password", "oauth_credentials.sealed_client_secret", "upstream_providers.sealed_client_secret"),
        *("upstream_providers.sealed_private_key", "upstream_providers.next_sealed_private_key", "upstream_providers.certificate"),
        *("upstream_providers.next_certificate", "upstream_providers.tested_digest"),
        *("connection_answers.code_digest", "connection_answers.assertion_digest", "connection_tests.digest"),
        *("connection_tests.browser_digest", "connection_tests.settings_digest"),
        *("upstream_providers.former_certificate", "upstream_providers.former_sealed_private_key"),
        *("domains.token", "domain_routes.token"),
        *("siem_configurations.sealed_credentials", "setup_drafts.sealed_credentials"),
        *("webhooks.sealed_secret", "webhooks.previous_sealed_secret"),
        *("saml_certificates.certificate", "saml_certificates.sealed_private_key", "saml_requests.digest"),
        *("saml_configurations.signing_certificates", "saml_configurations.encryption_certificate"),
    ),
    "A digest under a key of the server. It outlives the account, because no user name is issued twice": ("used_usernames.digest",),
    "A digest under a key of the server. It outlives the account, because an import brings nobody back who was removed": (
        "imported_people.digest",
    ),
    "A digest that says nothing without its source; Postern erases the salt together with the source": (
        *("audit_entries.personal_digest", "audit_links.digest"),
        *("sign_in_links.commitment", "siem_configurations.audit_digest", "siem_configurations.sign_in_digest"),
    ),
    "A digest under a key that only the person's browser has": (*("flows.proof_digest",),),
}

NOT_PERSONAL: Final[Mapping[str, str]] = {column: reason for reason, columns in _NOT_PERSONAL.items() for column in columns}
