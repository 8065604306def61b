"""The rules for suspicious sign-ins, each just below and just above its limit, and the cost of the query."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final
from uuid import UUID

import pytest

from adapters.postgres.identity.proofs.login_events import _ALERTS, _RULES, PostgresSuspiciousActivity
from core.domain.identifiers import UserId
from core.domain.identity.accounts import Account
from core.domain.identity.login_events import (
    ALERTING_BACKUP_CODES,
    ALERTING_GUESSES,
    ALERTING_MFA_FAILURES,
    ALERTS_LOOKED_BACK,
    IMPOSSIBLE_WITHIN,
    MOST_ALERTS,
    SIGN_IN_FAILURES,
    Alert,
    AlertType,
    LoginFailure,
)
from tests.adapters.postgres.conftest import Store
from tests.adapters.postgres.services.test_end_users import nodes

MINUTE: Final = timedelta(minutes=1)
HOUR: Final = timedelta(hours=1)


class Day:
    """Adds the events of the last hours, `ago` from now."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._activity = PostgresSuspiciousActivity(store.pool)
        # PostgreSQL leaves zeros at the end of a fraction away, and Python does not.
        self.now = datetime.now(UTC).replace(microsecond=123_457)

    async def person(self, email: str = "ada@example.org") -> UserId:
        account: Account = self._store.account(email)
        async with self._store.unit_of_work() as uow:
            assert await uow.accounts.add(account, None)
            await uow.commit()
        return account.id

    async def alerts(self) -> list[Alert]:
        found = await self._activity.alerts(self.now - ALERTS_LOOKED_BACK)
        assert found.of_nobody == []
        return list(found.of_people)

    async def types(self) -> list[AlertType]:
        return [alert.type for alert in await self.alerts()]

    async def sign_in(self, user: UUID | None, ago: timedelta, **told: Any) -> None:
        event = {
            "success": True,
            "reason": None,
            "address": "192.0.2.1",
            "risk_score": 0.0,
            "risk_factors": [],
            "flagged": False,
            "country": None,
            "city": None,
            **told,
        }
        await self._store.query(
            "insert into login_events (id, user_id, provider, success, reason, address, risk_score, risk_factors, flagged, country, city,"
            " created_at) values (%(id)s, %(user)s, 'password', %(success)s, %(reason)s, %(address)s, %(risk_score)s, %(risk_factors)s,"
            " %(flagged)s, %(country)s, %(city)s, %(at)s)",
            {**event, "id": self._store.ids.new(), "user": user, "at": self.now - ago},
        )

    async def failure(self, user: UUID | None, ago: timedelta, reason: str = "wrong_password", address: str = "192.0.2.1") -> None:
        await self.sign_in(user, ago, success=False, reason=reason, address=address)

    async def guessed_at(self, user: UUID, ago: timedelta) -> None:
        await self._store.query(
            "insert into guess_alerts (id, type, user_id, marks, failures, first_at, last_at)"
            " values (%(id)s, 'many_passwords_over_one_account', %(user)s, 13, 15, %(at)s, %(at)s)",
            {"id": self._store.ids.new(), "user": user, "at": self.now - ago},
        )

    async def code(self, user: UUID, ago: timedelta, name: str, address: str | None = "192.0.2.1") -> None:
        await self._store.query(
            "insert into mfa_events (id, user_id, name, success, address, created_at)"
            " values (%(id)s, %(user)s, %(name)s, true, %(address)s, %(at)s)",
            {"id": self._store.ids.new(), "user": user, "name": name, "address": address, "at": self.now - ago},
        )


@pytest.fixture
def day(store: Store) -> Day:
    return Day(store)


async def test_a_quiet_day_has_no_alerts(day: Day) -> None:
    user = await day.person()
    await day.sign_in(user, HOUR, country="CH", risk_score=0.3, risk_factors=["new_device"])
    await day.failure(user, HOUR)
    await day.code(user, HOUR, "mfa_verify_attempt")
    await day.code(user, HOUR, "backup_code_used")
    assert await day.alerts() == []


