"""`session_expiry` in ID tokens: when a session that the application makes of the token must end, where its organization says so."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.http.federation.relying import Application, Relying, claims_of

HOUR = timedelta(hours=1)


def rules(relying: Relying, *, organization: int | None = None, service: int | None = None, of: str = "shop") -> None:
    relying.people.change("update all_organizations set session_hours = %s where slug = 'acme'", organization)
    relying.people.change("update all_services set session_lifetime_hours = %s where slug = %s", service, of)


async def tokens(relying: Relying, application: Application, ago: timedelta) -> dict[str, Any]:
    signed_in = relying.postern.foundation.clock.now() - ago
    code = await relying.code(application, scopes="openid email", auth_time=signed_in)
    got: dict[str, Any] = (await relying.redeem(application, code)).ok()
    return got


def expiry(answer: dict[str, Any]) -> datetime:
    said = claims_of(answer["id_token"])["session_expiry"]
    assert type(said) is int
    return datetime.fromtimestamp(said, UTC)


@pytest.mark.parametrize("name", ["shop", "page"])
@pytest.mark.parametrize(
    ("organization", "service", "hours"), [(8, None, 8), (None, 8, 8), (8, 4, 4), (4, 8, 4), (None, None, None)], ids=str
)
async def test_it_is_the_shorter_of_what_organization_and_service_say(
    relying: Relying, name: str, organization: int | None, service: int | None, hours: int | None
) -> None:
    """After the sign-in, not after the token: `shop` has a secret, and `page` is public."""
    rules(relying, organization=organization, service=service, of=name)
    got = await tokens(relying, getattr(relying, name), ago=HOUR)
    if hours is None:
        assert "session_expiry" not in claims_of(got["id_token"])
        return
    due = datetime.now(UTC) + hours * HOUR - HOUR
    assert abs(expiry(got) - due) < timedelta(minutes=1)
    assert "session_expiry" not in claims_of(got["access_token"])


async def test_a_refresh_says_the_same_end_and_follows_the_rule(relying: Relying) -> None:
    rules(relying, organization=8)
    first = await tokens(relying, relying.shop, ago=HOUR)
    second = (await relying.refresh(relying.shop, first["refresh_token"])).ok()
    assert expiry(second) == expiry(first)
    rules(relying, organization=2)
    third = (await relying.refresh(relying.shop, second["refresh_token"])).ok()
    assert expiry(third) == expiry(first) - 6 * HOUR
    rules(relying)
    fourth = (await relying.refresh(relying.shop, third["refresh_token"])).ok()
    assert "session_expiry" not in claims_of(fourth["id_token"])


async def test_it_is_never_later_than_the_end_of_the_session_and_no_idle_time_shortens_it(relying: Relying) -> None:
    rules(relying, organization=48)
    relying.people.change("update all_organizations set session_idle_minutes = 10 where slug = 'acme'")
    first = await tokens(relying, relying.shop, ago=HOUR)
    assert expiry(first) - datetime.now(UTC) > 40 * HOUR
    # As where a connection, or the browser's session, bounds it.
    sid = claims_of(first["id_token"])["sid"]
    relying.people.change("update sessions set ends_at = now() + interval '3 hours' where id = %s", sid)
    second = (await relying.refresh(relying.shop, first["refresh_token"])).ok()
    (row,) = relying.people.rows("select ends_at from sessions where id = %s", sid)
    assert expiry(second) == row["ends_at"].replace(microsecond=0)


async def test_another_organization_bounds_nothing(relying: Relying) -> None:
    rules(relying, organization=1)
    got = await tokens(relying, relying.theirs, ago=timedelta(minutes=5))
    assert "session_expiry" not in claims_of(got["id_token"])


async def test_discovery_names_it(relying: Relying) -> None:
    for path in ("/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"):
        assert "session_expiry" in (await relying.client.get(path)).json()["claims_supported"]
