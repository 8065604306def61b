"""The tables of people's accounts."""

from typing import Final

from adapters.postgres.tables.declaring import (
    A_PERSONS,
    BY_STATEMENT,
    COMPARED,
    FACT,
    HIDDEN,
    ID,
    INSTALLATION,
    LISTED,
    NO_CREDENTIAL,
    OF_A_PERSON,
    OF_A_SIGN_IN,
    OF_CALLS,
    OF_SIGN_INS,
    OPAQUE,
    ORGANIZATION,
    ORGANIZATIONS_OWN,
    OWN_ORGANIZATION,
    PERSON,
    PROVIDER,
    SAME,
    SERVICE,
    SESSION,
    SHORT_LIVED,
    THE_INSTALLATIONS,
    UNREADABLE,
    WHAT_HAPPENED,
    WHILE_ACCOUNT,
    WHOLE_MONTHS,
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
    Whose,
    of_account,
    personal,
    plain,
    sealed,
)
from core.domain.identity.endings import CredentialKind

_SIGN_INS: Final = "`POSTERN_LOGIN_EVENT_RETENTION`, 400 days by default."
_WHILE_DEVICE: Final = "Until the end of the week one year after the last sign-in with the device, or 30 days after its revocation."

_HALF_AN_HOUR: Final = "Until the account is created, or for 30 minutes."
_HOUR_OF_GUESSES: Final = "One hour after the start of their hour."
_DAY_OF_GUESSES: Final = "One day after the last attempt."

