"""The hashes of other systems that are still stored, in PostgreSQL."""

from collections.abc import Mapping, Sequence
from typing import Final, LiteralString

from adapters.postgres.statements import ask, ask_in_order
from adapters.postgres.transaction import OnPool
from core.frozen import Frozen
from ports.identity.accounts import PasswordCounts

# One source makes hashes of few shapes. Beyond this number, a shape counts once somebody has tried a password of it.
MOST_SHAPES: Final = 64


class _Count(Frozen):
    kind: str
    number: int


class _Own(Frozen):
    ours: int
    none: int


class PostgresForeignHashes(OnPool):
    """Implements `ports.identity.accounts.ForeignHashStore`."""

    async def shapes(self) -> Sequence[str]:
        return await ask_in_order(self._pool, str, _SHAPES, {"most": MOST_SHAPES})

    async def remaining(self) -> Mapping[str, int]:
        return {row.kind: row.number for row in await ask(self._pool, _Count, _REMAINING)}

    async def counts(self) -> PasswordCounts:
        (own,) = await ask(self._pool, _Own, _OWN)
        return PasswordCounts(own.ours, own.none, await self.remaining())


# The index is made of these words.
_FOREIGN: Final = "left(password_hash, 9) = '$foreign$'"
_SHAPE: Final = "split_part(password_hash, '$', 3) || '$' || split_part(password_hash, '$', 4)"

# Each step finds the next shape in the index, however many hashes have the one before.
_SHAPES: Final[LiteralString] = f"""
    with recursive known as (
             (select {_SHAPE} as shape from users where {_FOREIGN} order by 1 limit 1)
              union all
             select (
                        select {_SHAPE}
                          from users
                         where {_FOREIGN} and ({_SHAPE}) > known.shape
                         order by ({_SHAPE})
                         limit 1
                    )
               from known
              where known.shape is not null
         )
  select shape
    from known
   where shape is not null
   limit %(most)s
"""

_REMAINING: Final[LiteralString] = f"""
    select split_part({_SHAPE}, '$', 1) as kind, count(*) as number
      from users
     where {_FOREIGN}
  group by 1
  order by 1
"""

_OWN: Final[LiteralString] = f"""
    select count(*) filter (where password_hash is not null and not {_FOREIGN}) as ours,
           count(*) filter (where password_hash is null and anonymized_at is null) as none
      from users
"""
