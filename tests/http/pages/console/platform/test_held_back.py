"""Held back today, for platform owners and for an organization."""

from datetime import UTC, datetime, timedelta

from core.domain.errors import RateLimited
from core.domain.identity.account_mails import AccountMail
from core.domain.identity.devices import Client as Sender
from core.domain.identity.registering import BudgetSizes
from core.domain.mail import Email
from core.frozen import replace
from tests.http.pages.console.platform.conftest import PlatformScene


async def ask(platform: PlatformScene, sizes: BudgetSizes, organization: str = "") -> bool:
    accounts = platform.postern.identity.accounts
    accounts = replace(accounts, budgets=replace(accounts.budgets, sizes=sizes))
    sender = Sender("203.0.113.7", "a robot")
    try:
        await accounts.ask_as_stranger(AccountMail.RESET, Email("nobody@acme.example"), organization, sender, may_wait=False)
    except RateLimited:
        return False
    return True


async def test_an_owner_sees_it_and_makes_an_exception_with_an_end(platform: PlatformScene) -> None:
    small = BudgetSizes(1, 60, 300, 3000)
    assert "No rate-limited emails" in (await platform.at("/held-back")).page.text
    assert [await ask(platform, small) for _ in range(2)] == [True, False]
    page = (await platform.at("/held-back")).page
    assert "203.0.113.0/24" in page.text
    (budget,) = platform.people.rows("select id from mail_budgets where scope = 'network'")
    record = f"/ui/platform/held-back/{budget['id']}"
    assert record in page.links
    await platform.at("/held-back/~new")
    wrong = await platform.send_to("/ui/platform/held-back/~new", budget="network", key="home", until="2026-11-28T10:00")
    assert wrong.status == 400
    assert "Enter an IP address in the network" in wrong.page.text
    until = (datetime.now(UTC) + timedelta(hours=3)).strftime("%Y-%m-%dT%H:%M")
    await platform.send_to("/ui/platform/held-back/~new", budget="network", key="203.0.113.7", until=until)
    assert await ask(platform, small)
    await platform.tab.open(record)
    await platform.send_to(f"{record}/restore")
    assert not await ask(platform, small)


async def test_an_organization_sees_its_own_counts_and_nobodys_network(platform: PlatformScene) -> None:
    sizes = BudgetSizes(20, 60, 1, 3000)
    assert [await ask(platform, sizes, "acme") for _ in range(2)] == [True, False]
    page = await platform.acmes.open("/ui/o/acme/sign-in/held-back")
    assert page.status == 200
    assert "Rate-limited since" in page.page.text
    assert "203.0.113" not in page.page.text
