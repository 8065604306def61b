"""Plans for eyes: by organization, one object a line, what changes below it, and counts."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec

from core.domain.platform.configuration.planning import Change, FieldChange, PlannedAction
from core.domain.secrets import Secret
from core.usecases.platform.configurations import Loss
from entrypoints.cli.configuration.references import ReferredSecret
from entrypoints.cli.output.printing import printable
from entrypoints.http.routes.configuration import documents
from entrypoints.http.routes.configuration.applying import Applied, Planned
from entrypoints.http.routes.configuration.documents import applied_record, plan_record

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
        yield "This would end:"
        yield from (f"  {loss_line(one)}" for one in planned.losses)
    if changes:
        yield f"To apply this plan and no other: --digest {plan_digest(planned)}"
    yield counts_line(changes)


def plan_as_json(planned: Planned) -> Any:
    plan = _named(planned, msgspec.to_builtins(plan_record(planned)), "changes")
    return plan if planned.problems else {**plan, "plan_digest": plan_digest(planned)}


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
        return f"Nothing was done: {len(applied.refused)} refused."
    if applied.refused:
        return f"{_counts(applied.done, ' made', ' changed', ' ended')}, {len(applied.refused)} refused."
    if not applied.done or all(one.only_sets_secrets for one in applied.done):
        return counts_line(applied.done)
    return f"{_counts(applied.done, ' made', ' changed', ' ended')}."


def counts_line(changes: Sequence[Change]) -> str:
    if not changes:
        return "Nothing to do."
    if all(one.only_sets_secrets for one in changes):
        return "Nothing to do, except that secrets are set anew."
    return f"{_counts(changes, ' to make', ' to change', ' to end')}."


def _counts(changes: Sequence[Change], *words: str) -> str:
    counts = (sum(one.act is act for one in changes) for act in (PlannedAction.MAKE, PlannedAction.CHANGE, PlannedAction.END))
    return ", ".join(f"{count}{word}" for count, word in zip(counts, words, strict=True))


def loss_line(loss: Loss) -> str:
    where = printable("/".join(loss.place.steps), _LONGEST)
    if loss.what:
        return f"{where}: {printable(loss.what, _LONGEST)} ({_people(loss.people)} signed in to this service in the last seven days)"
    return f"{where} ({_people(loss.people)})"


def place(change: Change) -> str:
    steps = change.place.steps
    return printable("/".join(steps[2:] if steps[0] == "organizations" else steps[1:]) or "the organization", _LONGEST)


def _people(count: int) -> str:
    return "nobody" if count == 0 else "1 person" if count == 1 else f"{count} people"


def _field(planned: Planned, change: Change, field: FieldChange) -> str:
    if field.is_secret:
        reference = _reference(planned.document.secrets.get((change.place, field.name)))
        said = "a secret, set anew" if change.act is PlannedAction.CHANGE else "a new secret"
        return f"{field.name}: {said}" + (f", from {printable(reference, _LONGEST)}" if reference else "")
    if change.act is PlannedAction.MAKE:
        return f"{field.name}: {_value(field.after)}"
    return f"{field.name}: {_value(field.before)} -> {_value(field.after)}"


def _value(value: Any) -> str:
    return printable(json.dumps(value, ensure_ascii=False), _LONGEST)


def _coloured(line: str, act: PlannedAction, *, colours: bool) -> str:
    return f"\x1b[{_COLOURS[act]}m{line}\x1b[0m" if colours else line
