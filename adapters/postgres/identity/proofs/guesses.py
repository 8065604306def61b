"""Counts of guesses over many accounts, in PostgreSQL: unlogged rows of one hour, of a fixed number."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from adapters.postgres.arrays import array, array_of_texts
from adapters.postgres.transaction import OnTransaction
from core.domain.identity.guards.guesses import SUSPICIONS, FailedGuess, GuessPlace, OriginPlaces


class GuessRows(OnTransaction):
    """Implements `ports.identity.sign_in.GuessStore`."""

    async def count(self, guess: FailedGuess) -> None:
        places = [one.place for one in guess.counts]
        moments = {"guess_hour": guess.hour, "guess_at": guess.at}
        counted = {
            **_keys(places),
            **moments,
            "guess_user": guess.user,
            "guess_network": guess.origin.network,
            "guess_widest": guess.origin.widest,
            "guess_family": guess.origin.family,
        }
        types = array(SUSPICIONS[one.kind].alert.value for one in places)
        marks = array(str(one.mark) for one in guess.counts)
        await self._transaction.tell_along(_COUNT, {**counted, "guess_marks": marks})
        await self._transaction.tell_along(_NOTICE, {**_keys(places), **_limits(places), "guess_types": types, **moments})


def pressure_parameters(places: OriginPlaces | None) -> Mapping[str, Any]:
    """The parameters of `PRESSURE`."""
    asked = () if places is None else places.places
    return {**_keys(asked), **_limits(asked), "guess_hour": None if places is None else places.hour}


def _keys(places: Sequence[GuessPlace]) -> Mapping[str, Any]:
    return {
        "guess_kinds": array(one.kind.value for one in places),
        "guess_slots": array(str(one.slot) for one in places),
        "guess_keys": array_of_texts(one.key for one in places),
    }


def _limits(places: Sequence[GuessPlace]) -> Mapping[str, Any]:
    suspicions = [SUSPICIONS[one.kind] for one in places]
    return {
        "guess_failures": array(str(one.failures) for one in suspicions),
        "guess_spreads": array(str(one.marks) for one in suspicions),
    }


# An expression: how many times as many failures as are usual came from the places, over enough accounts. 0 for less.
PRESSURE: Final = """
    coalesce((
        select max(there.failures::float8 / place.failures)
          from unnest(%(guess_kinds)s::text[], %(guess_slots)s::int[], %(guess_keys)s::text[], %(guess_failures)s::int[],
                      %(guess_spreads)s::int[]) as place (kind, slot, key, failures, spread)
         cross join lateral (
                  select counts.failures, counts.seen
                    from guess_counts as counts
                   where counts.kind = place.kind and counts.slot = place.slot and counts.key = place.key
                     and counts.hour = %(guess_hour)s::timestamptz
                  offset 0
              ) as there
         where there.failures >= place.failures and bit_count(there.seen::bit(64)) >= place.spread
    ), 0)"""

# A slot belongs to one key. A failure of another key takes one from its count, and takes the slot over when nothing is left: so what fails
# most stays, and a flood of ever new keys makes no rows. Counts of another hour are over. The row of a password knows no time but the hour:
# the time of its last failure would say which account, and which entry in the log of sign-ins, had this password.
_COUNT: Final = """
    insert into guess_counts as counts (kind, slot, key, hour, user_id, network, family, failures, seen, first_at, last_at)
    select one.kind, one.slot, one.key, %(guess_hour)s::timestamptz,
           case when one.kind = 'account' then %(guess_user)s::uuid end,
           case one.kind when 'network' then %(guess_network)s::text when 'wide' then %(guess_widest)s::text end,
           case when one.kind = 'network' then %(guess_family)s::text end,
           1, 1::bigint << one.mark, moments.at, moments.at
      from unnest(%(guess_kinds)s::text[], %(guess_slots)s::int[], %(guess_keys)s::text[], %(guess_marks)s::int[])
           as one (kind, slot, key, mark)
     cross join lateral (
               select case when one.kind = 'password' then %(guess_hour)s::timestamptz else %(guess_at)s::timestamptz end as at
           ) as moments
     order by one.kind, one.slot
        on conflict (kind, slot) do update
       set (key, hour, id, user_id, network, family, failures, seen, first_at, last_at) = (
               select counts.key, counts.hour, counts.id, counts.user_id, counts.network, counts.family, counts.failures + 1,
                      counts.seen | excluded.seen, counts.first_at, excluded.last_at
                where counts.hour = excluded.hour and counts.key = excluded.key
                union all
               select counts.key, counts.hour, counts.id, counts.user_id, counts.network, counts.family, counts.failures - 1,
                      counts.seen, counts.first_at, counts.last_at
                where counts.hour = excluded.hour and counts.key <> excluded.key and counts.failures > 1
                union all
               select excluded.key, excluded.hour, excluded.id, excluded.user_id, excluded.network, excluded.family, excluded.failures,
                      excluded.seen, excluded.first_at, excluded.last_at
                where counts.hour <> excluded.hour or (counts.key <> excluded.key and counts.failures <= 1)
           )
"""

# This travels with `_COUNT` in one statement, so it sees the counts as they were before: an alert stands from the failure after its limit,
# whose time it has. That of a password has the hour alone, for the reason that its row has: the alert has the row's id.
_NOTICE: Final = """
    insert into guess_alerts as alert (id, type, user_id, network, family, marks, failures, first_at, last_at)
    select counts.id, one.type, counts.user_id, counts.network, counts.family, bit_count(counts.seen::bit(64)), counts.failures,
           counts.first_at, case when one.kind = 'password' then %(guess_hour)s::timestamptz else %(guess_at)s::timestamptz end
      from unnest(%(guess_kinds)s::text[], %(guess_slots)s::int[], %(guess_keys)s::text[], %(guess_failures)s::int[],
                  %(guess_spreads)s::int[], %(guess_types)s::text[]) as one (kind, slot, key, failures, spread, type)
     cross join lateral (
              select *
                from guess_counts as row
               where row.kind = one.kind and row.slot = one.slot and row.key = one.key and row.hour = %(guess_hour)s::timestamptz
              offset 0
          ) as counts
     where counts.failures >= one.failures and bit_count(counts.seen::bit(64)) >= one.spread
     order by one.kind, one.slot
        on conflict (id) do update set marks = excluded.marks, failures = excluded.failures, last_at = excluded.last_at
"""
