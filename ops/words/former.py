"""Lists default texts that were reworded, so that a custom text beside one of them does not count as outdated.

`python -m ops.words.former COMMIT` adds every open text that reads otherwise at that commit. Read the difference of the list afterwards.
Take out each text whose meaning has changed: an administrator should review a custom text whose default means something else now.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from adapters.texts import ShippedTexts
from core.domain.languages import Language
from core.domain.texts.rules import FormerDefault

ROOT: Final = Path(__file__).parents[2]
LIST: Final = ROOT / "adapters/texts/former.toml"
_HEAD: Final = """\
# Former default texts with the same meaning as the current ones: the first 16 digits of their SHA-256, and their length.
# Written by `python -m ops.words.former COMMIT`.
"""
# Runs in the tree of either commit, so it uses nothing of this file.
_PRINT: Final = """
import json, sys
from adapters.texts import ShippedTexts
from core.domain.languages import Language
from core.domain.texts.own_texts import OPEN_TEXTS
texts = {one.value: ShippedTexts().written(one) for one in Language}
json.dump({one: {key: written[key] for key in OPEN_TEXTS if key in written} for one, written in texts.items()}, sys.stdout)
"""

Defaults = Mapping[str, Mapping[str, str]]
"""By language and key."""


def defaults(tree: Path = ROOT) -> Defaults:
    """Returns the open texts of a tree."""
    printed = subprocess.run([sys.executable, "-c", _PRINT], cwd=tree, check=True, capture_output=True).stdout
    read: Defaults = json.loads(printed)
    return read


def defaults_of(commit: str) -> Defaults:
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", commit, "adapters", "core"], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        return defaults(Path(folder))


def reworded(before: Defaults, now: Defaults, former: Mapping[str, Mapping[str, list[FormerDefault]]]) -> str:
    """Returns the list with each default of before that reads otherwise now. What is the default again leaves the list."""
    lines = [_HEAD]
    for language in sorted({*now, *former}):
        sections = defaultdict[str, list[str]](list)
        for key in sorted({*now.get(language, {}), *former.get(language, {})}):
            text, was = now.get(language, {}).get(key, ""), before.get(language, {}).get(key, "")
            listed = [one for one in former.get(language, {}).get(key, ()) if one != FormerDefault.of(text)]
            if was and was != text and FormerDefault.of(was) not in listed:
                listed.append(FormerDefault.of(was))
            if listed:
                section, _, name = key.partition(".")
                sections[section].append(f'{name} = "{" ".join(f"{one.digest}:{one.length}" for one in listed)}"\n')
        lines += (f"\n[{language}.{section}]\n" + "".join(entries) for section, entries in sections.items())
    return "".join(lines)


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("commit")
    shipped = ShippedTexts()
    former = {one.value: {key: list(listed) for key, listed in shipped.former(one).items()} for one in Language}
    LIST.write_text(reworded(defaults_of(given.parse_args().commit), defaults(), former), encoding="utf-8")


if __name__ == "__main__":
    main()
