"""Time-based one-time passwords (RFC 6238) by pyotp, and the QR code that brings the secret to an authenticator, by segno."""

from datetime import datetime
from hmac import compare_digest
from io import BytesIO
from typing import Final

import pyotp
import trio

from core.domain.identity.mfa import STEP, TOLERANCE, step_at
from core.domain.secrets import Secret

_SECRET_CHARACTERS: Final = 32  # of base32: 160 bits, as RFC 4226 section 4 recommends
# The label is only shown to the person. A QR code holds some 2,300 bytes, and a letter outside ASCII can take 12 of these bytes.
_LONGEST_LABEL: Final = 128
_DRAWN_AT_ONCE: Final = 2


class PyotpTotp:
    """Implements `ports.identity.sign_in.Totp` with SHA-1, 6 digits and 30 seconds, because every authenticator supports these."""

    def __init__(self, issuer: str) -> None:
        self._issuer = issuer
        self._limiter = trio.CapacityLimiter(_DRAWN_AT_ONCE)

    def new_secret(self) -> Secret:
        return Secret(pyotp.random_base32(_SECRET_CHARACTERS))

    def step_of(self, secret: Secret, code: str, at: datetime) -> int | None:
        hotp = pyotp.HOTP(secret.reveal())
        now = step_at(at)
        given = code.encode()
        found = None
        # All steps are compared, so that the time taken does not tell which step matched. The latest match counts, because accepting a step
        # uses up the earlier steps too.
        for step in range(now - TOLERANCE, now + TOLERANCE + 1):
            if compare_digest(hotp.at(step).encode(), given):
                found = step
        return found

    def uri(self, secret: Secret, account: str) -> Secret:
        totp = pyotp.TOTP(secret.reveal(), interval=int(STEP.total_seconds()))
        return Secret(totp.provisioning_uri(name=account[:_LONGEST_LABEL], issuer_name=self._issuer))

    async def qr_code(self, uri: Secret) -> Secret:
        return Secret(await trio.to_thread.run_sync(_draw, uri.reveal(), limiter=self._limiter))


def _draw(uri: str) -> str:
    """The code has a white ground and a quiet zone, because cameras could not read it off a dark page otherwise."""
    import segno  # noqa: PLC0415 - most processes draw none, and it takes a megabyte; this is a thread of its own

    drawn = BytesIO()
    code = segno.make(uri, error="l", micro=False)
    code.save(drawn, kind="svg", scale=4, light="#fff", xmldecl=False, nl=False, svgclass=None, lineclass=None, title="QR code")
    return drawn.getvalue().decode()