async def test_repeated_failures_to_sign_in(day: Day) -> None:
    user = await day.person()
    for number in range(SIGN_IN_FAILURES.count - 1):
        await day.failure(user, 40 * MINUTE - number * MINUTE, ALERTING_GUESSES[number % len(ALERTING_GUESSES)], f"192.0.2.{number % 3}")
    assert await day.alerts() == []
    await day.failure(user, 5 * MINUTE, "throttled", "2001:db8::1")
    (alert,) = await day.alerts()
    assert (alert.user, alert.email.address, alert.type) == (user, "ada@example.org", AlertType.REPEATED_SIGN_IN_FAILURES)
    assert alert.detected_at == day.now - 5 * MINUTE
    assert alert.details == {
        "count": 10,
        "window_minutes": 60,
        "first_at": f"{day.now - 40 * MINUTE:%Y-%m-%dT%H:%M:%S.%fZ}",
        "last_at": f"{day.now - 5 * MINUTE:%Y-%m-%dT%H:%M:%S.%fZ}",
        "addresses": ["192.0.2.0", "192.0.2.1", "192.0.2.2", "2001:db8::1"],
    }


async def test_failures_spread_over_the_day_raise_no_alert(day: Day) -> None:
    user = await day.person()
    # Nine within any hour, all day long.
    for number in range(3 * SIGN_IN_FAILURES.count):
        await day.failure(user, number * timedelta(minutes=6, seconds=41))
    assert await day.alerts() == []


async def test_failures_without_guessing_raise_no_alert(day: Day) -> None:
    user = await day.person()
    others = [reason for reason in LoginFailure if reason not in ALERTING_GUESSES]
    assert set(others) == {
        *("unknown_account", "deactivated", "email_not_verified", "provider_required", "wrong_code", "wrong_passkey"),
        # Whoever gives a stolen password gives the right one.
        *("copied_passkey", "not_vouched", "not_member", "no_role", "breached_password", "refused_by_rule"),
        # A hook refuses whoever has given every proof.
        *("refused_by_hook", "hook_wants_factor", "hook_silent"),
    }
    for reason in others:
        for _ in range(SIGN_IN_FAILURES.count):
            await day.failure(user, MINUTE, reason)
    assert await day.alerts() == []


async def test_the_failures_of_different_people_or_of_nobody_are_not_added_up(day: Day) -> None:
    for number in range(SIGN_IN_FAILURES.count):
        await day.failure(await day.person(f"person{number}@example.org"), MINUTE)
        await day.failure(None, MINUTE, "wrong_password")
    assert await day.alerts() == []


async def test_repeated_failures_of_the_second_factor(day: Day) -> None:
    user = await day.person()
    for number in range(ALERTING_MFA_FAILURES.count - 1):
        await day.code(user, HOUR - number * MINUTE, "mfa_verify_failed", None)
    for _ in range(ALERTING_MFA_FAILURES.count):
        await day.code(user, MINUTE, "mfa_verify_attempt")
    assert await day.alerts() == []
    await day.code(user, MINUTE, "mfa_verify_failed", None)
    (alert,) = await day.alerts()
    assert (alert.type, alert.detected_at) == (AlertType.REPEATED_MFA_FAILURES, day.now - MINUTE)
    assert (alert.details["count"], alert.details["addresses"]) == (5, None)


async def test_an_hour_and_a_second_is_no_hour(day: Day) -> None:
    user = await day.person()
    await day.code(user, HOUR + timedelta(seconds=1), "mfa_verify_failed")
    for _ in range(ALERTING_MFA_FAILURES.count - 1):
        await day.code(user, timedelta(0), "mfa_verify_failed")
    assert await day.alerts() == []
    await day.code(user, HOUR, "mfa_verify_failed")
    assert await day.types() == [AlertType.REPEATED_MFA_FAILURES]


async def test_a_burst_of_backup_codes(day: Day) -> None:
    user = await day.person()
    for number in range(ALERTING_BACKUP_CODES.count - 1):
        await day.code(user, (20 - 8 * number) * HOUR, "backup_code_used")
    assert await day.alerts() == []
    await day.code(user, HOUR, "backup_code_used")
    (alert,) = await day.alerts()
    assert (alert.type, alert.detected_at) == (AlertType.BACKUP_CODE_BURST, day.now - HOUR)
    assert (alert.details["count"], alert.details["window_minutes"]) == (3, 24 * 60)


