"""Exceptions from rules for risk as rows of a form. People are typed and shown by their address, and teams by their name."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final
from uuid import UUID

from core.domain.identity.risk_policies.policies import ExceptionKind
from entrypoints.http.pages.console.forms import Asked, shape
from entrypoints.http.pages.console.organization.people.choices import members_called
from entrypoints.http.pages.console.rows.rows import Row, RowField, Rows, place_of
from entrypoints.http.pages.console.visit import PageVisit
from entrypoints.http.routes.tenancy.members import list_members
from entrypoints.http.routes.tenancy.risk.risk_policies import RiskExceptionBody, RiskPoliciesRecord, set_risk_policies
from entrypoints.http.routes.tenancy.teams import TeamRecord, list_teams
from ports.texts import Text

_FIELD: Final = "exceptions"
_LENGTH_OF_DAY: Final = 10
# The first kind has an empty value, so that a row in which nobody has typed says nothing.
_KINDS: Final = {"": ExceptionKind.PERSON, "team": ExceptionKind.TEAM, "network": ExceptionKind.NETWORK}
_VALUES: Final = {kind: value for value, kind in _KINDS.items()}


def _said(text: Text, row: Row) -> tuple[str, str]:
    return row["value"], text("console.risk.exception_until", until=row["ends_at"])


ROWS: Final = Rows(
    fields=(
        # Without scripts, a new row has the focus in its first field of text.
        RowField(name="value", label="console.risk.exception_value", longest=254),
        RowField(
            name="kind",
            label="console.risk.exception_kind",
            options=tuple((value, f"console.risk.exception_{kind.value}") for value, kind in _KINDS.items()),
        ),
        RowField(name="ends_at", label="console.risk.exception_end", hint="console.risk.exception_end_hint", longest=16),
    ),
    one="console.risk.exception_number",
    add="console.risk.exception_add",
    more="console.more_choices",
    said=_said,
)
SHAPE: Final = shape(
    set_risk_policies, Asked(_FIELD, rows=ROWS, label="console.risk.exceptions", hint="console.risk.exceptions_hint", at_once=True)
)


class WrongRows(Exception):
    """Rows that mean nobody, or that have no end. By the place of the field, the text keys of what is wrong."""

    def __init__(self, faults: Mapping[str, str]) -> None:
        super().__init__(", ".join(faults))
        self.faults = faults


async def teams_of(visit: PageVisit) -> Sequence[TeamRecord]:
    return await visit.ask(list_teams) if visit.may(list_teams) else ()


def rows_of(record: RiskPoliciesRecord, people: Mapping[Any, str], teams: Sequence[TeamRecord]) -> list[Row]:
    """Whom nobody can name any more keeps the id."""
    names = {**{str(user): email for user, email in people.items()}, **{str(one.id): one.name for one in teams}}
    return [
        {"kind": _VALUES[one.kind], "value": names.get(one.value, one.value), "ends_at": _end(one.ends_at)} for one in record.exceptions
    ]


def _end(at: datetime) -> str:
    """A day means the whole day, so midnight shows as the day before."""
    known = at.astimezone(UTC)
    if known.time() == time():
        return (known.date() - timedelta(days=1)).isoformat()
    return known.strftime("%Y-%m-%d %H:%M")


async def exceptions_of(
    visit: PageVisit, record: RiskPoliciesRecord, shown: Sequence[Row], rows: Sequence[Row], teams: Sequence[TeamRecord]
) -> Sequence[RiskExceptionBody]:
    """What the rows mean. A row that stands as the page has shown it means what it meant. Raises `WrongRows`."""
    faults, made = dict[str, str](), list[RiskExceptionBody]()
    for line, row in enumerate(rows):
        if row in shown:
            made.append(record.exceptions[shown.index(row)])
            continue
        kind = _KINDS.get(row["kind"], ExceptionKind.PERSON)
        value, ends_at = await _value(visit, kind, row["value"], teams), _moment(row["ends_at"])
        if value is None:
            faults[place_of(_FIELD, line, "value")] = f"console.risk.no_{kind.value}"
        if ends_at is None:
            faults[place_of(_FIELD, line, "ends_at")] = "console.risk.no_end"
        if value is not None and ends_at is not None:
            made.append(RiskExceptionBody(kind=kind, value=value, ends_at=ends_at))
    if faults:
        raise WrongRows(faults)
    return made


async def _value(visit: PageVisit, kind: ExceptionKind, given: str, teams: Sequence[TeamRecord]) -> str | None:
    if kind is ExceptionKind.NETWORK:
        return given or None
    if kind is ExceptionKind.PERSON:
        found = await members_called(visit, given) if visit.may(list_members) or _is_id(given) else ()
        return found[0].value if len(found) == 1 else None
    meant = [str(one.id) for one in teams if given in {str(one.id), one.name, one.slug}]
    return meant[0] if len(meant) == 1 else None


def _is_id(given: str) -> bool:
    try:
        UUID(given)
    except ValueError:
        return False
    return True


def _moment(given: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(given).replace(tzinfo=UTC)
        return at + timedelta(days=1) if len(given) <= _LENGTH_OF_DAY else at
    except (ValueError, OverflowError):
        return None


def place(line: int, field: str) -> str:
    """Where the error of a refusal stands."""
    return place_of(_FIELD, line, field)
