"""`postern import …`: imports users and clients of another system, with a report of the import."""

import argparse
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final, TextIO

import trio

from adapters.imports.documents import BrokenFile
from adapters.imports.files import ImportFiles, NotesOnDisk
from adapters.imports.keycloak_realms import parts_of
from adapters.imports.sources import opened, total_size
from core.domain.formats import table_line
from core.domain.identity.foreign_hashes.sources import FIREBASE, HashForm, firebase_form, firebase_settings, hash_form
from core.domain.platform.imports import auth0, keycloak_clients
from core.domain.platform.imports.clients import ForeignParts, document, lost_addresses
from core.domain.platform.imports.decisions import ImportRules
from core.domain.platform.imports.reports import Brought, Outcome, ReportLine, Tally
from entrypoints.cli.configuration.files import read_files
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.operating import acting
from entrypoints.cli.output.printing import print_json, printable
from entrypoints.cli.output.progress import progress, say
from entrypoints.failures import OK, StartFailed
from entrypoints.settings import Settings

# The folders of an export of a0deploy as a directory, and where its YAML has the same.
_FOLDERS: Final[Mapping[str, str]] = {
    "clients/*.json": "clients",
    "roles/*.json": "roles",
    "connections/*.json": "connections",
    "database-connections/*/database.json": "databases",
    "resource-servers/*.json": "resourceServers",
    "actions/*.json": "actions",
    "rules/*.json": "rules",
    "hooks/*.json": "hooks",
}

_LONGEST_LINE: Final = 500


def write_clients(arguments: argparse.Namespace, asked: ImportFiles) -> None:
    """`postern import … --clients`: writes the clients of another system as a configuration file. Nobody is imported.

    Raises `StartFailed`, `BadRequest` and `OSError`.
    """
    if not arguments.organization:
        raise StartFailed("--clients needs --organization: the services of the document are those of an organization")
    path, parts = Path(arguments.clients), foreign_parts(asked)
    lines, lost = list(document(arguments.organization, parts)), list(lost_addresses(parts))
    if not arguments.plan:
        try:
            with path.open("x", encoding="utf-8") as out:
                out.writelines(f"{line}\n" for line in lines)
        except FileExistsError:
            raise StartFailed(f"{path} already exists: choose another file") from None
    if arguments.json:
        print_json({"file": str(path), "is_plan": arguments.plan, "clients": len(parts.clients), "lost_addresses": lost})
        return
    for line in lost_lines(lost):
        print(line)
    if arguments.plan:
        print(f"This was a plan: {path} would have {len(parts.clients)} clients.")
    else:
        print(f"{path} contains the clients of {parts.system}. No people were imported. Review it, then run: postern config plan {path}")


def foreign_parts(asked: ImportFiles) -> ForeignParts:
    """Raises `StartFailed`, `BadRequest` and `OSError`."""
    if asked.kind == "keycloak":
        return keycloak_clients.foreign_parts(parts_of(asked))
    return auth0.foreign_parts(_tenant(asked.files))


def lost_lines(lost: Sequence[str]) -> Iterator[str]:
    """For the terminal."""
    if lost:
        yield "URLs of clients that are not in the document:"
        yield from (f"  {printable(line, _LONGEST_LINE)}" for line in lost)


def _tenant(files: Sequence[Path]) -> Mapping[str, Any]:
    """What a0deploy wrote: its one YAML file, or its folder. Raises `StartFailed`."""
    if len(files) != 1:
        raise StartFailed("--clients reads one export of a0deploy: its tenant.yaml, or its folder")
    (path,) = files
    if path.is_dir():
        tenant: Mapping[str, Any] = {
            key: [read_files([str(one)]).tree for one in sorted(path.glob(pattern))] for pattern, key in _FOLDERS.items()
        }
    else:
        tenant = read_files([str(path)]).tree
    if not tenant.get("clients") and not tenant.get("roles") and not tenant.get("connections"):
        raise StartFailed(f"{path}: not an export of a0deploy: it has no clients, roles or connections")
    return tenant


_COLUMNS: Final = ("place", "id", "email", "outcome", "account", "notes")
_MOST_SHOWN: Final = 20
_OUTCOMES: Final = {
    Outcome.TAKEN: "with a new account",
    Outcome.MERGED: "an account has this email address: only links are added to it",
    Outcome.KNOWN: "imported earlier",
    Outcome.LEFT_OUT: "",
}

WriteLines = Callable[[Sequence[ReportLine]], None]


@contextmanager
def report_file(path: Path | None) -> Iterator[WriteLines]:
    """Writes the lines into a new file that only its owner reads: the report names people. Raises `StartFailed`."""
    if path is None:
        yield lambda _lines: None
        return
    written = {".csv": _table, ".ndjson": _objects}.get(path.suffix)
    if written is None:
        raise StartFailed(f"{path}: the name of a report must end in .csv or .ndjson")
    try:
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise StartFailed(f"{path} already exists: choose another file for the report") from None
    except OSError as error:
        raise StartFailed(f"{path} cannot be written: {error.strerror}") from None
    with os.fdopen(opened, "w", encoding="utf-8", newline="") as out:
        yield written(out)


def _table(out: TextIO) -> WriteLines:
    out.write(table_line(_COLUMNS))

    def write(lines: Sequence[ReportLine]) -> None:
        out.writelines(table_line([*_cells(one)[:-1], "; ".join(one.notes)]) for one in lines)
        out.flush()

    return write


def _objects(out: TextIO) -> WriteLines:
    def write(lines: Sequence[ReportLine]) -> None:
        for one in lines:
            cells: Mapping[str, Any] = dict(zip(_COLUMNS, (*_cells(one)[:-1], list(one.notes)), strict=True))
            out.write(json.dumps(cells) + "\n")
        out.flush()

    return write


