"""What `plan` and `apply` share: the files, their references to secrets, and plans for eyes."""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from core.domain.platform.configuration.planning import Change, FieldChange, PlannedAction, Problem, ReachedLimit
from core.domain.secrets import Secret
from core.usecases.platform.configurations import Loss
from entrypoints.bootstrap import Postern
from entrypoints.cli.configuration.files import Files, read_files
from entrypoints.cli.configuration.operators import DocumentOperator, owners_of
from entrypoints.cli.output.printing import print_json, printable
from entrypoints.failures import USAGE, StartFailed
from entrypoints.http.routes.configuration import documents
from entrypoints.http.routes.configuration.applying import Applied, Configuring, Planned
from entrypoints.http.routes.configuration.documents import applied_record, plan_record

_LARGEST_SECRET: Final = 64 << 10
_OWN: Final = "POSTERN_"
"""Begins the names of Postern's own settings: the operator's, and no organization's."""


class WrongSource(StartFailed):
    status = USAGE


class ReferredSecret(Secret):
    """A secret that knows by which reference it came. The reference is no secret: plans name it."""

    __slots__ = ("reference",)

    def __init__(self, value: str, reference: str) -> None:
        super().__init__(value)
        self.reference = reference


class AllowedSecrets:
    """What `--secrets-from` allows: names that begin with a prefix, and files in a folder."""

    def __init__(self, allowed: Sequence[str], data_folder: Path) -> None:
        """Raises `WrongSource`."""
        if not all(one.strip() for one in allowed):
            raise WrongSource("--secrets-from: specify a prefix of environment variables, or a folder")
        folders = [one for one in allowed if os.sep in one or one in {os.curdir, os.pardir}]
        self._prefixes = tuple(one for one in allowed if one not in folders)
        self._folders = [Path(one).resolve() for one in folders]
        self._data_folder = data_folder.resolve()

    def resolve(self, steps: tuple[str, ...], value: Any) -> Secret | None:  # noqa: ARG002 - as `Resolve`
        """Raises `ValueError`, which never shows a value."""
        if value is msgspec.UNSET:
            raise LookupError
        if value is None:
            return None
        if isinstance(value, str) and value.startswith("env:"):
            return ReferredSecret(self._in_environment(value.removeprefix("env:"), value), value)
        if isinstance(value, str) and value.startswith("file:"):
            return ReferredSecret(self._in_file(value.removeprefix("file:"), value), value)
        raise ValueError("a file cannot contain secrets: use env:NAME or file:/path")

    def _in_environment(self, name: str, value: str) -> str:
        # Windows takes names in any case.
        if name.upper().startswith(_OWN):
            raise ValueError(f"{value}: Postern's own settings cannot be used as secrets of a document")
        if not self._prefixes or not name.startswith(self._prefixes):
            raise ValueError(f"{value}: this variable is not allowed; to allow it, use --secrets-from {name}")
        if not (found := os.environ.get(name)):
            raise ValueError(f"{value}: this environment variable is not set")
        return found

    def _in_file(self, path: str, value: str) -> str:
        try:
            # What is looked at here is what is opened, wherever links lead.
            place = Path(path).resolve()
            if place.is_relative_to(self._data_folder) or place in _own_files(os.environ):
                raise ValueError(f"{value}: Postern's own files cannot be used as secrets of a document")
            if not any(place.is_relative_to(folder) for folder in self._folders):
                raise ValueError(f"{value}: this file is not allowed; to allow it, use --secrets-from {Path(path).parent}{os.sep}")
            with place.open("rb") as file:
                text = file.read(_LARGEST_SECRET + 1).decode()
        except UnicodeDecodeError:
            raise ValueError(f"{value}: the file is not UTF-8") from None
        except (OSError, RuntimeError) as error:  # a loop of links is a RuntimeError up to Python 3.12
            raise ValueError(f"{value}: {getattr(error, 'strerror', None) or 'cannot be read'}") from None
        if len(text) > _LARGEST_SECRET:
            raise ValueError(f"{value}: a secret has at most {_LARGEST_SECRET >> 10} KiB")
        # Editors and `echo` end a file with a line break.
        return text.removesuffix("\n").removesuffix("\r")


def _own_files(environment: Mapping[str, str]) -> set[Path]:
    """The files that hold secrets of the operator's settings."""
    return {Path(path).resolve() for name, path in environment.items() if name.startswith(_OWN) and name.endswith("_FILE") and path}


_SIGNS: Final[Mapping[PlannedAction, str]] = {PlannedAction.MAKE: "+", PlannedAction.CHANGE: "~", PlannedAction.END: "-"}
_COLOURS: Final[Mapping[PlannedAction, str]] = {PlannedAction.MAKE: "32", PlannedAction.CHANGE: "33", PlannedAction.END: "31"}
_LONGEST: Final = 200


def has_colours() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def plan_lines(planned: Planned, *, colours: bool) -> Iterator[str]:
    changes = planned.plan.changes
    for organization, group in groupby(changes, key=lambda one: one.place.organization):
        yield organization or "the installation"
        for change in group:
            yield _coloured(f"  {_SIGNS[change.act]} {place(change)}", change.act, colours=colours)
            for field in change.fields:
                yield _coloured(f"      {_field(planned, change, field)}", change.act, colours=colours)
    if planned.losses:
        yield "This would be deleted or revoked:"
        yield from (f"  {loss_line(one)}" for one in planned.losses)
    if changes:
        yield f"To apply this plan and no other: --digest {plan_digest(planned)}"
    yield counts_line(changes)


