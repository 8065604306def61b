"""The form of a rule for risk: the texts that a browser sends, and the rule that they make.

Exceptions from rules for risk as rows of a form. People are typed and shown by their address, and teams by their name.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final, Literal
from uuid import UUID, uuid4

import msgspec

from core.domain.errors import BadRequest
from core.domain.identity.risk_policies.policies import ExceptionKind, RiskAction
from core.domain.secrets import Token
from core.frozen import Frozen
from entrypoints.http.console.kit.forms import Asked, Shape, shape
from entrypoints.http.console.kit.rows import Row, RowField, Rows, place_of
from entrypoints.http.console.kit.visit import PageVisit
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.decoding import convert
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.errors import NotAsDeclared
from entrypoints.http.machinery.fields import Line, Lines
from entrypoints.http.routes.tenancy.risk_policies import RiskConditionsBody, RiskExceptionBody, RiskPoliciesRecord, RiskPolicyBody
from entrypoints.http.routes.tenancy.teams import TeamRecord
from ports.texts import Text

Asks = Literal["", "yes", "no"]
"""Whether a condition asks, and for what."""
_ASKS: Final[Mapping[bool | None, Asks]] = {None: "", True: "yes", False: "no"}
BOUNDS: Final[Mapping[str, tuple[str, str]]] = {"least_score": ("0.01", "1"), "from_hour": ("0", "23"), "until_hour": ("1", "24")}
# The last step of a place: `policies[3].when.from_hour: …`, `exceptions[0].value: …`.
_FIELD: Final = re.compile(r"[a-z_.]+\[(?P<line>\d+)\](?:\.when)?\.(?P<field>[a-z_]+)")
_DECLARED: Final = re.compile(r"[a-z_]+")


class RiskPolicyForm(BoundForm, frozen=True, kw_only=True):
    policy: Line = ""
    """The rule to change; empty for a new one."""
    seen: Line = ""
    """The digest of the rules that the page has shown, where one is changed."""
    name: Line = ""
    action: RiskAction = RiskAction.SECOND_FACTOR
    least_score: Line = ""
    ways: Sequence[Line] = ()
    countries: Lines = ""
    except_countries: Lines = ""
    networks: Lines = ""
    except_networks: Lines = ""
    new_device: Asks = ""
    impossible_travel: Asks = ""
    from_hour: Line = ""
    until_hour: Line = ""
    services: Sequence[Line] = ()
    roles: Sequence[Line] = ()


def _asked(value: Asks) -> bool | None:
    return None if not value else value == "yes"


def _words(text: str) -> Sequence[str]:
    return text.replace(",", " ").split()


def _number(text: str) -> str | None:
    return text.strip() or None


def _fraction(text: str) -> str | None:
    return _number(text.replace(",", "."))


def _typed(number: float | None) -> str:
    return "" if number is None else str(number)


def _texts(values: Sequence[object]) -> Sequence[str]:
    return [str(one) for one in values]


_CONDITIONS: Final[Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]] = {
    "least_score": (_fraction, _typed),
    **dict.fromkeys(("from_hour", "until_hour"), (_number, _typed)),
    **dict.fromkeys(("countries", "except_countries", "networks", "except_networks"), (_words, " ".join)),
    **dict.fromkeys(("new_device", "impossible_travel"), (_asked, _ASKS.__getitem__)),
    **dict.fromkeys(("ways", "services", "roles"), (list, _texts)),
}
"""By the name of a condition: what its text in the form means, and the text that means it."""


class ConditionMisfit(Exception):
    """A text of the form that its condition does not take."""

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field


def policy_of(form: RiskPolicyForm) -> RiskPolicyBody:
    """The rule, in shadow. Raises `ConditionMisfit`."""
    when = {name: read(getattr(form, name)) for name, (read, _) in _CONDITIONS.items()}
    try:
        conditions = convert(when, RiskConditionsBody)
    except NotAsDeclared as refusal:
        field = next((one for one in _DECLARED.findall(refusal.message) if one in when), "")
        raise ConditionMisfit(field) from None
    return RiskPolicyBody(id=uuid4(), name=form.name, when=conditions, action=form.action)


def form_of(policy: RiskPolicyBody, seen: str) -> RiskPolicyForm:
    """The texts that make this rule."""
    when = {name: written(getattr(policy.when, name)) for name, (_, written) in _CONDITIONS.items()}
    return RiskPolicyForm(form_token=Token(""), policy=str(policy.id), seen=seen, name=policy.name, action=policy.action, **when)


def replaced(policies: Sequence[RiskPolicyBody], policy: str, written: RiskPolicyBody) -> tuple[list[RiskPolicyBody], int]:
    """The rules with the written one in place of the one of this id, and where it stands. A rule that only has another name counts on; one
    that meets others, or does something else, stands in shadow.
    """
    line = next(number for number, one in enumerate(policies) if str(one.id) == policy)
    before = policies[line]
    is_same = (_sorted(before.when), before.action) == (_sorted(written.when), written.action)
    after = msgspec.structs.replace(written, id=before.id, when=before.when if is_same else written.when, counts=is_same and before.counts)
    return [*policies[:line], after, *policies[line + 1 :]], line


def _sorted(when: RiskConditionsBody) -> Mapping[str, Any]:
    """The conditions, each list in one order."""
    values = {name: getattr(when, name) for name in when.__struct_fields__}
    return {name: sorted(map(str, value)) if isinstance(value, tuple | list) else value for name, value in values.items()}


def said_misfit(visit: PageVisit, misfit: ConditionMisfit) -> Mapping[str, str]:
    if misfit.field in BOUNDS:
        least, most = BOUNDS[misfit.field]
        return {misfit.field: visit.text("refusals.field_bounds", least=least, most=most)}
    return {misfit.field: visit.text("console.does_not_fit")}


def field_of(refusal: BadRequest) -> tuple[int, str] | None:
    """The line and the field that a refusal is about."""
    found = _FIELD.match(refusal.message)
    return None if found is None else (int(found["line"]), found["field"])


_EXCEPTION_ROW_FIELD: Final = "exceptions"
_LENGTH_OF_DAY: Final = 10
# The first kind has an empty value, so that a row in which nobody has typed says nothing.
_KINDS: Final = {"": ExceptionKind.PERSON, "team": ExceptionKind.TEAM, "network": ExceptionKind.NETWORK}
_VALUES: Final = {kind: value for value, kind in _KINDS.items()}


def _said(text: Text, row: Row) -> tuple[str, str]:
    return row["value"], text("console.risk.exception_until", until=row["ends_at"])


def rows_for(kinds: Mapping[str, ExceptionKind], words: str = "") -> Rows:
    return Rows(
        fields=(
            # Without scripts, a new row has the focus in its first field of text.
            RowField(name="value", label=f"console.risk.exception_value{words}", longest=254),
            RowField(
                name="kind",
                label="console.risk.exception_kind",
                options=tuple((value, f"console.risk.exception_{kind.value}") for value, kind in kinds.items()),
            ),
            RowField(name="ends_at", label="console.risk.exception_end", hint="console.risk.exception_end_hint", longest=16),
        ),
        one="console.risk.exception_number",
        add="console.risk.exception_add",
        more="console.more_choices",
        said=_said,
    )


def shape_of(endpoint: Endpoint, rows: Rows) -> Shape:
    return shape(
        endpoint, Asked(_EXCEPTION_ROW_FIELD, rows=rows, label="console.risk.exceptions", hint="console.risk.exceptions_hint", at_once=True)
    )


ALL_KINDS: Final = rows_for(_KINDS)
WITHOUT_TEAMS: Final = rows_for({value: kind for value, kind in _KINDS.items() if kind is not ExceptionKind.TEAM}, "_here")


class WrongRows(Exception):
    """Rows that mean nobody, or that have no end. By the place of the field, the text keys of what is wrong."""

    def __init__(self, faults: Mapping[str, str]) -> None:
        super().__init__(", ".join(faults))
        self.faults = faults


class ExceptionRows(Frozen, kw_only=True):
    shape: Shape
    people: Callable[[PageVisit], Awaitable[Mapping[Any, str]]]
    """The addresses of those whom exceptions leave out."""
    called: Callable[[PageVisit, str], Awaitable[str | None]]
    """The id of the only person whom this address or id means."""
    teams: Endpoint | None
    """None for the installation, which has none."""
    no_person: str

    @property
    def rows(self) -> Rows:
        (asked,) = self.shape.inputs
        rows = asked.rows
        assert rows is not None  # noqa: S101 - a bug in this file: the only field has rows
        return rows

    async def shown(self, visit: PageVisit, record: RiskPoliciesRecord) -> list[Row]:
        """Whom nobody can name any more keeps the id."""
        return _shown(record, await self.people(visit), await self._teams(visit))

    async def read(self, visit: PageVisit, record: RiskPoliciesRecord, rows: Sequence[Row]) -> Sequence[RiskExceptionBody]:
        """What the rows mean. A row that stands as the page has shown it means what it meant. Raises `WrongRows`."""
        teams = await self._teams(visit)
        shown = _shown(record, await self.people(visit), teams)
        faults, made = dict[str, str](), list[RiskExceptionBody]()
        for line, row in enumerate(rows):
            if row in shown:
                made.append(record.exceptions[shown.index(row)])
                continue
            kind = _KINDS.get(row["kind"], ExceptionKind.PERSON)
            value, ends_at = await self._value(visit, kind, row["value"], teams), _moment(row["ends_at"])
            if value is None:
                no_person = kind is ExceptionKind.PERSON
                faults[place_of(_EXCEPTION_ROW_FIELD, line, "value")] = self.no_person if no_person else f"console.risk.no_{kind.value}"
            if ends_at is None:
                faults[place_of(_EXCEPTION_ROW_FIELD, line, "ends_at")] = "console.risk.no_end"
            if value is not None and ends_at is not None:
                made.append(RiskExceptionBody(kind=kind, value=value, ends_at=ends_at))
        if faults:
            raise WrongRows(faults)
        return made

    async def _teams(self, visit: PageVisit) -> Sequence[TeamRecord]:
        return await visit.ask(self.teams) if self.teams is not None and visit.may(self.teams) else ()

    async def _value(self, visit: PageVisit, kind: ExceptionKind, given: str, teams: Sequence[TeamRecord]) -> str | None:
        if kind is ExceptionKind.NETWORK:
            return given or None
        if kind is ExceptionKind.PERSON:
            return await self.called(visit, given)
        meant = [str(one.id) for one in teams if given in {str(one.id), one.name, one.slug}]
        return meant[0] if len(meant) == 1 else None


def _shown(record: RiskPoliciesRecord, people: Mapping[Any, str], teams: Sequence[TeamRecord]) -> list[Row]:
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


def is_id(given: str) -> bool:
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
    return place_of(_EXCEPTION_ROW_FIELD, line, field)
