"""What ends when: each kind of credential and grant, by each cause."""

from enum import Enum, StrEnum, auto


class Kind(StrEnum):
    """A kind of credential or grant: whoever holds one gets in somewhere, or may do something."""

    SESSION = "session"
    APPLICATION_SESSION = "application session"
    API_SESSION = "application session at an API"
    REFRESH_TOKEN = "refresh token"
    PASSWORD = "password"
    PASSKEY = "passkey"
    SECOND_FACTOR = "second factor"
    BACKUP_CODE = "backup code"
    DEVICE = "remembered device"
    MAILED_LINK = "mailed link"
    UNFINISHED = "unfinished sign-in"
    OWN_IDENTITY = "identity of the organization's provider"
    IDENTITY = "connected identity"
    PROVIDER_TOKEN = "provider's token"
    CONSENT = "consent"
    API_CONSENT = "consent to an API"
    AGENT_GRANT = "agent's grant"
    AGENT_SESSION = "agent's session"
    EXCHANGED = "exchanged session"
    ASSERTED = "asserted session"
    IMPERSONATION = "impersonation"
    USER_KEY = "key of a user"
    API_KEY = "API key"
    CLIENT_SECRET = "client secret"
    MANAGEMENT_KEY = "management key"
    DIRECTORY_TOKEN = "directory's token"
    INVITATION = "invitation"
    SETUP_LINK = "set-up link"
    TRUSTED_ISSUER = "trusted issuer"
    WORKLOAD_TOKEN = "workload's token"


class Cause(Enum):
    FIRST_PROOF_INSIDE = auto()
    FIRST_PROOF_OUTSIDE = auto()
    ANOTHER_PROVIDERS_WORD = auto()
    HAND_OVER = auto()
    FORGOTTEN_PASSWORD = auto()
    CHANGED_PASSWORD = auto()
    DEACTIVATED_BY_DIRECTORY = auto()
    SHUT_OUT_BY_ORGANIZATION = auto()
    DEACTIVATED_BY_PLATFORM = auto()
    LEFT = auto()
    REMOVED = auto()
    LET_GO = auto()
    ROLE_LOST = auto()
    SECOND_FACTOR_REMOVED = auto()
    APPLICATION_ENDED = auto()
    API_SUSPENDED = auto()
    API_ENDED = auto()
    CONNECTION_OFF = auto()
    CONNECTION_ENDED = auto()
    ORGANIZATION_SUSPENDED = auto()
    ORGANIZATION_ENDED = auto()
    CONSENT_NARROWED = auto()
    CONSENT_TAKEN_BACK = auto()
    ACCOUNT_DELETED = auto()
