"""Profiles in PostgreSQL. The columns stand on the account. `profile_updated_at` is null while nothing was ever set."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.identity.privacy.forgetting import PROFILE
from adapters.postgres.statements import first_made
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import PictureId, UserId
from core.domain.identity.profiles import NO_PROFILE, HeldProfile, OwnProfile
from core.domain.languages import Language
from core.frozen import Frozen

# One column for the whole profile, in any statement that reads `users`. It is null for people who have set nothing, so that the look-up of
# every caller costs them nothing.
AS_JSON: Final = """
           case when users.profile_updated_at is not null then
               jsonb_build_array(
                   users.name, users.given_name, users.family_name, users.username, users.zoneinfo, users.picture_id,
                   extract(epoch from users.profile_updated_at)
               )
           end
"""


def profile_of(told: Sequence[Any] | None) -> OwnProfile:
    """The profile in a column `AS_JSON`."""
    if told is None:
        return NO_PROFILE
    name, given_name, family_name, username, zoneinfo, picture, updated_at = told
    return OwnProfile(
        name=name,
        given_name=given_name,
        family_name=family_name,
        username=username,
        zoneinfo=zoneinfo,
        picture=None if picture is None else PictureId(UUID(picture)),
        updated_at=datetime.fromtimestamp(updated_at, UTC),
    )


class _Held(Frozen):
    told: list[Any] | None
    language: str | None


class ProfileRows(OnStatements):
    """Implements `ports.identity.accounts.ProfileStore`."""

    async def find(self, user: UserId) -> HeldProfile | None:
        return first_made(
            await self._statements.ask(_Held, _FIND, {"user": user}),
            lambda row: HeldProfile(profile_of(row.told), Language.of(row.language)),
        )

    async def save(self, user: UserId, profile: HeldProfile, at: datetime) -> None:
        told = profile.profile
        parameters = {
            "user": user,
            "name": told.name,
            "given_name": told.given_name,
            "family_name": told.family_name,
            "username": told.username,
            "zoneinfo": told.zoneinfo,
            "language": profile.language and profile.language.value,
            "at": at,
        }
        await self._statements.tell(_SAVE, parameters)

    async def use_up(self, username_digest: bytes) -> bool:
        return bool(await self._statements.ask_in_order(bytes, _USE_UP, {"digest": username_digest}))

    async def point(self, user: UserId, picture: PictureId | None, at: datetime) -> None:
        await self._statements.tell(_POINT, {"user": user, "picture": picture, "at": at})

    async def forget(self, user: UserId) -> None:
        for statement in PROFILE:
            await self._statements.tell(statement, {"user": user})


_FIND: Final[LiteralString] = f"""
    select {AS_JSON} as told, language
      from users
     where id = %(user)s and deactivated_at is null
"""

_SAVE: Final = """
    update users
       set name = %(name)s, given_name = %(given_name)s, family_name = %(family_name)s, username = %(username)s, zoneinfo = %(zoneinfo)s,
           language = %(language)s, profile_updated_at = %(at)s, updated_at = %(at)s
     where id = %(user)s
"""

_USE_UP: Final = "insert into used_usernames (digest) values (%(digest)s) on conflict do nothing returning digest"

_POINT: Final = "update users set picture_id = %(picture)s, profile_updated_at = %(at)s, updated_at = %(at)s where id = %(user)s"
