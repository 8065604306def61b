"""How sessions are revoked, whoever's they are."""

from typing import LiteralString


def revoking(which: LiteralString) -> LiteralString:
    """Those that live. Locked in one order everywhere, as presence does: two that revoke, or mark, the same sessions cannot deadlock."""
    return f"""
    with living as (
             select id
               from sessions
              where {which} and revoked_at is null
              order by id
                for no key update
         )
  update sessions
     set revoked_at = now()
    from living
   where sessions.id = living.id
"""