def limit_lines(limits: Sequence[ReachedLimit]) -> Iterator[str]:
    """The digest of a plan has no limits: they are none of what the plan changes, and raising them makes it no other plan."""
    if limits:
        yield "This reaches a limit, so a part of it would be refused:"
    for one in limits:
        slug = printable(one.organization, _LONGEST)
        yield (
            f"  {slug}: {one.services} services, and the limit on the tier {one.tier} is {one.most}. Raise it first: "
            f"postern organization tier --organization {slug} --max-services {one.services}"
        )


def plan_as_json(planned: Planned, limits: Sequence[ReachedLimit] = ()) -> Any:
    plan = _named(planned, msgspec.to_builtins(plan_record(planned)), "changes")
    if planned.problems:
        return plan
    reached = [{"organization": one.organization, "services": one.services, "max_services": one.most} for one in limits]
    return {**plan, "reached_limits": reached, "plan_digest": plan_digest(planned)}


def applied_as_json(planned: Planned, applied: Applied) -> Any:
    return _named(planned, msgspec.to_builtins(applied_record(planned, applied)), "done")


def plan_digest(planned: Planned) -> str:
    """The digest of all that the plan shows, and of the references by which secrets come."""
    return documents.plan_digest(_named(planned, msgspec.to_builtins(plan_record(planned)), "changes"), planned.losses)


def _named(planned: Planned, told: dict[str, Any], part: str) -> dict[str, Any]:
    """With the reference of each secret, which an answer of the API cannot have."""
    references = {(str(place), name): _reference(secret) for (place, name), secret in planned.document.secrets.items()}
    for change in told[part]:
        for field in change["fields"]:
            if field["is_secret"]:
                field["reference"] = references.get((change["place"], field["name"]))
    return told


def _reference(secret: Secret | None) -> str | None:
    return secret.reference if isinstance(secret, ReferredSecret) else None


def applied_line(applied: Applied) -> str:
    if applied.refused and not applied.done:
        return f"Nothing was changed: {len(applied.refused)} rejected."
    if applied.refused:
        return f"{_counts(applied.done, ' created', ' changed', ' deleted')}, {len(applied.refused)} rejected."
    if not applied.done or all(one.only_sets_secrets for one in applied.done):
        return counts_line(applied.done)
    return f"{_counts(applied.done, ' created', ' changed', ' deleted')}."


def counts_line(changes: Sequence[Change]) -> str:
    if not changes:
        return "No changes."
    if all(one.only_sets_secrets for one in changes):
        return "No changes, except that secrets are set again."
    return f"{_counts(changes, ' to create', ' to change', ' to delete')}."


def _counts(changes: Sequence[Change], *words: str) -> str:
    counts = (sum(one.act is act for one in changes) for act in (PlannedAction.MAKE, PlannedAction.CHANGE, PlannedAction.END))
    return ", ".join(f"{count}{word}" for count, word in zip(counts, words, strict=True))


def loss_line(loss: Loss) -> str:
    where = printable("/".join(loss.place.steps), _LONGEST)
    if loss.what:
        return f"{where}: {printable(loss.what, _LONGEST)} ({_people(loss.people)} signed in to this service in the last 7 days)"
    return f"{where} ({_people(loss.people)})"


def place(change: Change) -> str:
    steps = change.place.steps
    return printable("/".join(steps[2:] if steps[0] == "organizations" else steps[1:]) or "the organization", _LONGEST)


def _people(count: int) -> str:
    return "nobody" if count == 0 else "1 person" if count == 1 else f"{count} people"


def _field(planned: Planned, change: Change, field: FieldChange) -> str:
    if field.is_secret:
        reference = _reference(planned.document.secrets.get((change.place, field.name)))
        said = "a secret, set again" if change.act is PlannedAction.CHANGE else "a new secret"
        return f"{field.name}: {said}" + (f", from {printable(reference, _LONGEST)}" if reference else "")
    if change.act is PlannedAction.MAKE:
        return f"{field.name}: {_value(field.after)}"
    return f"{field.name}: {_value(field.before)} -> {_value(field.after)}"


def _value(value: Any) -> str:
    return printable(json.dumps(value, ensure_ascii=False), _LONGEST)


def _coloured(line: str, act: PlannedAction, *, colours: bool) -> str:
    return f"\x1b[{_COLOURS[act]}m{line}\x1b[0m" if colours else line


_WORK_LONGEST = 400


class NotPlanned(StartFailed):
    """The document has problems, which are on standard error."""


async def planned_files(postern: Postern, given: argparse.Namespace) -> tuple[Configuring, Planned]:
    """Raises `WrongFile`, and `NotPlanned` when a problem keeps the document from being applied."""
    files = await trio.to_thread.run_sync(read_files, given.files)
    configuring = Configuring(DocumentOperator(postern, owners_of(postern, given.owner)))
    references = AllowedSecrets(given.secrets_from, postern.settings.data_dir)
    planned = await configuring.plan(files.tree, references.resolve)
    if planned.problems:
        if given.json:
            print_json(plan_as_json(planned))
        for line in problem_lines(files, planned.problems):
            print(line, file=sys.stderr)
        raise NotPlanned(
            f"{len(planned.problems)} problems: nothing was changed" if len(planned.problems) > 1 else "1 problem: nothing was changed"
        )
    return configuring, planned


def problem_lines(files: Files, problems: Sequence[Problem]) -> list[str]:
    positions = files.positions([one.steps for one in problems])
    lines = []
    for one in problems:
        position = positions.get(one.steps)
        at = " / ".join(one.steps)
        lines.append(printable(f"{'' if position is None else f'{position}: '}{f'{at}: ' if at else ''}{one.message}", _WORK_LONGEST))
    return lines
