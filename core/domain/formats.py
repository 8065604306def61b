"""Data formats: JSON with its timestamps, CSV files, HTTP dates, and query parameters."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

Scalar = str | int | float | bool | None
Json = Scalar | Sequence["Json"] | Mapping[str, "Json"]


def as_json(value: Any) -> Json:
    """Returns the value of a field as JSON: the value of an enum, and a list for a tuple."""
    if isinstance(value, Enum):
        return as_json(value.value)
    if isinstance(value, Mapping):
        return {name: as_json(one) for name, one in value.items()}
    return [as_json(one) for one in value] if isinstance(value, list | tuple) else value


def fields_as_json(thing: object, names: Iterable[str]) -> dict[str, Json]:
    """Returns these fields of a thing as JSON, for an event or a document that lists the fields that it shows."""
    return {name: as_json(getattr(thing, name)) for name in names}


def timestamp(at: datetime) -> str:
    """The form of times in every answer: in UTC, with a Z."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


# A spreadsheet takes a cell that begins so for a formula, and runs it. Some take the wide, small, raised and lowered forms for the same.
_SIGNS: Final = "=+@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u207c\u207a\u207b\u208c\u208a\u208b\ufb29\u2212-"
# Spreadsheets of many countries separate cells by semicolons, whatever separates them here. Then a cell also begins within one of ours, and
# quotes in its middle count for nothing.
_FORMULA: Final = re.compile(rf'((?:^|[,;])[\s"]*)(?=[{_SIGNS}])')
# Whoever separates by tabs, or takes a line for a row, would begin a cell there.
_BREAKS: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def table_line(cells: Sequence[str]) -> str:
    """Returns one line of a CSV file that a spreadsheet may open. A formula gets an apostrophe in front, wherever a spreadsheet may begin a
    cell. Tabs and line breaks in a cell become spaces.
    """
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow([_FORMULA.sub(r"\1'", _BREAKS.sub(" ", cell)) for cell in cells])
    return out.getvalue()


_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH: Final = f"(?P<month>{'|'.join(_MONTHS)})"
_SHORT: Final = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_LONG: Final = "(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
_TIME: Final = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_FORMS: Final = tuple(
    re.compile(form)
    for form in (
        rf"{_SHORT}, (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} GMT",
        rf"{_LONG}, (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_TIME} GMT",
        rf"{_SHORT} {_MONTH} (?P<day>[0-9]{{2}}| [0-9]) {_TIME} (?P<year>[0-9]{{4}})",
    )
)
_CENTURY: Final = 100


def http_date(text: str, now: datetime) -> datetime | None:
    """Parses an HTTP date (RFC 9110 section 5.6.7): the form that is sent today, and two older forms that must still be understood. Returns
    None for any other text. A year of two digits that seems to be more than 50 years in the future is in the past. The parser of the
    standard library is for dates in mail: it accepts much more, and raises unexpected exceptions for some of it.
    """
    found = next((found for form in _FORMS if (found := form.fullmatch(text)) is not None), None)
    if found is None:
        return None
    year = int(found["year"])
    if len(found["year"]) == 2:
        year += now.year - now.year % _CENTURY
        if year > now.year + _CENTURY // 2:
            year -= _CENTURY
    # 60 is a leap second.
    second = 59 if found["second"] == "60" else int(found["second"])
    month = 1 + _MONTHS.index(found["month"])
    try:
        return datetime(year, month, int(found["day"]), int(found["hour"]), int(found["minute"]), second, tzinfo=UTC)
    except ValueError:
        return None


def with_parameters(address: str, **said: str) -> str:
    """A registered address with what we tell there, after the parameters that it has."""
    parts, text = urlsplit(address), urlencode(said)
    return parts._replace(query=f"{parts.query}&{text}" if parts.query else text).geturl()
