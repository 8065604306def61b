"""Platform owners in PostgreSQL."""

from datetime import datetime
from typing import Final, LiteralString

from adapters.postgres import locks
from adapters.postgres.identity.addresses import is_proved
from adapters.postgres.rows import AnswerRow, IdRow
from adapters.postgres.statements import only
from adapters.postgres.transaction import OnTransaction
from core.domain.identifiers import UserId
from core.domain.mail import Email


class PlatformOwnerRows(OnTransaction):
    """Implements `ports.platform.PlatformOwnerStore` in one transaction."""

    async def exist(self) -> bool:
        return only(await self._transaction.ask(AnswerRow, _HAS_PLATFORM_OWNER)).yes

    async def exist_besides(self, user: UserId) -> bool:
        return only(await self._transaction.ask(AnswerRow, _HAS_OTHER_PLATFORM_OWNER, {"user": user})).yes

    async def promote(self, email: Email) -> UserId | None:
        promoted = await self._transaction.ask(IdRow, _PROMOTE, {"email_key": email.key})
        return UserId(promoted[0].id) if promoted else None

    async def put_in_office(self, user: UserId, at: datetime) -> bool:
        return bool(await self._transaction.ask(IdRow, _PUT_IN_OFFICE, {"user": user, "at": at}))

    async def put_out_of_office(self, user: UserId, at: datetime) -> bool:
        return bool(await self._transaction.ask(IdRow, _PUT_OUT_OF_OFFICE, {"user": user, "at": at}))

    async def hold(self) -> None:
        await self._transaction.hold(locks.PLATFORM_OWNERS)

    async def hold_first(self) -> None:
        await self._transaction.hold(locks.FIRST_OWNER)


# A deactivated owner counts: a restart must not replace an owner whom somebody has deactivated.
_HAS_PLATFORM_OWNER: Final = "select exists (select from users where is_platform_owner) as yes"

_HAS_OTHER_PLATFORM_OWNER: Final = """
    select exists (select from users where is_platform_owner and deactivated_at is null and id <> %(user)s) as yes
"""

_PROMOTE: Final[LiteralString] = f"""
    update users
       set is_platform_owner = true, updated_at = now()
     where email_key = %(email_key)s and deactivated_at is null and {is_proved()}
 returning id
"""

_PUT_IN_OFFICE: Final[LiteralString] = f"""
    update users
       set is_platform_owner = true, updated_at = %(at)s
     where id = %(user)s and not is_platform_owner and deactivated_at is null and {is_proved()}
 returning id
"""

_PUT_OUT_OF_OFFICE: Final = """
    update users set is_platform_owner = false, updated_at = %(at)s where id = %(user)s and is_platform_owner returning id
"""
