"""`postern import …`: people of another system come over with what they have there, and its clients become a configuration document."""

import argparse
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Final

import trio

from adapters.imports.documents import BrokenFile
from adapters.imports.files import ImportFiles, NotesOnDisk
from adapters.imports.sources import opened, total_size
from core.domain.identity.foreign_hashes.sources import FIREBASE, HashForm, firebase_form, firebase_settings, hash_form
from core.domain.platform.imports.clients import lost_addresses
from core.domain.platform.imports.decisions import ImportRules
from entrypoints.cli.imports.clients import foreign_parts, lost_lines, write_clients
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
