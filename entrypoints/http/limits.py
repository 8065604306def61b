"""The rate limits, as data, and the two stages that hold them: a bucket in this process, so that a flood costs no database work, then the
bucket that all processes share.

Each is per client: an IPv4 address or an IPv6 /64. An endpoint may stand under several.
"""

from collections import OrderedDict
from collections.abc import Sequence

import structlog
import trio

from core.domain.errors import Overloaded, RateLimited, Unavailable
from core.domain.rate_limits import Bucket, RateLimit, client_key, take
from ports.metrics import Metrics
from ports.rate_limits import SharedBuckets

log = structlog.get_logger()

# `/auth/*` and `/api/auth/*` as a whole; the others come on top of it.
AUTH = RateLimit("auth", burst=20, seconds_per_request=1)
REGISTER = RateLimit("register", burst=10, seconds_per_request=6)
LOGIN = RateLimit("login", burst=10, seconds_per_request=6)
FORGOT_PASSWORD = RateLimit("forgot_password", burst=5, seconds_per_request=12)
RESEND_VERIFICATION = RateLimit("resend_verification", burst=3, seconds_per_request=20)
DEVICE_FLOW = RateLimit("device_flow", burst=10, seconds_per_request=5)
# Enable, disable, backup codes, regenerate: one limit over all of them, and a milder one that setup and verification share with them.
MFA_SETUP = RateLimit("mfa_setup", burst=5, seconds_per_request=300)
MFA_CHANGES = RateLimit("mfa_changes", burst=5, seconds_per_request=60)
MFA_VERIFY = RateLimit("mfa_verify", burst=3, seconds_per_request=1)
IMPERSONATION = RateLimit("impersonation", burst=10, seconds_per_request=6)
BILLING_WEBHOOK = RateLimit("billing_webhook", burst=100, seconds_per_request=0.06)

POLICIES = (
    AUTH,
    REGISTER,
    LOGIN,
    FORGOT_PASSWORD,
    RESEND_VERIFICATION,
    DEVICE_FLOW,
    MFA_SETUP,
    MFA_CHANGES,
    MFA_VERIFY,
    IMPERSONATION,
    BILLING_WEBHOOK,
)

MOST_BUCKETS = 50_000


class ProcessBuckets:
    """The buckets of this process. Bounded: when there are too many, the one that was used longest ago is forgotten, and with it at most
    what the shared bucket still knows.
    """

    def __init__(self, most: int = MOST_BUCKETS) -> None:
        self._most = most
        self._buckets: OrderedDict[tuple[str, str], Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, limit: RateLimit, key: str, now: float) -> float:
        """The seconds to wait, 0 when a token was there."""
        place = (limit.name, key)
        bucket, wait = take(limit, self._buckets.get(place), now)
        self._buckets[place] = bucket
        self._buckets.move_to_end(place)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return wait


class Limiter:
    def __init__(self, shared: SharedBuckets, metrics: Metrics, own: ProcessBuckets | None = None) -> None:
        self._shared = shared
        self._metrics = metrics
        self._own = own if own is not None else ProcessBuckets()
        self._shared_is_away = False

    async def admit(self, limits: Sequence[RateLimit], address: str) -> None:
        """Raises `RateLimited` when one of the limits is reached."""
        key = client_key(address)
        now = trio.current_time()
        # Every bucket of the process is asked before the database is: none is spared by another's refusal.
        waits = [(self._own.take(limit, key, now), limit) for limit in limits]
        for wait, limit in waits:
            self._refuse_when(wait, limit, "process")
        for wait, limit in zip(await self._take_shared(limits, key), limits, strict=True):
            self._refuse_when(wait, limit, "shared")

    def _refuse_when(self, wait: float, limit: RateLimit, stage: str) -> None:
        if wait > 0:
            self._metrics.rate_limited(limit.name, stage)
            raise RateLimited(retry_after=wait, detail=f"{limit.name}, {stage} stage")

    async def _take_shared(self, limits: Sequence[RateLimit], key: str) -> Sequence[float]:
        """While the database is away the buckets of the process decide alone: they have already given their tokens."""
        try:
            waits = await self._shared.take_all(limits, key)
        except (Unavailable, Overloaded) as error:
            if not self._shared_is_away:
                log.warning("shared_rate_limits_away", detail=error.detail)
            self._shared_is_away = True
            return [0.0] * len(limits)
        if self._shared_is_away:
            log.info("shared_rate_limits_back")
        self._shared_is_away = False
        return waits