TABLES: Final = (
    Table(
        "users",
        opens=CredentialKind.PASSWORD,
        whose=PERSON,
        holds=(
            of_account("email", "The email address.", "id"),
            of_account("email_key", "The same email address, in the form that Postern compares.", "id", unshown=SAME),
            of_account("pending_email", "A new email address, until its owner has verified it.", "id", unshown=LISTED),
            of_account("pending_email_key", "The same email address, in the form that Postern compares.", "id", unshown=SAME),
            of_account(
                "password_hash",
                "The password, as an Argon2id hash; for imported people, as the hash of the previous system until they sign in.",
                "id",
                unshown=HIDDEN,
            ),
            of_account(
                "address_vouched_by",
                "The organization and its identity provider that have confirmed the email address.",
                "id",
                unshown=ORGANIZATIONS_OWN,
            ),
            of_account("language", "The person's language.", "id"),
            of_account("name", "The person's name.", "id"),
            of_account("given_name", "The person's first name.", "id"),
            of_account("family_name", "The person's last name.", "id"),
            of_account("username", "The person's username.", "id"),
            of_account("zoneinfo", "The person's time zone.", "id"),
            plain(OPAQUE, "registered_in"),
        ),
        moves="The account itself, of which `people` takes what may leave",
        ends=Ends.OWN,
        until="when they are deleted; never proved and unused ones by POSTERN_UNVERIFIED_ACCOUNT_RETENTION",
        exported=ExportPart(
            "account",
            shows=("email", "language"),
            beside=ExportPart("own_profile", shows=("name", "given_name", "family_name", "username", "zoneinfo")),
        ),
        forgotten=BY_STATEMENT,
    ),
    Table(
        "pictures",
        opens=NO_CREDENTIAL,
        whose=PERSON,
        holds=(of_account("content", "The person's picture, without its metadata."), plain(WORD, "type")),
        moves=Moved(rows="row.id = (select picture_id from users where users.id = row.user_id)", of_people=True),
        ends=A_PERSONS,
        exported=ExportPart("own_profile", shows=("type", "content")),
        forgotten=BY_STATEMENT,
    ),
    Table(
        "used_usernames",
        opens=NO_CREDENTIAL,
        whose=PERSON,
        holds=(plain("A digest under a key of the server. It outlives the account, because no user name is issued twice", "digest"),),
        moves=A_PERSONS,
        ends=A_PERSONS,
    ),
    Table(
        "mfa_secrets",
        opens=CredentialKind.SECOND_FACTOR,
        whose=PERSON,
        holds=(
            sealed(
                "sealed_secret",
                personal=Personal("The MFA secret, encrypted.", "user_id", Eraser.ACCOUNT, WHILE_ACCOUNT),
                key="user_id",
            ),
        ),
        moves=Moved(
            rows="row.enabled_at is not null",
            leaves=("session_id", "made_in"),
            of_people=True,
            ids={"session_id": IdMeaning.KEPT, "made_in": IdMeaning.KEPT},
        ),
        ends=A_PERSONS,
        exported=HIDDEN,
        forgotten=BY_STATEMENT,
    ),
    Table(
        "backup_codes",
        opens=CredentialKind.BACKUP_CODE,
        whose=PERSON,
        holds=(of_account("digest", "Backup codes, as digests with a key of the server."),),
        moves="It is a digest under a key of the other installation",
        ends=A_PERSONS,
        exported=HIDDEN,
        forgotten=BY_STATEMENT,
    ),
    Table(
        "passkeys",
        opens=CredentialKind.PASSKEY,
        whose=PERSON,
        holds=(
            of_account("name", "The person's name for a passkey."),
            of_account("credential_id", "The authenticator's ID of a passkey, which distinguishes it from all others.", unshown=COMPARED),
            of_account("public_key", "The public key of a passkey.", unshown=COMPARED),
            of_account("made_on", "The browser and operating system that created a passkey."),
            of_account(
                "user_handle", "The person's user handle at an authenticator, if another system created the passkey.", unshown=COMPARED
            ),
            plain(WORD, "transports"),
        ),
        moves=Moved(leaves=("made_in",), of_people=True, ids={"aaguid": IdMeaning.KEPT, "made_in": IdMeaning.KEPT}),
        ends=A_PERSONS,
        exported=ExportPart(
            "passkeys",
            shows=("id", "name", "aaguid", "made_on", "backup_eligible", "created_at", "last_used_at"),
        ),
        forgotten=BY_STATEMENT,
    ),
    Table(
        "passkey_challenges",
        opens=CredentialKind.UNFINISHED,
        whose=PERSON,
        holds=(plain(OPAQUE, "digest"),),
        moves=A_PERSONS,
        ends=A_PERSONS,
        until="at their end, minutes after they began",
        ages=(
            # Nobody answered these challenges in time.
            Age("ExpiredPasskeyChallenges", "expires_at < now()", key="digest"),
        ),
    ),
    Table(
        "mfa_events",
        opens=NO_CREDENTIAL,
        whose=PERSON,
        holds=(
            personal(
                "address",
                "The IP address from which a person used or changed MFA.",
                Eraser.DELETION,
                _SIGN_INS,
                "user_id",
                unshown=WHAT_HAPPENED,
            ),
            personal("user_agent", "The client's `User-Agent`.", Eraser.DELETION, _SIGN_INS, "user_id", unshown=WHAT_HAPPENED),
            personal(
                "details",
                "Other data, such as the reason why a platform owner disabled MFA.",
                Eraser.DELETION,
                _SIGN_INS,
                "user_id",
                unshown=WHAT_HAPPENED,
            ),
            plain(WORD, "name"),
        ),
        moves=OF_SIGN_INS,
        ends=A_PERSONS,
        until="POSTERN_LOGIN_EVENT_RETENTION",
        ages=(
            # The log of second factors is kept as long as the log of the sign-ins that it belongs to.
            Age("PastMfaEvents", "created_at < now() - %(retention)s::interval", oldest_first="created_at", kept=Setting.LOGIN_EVENTS),
        ),
        exported=ExportPart(
            "mfa_events",
            shows=("name", "success"),
            named={"at": "created_at"},
        ),
        forgotten=BY_STATEMENT,
    ),
    Table(
        "devices",
        opens=CredentialKind.DEVICE,
        whose=PERSON,
        holds=(
            personal("name", "The person's name for the device.", Eraser.ACCOUNT, _WHILE_DEVICE, "user_id"),
            personal("browser", "The browser.", Eraser.ACCOUNT, _WHILE_DEVICE, "user_id"),
            personal("browser_version", "The version of the browser.", Eraser.ACCOUNT, _WHILE_DEVICE, "user_id", unshown=LISTED),
            personal("os", "The operating system.", Eraser.ACCOUNT, _WHILE_DEVICE, "user_id"),
            personal("os_version", "The version of the operating system.", Eraser.ACCOUNT, _WHILE_DEVICE, "user_id", unshown=LISTED),
            personal("last_address", "The IP address of the last sign-in.", Eraser.ACCOUNT, _WHILE_DEVICE, "user_id"),
            personal("last_country", "The country of that IP address.", Eraser.ACCOUNT, _WHILE_DEVICE, "user_id", unshown=LISTED),
            personal("last_city", "The city of that IP address.", Eraser.ACCOUNT, _WHILE_DEVICE, "user_id", unshown=LISTED),
            plain(WORD, "device_type", "risk_factors"),
            plain(OPAQUE, "token_digest", "trust_digest"),
        ),
        moves=OF_A_SIGN_IN,
        ends=A_PERSONS,
        until="a year without use, or 30 days after their revocation",
        ages=(
            # Revoked devices are kept for thirty days: until then a second revocation is answered like the first.
            Age("RevokedDevices", "revoked_at < now() - interval '30 days'"),
            # Nobody has signed in with the device for a year and the rest of the week: its last session ended long ago, and its
            # client has forgotten the device or is gone.
            Age(
                "UnusedDevices",
                "last_used_week < date_trunc('week', now() at time zone 'UTC' - interval '1 year')::date",
                oldest_first="last_used_week",
            ),
        ),
        exported=ExportPart(
            "devices",
            shows=("name", "device_type", "browser", "os", "created_at", "last_used_at", "last_address", "trusted_until"),
        ),
        forgotten=BY_STATEMENT,
    ),
    Table(
        "sessions",
        opens=(
            CredentialKind.SESSION,
            CredentialKind.APPLICATION_SESSION,
            CredentialKind.API_SESSION,
            CredentialKind.AGENT_SESSION,
            CredentialKind.EXCHANGED,
            CredentialKind.ASSERTED,
            CredentialKind.IMPERSONATION,
        ),
        whose=OWN_ORGANIZATION,
        holds=(
            plain(WORD, "authenticated_by", "scopes"),
            plain(FACT, "audiences", "act", "factor_stated"),
            plain("Which hooks have let the session in, or kept it out, and when", "hook_verdicts"),
            plain(OPAQUE, "key_thumbprint"),
        ),
        moves=OF_A_SIGN_IN,
        ends=Ends.ROWS,
        until="30 days after their end; those of exchanged tokens 10 minutes",
        ages=(
            # A busy service opens many, and no page shows them.
            Age("EndedExchanges", "exchanged_from is not null and ends_at < now() - interval '10 minutes'", oldest_first="ends_at"),
            # Expired sessions are kept for thirty days and the rest of the day, so that a person can still see where they were
            # signed in.
            Age("ExpiredSessions", "expires_day < (now() at time zone 'UTC' - interval '30 days')::date", oldest_first="expires_day"),
            # Revoked sessions are kept for thirty days after the revocation, for the same reason as expired ones.
            Age("RevokedSessions", "revoked_at < now() - interval '30 days'"),
        ),
    ),
    Table(
        "refresh_tokens",
        opens=CredentialKind.REFRESH_TOKEN,
        whose=SESSION,
        holds=(
            personal(
                "rotated_by",
                "A digest of the client that used the token.",
                Eraser.ACCOUNT,
                "30 days after its use, and no longer than the session.",
            ),
            plain(OPAQUE, "digest"),
        ),
        moves=OF_A_SIGN_IN,
        ends=Ends.CASCADES,
        until="30 days after their end",
        ages=(
            # A session's rotated tokens, once their return would show nothing: by then such a token is as unknown as any other. The
            # current token is deleted with its session.
            Age("RotatedRefreshTokens", "rotated_at < now() - interval '30 days'", key="digest"),
        ),
        exported=HIDDEN,
        forgotten=WITH_SESSIONS,
    ),
    Table(
        "bound_keys",
        opens=NO_CREDENTIAL,
        whose=INSTALLATION,
        holds=(
            plain("The public half of a key in a browser. A browser makes another one for each installation", "public_key"),
            plain(WORD, "algorithm"),
            plain("What a browser has to sign. It opens nothing", "challenge", "former_challenge"),
        ),
        moves=OF_A_SIGN_IN,
        ends=THE_INSTALLATIONS,
        until="with the last session that is bound to them",
        ages=(
            # A day: a session that begins while the cookie of the key still counts is bound to it.
            Age(
                "BoundKeysOfNobody",
                "created_at < now() - interval '1 day'"
                " and not exists (select from browser_sessions where browser_sessions.bound_to = bound_keys.id)",
                oldest_first="created_at",
            ),
        ),
    ),
    Table(
        "browser_sessions",
        opens=CredentialKind.SESSION,
        whose=Whose(
            "itself", "coalesce(one.chosen_organization, (select organization_id from sessions where sessions.id = one.session_id))"
        ),
        holds=(plain(OPAQUE, "digest"),),
        moves=OF_A_SIGN_IN,
        ends=Ends.CASCADES,
        until="30 days after their end",
    ),
    Table(
        "preauthentications",
        opens=CredentialKind.UNFINISHED,
        whose=OWN_ORGANIZATION,
        holds=(
            personal(
                "directory_visit",
                "The person's sign-in at an identity provider, until MFA is complete.",
                Eraser.ACCOUNT,
                "Until the sign-in is complete or expires.",
                "user_id",
            ),
            plain(WORD, "provider", "authenticated_by"),
        ),
        moves=OF_A_SIGN_IN,
        ends=Ends.ROWS,
        until="at their end, minutes after they began",
        ages=(
            # Used or not, expired pre-authentications no longer let anyone in.
            Age("ExpiredPreauthentications", "expires_at < now()"),
        ),
        exported=SHORT_LIVED,
        forgotten=BY_STATEMENT,
    ),
    Table(
        "mailed_tokens",
        opens=CredentialKind.MAILED_LINK,
        whose=PERSON,
        holds=(
            personal(
                "email",
                "The email address that a link in an email verifies.",
                Eraser.ACCOUNT,
                "Until seven days after the link has expired.",
                "user_id",
            ),
            plain(WORD, "purpose"),
            plain(OPAQUE, "digest", "code_digest"),
        ),
        moves=OF_A_SIGN_IN,
        ends=A_PERSONS,
        until="7 days after their end",
        ages=(
            # Past tokens are kept for a week, so that a person who opens an old link can be told that the link is old, or used.
            Age("PastMailedTokens", "expires_at < now() - interval '7 days'", key="digest"),
        ),
        exported=SHORT_LIVED,
        forgotten=BY_STATEMENT,
    ),
    Table(
        "flows",
        opens=CredentialKind.UNFINISHED,
        whose=SERVICE,
        holds=(
            personal("email", "The email address with which a person started to sign in.", Eraser.JANITOR, "One hour from the first page."),
            personal(
                "wanted",
                "The email address with which an application expects the person to sign in.",
                Eraser.JANITOR,
                "One hour from the first page.",
            ),
            personal(
                "request", "The request with which the person continues after the sign-in.", Eraser.JANITOR, "One hour from the first page."
            ),
            plain(WORD, "purpose"),
            plain(OPAQUE, "browser_digest"),
            plain("A digest under a key that only the person's browser has", "proof_digest"),
        ),
        moves=OF_A_SIGN_IN,
        ends=Ends.ROWS,
        until="at their end, minutes after they began",
        ages=(
            # Nobody continued these flows in time.
            Age("ExpiredFlows", "expires_at < now()"),
        ),
        exported=SHORT_LIVED,
        forgotten=BY_STATEMENT,
    ),
    Table(
        "login_events",
        opens=NO_CREDENTIAL,
        whose=OWN_ORGANIZATION,
        holds=(
            personal(
                "address",
                "The IP address from which a person signed in, or tried to.",
                Eraser.DELETION,
                f"{_SIGN_INS} {WHOLE_MONTHS}",
                "user_id",
            ),
            personal("user_agent", "The client's `User-Agent`.", Eraser.DELETION, f"{_SIGN_INS} {WHOLE_MONTHS}", "user_id"),
            personal("country", "The country of that IP address.", Eraser.DELETION, f"{_SIGN_INS} {WHOLE_MONTHS}", "user_id"),
            personal("city", "The city of that IP address.", Eraser.DELETION, f"{_SIGN_INS} {WHOLE_MONTHS}", "user_id"),
            personal(
                "spot",
                "The location of that IP address, to a tenth of a degree (about ten kilometers).",
                Eraser.DELETION,
                f"{_SIGN_INS} {WHOLE_MONTHS}",
                "user_id",
            ),
            plain(WORD, "provider", "reason", "risk_factors"),
            plain(FACT, "decision"),
            plain("Which hooks have refused the sign-in", "hook_verdicts"),
        ),
        moves=OF_SIGN_INS,
        ends=Ends.OWN,
        until="POSTERN_LOGIN_EVENT_RETENTION",
        ages=(
            # Older habits are deleted with these sign-ins: a person who signs in again after this long counts as a person with
            # little history.
            Age("PastLoginEvents", kept=Setting.LOGIN_EVENTS),
        ),
        exported=ExportPart(
            "login_events",
            shows=("id", "provider", "success", "risk_score", "risk_factors", "address", "user_agent", "country", "city", "spot"),
            named={"at": "created_at"},
        ),
        forgotten=BY_STATEMENT,
    ),
    Table(
        "risk_decisions",
        opens=NO_CREDENTIAL,
        whose=OWN_ORGANIZATION,
        holds=(plain(FACT, "decided"),),
        moves="Rules for risk do not go along, and neither do their decisions",
        ends=Ends.ROWS,
        until="POSTERN_LOGIN_EVENT_RETENTION",
        ages=(
            # As long as the sign-ins that they are about.
            Age("PastRiskDecisions", "created_at < now() - %(retention)s::interval", oldest_first="created_at", kept=Setting.LOGIN_EVENTS),
        ),
    ),
    Table(
        "installation_risk_policies",
        opens=NO_CREDENTIAL,
        whose=INSTALLATION,
        holds=(plain(FACT, "policies", "exceptions"),),
        moves=THE_INSTALLATIONS,
        ends=THE_INSTALLATIONS,
        until="nothing",
    ),
    Table(
        "terms_acceptances",
        opens=NO_CREDENTIAL,
        whose=OWN_ORGANIZATION,
        holds=(of_account("accepted_at", "The time when the person accepted a version of the terms of service."),),
        moves=Moved(of_people=True, leaves=("session_id",)),
        ends=Ends.ROWS,
        exported=ExportPart("terms", shows=("accepted_at",)),
        forgotten=BY_STATEMENT,
    ),
    Table(
        "terms",
        opens=NO_CREDENTIAL,
        whose=OWN_ORGANIZATION,
        holds=(plain(FACT, "version", "address"),),
        moves=Moved(),
        ends=Ends.ROWS,
        until="nothing: each version stays as long as its organization",
    ),
    Table(
        "impersonations",
        opens=CredentialKind.IMPERSONATION,
        whose=PERSON,
        holds=(of_account("reason", "The reason why a platform owner impersonated the person."),),
        moves=OF_A_SIGN_IN,
        ends=A_PERSONS,
        exported=LISTED,
        forgotten=BY_STATEMENT,
    ),
    Table(
        "privacy_requests",
        opens=NO_CREDENTIAL,
        whose=PERSON,
        holds=(
            personal(
                "email_keys",
                "The email addresses of a person who is being erased. The erasure searches for these email addresses.",
                Eraser.DELETION,
                "Until all other data are erased.",
                "user_id",
            ),
        ),
        moves=OF_A_PERSON,
        ends=A_PERSONS,
        exported="the response to the request reports it",
        forgotten="the request clears its own data when it is complete",
    ),
    Table(
        "former_addresses",
        opens=NO_CREDENTIAL,
        whose=PERSON,
        holds=(
            personal(
                "email_key",
                "An earlier, verified email address of the person, as entered and in the form that Postern compares. With it, Postern"
                " recognizes a person whom an organization has removed or declined.",
                Eraser.DELETION,
                "As long as the account, and until all other data are erased.",
                "user_id",
            ),
        ),
        moves=OF_A_PERSON,
        ends=A_PERSONS,
        exported="an earlier email address can belong to another person by now",
        forgotten="the erasure uses them to find data until it is complete",
    ),
    Table("held_accounts", opens=NO_CREDENTIAL, whose=PERSON, holds=(), moves=OF_A_PERSON, ends=A_PERSONS),
    Table(
        "imported_people",
        opens=NO_CREDENTIAL,
        whose=PERSON,
        holds=(
            plain(
                "A digest under a key of the server. It outlives the account, because an import brings nobody back who was removed",
                "digest",
            ),
        ),
        moves="It is a digest under a key of the other installation",
        ends=A_PERSONS,
    ),
    Table(
        "oauth_states",
        opens=CredentialKind.UNFINISHED,
        whose=Whose("organization", "one.realm_id"),
        holds=(plain(WORD, "provider"), plain(FACT, "client_id", "led_to"), plain(OPAQUE, "digest", "browser_digest")),
        moves=OF_A_SIGN_IN,
        ends="They expire within minutes",
        until="at their end, minutes after they began",
        ages=(
            # Nobody came back from the provider with these states in time.
            Age("ExpiredOAuthStates", "expires_at < now()", key="digest"),
        ),
    ),
    Table(
        "further_providers",
        opens=NO_CREDENTIAL,
        whose=INSTALLATION,
        holds=(
            plain(WORD, "key", "preset"),
            plain(FACT, "name", "settings", "client_id", "logo_digest", "logo_media_type", "logo", "state", "namings"),
            plain(OPAQUE, "tested_digest"),
            sealed("sealed_client_secret"),
        ),
        moves=THE_INSTALLATIONS,
        ends=THE_INSTALLATIONS,
        until="when a platform owner deletes it",
    ),
    Table(
        "newcomers",
        opens=CredentialKind.UNFINISHED,
        whose=INSTALLATION,
        holds=(
            sealed(
                "sealed_word",
                key="flow_id",
                personal=Personal(
                    "The encrypted response of a provider about a person without an account, until a code verifies the email address.",
                    None,
                    Eraser.JANITOR,
                    _HALF_AN_HOUR,
                ),
            ),
            personal("email", "The email address that the person entered, and that the code was sent to.", Eraser.JANITOR, _HALF_AN_HOUR),
            plain(WORD, "provider"),
            plain(OPAQUE, "code_digest"),
        ),
        moves=OF_A_SIGN_IN,
        ends=THE_INSTALLATIONS,
        until="half an hour after the person came back from the provider",
        ages=(Age("ExpiredNewcomers", "expires_at < now()", key="flow_id"),),
        exported=SHORT_LIVED,
        forgotten=UNREADABLE,
    ),
    Table(
        "posted_answers",
        opens=CredentialKind.UNFINISHED,
        whose=INSTALLATION,
        holds=(
            sealed(
                "sealed_answer",
                personal=Personal(
                    "The form post response of an identity provider about a person who signs in, encrypted, until their browser returns.",
                    None,
                    Eraser.JANITOR,
                    "Until the browser returns. Unfetched responses are deleted within 15 minutes.",
                ),
            ),
            plain(WORD, "provider"),
            plain(OPAQUE, "code_digest", "state_digest"),
        ),
        moves=OF_A_SIGN_IN,
        ends=THE_INSTALLATIONS,
        until="a minute after they came",
        ages=(Age("ExpiredPostedAnswers", "expires_at < now()"),),
        exported=SHORT_LIVED,
        forgotten=UNREADABLE,
    ),
    Table(
        "used_puzzles",
        opens=NO_CREDENTIAL,
        whose=INSTALLATION,
        holds=(),
        moves=THE_INSTALLATIONS,
        ends=THE_INSTALLATIONS,
        until="when they would count no more, minutes after the page was made",
        ages=(
            # The puzzle has expired, or the hour of somebody who waited is over.
            Age("PastPuzzles", "expires_at < now()", "expires_at"),
        ),
    ),
    Table(
        "guess_counts",
        opens=NO_CREDENTIAL,
        whose=INSTALLATION,
        holds=(
            personal("user_id", "The account that was attacked by credential stuffing.", Eraser.JANITOR, _HOUR_OF_GUESSES),
            personal("network", "The network that the attempts came from.", Eraser.JANITOR, _HOUR_OF_GUESSES),
            personal("key", "The same network, or a digest of an email address with a key of the hour.", Eraser.JANITOR, _HOUR_OF_GUESSES),
            plain(WORD, "kind", "family"),
        ),
        moves=THE_INSTALLATIONS,
        ends=THE_INSTALLATIONS,
        until="an hour after their hour began, and with the next pass of the janitor",
        ages=(
            # A row that is ahead of time comes from a clock that was wrong.
            Age(
                "PastGuesses",
                "(hour < now() - interval '1 hour' or hour > now() + interval '1 hour')",
                oldest_first="hour",
            ),
        ),
        exported="they are deleted after one hour, and describe the actions of strangers",
        forgotten="they are deleted after one hour",
    ),
    Table(
        "guess_alerts",
        opens=NO_CREDENTIAL,
        whose=INSTALLATION,
        holds=(
            personal("user_id", "The account that was attacked by credential stuffing.", Eraser.JANITOR, _DAY_OF_GUESSES),
            personal("network", "The network that the attempts came from.", Eraser.JANITOR, _DAY_OF_GUESSES),
            plain(WORD, "type", "family"),
        ),
        moves=THE_INSTALLATIONS,
        ends=THE_INSTALLATIONS,
        until="a day after the last of their guesses",
        ages=(Age("PastGuessAlerts", "last_at < now() - interval '1 day'", "last_at"),),
        exported="they are deleted after one day, and describe the actions of strangers",
        forgotten="they are deleted after one day",
    ),
    Table(
        "used_key_proofs",
        opens=NO_CREDENTIAL,
        whose=INSTALLATION,
        holds=(plain(OPAQUE, "digest"),),
        moves=THE_INSTALLATIONS,
        ends=THE_INSTALLATIONS,
        until="when they would count no more, two minutes after they were made",
        ages=(
            # Such a proof is refused for its age.
            Age("PastKeyProofs", "expires_at < now()", "expires_at", key="digest"),
        ),
    ),
    Table(
        "identities",
        opens=(CredentialKind.OWN_IDENTITY, CredentialKind.IDENTITY),
        whose=PROVIDER,
        holds=(
            of_account("subject", "The person's ID at an identity provider that they sign in with."),
            of_account("email", "The email address that the identity provider sends.", unshown=LISTED),
            plain(WORD, "provider"),
            plain(FACT, "issuer"),
        ),
        moves=Moved(
            leaves=("made_in",),
            rows="row.upstream_provider_id in (select id from upstream_providers where org_id = %(organization)s::uuid)",
            of_people=True,
            ids={"made_in": IdMeaning.KEPT},
            kept_by={"came_through": "upstream_providers"},
            checks={"is of another provider than it says": "row.provider = row.upstream_provider_id::text"},
        ),
        ends=Ends.ROWS,
        exported=ExportPart("identities", shows=("provider", "subject", "linked_at")),
        forgotten=BY_STATEMENT,
    ),
    Table(
        "directory_sessions",
        opens=CredentialKind.SESSION,
        whose=PROVIDER,
        holds=(
            personal(
                "name_digest", "The person's name ID at a SAML identity provider, as a digest.", Eraser.ACCOUNT, "As long as the session."
            ),
            personal(
                "session_index",
                "The identity provider's session index of the person's session there.",
                Eraser.ACCOUNT,
                "As long as the session.",
            ),
            plain(WORD, "context_class"),
        ),
        moves=OF_A_SIGN_IN,
        ends=Ends.CASCADES,
        exported=WITH_SESSIONS,
        forgotten=WITH_SESSIONS,
    ),
    Table(
        "connection_answers",
        opens=CredentialKind.UNFINISHED,
        whose=PROVIDER,
        holds=(
            sealed(
                "sealed_answer",
                personal=Personal(
                    "The response of an identity provider about a person who signs in, encrypted, until their browser returns.",
                    None,
                    Eraser.JANITOR,
                    "Until the browser returns. Unfetched responses are deleted with the assertion, after some minutes.",
                ),
            ),
            plain(OPAQUE, "code_digest", "assertion_digest"),
        ),
        moves=OF_A_SIGN_IN,
        ends=Ends.ROWS,
        until="at their end, minutes after they began",
        ages=(
            # The assertions in these answers have ended, so they need not be remembered.
            Age("ExpiredConnectionAnswers", "expires_at < now()"),
        ),
        exported=SHORT_LIVED,
        forgotten=UNREADABLE,
    ),
    Table(
        "identity_assertions",
        opens=NO_CREDENTIAL,
        whose=PROVIDER,
        holds=(plain(OPAQUE, "digest"),),
        moves=OF_A_SIGN_IN,
        ends=Ends.ROWS,
        until="at their end, minutes after they began",
        ages=(
            # Neither these assertions nor their sessions are good any more.
            Age("ExpiredIdentityAssertions", "expires_at < now()"),
        ),
    ),
    Table(
        "connection_tests",
        opens=CredentialKind.CONNECTION_TEST,
        whose=PROVIDER,
        holds=(
            sealed(
                "sealed_result",
                personal=Personal(
                    "The response of an identity provider about the person who tested it, encrypted.",
                    None,
                    Eraser.JANITOR,
                    "One hour after the test.",
                ),
            ),
            plain(OPAQUE, "digest", "browser_digest", "settings_digest"),
        ),
        moves=OF_A_SIGN_IN,
        ends=Ends.ROWS,
        until="at their end, minutes after they began",
        ages=(
            # Results of tests are shown for an hour. Nobody has finished the other ones in time.
            Age("ExpiredConnectionTests", "expires_at < now()"),
        ),
        exported=UNREADABLE,
        forgotten=UNREADABLE,
    ),
    Table(
        "connection_exchanges",
        opens=NO_CREDENTIAL,
        whose=PROVIDER,
        holds=(plain(WORD, "kind", "fault", "reason", "advice", "checks"), plain(ID, "message_id", "in_response_to", "certificate")),
        moves=OF_CALLS,
        ends=Ends.ROWS,
        until="7 days",
        ages=(
            # Exchanges are kept for a week, so that people can find out why a sign-in failed.
            Age("PastConnectionExchanges", "created_at < now() - interval '7 days'", oldest_first="created_at"),
        ),
    ),
    Table(
        "directory_failures",
        opens=NO_CREDENTIAL,
        whose=PROVIDER,
        holds=(),
        moves=OF_A_SIGN_IN,
        ends=Ends.ROWS,
        until="when the directory counts wrong passwords anew, minutes after the last one",
        ages=(
            # The directory has forgotten these wrong passwords, too.
            Age("PastDirectoryFailures", "expires_at < now()"),
        ),
    ),
    Table(
        "provider_outages",
        opens=NO_CREDENTIAL,
        whose=INSTALLATION,
        holds=(plain(FACT, "provider"),),
        moves=THE_INSTALLATIONS,
        ends=THE_INSTALLATIONS,
        until="a day after the last failure",
        ages=(
            # An outage counts for minutes. The row of a provider that nobody calls any more would otherwise stay for ever.
            Age("PastOutages", "failed_at < now() - interval '1 day'", key="provider"),
        ),
    ),
    Table(
        "uncounted_logins",
        opens=NO_CREDENTIAL,
        whose=OWN_ORGANIZATION,
        holds=(plain(WORD, "provider"),),
        moves=OF_SIGN_INS,
        ends=Ends.OWN,
        until="when a worker has taken them, within seconds",
    ),
    Table(
        "login_counts",
        opens=NO_CREDENTIAL,
        whose=ORGANIZATION,
        holds=(plain(WORD, "provider"),),
        moves=Moved(ids={"service_id": IdMeaning.KEPT}),
        ends=Ends.OWN,
        until="nothing: a row an hour",
    ),
    Table(
        "platform_login_counts",
        opens=NO_CREDENTIAL,
        whose=INSTALLATION,
        holds=(plain(WORD, "provider"),),
        moves=THE_INSTALLATIONS,
        ends=THE_INSTALLATIONS,
        until="nothing: a row an hour",
    ),
)
