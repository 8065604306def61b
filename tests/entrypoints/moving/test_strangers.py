"""What a file may not do to people and logs of the receiving installation that have nothing to do with the organization."""

from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
import trio

from adapters.postgres.moving.arriving import ArrivingOrganization
from core.domain.mail import Email
from core.domain.platform.moving import UnfitFile
from core.domain.record.audit import AuditFilter
from core.domain.requests import Page
from entrypoints.bootstrap import open_postern
from entrypoints.cli.moving.arrival import ImportOptions
from entrypoints.cli.user import operator
from entrypoints.settings import Settings
from tests.adapters.postgres.populous import ACME
from tests.entrypoints.moving.conftest import Moving
from tests.entrypoints.moving.installations import ADA, BOB, CY, DAN, THERE, MovingPlace, copied, settings_for
from tests.entrypoints.moving.test_hostile_files import Row, rewritten

NIL: Final = str(UUID(int=0))
TRUSTED: Final = ImportOptions(trusts=True)


def test_the_log_that_arrives_shows_no_stranger(moving: Moving, here: MovingPlace) -> None:
    """Somebody here has the id that a person had there. The log's lists show the address of whoever has the actor's id."""
    dan = moving.there.user(DAN)
    here.rows("insert into users (id, email, email_key) values (%s, 'stranger@example.net', 'stranger@example.net')", dan)
    here.import_(moving.file)

    async def read() -> Any:
        async with open_postern(here.settings) as postern:
            return await postern.record.audit.list(ACME, AuditFilter(), Page(limit=100))

    shown = str(trio.run(read))
    assert ADA in shown
    assert "stranger@example.net" not in shown
    assert here.one("select count(*) from audit_entries where actor_id = %s", dan) == 0


def test_the_platforms_chain_is_no_organizations(moving: Moving, here: MovingPlace, tmp_path: Path) -> None:
    def change(_part: str, row: Row) -> Row:
        return {name: NIL if value == str(ACME) else value for name, value in row.items()}

    before = here.everything()
    with pytest.raises(UnfitFile, match="organization of the file has no id"):
        here.import_(rewritten(moving, tmp_path / "nil", change, head={"organization": UUID(int=0)}))
    assert here.everything() == before


def test_nobody_is_no_person(moving: Moving, here: MovingPlace, tmp_path: Path) -> None:
    """Keys of makers who are not here name the nil id."""
    changed = rewritten(
        moving, tmp_path / "nobody", lambda part, row: {**row, "id": NIL} if part == "users" and row["email"] == DAN else row
    )
    with pytest.raises(UnfitFile, match="of users is not fit: id: is nobody's"):
        here.import_(changed)


def test_a_file_keeps_nobody_out_for_good(moving: Moving, here: MovingPlace, tmp_path: Path) -> None:
    """No proof of an address lifts a deactivation by the platform. So only whom the operator trusts may say that there was one."""

    def change(part: str, row: Row) -> Row:
        return {**row, "deactivated_by": "platform"} if part == "users" and row["email"] in {DAN, ADA} else row

    file = rewritten(moving, tmp_path / "shut", change)
    here.import_(file)
    for email in (DAN, ADA):
        (shut,) = here.rows("select deactivated_at, deactivated_by from users where email_key = %s", email)
        assert shut["deactivated_at"] is not None
        assert shut["deactivated_by"] == ACME


def test_a_trusted_platforms_deactivation_stays_one(moving: Moving, here: MovingPlace, tmp_path: Path) -> None:
    def change(part: str, row: Row) -> Row:
        return {**row, "deactivated_by": "platform"} if part == "users" and row["email"] == DAN else row

    here.import_(rewritten(moving, tmp_path / "shut", change), TRUSTED)
    (shut,) = here.rows("select deactivated_at, deactivated_by from users where email_key = %s", DAN)
    assert shut["deactivated_at"] is not None
    assert shut["deactivated_by"] is None


