"""The tables on which all areas stand."""

from typing import Final

from adapters.postgres.tables.declaring import (
    ID,
    INSTALLATION,
    NO_CREDENTIAL,
    OPAQUE,
    THE_INSTALLATIONS,
    UNREADABLE,
    WORD,
    Age,
    Eraser,
    Personal,
    Table,
    personal,
    plain,
    sealed,
)

_UNTIL_SENT: Final = "Until the job is complete; 30 days after the job has finally failed."

TABLES: Final = (
    Table(
        "jobs",
        opens=NO_CREDENTIAL,
        whose=INSTALLATION,
        holds=(
            personal("payload", "The person whom the job is about.", Eraser.JANITOR, _UNTIL_SENT),
            sealed(
                "sealed_payload",
                personal=Personal("An email with its email addresses, encrypted.", None, Eraser.JANITOR, _UNTIL_SENT),
                context="jobs.payload",
            ),
            personal("last_error", "The response of an email server, which can contain an email address.", Eraser.JANITOR, _UNTIL_SENT),
            plain(WORD, "kind", "state"),
        ),
        moves=THE_INSTALLATIONS,
        ends=THE_INSTALLATIONS,
        until="when they are done; dead ones after 30 days",
        ages=(
            # Dead jobs are kept for thirty days, so that an operator can see and revive them.
            Age("DeadJobs", "state = 'dead' and died_at < now() - interval '30 days'"),
        ),
        exported=UNREADABLE,
        forgotten=UNREADABLE,
    ),
    Table(
        "server_secrets",
        opens=NO_CREDENTIAL,
        whose=INSTALLATION,
        holds=(plain(WORD, "purpose"), sealed("sealed_secret", key="purpose", key_type="text")),
        moves=THE_INSTALLATIONS,
        ends=THE_INSTALLATIONS,
        until="nothing",
    ),
    Table(
        "signing_keys",
        opens=NO_CREDENTIAL,
        whose=INSTALLATION,
        holds=(
            plain(WORD, "purpose", "state"),
            plain(ID, "id"),
            plain(OPAQUE, "public_jwk"),
            sealed("sealed_private_key", key_type="text"),
        ),
        moves=THE_INSTALLATIONS,
        ends=THE_INSTALLATIONS,
        until="when no token needs them any more",
        ages=(
            # The last token that these keys signed has expired, and no application sends one back as a hint any more.
            Age("RetiredSigningKeys"),
        ),
    ),
    Table(
        "rate_limit_buckets",
        opens=NO_CREDENTIAL,
        whose=INSTALLATION,
        holds=(
            personal(
                "key",
                "A client's IP address, or the ID or a digest of an account.",
                Eraser.JANITOR,
                "Until the bucket is full again, which takes hours at most.",
            ),
            plain(WORD, "limit_name"),
        ),
        moves=THE_INSTALLATIONS,
        ends=THE_INSTALLATIONS,
        until="when they are full again",
        ages=(
            # A full bucket carries no more information than a missing one.
            Age("FullBuckets"),
        ),
        exported="they are deleted after hours",
        forgotten="they are deleted after hours",
    ),
    Table(
        "mail_budgets",
        opens=NO_CREDENTIAL,
        whose=INSTALLATION,
        holds=(
            personal(
                "key",
                "The network of the requests, or an email domain.",
                Eraser.JANITOR,
                "One day after its last hour.",
            ),
            plain(WORD, "lane", "scope"),
        ),
        moves=THE_INSTALLATIONS,
        ends=THE_INSTALLATIONS,
        until="a day after their hour",
        ages=(
            Age(
                "PastMailBudgets",
                "hour < now() - interval '1 day' and coalesce(held_at, hour) < now() - interval '1 day'"
                " and coalesce(exempt_until, hour) < now() - interval '1 day'",
                oldest_first="hour",
            ),
        ),
        exported="a network or a domain does not identify a person, and they are deleted after one day",
        forgotten="a network or a domain does not identify a person, and they are deleted after one day",
    ),
    Table(
        "storage_samples",
        opens=NO_CREDENTIAL,
        whose=INSTALLATION,
        holds=(plain(WORD, "name"),),
        moves=THE_INSTALLATIONS,
        ends=THE_INSTALLATIONS,
        until="400 days",
    ),
    Table(
        "schema_migrations",
        opens=NO_CREDENTIAL,
        whose=INSTALLATION,
        holds=(plain(WORD, "checksum", "name"),),
        moves=THE_INSTALLATIONS,
        ends=THE_INSTALLATIONS,
        until="nothing",
    ),
)
