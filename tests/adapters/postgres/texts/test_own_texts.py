"""Own texts in PostgreSQL: looked up by digest, kept by the process within a bound, and asked for once."""

from hashlib import sha256

import pytest
import trio

from adapters.postgres import branding as own_texts
from adapters.postgres import statements
from adapters.postgres.branding import KeptTexts, PostgresInstallationWords
from adapters.postgres.statements import Statements
from core.domain.languages import Language
from core.domain.texts.own_texts import NO_OWN_TEXTS, ApprovalRules, InstallationWords, OwnTexts
from tests.adapters.postgres.conftest import Store


def dress(digest: str | None) -> list[str | None]:
    return [None, None, None, None, None, digest, None]


def texts(name: str, size: int = 1) -> OwnTexts:
    return OwnTexts(name, {Language.GERMAN: {"sign_in.title": "x" * size}})


async def write(store: Store, **own: str) -> str:
    """An organization with these texts in German. Returns their digest."""
    digest = sha256(repr(own).encode()).hexdigest()
    await store.query(
        """
        with organization as (
                 insert into all_organizations (id, slug, name, status, texts_digest, created_at, updated_at)
                 values (gen_random_uuid(), %(slug)s, 'Acme', 'active', %(digest)s, now(), now())
              returning id
             )
        insert into organization_texts (id, updated_at, org_id, key, language, text, based_on)
        select gen_random_uuid(), now(), organization.id, own.key, own.language, own.value, ''
          from organization, unnest(%(keys)s::text[], %(languages)s::text[], %(texts)s::text[]) as own (key, language, value)
        """,
        {
            "slug": digest[:20],
            "digest": digest,
            "keys": [key.partition("__")[2].replace("__", ".") for key in own],
            "languages": [key.partition("__")[0] for key in own],
            "texts": list(own.values()),
        },
    )
    return digest


async def test_texts_are_read_once_for_all_who_wait_and_never_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    digest, kept, asked = (
        await write(store, de__sign_in__title="Willkommen", xx__sign_in__title="?", de__consent__title="closed"),
        KeptTexts(),
        [],
    )

    async def counted(*arguments: object) -> object:
        asked.append(arguments)
        return await real(*arguments)  # type: ignore[arg-type]

    real = statements.ask
    monkeypatch.setattr(own_texts, "ask", counted)
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(kept.bring, Statements(store.pool), dress(digest))
    await kept.bring(store.pool, dress(digest))
    assert len(asked) == 1
    branding = kept.branded("Acme", None, None, dress(digest))
    # Neither a language that we do not speak nor a closed key is shown.
    assert branding.texts.by_language == {Language.GERMAN: {"sign_in.title": "Willkommen"}}
    assert not branding.texts_are_approved
    assert kept.branded("Acme", None, None, [*dress(digest)[:-1], digest]).texts_are_approved


async def test_a_deleted_organization_hides_no_texts_of_another(store: Store) -> None:
    """Its rows go in batches, and its digest stays until the last one has gone."""
    digest = await write(store, de__sign_in__title="Willkommen")
    await store.query("delete from organization_texts")
    await store.query("update all_organizations set slug = 'gone', deleted_at = now()")
    assert await write(store, de__sign_in__title="Willkommen") == digest
    kept = KeptTexts()
    await kept.bring(store.pool, dress(digest))
    assert kept.branded("Acme", None, None, dress(digest)).texts.of(Language.GERMAN) == {"sign_in.title": "Willkommen"}


async def test_texts_none_of_which_is_shown_are_not_asked_for_again(store: Store) -> None:
    """All of a language that we do not speak, or of keys that a release has taken away."""
    digest, kept = await write(store, xx__sign_in__title="?", de__gone__title="gone"), KeptTexts()
    await kept.bring(store.pool, dress(digest))
    await store.pool.aclose()
    await kept.bring(store.pool, dress(digest))
    branding = kept.branded("Acme", None, None, dress(digest))
    assert (branding.texts.digest, branding.texts.by_language) == (digest, {})


def test_texts_none_of_which_is_shown_count_too() -> None:
    kept = KeptTexts(most_bytes=1500)
    for name in range(100):
        kept.keep(OwnTexts(str(name)))
    assert sum(kept.find(str(name)) is not None for name in range(100)) < 10


async def test_nothing_is_asked_without_texts(store: Store) -> None:
    kept = KeptTexts()
    await store.pool.aclose()
    await kept.bring(store.pool, None)
    await kept.bring(store.pool, dress(None))
    assert kept.branded("Acme", None, None, None).texts is NO_OWN_TEXTS


async def test_a_transaction_asks_for_itself(store: Store) -> None:
    digest, kept = await write(store, de__sign_in__title="Willkommen"), KeptTexts()
    async with store.unit_of_work() as uow:
        await kept.bring(uow.flows._statements, dress(digest))  # type: ignore[attr-defined]
    assert kept.find(digest) is not None


async def test_texts_that_have_changed_meanwhile_are_not_shown(store: Store) -> None:
    kept, gone = KeptTexts(), "0" * 64
    await kept.bring(store.pool, dress(gone))
    assert kept.branded("Acme", None, None, dress(gone)).texts is NO_OWN_TEXTS


async def test_a_look_up_that_fails_leaves_the_next_one_to_look(store: Store) -> None:
    digest, kept = await write(store, de__sign_in__title="Willkommen"), KeptTexts()
    with trio.CancelScope() as scope:
        scope.cancel()
        await kept.bring(store.pool, dress(digest))
    await kept.bring(store.pool, dress(digest))
    assert kept.find(digest) is not None


def test_the_texts_that_were_shown_last_are_kept() -> None:
    kept = KeptTexts(most_bytes=2500)
    for name in "abc":
        kept.keep(texts(name, 100))
        kept.keep(texts(name, 100))
    assert [kept.find(name) is not None for name in "abc"] == [False, True, True]
    kept.find("b")
    kept.keep(texts("d", 100))
    assert [kept.find(name) is not None for name in "bcd"] == [True, False, True]


async def test_the_installations_words_are_read_with_the_rules(store: Store) -> None:
    words = PostgresInstallationWords(store.pool)
    assert await words.get() == InstallationWords()
    digest = "a" * 64
    await store.query("insert into installation_texts (digest) values (%(digest)s)", {"digest": digest})
    await store.query("insert into text_approval_rules (mails, pages) values (false, true)")
    await store.query(
        "insert into organization_texts (id, updated_at, key, language, text, based_on)"
        " values (gen_random_uuid(), now(), 'own.footer', 'de', 'Impressum', '')"
    )
    found = await words.get()
    assert (found.texts.by_language, found.rules) == (
        {Language.GERMAN: {"own.footer": "Impressum"}},
        ApprovalRules(mails=False, pages=True),
    )
    assert found.texts.digest == digest


async def test_a_deleted_organization_with_equal_texts_takes_none_away(store: Store) -> None:
    """Its texts go row by row, and it has the digest of all of them until the end."""
    digest = await write(store, de__sign_in__title="Willkommen")
    await store.query(
        "update all_organizations set slug = slug || '-gone', deleted_at = now() where texts_digest = %(digest)s", {"digest": digest}
    )
    await store.query("delete from organization_texts")
    await write(store, de__sign_in__title="Willkommen")
    kept = KeptTexts()
    await kept.bring(Statements(store.pool), dress(digest))
    found = kept.find(digest)
    assert found is not None
    assert found.of(Language.GERMAN) == {"sign_in.title": "Willkommen"}
