"""`postern import …`: people of another system come over with what they have there, and its clients become a configuration document."""

import argparse
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Final

import trio

from adapters.imports.broken_files import BrokenFile
from adapters.imports.files import ImportFiles
from adapters.imports.keycloak_realms import parts_of
from adapters.imports.notes_on_disk import NotesOnDisk
from adapters.imports.sources import opened, total_size
from core.domain.identity.foreign_hashes.forms import FIREBASE, HashForm, firebase_form, firebase_settings, hash_form
from core.domain.platform.imports.clients import document
from core.domain.platform.imports.decisions import ImportRules
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.operating import acting
from entrypoints.cli.output.import_report import report_file, summary, totals
from entrypoints.cli.output.printing import print_json
from entrypoints.cli.output.progress import progress, say
from entrypoints.failures import OK, StartFailed
from entrypoints.settings import Settings

_GIVES_WAY: Final = 10


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    try:
        if arguments.clients is not None:
            _write_clients(arguments)
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
    asked, rules = _asked(arguments), _rules(arguments)
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
    if arguments.json:
        print_json({"source": source.name, "digest": source.digest, "is_plan": rules.is_plan, "complete": True, **totals(tally)})
        return
    say(f"{source.name}, SHA-256 {source.digest}")
    for line in summary(tally):
        say(line)
    if rules.is_plan:
        say("\nThis was a plan: nothing was written.")


def _asked(arguments: argparse.Namespace) -> ImportFiles:
    return ImportFiles(
        kind=arguments.action,
        files=[Path(one) for one in arguments.files],
        name=arguments.source,
        hashes=None if arguments.hashes is None else Path(arguments.hashes),
        only_organization=arguments.only_organization,
        columns=_pairs("--map", arguments.map),
        form=_form(arguments),
        delimiter="\t" if arguments.delimiter == "tab" else arguments.delimiter,
    )


def _form(arguments: argparse.Namespace) -> HashForm | None:
    if arguments.hash_config is not None:
        if arguments.hash != FIREBASE:
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


def _write_clients(arguments: argparse.Namespace) -> None:
    if not arguments.organization:
        raise StartFailed("--clients needs --organization: the services of the document are those of an organization")
    path = Path(arguments.clients)
    lines = list(document(arguments.organization, parts_of(_asked(arguments))))
    try:
        with path.open("x", encoding="utf-8") as out:
            out.writelines(f"{line}\n" for line in lines)
    except FileExistsError:
        raise StartFailed(f"{path} is there already: name another file") from None
    print(f"{path} has the clients and groups of the realm. Nobody was imported. Read it, then: postern config plan {path}")
