"""Mailed tokens in PostgreSQL: of many redeemers one wins; a newer link ends the older; old ones are swept."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import trio

from adapters.postgres.branding import PostgresBrandings
from adapters.postgres.upkeep.housekeeping import sweep
from core.domain.branding import Branding
from core.domain.identifiers import UserId
from core.domain.identity.account_mails import CHOOSES_PASSWORD, PROVES_ADDRESS, MailedToken, MailedTokenPurpose, mailed_token
from core.domain.identity.accounts import Account
from core.domain.secrets import Token
from core.frozen import replace
from tests.adapters.postgres.conftest import Store

VERIFY, RESET = MailedTokenPurpose.VERIFY_EMAIL, MailedTokenPurpose.RESET_PASSWORD


async def issued(
    store: Store, account: Account, text: str, purpose: MailedTokenPurpose = VERIFY, at: datetime | None = None
) -> MailedToken:
    token = mailed_token(Token(text), purpose, account.id, account.email, at or datetime.now(UTC))
    async with store.unit_of_work() as uow:
        await uow.mailed_tokens.issue(token)
        await uow.commit()
    return token


async def redeemed(store: Store, text: str, purposes: frozenset[MailedTokenPurpose] = PROVES_ADDRESS) -> MailedToken | None:
    async with store.unit_of_work() as uow:
        token = await uow.mailed_tokens.redeem(Token(text).digest(), purposes, datetime.now(UTC))
        await uow.commit()
    return token


async def test_a_token_comes_back_as_it_was_issued_and_then_used(store: Store) -> None:
    account, _ = await store.sign_up("Ada@example.org")
    token = await issued(store, account, "t")
    async with store.unit_of_work() as uow:
        assert await uow.mailed_tokens.find(token.digest, PROVES_ADDRESS) == token
        assert await uow.mailed_tokens.find(token.digest, CHOOSES_PASSWORD) is None
        assert await uow.mailed_tokens.find(b"another", PROVES_ADDRESS) is None
    assert await redeemed(store, "t", CHOOSES_PASSWORD) is None
    won = await redeemed(store, "t")
    assert won is not None
    assert (won.user, won.email.address, won.used_at is not None) == (account.id, "Ada@example.org", True)
    assert await redeemed(store, "t") is None


async def test_nothing_is_issued_to_nobody(store: Store) -> None:
    account, _ = await store.sign_up()
    token = await issued(store, replace(account, id=UserId(uuid4())), "t")
    async with store.unit_of_work() as uow:
        assert await uow.mailed_tokens.find(token.digest, PROVES_ADDRESS) is None


async def test_of_fifty_who_redeem_one_wins(store: Store) -> None:
    account, _ = await store.sign_up()
    for number in range(3):
        await issued(store, account, f"t{number}")
        won: list[bool] = []

        async def redeem(text: str, won: list[bool]) -> None:
            won.append(await redeemed(store, text) is not None)

        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(redeem, f"t{number}", won)
        assert sorted(won) == [False] * 49 + [True]


async def test_a_redemption_that_is_rolled_back_did_not_happen(store: Store) -> None:
    account, _ = await store.sign_up()
    token = await issued(store, account, "t")
    async with store.unit_of_work() as uow:
        assert await uow.mailed_tokens.redeem(token.digest, PROVES_ADDRESS, datetime.now(UTC))
    assert await redeemed(store, "t") is not None


async def test_links_end_by_purpose_and_person(store: Store) -> None:
    ada, _ = await store.sign_up("ada@example.org")
    bob, _ = await store.sign_up("bob@example.org")
    await issued(store, ada, "old")
    await issued(store, ada, "new")
    await issued(store, ada, "reset", RESET)
    await issued(store, bob, "bob")
    assert await redeemed(store, "old") is None
    async with store.unit_of_work() as uow:
        await uow.mailed_tokens.end(ada.id, VERIFY, datetime.now(UTC))
        await uow.commit()
    assert await redeemed(store, "new") is None
    async with store.unit_of_work() as uow:
        assert await uow.mailed_tokens.redeem(Token("reset").digest(), CHOOSES_PASSWORD, datetime.now(UTC))
    async with store.unit_of_work() as uow:
        await uow.mailed_tokens.end_all(ada.id, datetime.now(UTC))
        await uow.commit()
    assert await redeemed(store, "reset", CHOOSES_PASSWORD) is None
    assert await redeemed(store, "bob") is not None


async def test_what_has_long_expired_is_swept(store: Store) -> None:
    account, _ = await store.sign_up()
    await issued(store, account, "old", at=datetime.now(UTC) - timedelta(days=9))
    await issued(store, account, "expired", RESET, at=datetime.now(UTC) - timedelta(days=2))
    assert await sweep(store.pool, "PastMailedTokens").delete_expired(10) == 1
    assert await redeemed(store, "expired", CHOOSES_PASSWORD) is None
    assert await store.count("mailed_tokens") == 1


async def test_only_active_organizations_lend_their_looks(store: Store) -> None:
    for slug, status in (("acme", "active"), ("new", "pending"), ("bad", "suspended")):
        await store.query(
            "insert into organizations (id, slug, name, status, logo_digest, primary_color, created_at, updated_at) "
            "values (%(id)s, %(slug)s, 'Acme', %(status)s, 'javascript:alert(1)', '#A01040', now(), now())",
            {"id": store.ids.new(), "slug": slug, "status": status},
        )
    brandings = PostgresBrandings(store.pool)
    assert await brandings.find("acme") == Branding("Acme", None, "#a01040")
    for slug in ("new", "bad", "nobody", "ACME", ""):
        assert await brandings.find(slug) is None
