"""Enumeration: whoever asks for a mail by naming an address learns nothing about who has an account; not from the answer, nor from the work
that is done before it.
"""

from typing import Any

import pytest

from adapters.postgres.transaction import Transaction
from core.domain.secrets import Password
from entrypoints.bootstrap import Services
from tests.http.client import Client, Received
from tests.http.conftest import client, database_url, people, services
from tests.http.people import People

__all__ = ["client", "database_url", "people", "services"]  # fixtures

FORGOT, RESEND = "/api/auth/forgot-password", "/api/auth/resend-verification"
# Theirs by nature.
OWN = {"x-request-id", "date"}


def said(answer: Received) -> tuple[int, list[tuple[str, str]], bytes]:
    return answer.status, sorted((name, value) for name, value in answer.headers if name not in OWN), answer.body


@pytest.fixture
async def addresses(people: People, services: Services) -> dict[str, str]:
    """One of each kind of account, and nobody's."""
    kinds = {kind: f"{kind}@example.org" for kind in ("verified", "unverified", "passwordless", "deactivated", "strangers")}
    for kind, address in kinds.items():
        if kind != "strangers":
            people.add(address)
    encoded = await services.passwords.hash(Password("a long and quiet afternoon"))
    people.change("update users set email_verified_at = now(), password_hash = %s", encoded)
    people.change("update users set email_verified_at = null where email = 'unverified@example.org'")
    people.change("update users set password_hash = null where email = 'passwordless@example.org'")
    people.change("update users set deactivated_at = now() where email = 'deactivated@example.org'")
    return kinds


@pytest.mark.parametrize("path", [FORGOT, RESEND])
async def test_the_answer_is_the_same_for_everybody(path: str, client: Client, addresses: dict[str, str]) -> None:
    answers = {
        kind: said(await Client(client.application, f"198.51.100.{number}").post(path, {"email": address}))
        for number, (kind, address) in enumerate(addresses.items())
    }
    assert answers["strangers"][0] == 200
    for kind, answer in answers.items():
        assert answer == answers["strangers"], kind


@pytest.mark.parametrize("path", [FORGOT, RESEND])
async def test_the_same_statements_run_for_everybody_and_none_of_them_looks_an_account_up(
    path: str, client: Client, addresses: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: list[str] = []
    for name in ("tell", "ask"):
        real = getattr(Transaction, name)

        async def recorded(self: Any, *args: Any, _real: Any = real) -> Any:
            statements.append(next(argument for argument in args if isinstance(argument, str)))
            return await _real(self, *args)

        monkeypatch.setattr(Transaction, name, recorded)
    ran = {}
    for number, (kind, address) in enumerate(addresses.items()):
        statements.clear()
        await Client(client.application, f"198.51.100.{number}").post(path, {"email": address})
        ran[kind] = list(statements)
    assert ran["strangers"]
    assert not [statement for statement in ran["strangers"] if "users" in statement]
    for kind, one in ran.items():
        assert one == ran["strangers"], kind


async def test_only_whoever_reads_the_mailbox_learns_of_an_account(client: Client, addresses: dict[str, str], services: Services) -> None:
    for number, address in enumerate(addresses.values()):
        await Client(client.application, f"198.51.100.{number}").post(FORGOT, {"email": address})
        await Client(client.application, f"198.51.100.{number}").post(RESEND, {"email": address})
    states = {state.kind: state.waiting for state in await services.jobs.state()}
    assert states == {"account.mail": 10}
