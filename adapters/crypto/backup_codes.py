"""Backup codes. They are random, and the database has only their HMACs under a key of the installation. So a thief of a database dump
cannot guess the codes.
"""

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from itertools import count
from typing import Final

from core.domain.identifiers import UserId
from core.domain.identity.mfa import BACKUP_CODE_ALPHABET, BACKUP_CODE_LENGTH, BACKUP_CODES, as_shown
from core.domain.secrets import Secret
from ports.crypto import ServerSecrets

_PURPOSE: Final = "backup_codes"
# Names the key for derived codes. A form that is sent twice gets the same derived codes.
_SHOWN: Final = "shown_backup_codes"


class HmacBackupCodes:
    """Implements `ports.identity.sign_in.BackupCodes`."""

    def __init__(self, server_secrets: ServerSecrets) -> None:
        self._server_secrets = server_secrets

    def new(self) -> Sequence[Secret]:
        # A set, because a code that is drawn twice would leave the person with one code fewer.
        codes: set[str] = set()
        while len(codes) < BACKUP_CODES:
            codes.add("".join(secrets.choice(BACKUP_CODE_ALPHABET) for _ in range(BACKUP_CODE_LENGTH)))
        return [Secret(as_shown(code)) for code in codes]

    async def derived(self, user: UserId, form: str) -> Sequence[Secret]:
        key = await self._server_secrets.get(_SHOWN)
        codes: dict[str, None] = {}
        for number in count():
            # 256 is a multiple of 32, so all characters are equally likely.
            drawn = hmac.digest(key, user.bytes + f"{number} {form}".encode(), hashlib.sha256)[:BACKUP_CODE_LENGTH]
            codes["".join(BACKUP_CODE_ALPHABET[byte % len(BACKUP_CODE_ALPHABET)] for byte in drawn)] = None
            if len(codes) == BACKUP_CODES:
                break
        return [Secret(as_shown(code)) for code in codes]

    async def prepare(self) -> None:
        await self._server_secrets.get(_PURPOSE)

    async def digest(self, user: UserId, code: str) -> bytes:
        # The digest covers the person's id, so that equal codes of two people have different digests.
        return hmac.digest(await self._server_secrets.get(_PURPOSE), user.bytes + code.encode(), hashlib.sha256)