async def test_impossible_travel(day: Day) -> None:
    user = await day.person()
    await day.sign_in(user, 6 * HOUR, country="CH", address="192.0.2.1")
    await day.sign_in(user, 6 * HOUR - IMPOSSIBLE_WITHIN, country="NZ", address="192.0.2.2")
    assert await day.alerts() == []
    await day.sign_in(user, 6 * HOUR - IMPOSSIBLE_WITHIN - 119 * MINUTE, country="CH", address="192.0.2.3")
    (alert,) = await day.alerts()
    assert (alert.type, alert.detected_at) == (AlertType.IMPOSSIBLE_TRAVEL, day.now - 6 * HOUR + IMPOSSIBLE_WITHIN + 119 * MINUTE)
    assert alert.details == {"from": "NZ", "to": "CH", "minutes": 119, "address": "192.0.2.3"}


@pytest.mark.parametrize(
    "second",
    [
        {"country": "CH"},
        {"country": None},
        {"country": "NZ", "risk_factors": ["new_device", "proxy"]},
        {"country": "NZ", "success": False, "reason": "wrong_password"},
    ],
    ids=["the same", "unknown", "through a proxy", "a failure"],
)
async def test_a_place_that_tells_nothing_is_no_travel(day: Day, second: dict[str, Any]) -> None:
    user = await day.person()
    await day.sign_in(user, HOUR, country="CH")
    await day.sign_in(user, HOUR - MINUTE, **second)
    assert await day.alerts() == []


async def test_travel_is_one_persons(day: Day) -> None:
    await day.sign_in(await day.person("one@example.org"), HOUR, country="CH")
    await day.sign_in(await day.person("other@example.org"), HOUR, country="NZ")
    assert await day.alerts() == []


async def test_an_unusual_hour_from_a_strange_place(day: Day) -> None:
    user = await day.person()
    for factors in ([], ["unusual_time"], ["new_device", "unknown_location"], ["unusual_time", "proxy", "failed_attempts"]):
        await day.sign_in(user, HOUR, risk_factors=factors)
    await day.sign_in(user, HOUR, success=False, reason="wrong_password", risk_factors=["unusual_time", "new_device"])
    assert await day.alerts() == []
    await day.sign_in(user, 3 * HOUR, risk_factors=["unknown_location", "unusual_time"], risk_score=0.3, country="NZ", city="Nelson")
    (alert,) = await day.alerts()
    assert (alert.type, alert.detected_at) == (AlertType.UNUSUAL_HOUR, day.now - 3 * HOUR)
    expected = {"address": "192.0.2.1", "country": "NZ", "city": "Nelson", "risk_score": 0.3}
    assert alert.details == {**expected, "risk_factors": ["unknown_location", "unusual_time"]}
    await day.sign_in(user, 2 * HOUR, risk_factors=["new_device", "unusual_time"], risk_score=0.4)
    (later,) = await day.alerts()
    assert (later.detected_at, later.details["risk_score"]) == (day.now - 2 * HOUR, 0.4)


async def test_a_sign_in_of_high_risk_that_nothing_stopped(day: Day) -> None:
    user = await day.person()
    await day.sign_in(user, HOUR, risk_score=0.9, risk_factors=["failed_attempts"])
    assert await day.alerts() == []
    await day.sign_in(user, HOUR, risk_score=0.9, risk_factors=["failed_attempts"], flagged=True)
    assert await day.types() == [AlertType.HIGH_RISK_SIGN_IN]


async def test_what_is_older_than_a_day_raises_no_alert(day: Day) -> None:
    user = await day.person()
    for ago, count in ((ALERTS_LOOKED_BACK, 1), (ALERTS_LOOKED_BACK - timedelta(seconds=1), ALERTING_MFA_FAILURES.count - 1)):
        for _ in range(count):
            await day.code(user, ago, "mfa_verify_failed")
    await day.sign_in(user, ALERTS_LOOKED_BACK, flagged=True)
    assert await day.alerts() == []
    await day.code(user, ALERTS_LOOKED_BACK - timedelta(seconds=1), "mfa_verify_failed")
    assert await day.types() == [AlertType.REPEATED_MFA_FAILURES]


