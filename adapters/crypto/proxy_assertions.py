"""What applications behind proxies are told, signed. A page of such an application makes dozens of requests at once, and each is told the
same: an assertion that was made a moment ago is told again.
"""

from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from core.domain.formats import Json
from ports.crypto import TokenSigner

# Of the sixty seconds that an assertion lives, the application has at least thirty.
TOLD_AGAIN_FOR: Final = timedelta(seconds=30)
_MOST: Final = 5_000
_TIMES: Final = frozenset({"iat", "exp"})


class RememberedAssertions:
    """Implements `ports.federation.oauth.ProxyAssertions`."""

    def __init__(self, signer: TokenSigner, most: int = _MOST) -> None:
        self._signer = signer
        self._most = most
        self._signed: OrderedDict[bytes, tuple[str, datetime]] = OrderedDict()

    async def signed(self, claims: Mapping[str, Json], now: datetime) -> str:
        said = msgspec.json.encode({name: value for name, value in claims.items() if name not in _TIMES})
        known = self._signed.get(said)
        if known is not None and timedelta() <= now - known[1] < TOLD_AGAIN_FOR:
            return known[0]
        token = await self._signer.sign_proxy(claims)
        self._signed[said] = token, now
        self._signed.move_to_end(said)
        if len(self._signed) > self._most:
            self._signed.popitem(last=False)
        return token
