"""Check the signatures of assertions: JSON Web Tokens by which issuers outside vouch for workloads and people."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import trio

from adapters.crypto.jwk_signatures import chosen_key
from adapters.upstream.calls import Calls
from adapters.upstream.keys import NoKeySet, ProviderKeys, UnknownKey, read_header
from adapters.upstream.remembered import FAILURE_COUNTS_FOR
from core.domain.identity.upstream.claims import NotVouched
from core.domain.identity.upstream.jwt_assertions import AssertionFault, AssertionRefused, SignedToken, TrustedKeys, require_readable
from core.domain.identity.upstream.sign_in import OAuthError

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
