"""`/ui`: a summary of the account."""

import re
from datetime import timedelta

import pytest

from core.domain.errors import Unauthorized
from core.domain.identifiers import UserId
from tests.http.pages.account.conftest import AccountPagesScene
from tests.http.pages.test_look import MOST_BYTES


async def test_a_new_account(home: AccountPagesScene) -> None:
    text = (await home.open("/ui")).page.text
    assert "Email address ada@example.org" in text
    assert "Password Set a password" in text
    assert "Two-step sign-in Turn on two-step sign-in" in text
    assert "0 devices" in text
    assert "1 session" in text
    assert "0 organizations" in text
    assert "failed" not in text


async def test_what_there_is_is_counted(home: AccountPagesScene) -> None:
    home.device()
    home.device(revoked_at=home.postern.foundation.clock.now())
    home.elsewhere()
    home.people.change("update sessions set revoked_at = now() where id = %s", home.elsewhere().session)
    home.tenants.join(home.ada, home.tenants.add("acme"))
    gone = home.tenants.add("gone")
    home.tenants.join(home.ada, gone)
    home.people.change("update all_organizations set deleted_at = now() where id = %s", gone.id)
    text = (await home.open("/ui")).page.text
    assert "1 device " in text
    assert "2 sessions" in text
    assert "1 organization " in text


async def test_what_wants_attention_is_said(home: AccountPagesScene) -> None:
    await home.has_second_factor()
    home.people.change("delete from backup_codes where digest <> (select digest from backup_codes order by digest limit 1)")
    now = home.postern.foundation.clock.now()
    attempts = (("wrong_password", 0), ("wrong_code", 1), ("wrong_password", 8), (None, 0), ("email_not_verified", 0))
    for reason, days in attempts:
        home.people.change(
            "insert into login_events (id, user_id, provider, success, reason, created_at) values (%s, %s, 'password', %s, %s, %s)",
            home.postern.foundation.ids.new(),
            home.ada.user,
            reason is None,
            reason,
            now - timedelta(days=days),
        )
    home.people.change("update users set pending_email = 'new@example.org', pending_email_key = 'new@example.org'")
    home.people.change("update users set password_changed_at = now()")
    text = (await home.open("/ui")).page.text
    assert "2 attempts to sign in to your account failed" in text
    assert "You have 1 backup code left" in text
    assert "verification link was sent to new@example.org" in text
    assert "Changed just now" in text
    assert "Two-step sign-in On" in text


async def test_whoever_is_deleted_meanwhile_is_signed_out(home: AccountPagesScene) -> None:
    home.people.change("delete from users where id = %s", home.ada.user)
    assert (await home.open("/ui")).place == "/ui/sign-in?to=/ui"


async def test_an_account_that_goes_meanwhile(home: AccountPagesScene) -> None:
    """The account goes between the look-up of the caller and that of the summary."""
    with pytest.raises(Unauthorized):
        await home.postern.identity.account_summaries.of(UserId(home.postern.foundation.ids.new()))


async def test_a_first_visit_loads_little(home: AccountPagesScene) -> None:
    """The page of somebody who owns three organizations, uses an application of each, and governs the platform."""
    for slug in ("acme", "globex", "initech"):
        tenant = home.tenants.add(slug)
        home.tenants.join(home.ada, tenant, "owner")
        home.tenants.session(home.ada, home.tenants.service(tenant, f"{slug}-shop"))
    home.people.change("update users set is_platform_owner = true where id = %s", home.ada.user)
    await home.has_second_factor()
    home.people.change("delete from backup_codes where digest <> (select digest from backup_codes order by digest limit 1)")
    home.device()
    page = (await home.open("/ui")).shown.body
    loaded = dict.fromkeys(re.findall(r'(?:href|src)="(/assets/[^"]+)"', page.decode()))
    sizes = {"/ui": len(page)} | {one: len((await home.client.get(one)).body) for one in loaded}
    assert sum(sizes.values()) <= MOST_BYTES, sizes
