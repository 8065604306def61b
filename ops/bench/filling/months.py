"""Gives a table in parts by month the parts that it would have, had the installation served in these months."""

from typing import Any, Final, LiteralString

import psycopg


def cut_past_months(connection: psycopg.Connection[Any], parent: LiteralString, months: int) -> None:
    """Cuts the part of what was there before, which must be empty. Afterwards it ends where the first of these months begins."""
    connection.execute(_CUT.replace("{parent}", parent).replace("{months}", str(months)))


# The part ends at the beginning of a month.
_CUT: Final = """
do $$
declare
    past  record;
    month timestamp;
    begun timestamp;
begin
    select * into past from partitions_of('{parent}') as part where part.first is null and not part.is_rest;
    execute format('alter table {parent} detach partition partitions.%I', past.name);
    begun := date_trunc('month', now() at time zone 'UTC') - interval '{months} months';
    month := begun;
    while first_id_of(month at time zone 'UTC') < past.last loop
        execute format(
            'create table partitions.%I partition of {parent} for values from (%L) to (%L)',
            '{parent}' || to_char(month, '"_"YYYY"_"MM'), first_id_of(month at time zone 'UTC'),
            least(past.last, first_id_of((month + interval '1 month') at time zone 'UTC'))
        );
        month := month + interval '1 month';
    end loop;
    execute format(
        'alter table {parent} attach partition partitions.%I for values from (minvalue) to (%L)',
        past.name, first_id_of(begun at time zone 'UTC')
    );
end $$
"""
