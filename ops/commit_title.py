"""Refuses a commit whose title is too long: `git log --oneline` and every page that lists commits cut it off. Git calls this as its hook
`commit-msg`, with the file of the message. The file must run without any library, because it may run without `.venv`.
"""

import sys
from pathlib import Path
from typing import Final

LONGEST: Final = 72
# Git writes these titles itself.
OF_GIT: Final = ("Merge ", 'Revert "', "fixup! ", "squash! ", "amend! ")


def refusal(message: str) -> str | None:
    """Why the message is refused. None when its title is short enough."""
    written = (line.strip() for line in message.splitlines() if not line.startswith("#"))
    title = next((line for line in written if line), "")
    if len(title) <= LONGEST or title.startswith(OF_GIT):
        return None
    return f"The title has {len(title)} characters, and at most {LONGEST} are allowed:\n  {title[:LONGEST]}|{title[LONGEST:]}"


if __name__ == "__main__":
    sys.exit(refusal(Path(sys.argv[1]).read_text(encoding="utf-8")))
