"""The rate limits, and the limit of requests that a process works on at once."""

import sys
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Final

import structlog
import trio

from core.domain.errors import Overloaded, RateLimited, Unavailable
from core.domain.rate_limits import Bucket, Place, RateLimit, client_places, give_back, take
from ports.metrics import Metrics
from ports.system import SharedBuckets

log = structlog.get_logger()

# For `/auth/*` and `/api/auth/*` as a whole. The other limits apply in addition.
AUTH = RateLimit("auth", burst=20, seconds_per_request=1)
REGISTER = RateLimit("register", burst=10, seconds_per_request=6)
LOGIN = RateLimit("login", burst=10, seconds_per_request=6)
FORGOT_PASSWORD = RateLimit("forgot_password", burst=5, seconds_per_request=12)
RESEND_VERIFICATION = RateLimit("resend_verification", burst=3, seconds_per_request=20)
DEVICE_FLOW = RateLimit("device_flow", burst=10, seconds_per_request=5)
# MFA_SETUP is one limit over all changes to a second factor. MFA_CHANGES is a milder one, which verifying shares with them.
MFA_SETUP = RateLimit("mfa_setup", burst=5, seconds_per_request=300)
MFA_CHANGES = RateLimit("mfa_changes", burst=5, seconds_per_request=60)
MFA_VERIFY = RateLimit("mfa_verify", burst=3, seconds_per_request=1)
IMPERSONATION = RateLimit("impersonation", burst=10, seconds_per_request=6)
# Each request makes a few calls to the payment provider. A service's own server may do this for many people.
CHECKOUTS = RateLimit("checkouts", burst=60, seconds_per_request=1)
BILLING_WEBHOOK = RateLimit("billing_webhook", burst=100, seconds_per_request=0.06)
# For GET requests of pages. Loading a page is no guess at a secret, and the hundred people of an office behind one address all open the
# links in their mail, so the limit is wide. Submitted forms count under the limits of signing in.
PAGE_LOADS = RateLimit("page_loads", burst=400, seconds_per_request=0.2)
# Answers to invitations by the API rather than by a page. Nobody can guess the token of an invitation; the limit bounds the work.
INVITATION_ANSWERS = RateLimit("invitation_answers", burst=100, seconds_per_request=1)
# For credentials that last until somebody revokes them.
CREDENTIALS = RateLimit("credentials", burst=60, seconds_per_request=1)
# Mails that people send to themselves, to see how their organization writes.
OWN_MAILS = RateLimit("own_mails", burst=20, seconds_per_request=30)
# Exporting and deleting all data about a person. Each request reads or changes thousands of rows.
PRIVACY = RateLimit("privacy", burst=30, seconds_per_request=2)
# Configuration documents. Each request reads everything that is set, and may change all of it. Each change also counts under the limits of
# its own endpoint.
DOCUMENTS = RateLimit("documents", burst=30, seconds_per_request=2)
# Requests of an authenticated client at the token endpoint and its neighbours. Each process counts them by the client's id. The limit is
# wide, because one server may sign many people in, and an authenticated client has nothing to guess there.
CLIENT = RateLimit("client", burst=1000, seconds_per_request=0.01)
# Proofs of keys. Each process counts them by the key: what was used is kept for two minutes, and one key cannot fill the table.
KEY_PROOFS = RateLimit("key_proofs", burst=1000, seconds_per_request=0.01)
# Requests of a directory. Each process counts them by the directory's token. An import of many people proceeds at this pace.
SCIM = RateLimit("scim", burst=2000, seconds_per_request=0.004)
# Requests with a management key. Each process counts them by the key. Setting a whole organization up proceeds at this pace.
MANAGEMENT_KEYS = RateLimit("management_keys", burst=1000, seconds_per_request=0.01)
# Sign-ins on the pages. The hundred people of an office behind one address may all sign in on the same morning, so only failures count: a
# successful sign-in gives its token back to the bucket. Simultaneous requests of one client wait for their turn, so that many right
# passwords at once do not empty the bucket.
PAGE_SIGN_INS = RateLimit("page_sign_ins", burst=50, seconds_per_request=6)
# The user codes that devices show. Only wrong codes count, because a household or an office may have many devices.
USER_CODES = RateLimit("user_codes", burst=20, seconds_per_request=6)
# Steps on the pages that check no secret, but write to the database.
PAGE_STEPS = RateLimit("page_steps", burst=400, seconds_per_request=0.2)
# Registrations and renewals of bound sessions: two requests each ten minutes of a browser in use. A whole office stands behind one address,
# and whoever meets this limit keeps session and key: the browser asks again with its next request.
BOUND_SESSIONS = RateLimit("bound_sessions", burst=2000, seconds_per_request=0.05)
# What the console suggests while somebody types: a request for each pause between two letters. It has a bucket of its own, so that whoever
# types much may still send forms.
SUGGESTIONS = RateLimit("suggestions", burst=600, seconds_per_request=0.1)
# For endpoints that need no limit although their caller rule demands one. Postern does not start while such an endpoint states no limit.
UNLIMITED: tuple[RateLimit, ...] = ()

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
    CHECKOUTS,
    BILLING_WEBHOOK,
    PAGE_LOADS,
    INVITATION_ANSWERS,
    CREDENTIALS,
    OWN_MAILS,
    PRIVACY,
    DOCUMENTS,
    CLIENT,
    KEY_PROOFS,
    SCIM,
    MANAGEMENT_KEYS,
    PAGE_SIGN_INS,
    PAGE_STEPS,
    BOUND_SESSIONS,
    SUGGESTIONS,
    USER_CODES,
)

