"""People's pictures in PostgreSQL."""

from datetime import datetime
from typing import Final

from adapters.postgres.rows import IdRow
from adapters.postgres.statements import first
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import PictureId, UserId
from core.domain.identity.profiles import Picture


class PictureRows(OnStatements):
    """Implements `ports.identity.accounts.PictureStore`."""

    async def find(self, picture: PictureId) -> Picture | None:
        return first(await self._statements.ask(Picture, _GET, {"id": picture}))

    async def replace(self, user: UserId, picture: Picture, id: PictureId, at: datetime) -> None:  # noqa: A002 - the noun's own word
        parameters = {"id": id, "user": user, "type": picture.media_type, "content": picture.content, "at": at}
        await self._statements.tell(_REPLACE, parameters)

    async def remove(self, user: UserId) -> bool:
        return bool(await self._statements.ask(IdRow, "delete from pictures where user_id = %(user)s returning id", {"user": user}))


_GET: Final = "select type as media_type, content from pictures where id = %(id)s"

_REPLACE: Final = """
    insert into pictures (id, user_id, type, content, created_at)
    values (%(id)s, %(user)s, %(type)s, %(content)s, %(at)s)
        on conflict (user_id) do update
       set id = excluded.id, type = excluded.type, content = excluded.content, created_at = excluded.created_at
"""
