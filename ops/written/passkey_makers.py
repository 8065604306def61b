"""Writes the names of those who make passkey providers into `entrypoints/http/passkey_makers.toml`, from the list of the community.

    curl -sO https://raw.githubusercontent.com/passkeydeveloper/passkey-authenticator-aaguids/main/aaguid.json
    python -m ops.written.passkey_makers aaguid.json 2026-11-30

The date is that of the list. Only identifiers and names are taken, no icons. The list may become an empty object one day, as its
authors say: the file stays then. Security keys are not in it; the part `security_keys` of our file stays as it is.
"""

import argparse
import json
import tomllib
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, Final
from uuid import UUID

FILE: Final = Path(__file__).resolve().parents[2] / "entrypoints" / "http" / "passkey_makers.toml"
LONGEST_NAME: Final = 60
_HEAD: Final = """\
# Who makes the authenticators that keep passkeys, by the AAGUID that an authenticator states of itself. Postern asks for no attestation, so
# nobody proves it: a name is shown, and decides nothing. `python -m ops.written.passkey_makers` renews the part `makers`.
"""


class UnfitList(Exception):
    """The list is not what its schema says. The message is one sentence."""


def makers_in(text: str) -> Mapping[str, str]:
    """Raises `UnfitList`."""
    try:
        given: Any = json.loads(text)
    except ValueError as error:
        raise UnfitList(f"The list is no JSON: {error}") from None
    if not isinstance(given, dict) or not given:
        raise UnfitList("The list is empty: its authors may have retired it. The names that we have stay")
    found: dict[str, str] = {}
    for aaguid, maker in given.items():
        name = maker.get("name") if isinstance(maker, dict) else None
        if not _is_aaguid(aaguid) or not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
            raise UnfitList(f"The list has an entry that is none: {aaguid!r}")
        found[aaguid] = name
    return found


def _is_aaguid(text: str) -> bool:
    try:
        return str(UUID(text)) == text and UUID(text).int != 0
    except ValueError:
        return False


def renewed(kept: str, text: str, day: date) -> str:
    """The file with the makers of this list. Raises `UnfitList`."""
    file, makers = tomllib.loads(kept), makers_in(text)
    source = {**file["source"], "date": day.isoformat()}
    keys = {aaguid: name for aaguid, name in file["security_keys"].items() if aaguid not in makers}
    parts = {"source": source, "makers": dict(sorted(makers.items(), key=lambda one: (one[1].casefold(), one[0]))), "security_keys": keys}
    return _HEAD + "".join(f"\n[{part}]\n" + "".join(_line(*one) for one in values.items()) for part, values in parts.items())


def _line(name: str, value: str) -> str:
    key = name if name.isidentifier() else json.dumps(name)
    return f"{key} = {json.dumps(value, ensure_ascii=False)}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the names of passkey providers from the list of the community.")
    parser.add_argument("list", type=Path, help="the file aaguid.json")
    parser.add_argument("date", type=date.fromisoformat, help="the day of the list, such as 2026-11-30")
    given = parser.parse_args()
    try:
        content = renewed(FILE.read_text("utf-8"), given.list.read_text("utf-8"), given.date)
    except UnfitList as error:
        raise SystemExit(str(error)) from None
    FILE.write_text(content, "utf-8")


if __name__ == "__main__":
    main()