async def test_one_person_can_have_an_alert_of_each_kind_and_the_latest_is_first(day: Day) -> None:
    user = await day.person()
    for number in range(SIGN_IN_FAILURES.count):
        await day.failure(user, 10 * HOUR - number * MINUTE)
    for number in range(ALERTING_MFA_FAILURES.count):
        await day.code(user, 8 * HOUR - number * MINUTE, "mfa_verify_failed")
    for number in range(ALERTING_BACKUP_CODES.count):
        await day.code(user, 6 * HOUR - number * MINUTE, "backup_code_used")
    await day.sign_in(user, 4 * HOUR, country="CH", risk_factors=["unusual_time", "new_device"])
    await day.sign_in(user, 3 * HOUR, country="NZ")
    await day.sign_in(user, 2 * HOUR, flagged=True)
    await day.guessed_at(user, HOUR)
    alerts = await day.alerts()
    assert [alert.type for alert in alerts] == [
        AlertType.MANY_PASSWORDS_OVER_ONE_ACCOUNT,
        AlertType.HIGH_RISK_SIGN_IN,
        AlertType.IMPOSSIBLE_TRAVEL,
        AlertType.UNUSUAL_HOUR,
        AlertType.BACKUP_CODE_BURST,
        AlertType.REPEATED_MFA_FAILURES,
        AlertType.REPEATED_SIGN_IN_FAILURES,
    ]
    of_nobody = {AlertType.ONE_PASSWORD_OVER_MANY_ACCOUNTS, AlertType.MANY_ACCOUNTS_FROM_ONE_NETWORK}
    assert {alert.type for alert in alerts} == set(AlertType) - of_nobody
    assert all(later.detected_at > earlier.detected_at for later, earlier in pairwise(alerts))


async def test_people_who_are_gone_have_no_alerts(day: Day, store: Store) -> None:
    user = await day.person()
    for _ in range(ALERTING_MFA_FAILURES.count):
        await day.code(user, HOUR, "mfa_verify_failed")
    await store.query("delete from users")
    assert await day.alerts() == []


async def test_the_list_is_bounded_and_reads_no_table_as_a_whole(fresh_store: Store) -> None:
    day = Day(fresh_store)
    await fresh_store.query(
        "insert into users (id, email, email_key) select gen_random_uuid(), 'u' || n, 'u' || n from generate_series(1, 300) as n"
    )
    # Three months of them; of the last day a part.
    await fresh_store.query(
        "insert into login_events (id, user_id, provider, success, flagged, created_at)"
        " select gen_random_uuid(), users.id, 'password', true, day < 2, now() - day * interval '12 hours'"
        "   from users, generate_series(0, 99) as day"
    )
    await fresh_store.query(
        "insert into mfa_events (id, user_id, name, success, created_at)"
        " select gen_random_uuid(), users.id, 'mfa_verify_failed', false, now() - day * interval '12 hours'"
        "   from users, generate_series(0, 99) as day"
    )
    await fresh_store.settle("users", "login_events", "mfa_events")
    assert len(await day.alerts()) == MOST_ALERTS
    parameters = {**_RULES, "since": day.now - ALERTS_LOOKED_BACK}
    (row,) = await fresh_store.query(f"explain (analyze, format json) {_ALERTS}", parameters)
    seen = list(nodes(row["QUERY PLAN"][0]["Plan"]))
    # The alerts of guesses are a day's alone.
    assert {node["Relation Name"] for node in seen if node["Node Type"] == "Seq Scan"} <= {"users", "guess_alerts"}
    indexes = {node["Index Name"] for node in seen if "Index Name" in node}
    # Each part of the table has its own index in the frame of `login_events_newest`.
    newest = {name for name in indexes if name.startswith("login_events_") and name.endswith("_created_at_idx")}
    assert newest
    assert "mfa_events_by_name" in indexes
    read = sum(node["Actual Rows"] for node in seen if node.get("Index Name") in newest)
    assert read <= 3 * 300


async def test_no_more_than_the_newest_are_looked_at(day: Day, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_RULES, "most_events", 2)
    one, other = await day.person("one@example.org"), await day.person("other@example.org")
    await day.sign_in(one, 3 * HOUR, flagged=True)
    for ago in (1, 2):
        await day.sign_in(other, ago * HOUR, flagged=True)
    assert [alert.user for alert in await day.alerts()] == [other]
