"""Acme's owner, and an application."""

import pytest

from tests.http.pages.console.conftest import ConsoleScene, client, console

__all__ = ["client", "console"]

AT = "/applications"
CALLBACK = "https://billing.example.com/callback"


async def made(
    console: ConsoleScene,
    name: str = "Billing",
    kind: str = "web",
    addresses: str = CALLBACK,
    policy: str = "anyone",
    *,
    elsewhere: str = "",
) -> str:
    """Makes an application by the form. Returns its address below the organization."""
    await console.at(f"{AT}/~new")
    await console.submit(f"{AT}/~new", name=name, kind=kind, addresses=addresses, policy=policy, elsewhere=elsewhere)
    (service,) = console.people.rows("select slug from services where name = %s", name)
    return f"{AT}/{service['slug']}"


@pytest.fixture
async def billing(console: ConsoleScene) -> str:
    return await made(console)
