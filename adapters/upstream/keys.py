"""Verifies ID tokens and JWT assertions with the keys that their issuers publish."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar, cast

import msgspec
import trio
from jwt.utils import base64url_decode

from adapters.crypto.signed_by_others import SIGNATURE_ALGORITHMS, NotSigned, chosen_key, signed_claims
from adapters.upstream.oauth import MOST_VALUES, Calls
from core.domain.far_numbers import has_too_many_values
from core.domain.identity.upstream.claims import NotVouched
from core.domain.identity.upstream.jwt_assertions import AssertionFault, AssertionRefused, SignedToken, TrustedKeys, require_readable
from core.domain.identity.upstream.sign_in import OAuthError, ProviderAway

Published = TypeVar("Published")


FRESH_FOR: Final = 3600.0
# In seconds. `look` asks whether a provider answers, and a call of the last minute counts for it. For somebody who tries another way in,
# only a call of the last second counts, since this person may be the first who met the outage. A failure counts for ten seconds, so that
# many people who come one after the other do not each wait for a failing provider, and do not add to its load. It counts only while the
# provider is known to be away: if it is not, somebody has got through since, perhaps by another process. So whoever read that it is there a
# moment before the failure was noted, and looks after the failed call has ended, calls again. Those who do so at once share a call.
LOOK_COUNTS_FOR: Final = 60.0
ATTEMPT_COUNTS_FOR: Final = 1.0
FAILURE_COUNTS_FOR: Final = 10.0
MOST_REMEMBERED: Final = 500


@dataclass(slots=True)
class _Place(Generic[Published]):
    turn: trio.Lock = field(default_factory=trio.Lock)
    published: Published | None = None
    fetched_at: float = 0.0
    calls: int = 0
    failure: Exception | None = None
    """The failure of the last call, if it failed."""
    failed_at: float = 0.0

    def has_failed_within(self, seconds: float) -> bool:
        return self.failure is not None and trio.current_time() - self.failed_at <= seconds

    def is_fresh(self, not_older_than: float) -> bool:
        return trio.current_time() - self.fetched_at <= not_older_than


class PublishedAnswers(Generic[Published]):
    """Caches the metadata and keys that providers publish. Callers that ask at the same time share one call, also a call that fails.
    Otherwise a slow provider would delay these callers one after the other.
    """

    def __init__(self, fetch: Callable[[str], Awaitable[Published]], most: int = MOST_REMEMBERED) -> None:
        self._fetch = fetch
        self._most = most
        self._places: OrderedDict[str, _Place[Published]] = OrderedDict()

    async def look(self, url: str, *, at_attempt: bool = False, is_away: bool = True) -> None:
        """Fetch if the last call is older than a minute, or than a second at an attempt to come in otherwise. Raises the error of `fetch`;
        of a provider that is known to be away, also an error of the last ten seconds.
        """
        counts_for = ATTEMPT_COUNTS_FOR if at_attempt else LOOK_COUNTS_FOR
        await self.get(url, not_older_than=counts_for, not_again_within=FAILURE_COUNTS_FOR if is_away else -1.0)

    async def get(self, url: str, *, not_older_than: float = FRESH_FOR, not_again_within: float = -1.0) -> Published:
        """The answer of the provider, fetched at most `not_older_than` seconds ago. Raises the error of `fetch`, also an error of the last
        `not_again_within` seconds.
        """
        place = self._places.setdefault(url, _Place())
        self._places.move_to_end(url)
        while len(self._places) > self._most:
            self._places.popitem(last=False)
        if place.published is not None and place.is_fresh(not_older_than):
            return place.published
        calls = place.calls
        async with place.turn:
            if place.failure is not None and (place.calls > calls or place.has_failed_within(not_again_within)):
                raise _repeated(place.failure)
            # A call that ended while this caller waited for its turn is new enough, whatever its age by the clock.
            if place.published is None or (place.calls == calls and not place.is_fresh(not_older_than)):
                place.published = await self._called(url, place)
                place.fetched_at = trio.current_time()
            return place.published

    async def _called(self, url: str, place: _Place[Published]) -> Published:
        try:
            published = await self._fetch(url)
        except Exception as failure:
            place.calls, place.failure, place.failed_at = place.calls + 1, failure, trio.current_time()
            raise
        place.calls, place.failure = place.calls + 1, None
        return published


def _repeated(failure: Exception) -> Exception:
    """The failure for a caller who has not made the call."""
    if isinstance(failure, ProviderAway):
        return ProviderAway(detail=failure.detail, is_news=False)
    # Without `with_traceback`, each raise would lengthen the traceback, and the traceback keeps the local variables of all these callers in
    # memory.
    return failure.with_traceback(None)


LONGEST_TOKEN: Final = 32 << 10
MOST_KEYS: Final = 100
# The modulus of an RSA key of 8192 bits, in base64url.
LONGEST_MEMBER: Final = 1366
# An exponent of four bytes in base64url. With a long exponent, verifying one signature would take ten milliseconds.
LONGEST_EXPONENT: Final = 6
_MEMBERS: Final = ("kty", "kid", "alg", "n", "e", "crv", "x", "y")
# In seconds. A token with an unknown key, or with a signature that does not verify, makes us fetch the keys again, but not more often than
# this.
LOOKED_AGAIN_AFTER: Final = 30.0
Keys = Sequence[Mapping[str, str]]


class UnknownKey(NotVouched):
    """The issuer has no key of this name."""


class NoKeySet(NotVouched):
    """The address answers with something else than a set of keys."""


class ProviderKeys:
    """`limiter` bounds the threads that check signatures. Without a limiter, the event loop checks them."""

    def __init__(self, calls: Calls, limiter: trio.CapacityLimiter | None = None) -> None:
        self._calls = calls
        self._limiter = limiter
        self._sets = PublishedAnswers(self._fetched)

    async def look(self, jwks_url: str, *, at_attempt: bool = False, is_away: bool = True) -> None:
        """Fetch the keys, as `PublishedAnswers.look` does. Raises the error of that call."""
        await self._sets.look(jwks_url, at_attempt=at_attempt, is_away=is_away)

    async def published(self, jwks_url: str) -> Keys:
        """The keys at the address that we can use, as they are now. Raises `NotVouched` and `OAuthError`."""
        return await self._sets.get(jwks_url, not_older_than=0.0)

    async def verified(self, token: str, jwks_url: str) -> Mapping[str, Any]:
        """The claims of a token whose signature is good. Raises `NotVouched` and `OAuthError`."""
        return (await self.signed(token, jwks_url)).claims

    async def signed(self, token: str, jwks_url: str, *, not_again_within: float = -1.0) -> SignedToken:
        """A token whose signature is good. After a call that failed, there is no other call for `not_again_within` seconds. Raises
        `NotVouched` and `OAuthError`.
        """
        header = read_header(token)
        tried: Mapping[str, str] | None = None
        refusal: NotVouched = UnknownKey("no such key")
        for age in (FRESH_FOR, LOOKED_AGAIN_AFTER):
            keys = await self._sets.get(jwks_url, not_older_than=age, not_again_within=not_again_within)
            key = chosen_key(keys, header.get("kid"))
            if key is None or key == tried:
                continue
            try:
                return SignedToken(header.get("typ"), await self.checked(token, key))
            except NotVouched as failed:
                # The provider may have published a new key with the same name. Or the provider has a single key without a name, and has
                # replaced it.
                tried, refusal = key, failed
        raise refusal

    async def checked(self, token: str, key: Mapping[str, Any]) -> Mapping[str, Any]:
        """The claims of a token that this key has signed. Raises `NotVouched`."""
        try:
            if self._limiter is None:
                return signed_claims(token, key)
            return await trio.to_thread.run_sync(signed_claims, token, key, limiter=self._limiter)
        except NotSigned as failed:
            raise NotVouched(f"the token does not verify: {failed}") from None

    async def _fetched(self, url: str) -> Keys:
        published = await self._calls.get(url)
        keys = published.get("keys") if isinstance(published, dict) else None
        if not isinstance(keys, list):
            raise NoKeySet("no set of keys")
        return [kept for one in keys[:MOST_KEYS] if (kept := _kept(one)) is not None]


def read_header(token: str) -> Mapping[str, Any]:
    """The token's header. This function reads loosely, since PyJWT later reads the same bytes strictly. Raises `NotVouched`."""
    if len(token) > LONGEST_TOKEN or not token.isascii():
        raise NotVouched("the token is too long")
    try:
        parts = [base64url_decode(part) for part in token.split(".")[:2]]
        if any(has_too_many_values(part, MOST_VALUES) for part in parts):
            raise NotVouched("the token says too much")
        header = msgspec.json.decode(parts[0])
    except (ValueError, RecursionError) as error:
        raise NotVouched(f"the token cannot be read: {error}") from None
    if not isinstance(header, dict):
        raise NotVouched("the token has no header")
    if "crit" in header:
        # RFC 7515 section 4.1.11: whoever does not understand all of these members refuses the token.
        raise NotVouched("the token's header demands more than we know")
    return header


