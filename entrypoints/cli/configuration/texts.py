"""`postern texts export` and `import`: own texts in files of translators."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import trio

from adapters.texts.po import PoFile, Translation, UnreadablePo, read, written
from core.domain.identifiers import OrganizationId
from core.domain.languages import DEFAULT, Language
from core.domain.tenancy.texts import ListedText, TextsChange, spoken, version_of
from core.domain.texts.rules import TextFault, TextRules, TextsRefused
from entrypoints.bootstrap import Postern
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.operating import acting, for_owner
from entrypoints.cli.output.printing import print_json
from entrypoints.failures import OK, StartFailed
from entrypoints.settings import Settings

# What tells our texts of this release from those of another one.
_VERSION: Final = "X-Postern-Texts"
# Where we have no text, a translator reads this. An empty msgid would be the head of the file.
_NOTHING: Final = "(Postern has no default text here.)"
_LARGEST: Final = 4 << 20


class UnfitTexts(StartFailed):
    """The file is not taken. Nothing was changed."""


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    trio.run(_ACTIONS[arguments.action], arguments, settings)
    return OK


async def _export(given: argparse.Namespace, settings: Settings) -> None:
    language = spoken(given.language)
    async with opened_postern(settings) as postern:
        listed = (await postern.tenancy.own_texts.list(await _organization(postern, given), language)).listed
        english = postern.foundation.shipped_words.written(DEFAULT)
        headers = {
            "Project-Id-Version": "Postern",
            "Language": language.value,
            "MIME-Version": "1.0",
            "Content-Type": "text/plain; charset=UTF-8",
            "Content-Transfer-Encoding": "8bit",
            _VERSION: _version(postern, language),
        }
        print(written(headers, [_message(one, english) for one in listed]), end="")


async def _import(given: argparse.Namespace, settings: Settings) -> None:
    file = _read(given.file)
    if "Language" not in file.headers:
        raise UnfitTexts(f"{given.file}: the header of the file must specify its language, as `postern texts export` writes it")
    language = spoken(file.headers["Language"])
    async with opened_postern(settings) as postern:
        taken = [one for one in file.messages if not one.is_fuzzy]
        if file.headers.get(_VERSION) != _version(postern, language) and not _is_of_now(taken, postern):
            raise UnfitTexts(
                "The file was exported from another version of the default texts, and some may have changed or been removed. Export "
                "again, and use gettext's msgmerge to transfer the translations"
            )
        change = TextsChange(language.value, {one.context: one.text or None for one in taken})
        try:
            if given.organization is None:
                version = await postern.tenancy.own_texts.change_for_installation(change, acting())
            else:
                member = await for_owner(postern, given.organization)
                version = await postern.tenancy.own_texts.change(member, change, acting())
        except TextsRefused as refused:
            raise UnfitTexts("\n".join(_by_line(refused.faults, taken))) from None
    left = len(file.messages) - len(taken)
    own = sum(bool(one.text) for one in taken)
    if given.json:
        print_json({"language": language.value, "own": own, "unchecked": left, "version": version})
    else:
        said = f"{own} custom {'text' if own == 1 else 'texts'} in {language.value} saved."
        stays = f" {left} marked fuzzy (not reviewed) {'is unchanged' if left == 1 else 'are unchanged'}." if left else ""
        print(said + stays)


async def _organization(postern: Postern, given: argparse.Namespace) -> OrganizationId | None:
    return None if given.organization is None else (await postern.platform.governance.show(given.organization)).organization.id


def _message(one: ListedText, english: Mapping[str, str]) -> Translation:
    ours = english.get(one.open.key, "")
    comments = [f"{one.open.place}: {one.open.kind} of {one.open.page}; at most {one.most} characters"]
    if one.placeholders:
        comments.append("Required placeholders: " + " ".join(f"{{{name}}}" for name in one.placeholders))
    if one.language is not DEFAULT and one.ours and one.ours != ours:
        comments.append(f"Default text in {one.language}: {one.ours}")
    return Translation(one.open.key, ours or _NOTHING, one.own or "", comments)


def _version(postern: Postern, language: Language) -> str:
    """Of all open texts of ours, in English and in the language."""
    return "-".join(version_of(postern.foundation.shipped_words.written(one)) for one in (DEFAULT, language))


def _is_of_now(taken: Sequence[Translation], postern: Postern) -> bool:
    """Returns whether each text stands beside ours as it reads now, or beside a former one of the same meaning. Each does after `msgmerge`,
    which keeps the head of the older file.
    """
    words = postern.foundation.shipped_words
    rules = TextRules({}, words.written(DEFAULT), former={DEFAULT: words.former(DEFAULT)})
    return all(rules.is_current(one.context, DEFAULT, "" if one.id == _NOTHING else one.id) for one in taken)


def _read(name: str) -> PoFile:
    content = sys.stdin.buffer.read(_LARGEST + 1) if name == "-" else Path(name).read_bytes()
    if len(content) > _LARGEST:
        raise UnfitTexts(f"{name}: a file of texts has {_LARGEST >> 20} MiB at most")
    try:
        return read(content.decode())
    except UnicodeDecodeError:
        raise UnfitTexts(f"{name}: must be in UTF-8") from None
    except UnreadablePo as fault:
        raise UnfitTexts(f"{name}: {fault}") from None


def _by_line(faults: Sequence[TextFault], taken: Sequence[Translation]) -> list[str]:
    lines = {one.context: one.line for one in taken}
    told = sorted((lines[fault.key], str(fault)) for fault in faults)
    return ["Nothing was changed:", *(f"Line {line}: {fault}" for line, fault in told)]


_ACTIONS: Final = {"export": _export, "import": _import}
