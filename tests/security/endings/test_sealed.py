"""What is sealed or signed and has no row says which kind of credential it is: no table would."""

import re
from pathlib import Path
from typing import Final

from core.domain.identity.endings import SEALED, SIGNED

ROOT: Final = Path(__file__).parents[3]
LAYERS: Final = ("core", "adapters", "entrypoints")


def sources() -> dict[Path, str]:
    return {path: path.read_text() for layer in LAYERS for path in (ROOT / layer).rglob("*.py")}


def test_every_key_of_the_server_says_what_its_texts_open() -> None:
    """A purpose is a name of the module that uses it, or of the one that it comes from."""
    texts = sources()
    named = {(path, name) for path, text in texts.items() for name in re.findall(r"server_secrets\s*\.(?:get|find)\((\w+)\)", text)}
    assert named
    found = set()
    for path, name in named:
        where = [texts[path], *(text for text in texts.values() if f"\n{name}: Final" in text and not name.startswith("_"))]
        values = {value for text in where for value in re.findall(rf'^{name}: Final = "(\w+)"$', text, re.MULTILINE)}
        assert values, (path, name)
        found |= values
    assert found == SIGNED.keys()


def test_no_two_kinds_are_sealed_alike() -> None:
    """What the key ring opens as one kind is no other."""
    assert len({one.context for one in SEALED}) == len(SEALED)


def test_a_text_is_sealed_nowhere_else() -> None:
    """Whoever makes a text of a sealed value has said what it opens."""
    made = re.compile(r"b64encode\(\s*(?:self\.)?_?keyring\.seal")
    makers = {path.relative_to(ROOT).as_posix() for path, text in sources().items() if made.search(text)}
    # A backup's proof and seal are in its own file, and open nothing here.
    assert makers == {"core/usecases/identity/guards/puzzles.py", "adapters/backup_folders.py"}
