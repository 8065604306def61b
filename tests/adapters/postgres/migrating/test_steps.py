"""The reader of migrations in steps takes a few forms, none of which can hold a table, and refuses everything else."""

from pathlib import Path
from typing import Final

import pytest

from adapters.postgres.migrate import SchemaMismatch, shipped
from adapters.postgres.migrating.steps import Batches, BuildIndex, DropIndex, NotAStep, Validate, steps_of

GOOD: Final = """\
-- additive, in steps
-- Sign-ins are searched by country.

-- step: index login_events_of_country
-- Only those that have one.
create unique index concurrently login_events_of_country
    on login_events using btree (lower(country), id desc) where country is not null;

-- step: batches of login_events by id
update login_events
   set country = upper(country)
 where id between %(first)s and %(last)s and country <> upper(country);

-- step: batches of users by id
insert into marks (user_id) select id from users where id between %(first)s and %(last)s
    on conflict (user_id) do nothing;

-- step: batches of sessions by id
delete from sessions where id between %(first)s and %(last)s and revoked_at is not null;

-- step: validate login_events_country of login_events
alter table login_events
    validate constraint login_events_country;

-- step: drop index login_events_old of login_events
drop index concurrently login_events_old;
"""


def test_the_forms_that_hold_no_table() -> None:
    build, change, fill, delete, validate, drop = steps_of(GOOD)
    assert isinstance(build, BuildIndex)
    assert (build.name, build.table) == ("login_events_of_country", "login_events")
    assert build.statement.startswith("create unique index concurrently")
    assert isinstance(change, Batches)
    assert (change.table, change.key) == ("login_events", "id")
    assert isinstance(fill, Batches)
    assert isinstance(delete, Batches)
    assert validate == Validate("login_events_country", "login_events", "alter table login_events validate constraint login_events_country")
    assert drop == DropIndex("login_events_old", "login_events", "drop index concurrently if exists login_events_old")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-- additive, in steps\nalter table users add column shoe text;\n-- step: validate a of b\nalter table b validate constraint a;",
        "-- step: sing\nselect 1;",
        "-- step: index a\n",
        "-- step: index a\ncreate index concurrently a on b (c)",
        "-- step: index a\ncreate index a on b (c);",
        "-- step: index a\ncreate index concurrently if not exists a on b (c);",
        "-- step: index a\ncreate index concurrently other on b (c);",
        "-- step: index a\ncreate index concurrently a on b (c); drop table b;",
        "-- step: index a\ncreate index concurrently a on b (c) where c = ';';",
        "-- step: drop index a of b\ndrop index a;",
        "-- step: drop index a of b\ndrop index concurrently c;",
        "-- step: validate a of b\nalter table b add constraint a check (true);",
        "-- step: validate a of b\nalter table b validate constraint a, drop column c;",
        "-- step: batches of b by id\nupdate b set c = 1;",
        "-- step: batches of b by id\nupdate other set c = 1 where id between %(first)s and %(last)s;",
        "-- step: batches of b by id\nupdate b set c = 1 where key between %(first)s and %(last)s;",
        "-- step: batches of b by id\nupdate b set c = 1; update b set d = 1 where id between %(first)s and %(last)s;",
        "-- step: batches of b by id\nupdate b set c = 1 /* where id between %(first)s and %(last)s */;",
        "-- step: batches of b by id\ninsert into marks select id from b where id between %(first)s and %(last)s;",
        "-- step: batches of b by id\ncreate table marks as select id from b where id between %(first)s and %(last)s;",
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(NotAStep):
        steps_of(text)


def test_the_first_line_says_that_a_migration_is_in_steps(tmp_path: Path) -> None:
    for number in range(1, 6):
        (tmp_path / f"{number:04}_before.sql").write_text("-- additive\n")
    (tmp_path / "0006_countries.sql").write_text(GOOD)
    (tmp_path / "0007_plain.sql").write_text(GOOD.replace(", in steps", " since 0002", 1))
    in_steps, plain = shipped(tmp_path)[5:]
    assert (len(in_steps.steps), in_steps.needs) == (6, 0)
    assert (plain.steps, plain.needs) == ((), 2)
    (tmp_path / "0008_wrong.sql").write_text("-- additive since 0006, in steps\nselect 1;")
    with pytest.raises(SchemaMismatch, match=r"its migration 0008_wrong\.sql is not in steps: there is no `-- step: …` in it"):
        shipped(tmp_path)
