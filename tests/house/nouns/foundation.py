"""The tables that hold no noun, with what they are."""

from typing import Final

from core.domain import identifiers as ids
from tests.house.declaring import Foundation

FOUNDATION: Final = (
    Foundation(
        "a sign-in under way: it lives for minutes, nobody lists it, and it becomes a session or nothing",
        (
            *(
                "authorization_codes",
                "device_codes",
                "afar_requests",
                "pushed_requests",
                "client_assertions",
                "preauthentications",
                "flows",
                "mailed_tokens",
            ),
            *("oauth_states", "connection_answers", "identity_assertions", "used_puzzles", "used_key_proofs"),
            *("newcomers", "posted_answers"),
        ),
        ids=(
            *(
                ids.AuthorizationCodeId,
                ids.DeviceCodeId,
                ids.BackchannelRequestId,
                ids.PushedRequestId,
                ids.PreauthenticationId,
                ids.FlowId,
            ),
            ids.ConnectionAnswerId,
        ),
    ),
    Foundation(
        "the log of what happened: nouns write it, and nobody makes, changes or ends an entry",
        ("login_events", "risk_decisions", "audit_entries", "audit_personal", "audit_links", "audit_pending", "events"),
        ids=(ids.LoginEventId, ids.AuditEntryId, ids.EventId),
    ),
    Foundation(
        "what others publish, or what we know of them: it is fetched again when it is gone",
        ("metadata_documents", "provider_outages"),
    ),
    Foundation("the payment provider's news, which subscriptions follow", ("billing_events", "billing_sweeps")),
    Foundation(
        "the installation's own machinery, which commands and the health page show",
        (
            *("jobs", "server_secrets", "rate_limit_buckets", "mail_budgets", "storage_samples", "schema_migrations", "logout_expiry"),
            *("platform_login_counts", "guess_counts", "guess_alerts", "installation_risk_policies"),
        ),
        ids=(ids.JobId,),
    ),
)
