"""The guides of this version, as pages at `/docs/guides`, rendered from Markdown."""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from markupsafe import Markup, escape

from core.frozen import Frozen
from entrypoints.shipped_files import INSTALLED, REPOSITORY

Linking = Callable[[str], str]
"""Where a link of the document leads on our pages. Empty if it leads nowhere there: its words stay."""

_FENCE: Final = re.compile(r"```\w*")
_HEADING: Final = re.compile(r"(#{1,4}) (.+)")
_ITEM: Final = re.compile(r"(- |(\d+)\. )(.*)")
_INLINE: Final = re.compile(
    r"(?P<ticks>`+)(?P<code>.+?)(?P=ticks)|\[(?P<words>(?:`[^`]*`|[^\[\]`])+)\]\(\s*(?P<target>[^()\s]+)\s*\)|<(?P<address>https?://[^\s>]+)>"
    r"|\*\*(?P<bold>(?:`[^`]*`|[^`])+?)\*\*(?!\*)|(?<!\w)\*(?P<italic>[^*\s`][^*`]*)\*(?!\w)",
    re.DOTALL,
)
_CELLS: Final = re.compile(r"((?:`[^`]*`|\\\||[^|`])*)\|")
_NO_NAME: Final = re.compile(r"[^\w -]")


def in_html(text: str, linking: Linking) -> Markup:
    """Renders Markdown as our own guides write it: headings, paragraphs, lists, tables, examples, code, bold, italics and links. All else
    is text, and all text is escaped.
    """
    return Markup("\n").join(_blocks(text.splitlines(), linking))


def name_of(heading: str) -> str:
    """The name of a heading in an address, as sites for code make it."""
    return _NO_NAME.sub("", heading.lower()).replace(" ", "-")


def plain(text: str) -> str:
    """The words of a line, without its marks."""
    return re.sub(r"[`*]", "", re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text))


def _blocks(lines: Sequence[str], linking: Linking) -> Iterator[Markup]:
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            at += 1
        elif _FENCE.fullmatch(line):
            end = lines.index("```", at + 1)
            yield Markup('<div><pre class="example" tabindex="0"><code>{}</code></pre></div>').format("\n".join(lines[at + 1 : end]))
            at = end + 1
        elif heading := _HEADING.fullmatch(line):
            level = len(heading[1])
            yield Markup('<h{} id="{}">{}</h{}>').format(level, name_of(plain(heading[2])), _inline(heading[2], linking), level)
            at += 1
        elif line.startswith("|"):
            end = _end(lines, at, lambda one: one.startswith("|"))
            yield _table(lines[at:end], linking)
            at = end
        elif item := _ITEM.fullmatch(line):
            end = _end_of_list(lines, at)
            yield _list(lines[at:end], item[2], linking)
            at = end
        else:
            end = _end(lines, at, lambda one: bool(one.strip()) and not _begins(one))
            yield Markup("<p>{}</p>").format(_inline("\n".join(lines[at:end]), linking))
            at = end


def _begins(line: str) -> bool:
    """Whether another block begins here."""
    return bool(_FENCE.fullmatch(line) or _HEADING.fullmatch(line) or _ITEM.fullmatch(line) or line.startswith("|"))


def _end(lines: Sequence[str], at: int, goes_on: Callable[[str], bool]) -> int:
    at += 1
    while at < len(lines) and goes_on(lines[at]):
        at += 1
    return at


def _end_of_list(lines: Sequence[str], at: int) -> int:
    """A list goes on with items and with what is indented below them."""
    end = at + 1
    for number in range(at + 1, len(lines)):
        if lines[number].strip():
            if not (lines[number].startswith("  ") or _ITEM.fullmatch(lines[number])):
                break
            end = number + 1
    return end


def _list(lines: Sequence[str], first: str | None, linking: Linking) -> Markup:
    items: list[list[str]] = []
    indent = 0
    for line in lines:
        if item := _ITEM.fullmatch(line):
            indent = len(item[1])
            items.append([item[3]])
        else:
            items[-1].append(line[indent:] if not line[:indent].strip() else line.lstrip())
    inside = Markup("\n").join(Markup("<li>{}</li>").format(_item(item, linking)) for item in items)
    return Markup("<ul>\n{}\n</ul>").format(inside) if first is None else Markup('<ol start="{}">\n{}\n</ol>').format(first, inside)


def _item(lines: Sequence[str], linking: Linking) -> Markup:
    """An item that is one paragraph is that, without space around."""
    if not any(not line.strip() or _begins(line) for line in lines):
        return _inline("\n".join(lines), linking)
    return Markup("\n").join(_blocks(lines, linking))


def _table(lines: Sequence[str], linking: Linking) -> Markup:
    head, _, *rows = [[cell.strip() for cell in _CELLS.findall(line[1:])] for line in lines]
    return Markup('<div class="wide" tabindex="0"><table><thead>{}</thead><tbody>{}</tbody></table></div>').format(
        _row(head, "th", linking), Markup("").join(_row(row, "td", linking) for row in rows)
    )


