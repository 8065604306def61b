"""What paths ask for and what the application is told, as rows of a form. Everybody else has them as lines: the API, documents, commands.

A row and its line say the same, in both directions. What a line cannot say, such as a path with a space in it, is refused at its field: it
would be another line.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from core.domain.errors import BadRequest
from core.domain.services.proxies import LONGEST_HEADER, LONGEST_RULE, DemandKind, TellingPart
from entrypoints.http.console.kit.rows import Row, RowField, Rows, joined, lines_of
from entrypoints.http.console.kit.sent_forms import SeveralFaults
from ports.texts import Text

_SIGNED_IN: Final = ""
"""A row without another choice asks for a sign-in: so an empty row says nothing."""
_NAMED: Final = (DemandKind.ROLE, DemandKind.PERMISSION)


def rule_rows(settings: Any) -> Sequence[Row]:
    return [_rule_row(*line.split()) for line in settings.rules]


def _rule_row(path: str, asks: str, name: str = "") -> Row:
    return {"path": path, "asks": _SIGNED_IN if asks == DemandKind.SIGNED_IN else asks, "name": name}


def rules_of(rows: Sequence[Row]) -> Mapping[str, Any]:
    """Raises `SeveralFaults`."""
    faults = [BadRequest(f"rules[{at}].{field}: {words}", words=words) for at, row in enumerate(rows) for field, words in _rule_faults(row)]
    if faults:
        raise SeveralFaults(faults)
    return {"rules": [" ".join(filter(None, (row["path"], row["asks"] or DemandKind.SIGNED_IN, row["name"]))) for row in rows]}


def _rule_faults(row: Row) -> Iterator[tuple[str, str]]:
    path, asks, name = row["path"], row["asks"], row["name"]
    if not path:
        yield "path", "field_text"
    elif _has_space(path):
        yield "path", "proxy_rule_never"
    if asks and asks not in {DemandKind.OPEN, *_NAMED}:
        yield "asks", "field_choice"
    elif asks in _NAMED and not name:
        yield "name", "field_text"
    elif asks in _NAMED and _has_space(name):
        yield "name", "proxy_rule_nobody"
    elif asks not in _NAMED and name:
        yield "name", "proxy_rule_unnamed"


def header_rows(settings: Any) -> Sequence[Row]:
    return [dict(zip(("name", "tells"), line.split(), strict=True)) for line in settings.headers]


def headers_of(rows: Sequence[Row]) -> Mapping[str, Any]:
    """Raises `SeveralFaults`."""
    faults = [
        BadRequest(f"headers[{at}].{field}: {words}", words=words) for at, row in enumerate(rows) for field, words in _header_faults(row)
    ]
    if faults:
        raise SeveralFaults(faults)
    return {"headers": [f"{row['name']} {row['tells']}" for row in rows]}


def _header_faults(row: Row) -> Iterator[tuple[str, str]]:
    if not row["name"]:
        yield "name", "field_text"
    elif _has_space(row["name"]):
        yield "name", "proxy_header"
    if row["tells"] not in set(TellingPart):
        yield "tells", "field_choice"


def _has_space(text: str) -> bool:
    """A line is cut there."""
    return len(text.split()) > 1


def demand_in_words(text: Text, kind: str, name: str) -> str:
    return text(f"console.proxy.asks_{kind}", **({"name": name} if name else {}))


def _rule_said(text: Text, row: Row) -> tuple[str, str]:
    kind = row["asks"] or DemandKind.SIGNED_IN
    return row["path"], demand_in_words(text, kind, row["name"]) if row["name"] or kind not in _NAMED else ""


def _header_said(text: Text, row: Row) -> tuple[str, str]:
    return row["name"], text(f"console.proxy.tells_{row['tells']}") if row["tells"] in set(TellingPart) else ""


RULE_ROWS: Final = Rows(
    fields=(
        RowField(name="path", label="console.proxy.path", longest=LONGEST_RULE),
        RowField(
            name="asks",
            label="console.proxy.asks",
            options=(
                (_SIGNED_IN, "console.proxy.asks_signed_in"),
                (DemandKind.OPEN.value, "console.proxy.asks_open"),
                *((one.value, f"console.proxy.asked_{one}") for one in _NAMED),
            ),
        ),
        RowField(name="name", label="console.proxy.rule_name", longest=LONGEST_RULE),
    ),
    one="console.proxy.rule_number",
    add="console.proxy.add_rule",
    more="",
    said=_rule_said,
    faults={"proxy_rule_nobody": "name"},
)
HEADER_ROWS: Final = Rows(
    fields=(
        RowField(name="name", label="console.proxy.header_name", longest=LONGEST_HEADER),
        RowField(
            name="tells",
            label="console.proxy.tells",
            options=(("", "console.choose"), *((one.value, f"console.proxy.tells_{one}") for one in TellingPart)),
        ),
    ),
    one="console.proxy.header_number",
    add="console.proxy.add_header",
    more="",
    said=_header_said,
    faults={"proxy_header_shared": "tells"},
)


def rules_said(settings: Any, text: Text) -> Sequence[str]:
    return lines_of(RULE_ROWS, joined(RULE_ROWS, rule_rows(settings)), text)


def headers_said(settings: Any, text: Text) -> Sequence[str]:
    return lines_of(HEADER_ROWS, joined(HEADER_ROWS, header_rows(settings)), text)