@pytest.mark.parametrize(
    "meanwhile",
    [
        "update users set email = 'x@example.net', email_key = 'x@example.net' where id = %s",
        "delete from users where id = %s",
    ],
)
def test_an_account_that_is_another_by_now_gets_no_tie(
    moving: Moving, here: MovingPlace, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    """A person is forgotten, or moves to another address, while the file is read."""
    here.rows("insert into users (id, email, email_key, email_verified_at) values (%s, %s, %s, now())", ada := uuid4(), ADA, ADA)
    check = ArrivingOrganization.check

    async def checked(arrival: ArrivingOrganization) -> None:
        await check(arrival)
        await trio.to_thread.run_sync(partial(here.rows, meanwhile, ada))

    monkeypatch.setattr(ArrivingOrganization, "check", checked)
    with pytest.raises(UnfitFile, match="run the import again"):
        here.import_(moving.file)
    assert here.one("select count(*) from memberships") == 0


def test_a_passkey_that_an_account_here_has_undermines_nobody(moving: Moving, here: MovingPlace, tmp_path: Path) -> None:
    """Anybody may have registered the other one's credential id. The person's own passkey then stays behind, and so does the password."""
    here.rows("insert into users (id, email, email_key) values (%s, 'x@example.net', 'x@example.net')", thief := uuid4())
    here.rows(
        "insert into passkeys (id, user_id, credential_id, public_key, sign_count, name, aaguid, transports, backup_eligible, backed_up,"
        " created_at) values (gen_random_uuid(), %s, 'a', 'mine', 0, 'Key', gen_random_uuid(), '{}', false, false, now())",
        thief,
    )
    same = MovingPlace(settings_for(here.url, tmp_path, here.key, "old.example.org"), here.url, here.key)
    same.import_(moving.file, TRUSTED)
    assert same.one("select count(*) from passkeys where user_id = %s", same.user(CY)) == 0
    assert same.one("select password_hash from users where email_key = %s", CY) is None
    assert same.one("select password_hash from users where email_key = %s", BOB) is not None


def test_a_lock_goes_on_where_the_person_arrives(moving: Moving, here: MovingPlace, tmp_path: Path) -> None:
    """From its moment, without a password, so that only a new one opens the account."""
    locked = "2026-11-20T12:00:00+00:00"

    def change(part: str, row: Row) -> Row:
        return {**row, "is_locked": True, "password_changed_at": locked} if part == "users" and row["email"] == DAN else row

    here.import_(rewritten(moving, tmp_path / "locked", change), TRUSTED)
    (dan,) = here.rows("select deactivated_at, locked_at, password_changed_at, password_hash from users where email_key = %s", DAN)
    assert {dan["deactivated_at"], dan["locked_at"], dan["password_changed_at"]} == {datetime.fromisoformat(locked)}
    assert dan["password_hash"] is None


def test_of_people_who_are_not_trusted_no_lock_arrives(moving: Moving, here: MovingPlace, tmp_path: Path) -> None:
    def change(part: str, row: Row) -> Row:
        return {**row, "is_locked": True} if part == "users" and row["email"] == DAN else row

    here.import_(rewritten(moving, tmp_path / "locked", change))
    assert here.rows("select deactivated_at, locked_at from users where email_key = %s", DAN) == [
        {"deactivated_at": None, "locked_at": None}
    ]


def test_a_locked_account_leaves_as_one(moving: Moving, here: MovingPlace, worker_id: str, tmp_path: Path) -> None:
    async def lock(settings: Settings) -> None:
        async with open_postern(settings) as postern:
            await postern.platform.account_administration.lock(Email(BOB), operator())

    with copied(moving.there.url, f"locked_{worker_id}") as url:
        there = MovingPlace(settings_for(url, tmp_path, THERE, "old.example.org"), url, THERE)
        trio.run(lock, there.settings)
        there.export(tmp_path / "acme.postern", here.receiving_key())
        (before,) = there.rows("select locked_at from users where email_key = %s", BOB)
    here.import_(tmp_path / "acme.postern", TRUSTED)
    (after,) = here.rows("select deactivated_at, deactivated_by, locked_at from users where email_key = %s", BOB)
    assert after == {"deactivated_at": before["locked_at"], "deactivated_by": None, "locked_at": before["locked_at"]}
