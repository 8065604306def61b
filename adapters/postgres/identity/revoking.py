"""How any session is revoked."""

from typing import Final, LiteralString


def revoking(which: LiteralString) -> LiteralString:
    """The live ones among them, and all that were opened from those. A request that opens a session from another holds the account of the
    other. Hold it too, in a statement before this one, or a session that is being opened slips through.

    Locked in one order everywhere, as presence and refresh do: two that revoke or mark the same sessions cannot deadlock.
    """
    return f"""
    with recursive ending as (
             select id
               from sessions
              where {which} and revoked_at is null
          union
             select sessions.id
               from sessions
               join ending on sessions.parent_id = ending.id
              where sessions.revoked_at is null
         ),
         living as (
             select id
               from sessions
              where id = any (array(select id from ending)) and revoked_at is null
              order by id
                for no key update
         )
  update sessions
     set revoked_at = now()
    from living
   where sessions.id = living.id
"""


# `but` and its line: the sessions that it was opened from, itself, and those that were opened from it.
LINE: Final = """
                 with recursive above as (
                          select id, parent_id from sessions where id = %(but)s
                       union all
                          select sessions.id, sessions.parent_id from sessions join above on sessions.id = above.parent_id
                      ),
                      below as (
                          select id from sessions where id = %(but)s
                       union all
                          select sessions.id from sessions join below on sessions.parent_id = below.id
                      )
               select id from above union select id from below
"""
