"""Files of other systems, as their readers need them: which they are, how large they are, their lines, their records one after the other,
and notes on disk.
"""

import codecs
import json
import sqlite3
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from hashlib import blake2b, sha256
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

import trio

from adapters.imports.documents import BrokenDocument, BrokenFile, JsonDocument, Value, broken, size_of
from core.domain.errors import BadRequest
from core.domain.identity.foreign_hashes.sources import HashForm
from core.domain.platform.imports.records import Found, ImportedPerson, LeftOut, UnreadableRecord, shown
from core.frozen import Frozen
from ports.jobs import Advance

LONGEST_LINE: Final = 8 << 20


class Line(Frozen):
    number: int
    place: int
    """The byte at which the line begins."""
    content: bytes | None
    """None for a line that is too long."""


def lines(file: BinaryIO, longest: int = LONGEST_LINE) -> Iterator[Line]:
    """The lines that are not empty. Of a line that is too long, never more than `longest` bytes stand in memory."""
    number, place = 0, file.tell()
    while content := file.readline(longest + 1):
        number += 1
        begin, place = place, place + len(content)
        if len(content) > longest and not content.endswith(b"\n"):
            while rest := file.readline(longest):
                place += len(rest)
                if rest.endswith(b"\n"):
                    break
            yield Line(number, begin, None)
        elif content.strip():
            yield Line(number, begin, content)


class NotesOnDisk:
    """SQLite keeps them in a file without a name, which is gone with the process. Keys are kept as digests, so the file tells nobody whose
    they are.
    """

    def __init__(self) -> None:
        # Threads take turns with it: each part of a file is read in one of them.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._database.execute("pragma journal_mode = off")
        self._database.execute("pragma synchronous = off")
        self._database.execute("create table notes (key blob primary key, note blob not null) without rowid")

    def note(self, entries: Iterable[tuple[str, bytes]]) -> None:
        self._database.execute("begin")
        self._database.executemany("insert or ignore into notes values (?, ?)", ((_digest(key), note) for key, note in entries))
        self._database.execute("commit")

    def find(self, key: str) -> bytes | None:
        row = self._database.execute("select note from notes where key = ?", (_digest(key),)).fetchone()
        return None if row is None else row[0]

    def close(self) -> None:
        self._database.close()


def _digest(key: str) -> bytes:
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()


_PART: Final = 1 << 20
BATCH: Final = 500
LARGEST_BATCH: Final = 16 << 20
"""A batch ends when so many bytes were read for it, however few people they are."""


class ImportFiles(Frozen, kw_only=True):
    """What the operator names."""

    kind: str
    files: Sequence[Path]
    name: str = ""
    """The source's own name, where its files do not say it."""
    hashes: Path | None = None
    """Auth0's file of password hashes."""
    states: Path | None = None
    """Zitadel's list of users, which says who is active."""
    only_organization: str = ""
    """Only people of this organization of a Keycloak realm, or of Zitadel."""
    columns: Mapping[str, str] = {}
    """What columns of a table mean."""
    delimiter: str = ","
    form: HashForm | None = None
    """The form of hashes that do not name theirs."""

    @property
    def beside(self) -> Sequence[Path]:
        """The files that hold no people, and say more about them."""
        return [path for path in (self.hashes, self.states) if path is not None]


class BytesRead:
    """How many bytes of the files were read so far, about."""

    def __init__(self) -> None:
        self.total = 0

    def add(self, number: int) -> None:
        self.total += number


class FileSource:
    """Implements `ports.platform.PeopleSource`."""

    def __init__(self, *, name: str, digest: str, count: int, relying_party: str | None, found: Iterator[Found], read: BytesRead) -> None:
        self.name = name
        self.digest = digest
        self.count = count
        self.relying_party = relying_party
        self._found = found
        self._read = read
        self._limiter = trio.CapacityLimiter(1)
        self._send, self._receive = trio.open_memory_channel[Sequence[Found]](0)

    async def read_ahead(self) -> None:
        """Reads one batch while the one before is worked on."""
        while True:
            batch = await trio.to_thread.run_sync(self._batch, limiter=self._limiter)
            await self._send.send(batch)
            if not batch:
                return

    async def next(self) -> Sequence[Found]:
        return await self._receive.receive()

    def _batch(self) -> Sequence[Found]:
        batch: list[Found] = []
        most = self._read.total + LARGEST_BATCH
        for one in islice(self._found, BATCH):
            batch.append(one)
            if self._read.total >= most:
                break
        return batch


def files_of(asked: ImportFiles) -> Sequence[Path]:
    """The files in their order; of a folder, those of an export of Keycloak into a folder."""
    found: list[Path] = []
    for path in asked.files:
        if asked.kind == "keycloak" and path.is_dir():
            found += sorted([*path.glob("*-realm.json"), *path.glob("*-users-*.json")], key=_order)
        elif path.is_file():
            found.append(path)
        else:
            raise BadRequest(f"{path}: is no file")
    if asked.kind == "keycloak":
        _require_all(found)
    if not found:
        raise BadRequest("The folder holds no export of a realm: *-realm.json and *-users-0.json")
    return found


def _order(path: Path) -> tuple[str, int]:
    stem, _, number = path.stem.rpartition("-")
    return (stem, int(number)) if number.isdecimal() else (path.stem, -1)


