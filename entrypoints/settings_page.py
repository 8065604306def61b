"""Writes `docs/settings.md` from the declarations: `python -m entrypoints.settings_page > docs/settings.md`. A test keeps it current."""

import sys
from itertools import groupby
from typing import Final

from entrypoints.settings import DECLARATIONS, Declaration

_HEAD: Final = """\
# Settings

<!-- Made by `python -m entrypoints.settings_page > docs/settings.md`; a test compares. Change entrypoints/settings.py instead. -->

Postern reads its settings once, at the start, from environment variables. If `POSTERN_CONFIG` names a file, Postern
reads this file, too. The file has `NAME=value` lines like systemd's `EnvironmentFile=`. A value may be in quotes.
Postern ignores blank lines, and lines that begin with `#` or `;`. The environment wins over the file. An empty value
means "not set".

A setting that is unknown, malformed or missing stops the start, with one sentence that names the setting.
`postern config` prints the settings in force, and `postern doctor` checks whether they work.

Times are seconds, or a number with `ms`, `s`, `m`, `h` or `d`. Sizes are bytes, or a number with `KiB`, `MiB` or `GiB`.

Some settings have a second name. Either of the two sets the setting. The start stops if both are set and differ.

A setting marked *secret* can also come from a file. The same name with `_FILE` appended names this file, and the file's
content is the value. Postern never prints or logs a secret.
"""


def render() -> str:
    parts = [_HEAD]
    for group, settings in groupby(DECLARATIONS, key=lambda one: one.group):
        parts.append(f"\n## {group}\n")
        parts += [_section(one) for one in settings]
    return "".join(parts)


def _section(one: Declaration) -> str:
    name, *others = one.names
    title = f"\n### `{name}`{' (secret)' if one.secret else ''}\n\n"
    default = f"Default: {one.unset}." if one.default is None else f"Default: `{one.default}`." if one.default else "Default: none."
    also = f" Another name: `{others[0]}`." if others else ""
    return f"{title}{one.description} {default}{also}\n"


if __name__ == "__main__":
    sys.stdout.write(render())