def _row(cells: Sequence[str], kind: str, linking: Linking) -> Markup:
    inside = Markup("").join(Markup("<{}>{}</{}>").format(kind, _inline(cell.replace("\\|", "|"), linking), kind) for cell in cells)
    return Markup("<tr>{}</tr>").format(inside)


def _inline(text: str, linking: Linking) -> Markup:
    parts, at = [], 0
    for found in _INLINE.finditer(text):
        parts += [escape(text[at : found.start()]), _marked(found, linking)]
        at = found.end()
    return Markup("").join([*parts, escape(text[at:])])


def _marked(found: re.Match[str], linking: Linking) -> Markup:
    if code := found["code"]:
        return Markup("<code>{}</code>").format(code)
    if address := found["address"]:
        return Markup('<a href="{}">{}</a>').format(address, address)
    if bold := found["bold"]:
        return Markup("<b>{}</b>").format(_inline(bold, linking))
    if italic := found["italic"]:
        return Markup("<i>{}</i>").format(_inline(italic, linking))
    words, address = _inline(found["words"], linking), linking(found["target"])
    return Markup('<a href="{}">{}</a>').format(address, words) if address else words


AT: Final = "/docs/guides"
FOLDERS: Final[Mapping[str, str]] = {
    "start": "Sign in with your framework",
    "": "Step by step",
    "applications": "Products as applications",
    "apis": "APIs, MCP servers and agents",
    "programs": "Scripts and assistants",
    "workloads": "Clients without a secret",
    "looks": "Branding and custom text",
    "directories": "Directories of customers",
    "proxies": "Applications behind a reverse proxy",
    "running": "Run Postern",
}
"""The folders of `docs/guides`, in the order of the page, with the words for them."""
CONTENTS: Final = "README.md"
"""The list of all guides, for readers of the repository. `/docs` has its own."""


class Guide(Frozen):
    name: str
    """In its address."""
    folder: str
    title: str
    about: str
    """Its first sentence, in plain words."""
    content: Markup

    @property
    def address(self) -> str:
        return f"{AT}/{self.name}"


class GuideTitle(NamedTuple):
    name: str
    title: str
    about: str

    @property
    def address(self) -> str:
        return f"{AT}/{self.name}"


def guides_in_words() -> Sequence[GuideTitle]:
    """What each guide is called and about, without its content."""
    return [GuideTitle(guide_name(path), *_title_and_about(text)[:2]) for path, text in _read().items()]


def _read() -> Mapping[str, str]:
    """The text of each guide by its path. Nothing where a package has no guides."""
    folder = next((one for one in (REPOSITORY / "docs" / "guides", *(each / "guides" for each in INSTALLED)) if one.is_dir()), None)
    if folder is None:
        return {}
    paths = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.md") if path != folder / CONTENTS)
    return {path: (folder / path).read_text(encoding="utf-8") for path in paths}


def guides() -> Mapping[str, Guide]:
    """All guides by their names.

    Operators and developers need not look for the guides of their version elsewhere. A package ships them; without them there are no such
    pages, and no links to them.
    """
    read = _read()
    made = [_guide(path, text, read) for path, text in read.items()]
    return {one.name: one for one in sorted(made, key=lambda one: (list(FOLDERS).index(one.folder), one.title))}


def guide_name(path: str) -> str:
    """The name of the guide at a path below `docs/guides`."""
    return path.removesuffix(".md").removesuffix("/README").replace("/", "-")


def _title_and_about(text: str) -> tuple[str, str, str]:
    """The title, the first sentence and the content of a guide."""
    heading, _, content = text.partition("\n")
    about = " ".join(plain(content.strip().partition("\n\n")[0]).split()).partition(". ")[0]
    return plain(heading.removeprefix("# ")), about, content


def _guide(path: str, text: str, read: Mapping[str, str]) -> Guide:
    title, about, content = _title_and_about(text)
    folder = path.rpartition("/")[0]

    def linking(target: str) -> str:
        if target.startswith(("https://", "http://", "#")):
            return target
        file, _, anchor = target.partition("#")
        found = posixpath.normpath(posixpath.join(folder, file))
        return f"{AT}/{guide_name(found)}{f'#{anchor}' if anchor else ''}" if found in read else ""

    return Guide(guide_name(path), folder, title, about, in_html(content, linking))


def by_folder(all_guides: Mapping[str, Guide]) -> Sequence[tuple[str, str, Sequence[Guide]]]:
    """What the page of contents shows: a name, words, and the guides."""
    named = [(name_of(words), words, [one for one in all_guides.values() if one.folder == folder]) for folder, words in FOLDERS.items()]
    return [one for one in named if one[2]]