def _cells(line: ReportLine) -> tuple[str, ...]:
    return line.place, line.id, line.email, line.outcome.value, "" if line.account is None else str(line.account), ""


def totals(tally: Tally) -> Mapping[str, Any]:
    """For programs."""
    return {
        "outcomes": {outcome.value: tally.outcomes[outcome] for outcome in Outcome},
        "brought": {part.value: tally.parts[part] for part in Brought if tally.parts[part]},
        "left_out": dict(tally.left_out),
        "stayed_behind": dict(tally.stayed_behind),
    }


def summary(tally: Tally) -> Iterator[str]:
    """The lines of the table."""
    for outcome, words in _OUTCOMES.items():
        yield f"{_number(tally.outcomes[outcome])}  {outcome.value:<9} {words}".rstrip()
    if tally.parts:
        yield ""
        yield "Imported data:"
        yield from (f"{_number(tally.parts[part])}  {part.value}" for part in Brought if tally.parts[part])
    yield from _reasons("Skipped:", tally.left_out)
    yield from _reasons("Not imported for these people, and notes:", tally.stayed_behind)


def _reasons(title: str, counted: Counter[str]) -> Iterator[str]:
    if not counted:
        return
    yield ""
    yield title
    for reason, count in counted.most_common(_MOST_SHOWN):
        yield f"{_number(count)}  {printable(reason, 200)}"
    if len(counted) > _MOST_SHOWN:
        yield f"{'':>12}  {len(counted) - _MOST_SHOWN} more reasons: see the report (--report)"


def _number(count: int) -> str:
    return f"{count:>12,}".replace(",", " ")


_GIVES_WAY: Final = 10


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    try:
        if arguments.clients is not None:
            write_clients(arguments, asked_files(arguments))
        else:
            # People who sign in on this machine come first.
            os.nice(_GIVES_WAY)
            trio.run(_run, arguments, settings)
    except OSError as error:
        if error.filename is None:
            raise
        raise StartFailed(f"{error.filename} cannot be read: {error.strerror}") from None
    return OK


async def _run(arguments: argparse.Namespace, settings: Settings) -> None:
    asked, rules = asked_files(arguments), _rules(arguments)
    async with opened_postern(settings) as postern, AsyncExitStack() as held:
        tell = held.enter_context(report_file(arguments.report))
        with progress("Looking through the files", total_size(asked), "bytes") as advance:
            try:
                source = await held.enter_async_context(opened(asked, advance))
            except BrokenFile as fault:
                if arguments.json:
                    place = {"file": fault.file, "line": fault.line, "byte": fault.byte}
                    print_json({"complete": False, **place, "message": fault.message})
                raise
        notebook = held.enter_context(closing(NotesOnDisk()))
        with progress("Planning" if rules.is_plan else "Importing", source.count, "people") as advance:
            tally = await postern.platform.imports.run(source, rules, acting(), tell=tell, advance=advance, notebook=notebook)
    lost = list(lost_addresses(foreign_parts(asked))) if rules.is_plan and asked.kind == "keycloak" else []
    if arguments.json:
        told = {"source": source.name, "digest": source.digest, "is_plan": rules.is_plan, "complete": True, **totals(tally)}
        print_json(told | ({"lost_addresses": lost} if rules.is_plan else {}))
        return
    say(f"{source.name}, SHA-256 {source.digest}")
    for line in summary(tally):
        say(line)
    for line in lost_lines(lost):
        say(line)
    if rules.is_plan:
        say("\nThis was a plan: nothing was written.")


def asked_files(arguments: argparse.Namespace) -> ImportFiles:
    return ImportFiles(
        kind=arguments.action,
        files=[Path(one) for one in arguments.files],
        name=arguments.source,
        hashes=None if arguments.hashes is None else Path(arguments.hashes),
        states=None if arguments.states is None else Path(arguments.states),
        only_organization=arguments.only_organization,
        columns=_pairs("--map", arguments.map),
        form=_form(arguments),
        delimiter="\t" if arguments.delimiter == "tab" else arguments.delimiter,
    )


def _form(arguments: argparse.Namespace) -> HashForm | None:
    if arguments.hash_config is not None:
        if arguments.hash != FIREBASE and (arguments.hash, arguments.action) != (None, FIREBASE):
            raise StartFailed(f"--hash-config needs --hash {FIREBASE}")
        return firebase_form(firebase_settings(Path(arguments.hash_config).read_text(encoding="utf-8", errors="replace")))
    if arguments.hash == FIREBASE:
        raise StartFailed(f"--hash {FIREBASE} needs --hash-config: the file with the password hash parameters of the project")
    return None if arguments.hash is None else hash_form(arguments.hash)


def _rules(arguments: argparse.Namespace) -> ImportRules:
    if arguments.map_role and not arguments.organization:
        raise StartFailed("--map-role needs --organization: roles are those of an organization")
    return ImportRules(
        organization=arguments.organization or "",
        role=arguments.role,
        role_map=_pairs("--map-role", arguments.map_role),
        trusts_verified=arguments.trust_verified,
        takes_usernames=arguments.usernames,
        relying_party=arguments.relying_party,
        tells=arguments.tell,
        is_plan=arguments.plan,
    )


def _pairs(option: str, given: Sequence[str]) -> Mapping[str, str]:
    """What stands in front of the last `=`, and behind it."""
    pairs: dict[str, str] = {}
    for one in given:
        theirs, _, ours = one.rpartition("=")
        if not theirs or not ours:
            raise StartFailed(f"{option} {one}: must be two names with = between them")
        pairs[theirs] = ours
    return pairs
