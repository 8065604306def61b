"""A program as one paste into a shell, in an empty folder. "Copy all" in the console gives the same text (pages.js)."""

from collections.abc import Iterable

from entrypoints.http.console.organization.applications.making import LinesBlock


def script(blocks: Iterable[LinesBlock]) -> str:
    return "".join(f"{_pasted(one)}\n" for one in blocks)


def _pasted(block: LinesBlock) -> str:
    if not block.file:
        return block.code
    folder = block.file.rpartition("/")[0]
    made = f'mkdir -p "{folder}"\n' if folder else ""
    return f"{made}cat > \"{block.file}\" <<'END'\n{block.code}\nEND"