def _require_all(files: Sequence[Path]) -> None:
    """Keycloak numbers the files of a folder from 0. Raises `BadRequest` where one between is missing."""
    numbered = [(stem, number) for path in files for stem, number in [_order(path)] if path.name.find("-users-") > 0 and number >= 0]
    for (stem, number), (before, last) in zip(numbered, [("", -1), *numbered], strict=False):
        if number != (last + 1 if stem == before else 0):
            raise BadRequest(f"{shown(stem)}-{number - 1}.json is missing between the files of the export")


def named_source(asked: ImportFiles) -> str:
    """Where the ids of the people count: the kind of the files, and the name that the operator gives the source."""
    return f"{asked.kind}:{asked.name}".removesuffix(":")


def digest_of(asked: ImportFiles) -> str:
    digest = sha256()
    for path in [*files_of(asked), *asked.beside]:
        with path.open("rb") as file:
            while part := file.read(_PART):
                digest.update(part)
    return digest.hexdigest()


def count_elements(path: Path, key: str, advance: Advance) -> int:
    """The number of elements of one list of a document. Raises `BrokenFile`."""
    return sum(value.key == key and value.number > 0 for value in values_of(path, advance))


def values_of(path: Path, advance: Advance, walked: Collection[str] = (), *, several: bool = False) -> Generator[Value, None, None]:
    """The values of a document, or of several. Raises `BrokenFile`."""
    with path.open("rb") as file:
        try:
            yield from document(file, advance, walked).values(several=several)
        except BrokenDocument as fault:
            raise broken(path, fault) from None


def count_objects(path: Path, advance: Advance) -> int:
    """The number of lines of a file that has a JSON value in each. Raises `BrokenFile`."""
    count = 0
    with path.open("rb") as file:
        for line in lines(file):
            count += 1
            advance(len(line.content or b""))
            require_json(path, line)
    if not count:
        raise BrokenFile(path, "it is empty", 1, 0)
    return count


def require_json(path: Path, line: Line) -> Any:
    """What a line holds. Raises `BrokenFile` where `loaded` says that it is no JSON."""
    try:
        return _parsed(line.content)[0]
    except json.JSONDecodeError as error:
        why = "it is no JSON" if (line.content or b"").endswith(b"\n") else "it ends in the middle"
        raise BrokenFile(path, why, line.number, line.place + size_of(error.doc[: error.pos])) from None


def document(file: BinaryIO, advance: Advance, walked: Collection[str] = ()) -> JsonDocument:
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")

    def read(most: int) -> str:
        part = file.read(most)
        advance(len(part))
        return decoder.decode(part, final=not part)

    return JsonDocument(read, walked=walked)


def elements(path: Path, key: str, person: Callable[[Any, str], ImportedPerson], held: ExitStack, read: BytesRead) -> Iterator[Found]:
    """The elements of one list of a document."""
    word = f"{shown(path.name)}, {key}".removesuffix(", ")
    values = values_of(path, read.add)
    held.callback(values.close)
    for value in values:
        if value.key == key and value.number:
            place = f"{word} {value.number}"
            yield UnreadableRecord(place, value.fault) if value.fault else made(person, value.content, place)


def objects(path: Path, person: Callable[[Any, str], ImportedPerson], held: ExitStack, read: BytesRead) -> Iterator[Found]:
    """The objects of a file that has one in each line."""
    for line in lines(held.enter_context(path.open("rb"))):
        read.add(len(line.content or b""))
        place = f"{shown(path.name)}, line {line.number}"
        content, fault = loaded(line.content)
        yield UnreadableRecord(place, fault) if fault else made(person, content, place)


def made(person: Callable[..., ImportedPerson], content: Any, place: str, *more: Any) -> Found:
    try:
        return person(content, place, *more)
    except LeftOut as reason:
        return UnreadableRecord(place, str(reason), *_whose(content))


def _whose(content: Any) -> tuple[str, str]:
    """What a report calls a record that is nobody."""
    if not isinstance(content, Mapping):
        return "", ""
    name, email = next((content[key] for key in _IDS if key in content), None), content.get("email")
    return (shown(name) if isinstance(name, str) else "", shown(email) if isinstance(email, str) else "")


_IDS: Final = ("user_id", "id", "localId", "Username", "userId")


def loaded(content: bytes | None) -> tuple[Any, str]:
    """What a line of JSON holds, and the reason why it holds nothing."""
    try:
        return _parsed(content)
    except json.JSONDecodeError:
        return None, "it is no JSON"


def _parsed(content: bytes | None) -> tuple[Any, str]:
    if content is None:
        return None, "the line is too long"
    try:
        return json.loads(content.decode("utf-8-sig", "replace")), ""
    except RecursionError:
        return None, "it is nested too deeply"
    except json.JSONDecodeError:
        raise
    except ValueError:
        return None, "it is no JSON"


def first_line(path: Path) -> Any:
    with path.open("rb") as file:
        first: Line | None = next(lines(file), None)
    return None if first is None else loaded(first.content)[0]


def is_list(path: Path) -> bool:
    """Whether the file is one list, and not an object in each line."""
    return _mark_of(path) == b"["


def is_table(path: Path) -> bool:
    """Whether the file is none of JSON."""
    return _mark_of(path) not in {b"[", b"{", b""}


def _mark_of(path: Path) -> bytes:
    """The first character that is no space."""
    with path.open("rb") as file:
        return file.read(1024).lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
