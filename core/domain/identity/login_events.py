"""Login events: one for every attempt to sign in, with its outcome. Analytics, exports and alerts read them."""

from datetime import datetime
from enum import StrEnum

from core.domain.identifiers import DeviceId, LoginEventId, OrganizationId, ServiceId, UserId
from core.frozen import Frozen


class LoginFailure(StrEnum):
    """A closed list, because it is the label of a metric."""

    UNKNOWN_ACCOUNT = "unknown_account"
    WRONG_PASSWORD = "wrong_password"  # noqa: S105 - a reason, not a password
    NO_PASSWORD = "no_password"  # noqa: S105
    DEACTIVATED = "deactivated"
    EMAIL_NOT_VERIFIED = "email_not_verified"
    PROVIDER_REQUIRED = "provider_required"
    THROTTLED = "throttled"
    WRONG_CODE = "wrong_code"
    WRONG_PASSKEY = "wrong_passkey"
    COPIED_PASSKEY = "copied_passkey"
    NOT_VOUCHED = "not_vouched"
    """A provider's word that lets nobody in. The entry names no account."""


class LoginEvent(Frozen):
    id: LoginEventId
    user: UserId | None
    provider: str
    failure: LoginFailure | None
    address: str | None
    user_agent: str | None
    created_at: datetime
    organization: OrganizationId | None = None
    service: ServiceId | None = None
    device: DeviceId | None = None
    risk_score: float = 0.0
    risk_factors: tuple[str, ...] = ()
    flagged: bool = False
    country: str | None = None
    city: str | None = None


class OwnLogin(Frozen):
    """An attempt to sign in to a person's account, as the person sees it."""

    event: LoginEvent
    device_name: str
    """As the person calls the device; otherwise made of what the client said about itself."""
    organization: str
    service: str
    """The names of where it led to. Empty: to the platform, or to what is gone."""
