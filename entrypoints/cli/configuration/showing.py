"""Plans for eyes: by organization, one object a line, what changes below it, and counts."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from core.domain.platform.configuration.planning import Change, FieldChange, PlannedAction
from core.usecases.platform.configurations import Loss
from entrypoints.cli.output.printing import printable
from entrypoints.http.routes.configuration.applying import Planned

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
                yield _coloured(f"      {_field(change, field)}", change.act, colours=colours)
    if planned.losses:
        yield "This would end:"
        yield from (f"  {loss_line(one)}" for one in planned.losses)
    yield counts_line(changes)


def counts_line(changes: Sequence[Change]) -> str:
    counts = {act: sum(one.act is act for one in changes) for act in PlannedAction}
    if not changes:
        return "Nothing to do."
    if all(one.only_sets_secrets for one in changes):
        return "Nothing to do, except that secrets are set anew."
    return f"{counts[PlannedAction.MAKE]} to make, {counts[PlannedAction.CHANGE]} to change, {counts[PlannedAction.END]} to end."


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


def _field(change: Change, field: FieldChange) -> str:
    if field.is_secret:
        return f"{field.name}: a secret, set anew" if change.act is PlannedAction.CHANGE else f"{field.name}: a new secret"
    if change.act is PlannedAction.MAKE:
        return f"{field.name}: {_value(field.after)}"
    return f"{field.name}: {_value(field.before)} -> {_value(field.after)}"


def _value(value: Any) -> str:
    return printable(json.dumps(value, ensure_ascii=False), _LONGEST)


def _coloured(line: str, act: PlannedAction, *, colours: bool) -> str:
    return f"\x1b[{_COLOURS[act]}m{line}\x1b[0m" if colours else line