MOST_BUCKETS = 50_000
# The number of tries of one client that this process works on at once. A few processes together stay below the burst.
TRIES_AT_ONCE = 10


class ProcessBuckets:
    """The buckets of this process. Their number is bounded: when there are too many, the least recently used bucket is dropped.
    The shared bucket still has the count of a dropped bucket.
    """

    def __init__(self, most: int = MOST_BUCKETS) -> None:
        self._most = most
        self._buckets: OrderedDict[tuple[str, str], Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, limit: RateLimit, key: str, now: float) -> float:
        """Take a token. Returns the number of seconds to wait; 0 when the bucket had a token."""
        place = (limit.name, key)
        bucket, wait = take(limit, self._buckets.get(place), now)
        self._buckets[place] = bucket
        self._buckets.move_to_end(place)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return wait

    def has_room(self, limit: RateLimit, key: str, now: float) -> bool:
        """Whether the bucket has a token. The token is not taken."""
        _, wait = take(limit, self._buckets.get((limit.name, key)), now)
        return wait == 0

    def give_back(self, limit: RateLimit, key: str) -> None:
        place = (limit.name, key)
        bucket = self._buckets.get(place)
        if bucket is not None:
            self._buckets[place] = give_back(limit, bucket)


class _Queue:
    """The running and waiting tries of one client. The queue exists only while the client has such tries."""

    __slots__ = ("inside", "turns")

    def __init__(self) -> None:
        self.turns = trio.CapacityLimiter(TRIES_AT_ONCE)
        self.inside = 0


