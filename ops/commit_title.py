"""Refuses a commit whose title is too long, because `git log --oneline` and every page that lists commits cut it off; and a commit without
a body, because only the body says why. Git calls this as its hook `commit-msg`, with the file of the message. The file must run without
any library, because it may run without `.venv`.
"""

import re
import sys
from pathlib import Path
from typing import Final

LONGEST: Final = 72
# Git writes these titles itself.
OF_GIT: Final = ("Merge ", 'Revert "', "fixup! ", "squash! ", "amend! ")
# Below this line, `git commit --verbose` shows the difference, which is no part of the message.
SCISSORS: Final = "# ------------------------ >8 ------------------------"
# A line that tools read, such as `Signed-off-by: Ada`, says nothing about why.
TRAILER: Final = re.compile(r"[A-Z][A-Za-z-]*-[Bb]y: ")


def refusal(message: str) -> str | None:
    """Why the message is refused. None when its title is short enough and its body says something. Git itself refuses an empty message."""
    written = (line.strip() for line in message.partition(SCISSORS)[0].splitlines() if not line.startswith("#"))
    title, *body = [line for line in written if line] or [""]
    if not title or title.startswith(OF_GIT):
        return None
    if len(title) > LONGEST:
        return f"The title has {len(title)} characters, and at most {LONGEST} are allowed:\n  {title[:LONGEST]}|{title[LONGEST:]}"
    if not any(not TRAILER.match(line) for line in body):
        return "The commit has no body: say below the title why the change is made"
    return None


if __name__ == "__main__":
    sys.exit(refusal(Path(sys.argv[1]).read_text(encoding="utf-8")))