def _kept(one: Any) -> Mapping[str, str] | None:
    """The members of a published key that we need, or None if we cannot use the key. Other members, and keys longer than any that we
    accept, would only cost memory and time.
    """
    if not isinstance(one, dict) or one.get("use") == "enc":
        return None
    kept = {name: one[name] for name in _MEMBERS if isinstance(one.get(name), str) and len(one[name]) <= LONGEST_MEMBER}
    is_one = kept.get("kty") in SIGNATURE_ALGORITHMS and ("kid" in kept or "kid" not in one) and len(kept.get("e", "")) <= LONGEST_EXPONENT
    return kept if is_one else None


# The library releases the interpreter's lock while it checks a signature. More threads would take processor time from other requests.
_THREADS: Final = 2


class JwtAssertionSignatures:
    """Implements `ports.identity.upstream.AssertionSignatures`. Fetched keys are kept for an hour. An assertion with an
    unknown key, or a signature that does not verify, makes us fetch them again, at most twice a minute; a failed fetch counts for ten
    seconds.
    """

    def __init__(self, calls: Calls) -> None:
        self._keys = ProviderKeys(calls, trio.CapacityLimiter(_THREADS))

    async def look(self, address: str) -> None:
        try:
            keys = await self._keys.published(address)
        except OAuthError as failed:
            raise AssertionRefused(AssertionFault.KEYS_AWAY, failed.detail or failed.message) from None
        except NotVouched as failed:
            raise AssertionRefused(AssertionFault.KEYS_AWAY, str(failed)) from None
        if not keys:
            raise AssertionRefused(AssertionFault.KEYS_AWAY, "no key for signatures of RSA, EC or EdDSA")

    async def signed(self, assertion: str, keys: TrustedKeys) -> SignedToken:
        require_readable(assertion)
        try:
            header = read_header(assertion)
        except NotVouched as refusal:
            raise AssertionRefused(AssertionFault.MALFORMED, str(refusal)) from None
        try:
            if keys.address is not None:
                return await self._keys.signed(assertion, keys.address, not_again_within=FAILURE_COUNTS_FOR)
            return SignedToken(header.get("typ"), await self._keys.checked(assertion, _pasted_key(keys, header.get("kid"))))
        except OAuthError as failed:
            raise AssertionRefused(AssertionFault.KEYS_AWAY, failed.detail or failed.message) from None
        except NoKeySet as failed:
            raise AssertionRefused(AssertionFault.KEYS_AWAY, str(failed)) from None
        except UnknownKey:
            raise AssertionRefused(AssertionFault.KEY) from None
        except NotVouched as refusal:
            raise AssertionRefused(AssertionFault.SIGNATURE, str(refusal)) from None


def _pasted_key(keys: TrustedKeys, name: Any) -> Mapping[str, Any]:
    key = chosen_key(cast("Sequence[Any]", (keys.pasted or {}).get("keys", ())), name)
    if key is None:
        raise UnknownKey("no such key")
    return key