class Limiter:
    """The rate limits are data, and two stages apply them. The first stage is a bucket in this process, so that a flood costs no database
    work. The second stage is a bucket in the database, which all processes share. Each limit is per client: an IPv4 address or an IPv6 /64.
    The /56 and the /48 around a /64 have wider limits. An endpoint may have several limits.
    """

    def __init__(self, shared: SharedBuckets, metrics: Metrics, own: ProcessBuckets | None = None) -> None:
        self._shared = shared
        self._metrics = metrics
        self._own = own if own is not None else ProcessBuckets()
        self._shared_is_away = False
        self._queues: dict[str, _Queue] = {}

    @asynccontextmanager
    async def attempt(self, limit: RateLimit, address: str) -> AsyncIterator[Callable[[], None]]:
        """Make a try when its turn comes. The block calls the yielded function when the try has succeeded; a successful try does not count.
        A try that ends with `Overloaded` or `Unavailable` does not count either. Raises `RateLimited`.
        """
        places = client_places(address)
        key = places[0].key
        queue = self._queues.setdefault(key, _Queue())
        queue.inside += 1
        succeeded = False

        def succeed() -> None:
            nonlocal succeeded
            succeeded = True

        try:
            async with queue.turns:
                await self.admit((limit,), address)
                try:
                    yield succeed
                except (Overloaded, Unavailable):
                    succeeded = True
                    raise
                finally:
                    if succeeded:
                        await self._give_back(limit, places)
        finally:
            queue.inside -= 1
            if not queue.inside:
                del self._queues[key]

    async def _give_back(self, limit: RateLimit, places: Sequence[Place]) -> None:
        for place in places:
            self._own.give_back(place.limit(limit), place.key)
        with suppress(Unavailable, Overloaded):
            await self._shared.give_back(limit, places[0].key, places[1:])

    async def admit(self, limits: Sequence[RateLimit], address: str) -> None:
        """Count a request of this address under the limits. Raises `RateLimited` when one of the limits is reached."""
        places = client_places(address)
        now = trio.current_time()
        for place in places:
            # All buckets of one place are charged before those of the next place, even if one of them refuses. After a refusal, the buckets
            # of the wider networks are not charged, because neighbours share these networks.
            waits = [(self._own.take(place.limit(limit), place.key, now), limit) for limit in limits]
            for wait, limit in waits:
                self._refuse_when(wait, limit, "process")
        for wait, limit in zip(await self._take_shared(limits, places), limits, strict=True):
            self._refuse_when(wait, limit, "shared")

    def admit_client(self, limit: RateLimit, key: str) -> None:
        """Count a request of an authenticated client under its key, such as the client's id. Raises `RateLimited`."""
        self._refuse_when(self._own.take(limit, key, trio.current_time()), limit, "process")

    def has_room(self, limit: RateLimit, address: str) -> bool:
        """Whether this process would admit a request from this address, without counting the request."""
        now = trio.current_time()
        return all(self._own.has_room(place.limit(limit), place.key, now) for place in client_places(address))

    def has_room_for_client(self, limit: RateLimit, key: str) -> bool:
        """Whether this process would admit a request of an authenticated client, without counting the request."""
        return self._own.has_room(limit, key, trio.current_time())

    def _refuse_when(self, wait: float, limit: RateLimit, stage: str) -> None:
        if wait > 0:
            self._metrics.rate_limited(limit.name, stage)
            raise RateLimited(retry_after=wait, detail=f"{limit.name}, {stage} stage")

    async def _take_shared(self, limits: Sequence[RateLimit], places: Sequence[Place]) -> Sequence[float]:
        """Take from the shared buckets. While the database is away, the buckets of this process, which `admit` has already charged, decide
        alone.
        """
        try:
            waits = await self._shared.take_all(limits, places[0].key, places[1:])
        except (Unavailable, Overloaded) as error:
            if not self._shared_is_away:
                log.warning("shared_rate_limits_away", detail=error.detail)
            self._shared_is_away = True
            return [0.0] * len(limits)
        if self._shared_is_away:
            log.info("shared_rate_limits_back")
        self._shared_is_away = False
        return waits


class Work:
    """`with work:` counts one more request at work. Raises `Overloaded` when too many requests are at work.

    A plain class with slots, since every request passes through it.

    A request is not at work while it waits for its client to send the body or to read the response.
    """

    __slots__ = ("_most", "_now")

    def __init__(self, most: int) -> None:
        self._most = most
        self._now = 0

    def __enter__(self) -> None:
        if self._now >= self._most:
            raise Overloaded(retry_after=1, detail="too many requests in flight")
        self._now += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._now -= 1


UNBOUNDED_WORK: Final = Work(sys.maxsize)
"""For requests that Postern answers even while the process is overloaded."""
