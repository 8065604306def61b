"""Which entries of the changelog concern an installation."""

import tomllib

import trio

from entrypoints.cli.upgrading.news import CHANGELOG, FEATURES, changelog, concerning, entries_since, shipped_at, used_words
from entrypoints.settings import DECLARATIONS
from tests.entrypoints.backups.installation import BackedUp
from tests.places import ROOT

TEXT = """# Changelog

## Unreleased

### Operating

- **Changed:** hooks are [asked](docs/hooks.md) twice. More words
  follow here. (concerns: hooks)
- All must know.

  ```sh
  a command
  ```
- A proxy is named. (concerns: POSTERN_OUTBOUND_PROXY, terms)

## 0.1.0 (2026-11-22)

- The first.
"""


def test_entries_above_the_version_of_the_backup_count_and_a_mark_is_taken_off() -> None:
    found = entries_since(TEXT, "0.1.0")
    assert [one.text for one in found] == ["Changed: hooks are asked twice. More words follow here.", "All must know.", "A proxy is named."]
    assert [list(one.concerns) for one in found] == [["hooks"], [], ["POSTERN_OUTBOUND_PROXY", "terms"]]
    assert found[0].beginning == "Changed: hooks are asked twice."
    assert len(entries_since(TEXT, "0.0.1")) == 4
    assert [one.text for one in concerning(found, {"terms"})] == ["All must know.", "A proxy is named."]
    assert [one.text for one in concerning(found, set())] == ["All must know."]


def test_every_mark_of_the_changelog_names_a_setting_or_a_feature() -> None:
    known = {name for one in DECLARATIONS for name in one.names} | FEATURES.keys()
    entries = entries_since(changelog(), "none")
    assert len(entries) > 50
    assert [(one.beginning, word) for one in entries for word in one.concerns if word not in known] == []
    assert not any("(concerns" in one.text for one in entries), "a mark that is not at the end, or has another form"


def test_the_copy_says_which_features_are_used(backup: BackedUp) -> None:
    used = trio.run(used_words, backup.settings, backup.restored)
    assert {"hooks", "webhooks", "provisioning", "SIEM", "POSTERN_ARGON2_MEMORY", "POSTERN_ENCRYPTION_KEYS"} <= set(used)
    assert not {"terms", "SAML", "POSTERN_OUTBOUND_PROXY", "POSTERN_BILLING_KEY"} & set(used)


def test_the_changelog_is_in_the_wheel() -> None:
    files = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["data-files"]
    assert CHANGELOG in files["share/postern"]
    assert shipped_at() == ROOT / CHANGELOG
