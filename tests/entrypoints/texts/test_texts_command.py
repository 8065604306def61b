"""`postern texts export` and `import`: what is exported is imported again without a difference, and what does not fit is said by line."""

import json
from pathlib import Path
from typing import Any, Final

import trio

from adapters.texts.po import read
from core.domain.languages import Language
from core.domain.texts.own_texts import OPEN_TEXTS
from entrypoints.bootstrap import Postern
from tests.e2e.postern import command
from tests.http.conftest import database_url, people, postern
from tests.http.people import People
from tests.http.tenants import Tenants

__all__ = ["database_url", "people", "postern"]  # fixtures

KEY: Final = "test:a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="


class TextsConsole:
    def __init__(self, url: str, folder: Path, people: People) -> None:
        self._settings = {"POSTERN_DATABASE_URL": url, "POSTERN_ENCRYPTION_KEYS": KEY, "POSTERN_MAIL": "console"}
        self._folder = folder
        self._people = people

    async def __call__(self, *words: str, fails: int = 0) -> str:
        def done() -> tuple[int, str]:
            ended = command(self._folder, "texts", *words, **self._settings)
            return ended.returncode, ended.stderr if fails else ended.stdout

        status, told = await trio.to_thread.run_sync(done)
        assert status == fails, told
        return told

    async def take(self, text: str, *words: str, fails: int = 0) -> str:
        file = self._folder / "texts.po"
        file.write_text(text, encoding="utf-8")
        return await self("import", str(file), *words, fails=fails)

    def kept(self) -> list[dict[str, Any]]:
        return self._people.rows(
            "select coalesce(slug, '') as slug, key, organization_texts.language, text, organization_texts.id"
            "  from organization_texts left join organizations on organizations.id = org_id order by 1, 2, 3"
        )


def translated(exported: str, **texts: str) -> str:
    """The file with these own texts; a double underscore is a dot."""
    for name, text in texts.items():
        key = name.replace("__", ".")
        before, found, after = exported.partition(f'msgctxt "{key}"\n')
        assert found, key
        head, _, rest = after.partition('msgstr ""')
        exported = f'{before}{found}{head}msgstr "{text}"{rest}'
    return exported


async def test_what_is_exported_is_imported_without_a_difference(
    postern: Postern, people: People, database_url: str, tmp_path: Path
) -> None:
    tenants = Tenants(postern, people)
    tenants.member(tenants.add("acme"), "owner")
    console = TextsConsole(database_url, tmp_path, people)
    exported = await console("export", "--language", "de", "--organization", "acme")
    file = read(exported)
    assert file.headers["Language"] == "de"
    assert [one.context for one in file.messages] == [key for key, one in OPEN_TEXTS.items() if one.is_of_organizations]
    assert not any(one.text for one in file.messages)
    assert "#. sign_in: title of sign_in; at most 60 characters\n#. Required placeholders: {service}\n#. Default text in de: " in exported

    changed = translated(exported, sign_in__title="Willkommen", own__footer="Acme GmbH\\n\\nHauptstraße 1")
    told = json.loads(await console.take(changed, "--organization", "acme", "--json"))
    assert (told["language"], told["own"], told["unchecked"]) == ("de", 2, 0)
    kept = console.kept()
    assert [(one["slug"], one["key"], one["text"]) for one in kept] == [
        ("acme", "own.footer", "Acme GmbH\n\nHauptstraße 1"),
        ("acme", "sign_in.title", "Willkommen"),
    ]
    again = await console("export", "--language", "de", "--organization", "acme")
    assert await console.take(again, "--organization", "acme") == "2 custom texts in de saved.\n"
    assert console.kept() == kept
    assert await console("export", "--language", "de", "--organization", "acme") == again
    # What the file says nothing of any more is ours again.
    assert await console.take(exported, "--organization", "acme") == "0 custom texts in de saved.\n"
    assert console.kept() == []


async def test_the_installation_has_files_too_and_guesses_stay_out(people: People, database_url: str, tmp_path: Path) -> None:
    console = TextsConsole(database_url, tmp_path, people)
    exported = await console("export", "--language", "en")
    changed = translated(exported, sign_in__title="Welcome", register__title="Guessed")
    changed = changed.replace('msgctxt "register.title"', '#, fuzzy\nmsgctxt "register.title"')
    assert await console.take(changed) == "1 custom text in en saved. 1 marked fuzzy (not reviewed) is unchanged.\n"
    assert [(one["slug"], one["key"]) for one in console.kept()] == [("", "sign_in.title")]


async def test_what_does_not_fit_is_said_by_line_and_nothing_is_taken(people: People, database_url: str, tmp_path: Path) -> None:
    console = TextsConsole(database_url, tmp_path, people)
    exported = await console("export", "--language", "fr")
    changed = translated(exported, sign_in__title="<b>Bonjour</b>", sign_in__title_to="Bonjour", register__title="Bienvenue")
    changed += '\nmsgctxt "consent.title"\nmsgid "Allow"\nmsgstr "Oui"\n'
    lines = {one.context: one.line for one in read(changed).messages}
    told = (await console.take(changed, fails=1)).splitlines()
    assert told[0] == "postern: Nothing was changed:"
    assert [line.partition(":")[0] for line in told[1:]] == [
        f"Line {lines[key]}" for key in ("sign_in.title", "sign_in.title_to", "consent.title")
    ]
    assert console.kept() == []
    assert "Line 3: neither a comment" in await console.take('msgid ""\nmsgstr ""\nnonsense', fails=1)
    of_another = exported.replace("X-Postern-Texts: ", "X-Postern-Texts: 0").replace('msgid "Sign in"', 'msgid "Log in"')
    assert "another version of the default texts" in await console.take(of_another, fails=1)
    assert "is not turned on; available languages: en" in await console.take(exported.replace("Language: fr", "Language: tlh"), fails=1)
    for headless in ("", exported.replace('"Language: fr\\n"\n', "")):
        assert "must specify its language" in await console.take(headless, fails=1)
    assert "is not turned on" in await console("export", "--language", "tlh", fails=1)
    file = tmp_path / "latin.po"
    file.write_bytes(exported.encode("utf-16"))
    assert "must be in UTF-8" in await console("import", str(file), fails=1)
    file.write_bytes(b"#" * ((4 << 20) + 1))
    assert "4 MiB at most" in await console("import", str(file), fails=1)
    assert set(Language) >= {"fr"}


async def test_what_msgmerge_carries_over_is_taken(postern: Postern, people: People, database_url: str, tmp_path: Path) -> None:
    tenants = Tenants(postern, people)
    tenants.member(tenants.add("acme"), "owner")
    console = TextsConsole(database_url, tmp_path, people)
    exported = await console("export", "--language", "de", "--organization", "acme")
    # As msgmerge 0.21 writes it: the head of the older file, ours of now, and `fuzzy` where ours has changed.
    merged = translated(exported, sign_in__new_here="Neu hier?", sign_in__or="sonst").replace("X-Postern-Texts: ", "X-Postern-Texts: 0")
    merged = merged.replace('msgctxt "sign_in.new_here"', '#, fuzzy\nmsgctxt "sign_in.new_here"')
    # A file from before a default was reworded has the former one.
    merged = merged.replace('msgid "What is your email address?"', 'msgid "Which e-mail address is yours?"')
    told = json.loads(await console.take(merged, "--organization", "acme", "--json"))
    assert (told["own"], told["unchecked"]) == (1, 1)
    assert [(one["key"], one["text"]) for one in console.kept()] == [("sign_in.or", "sonst")]
