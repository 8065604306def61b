"""The mapping of a connection outwards, a row for each attribute."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.domain.errors import BadRequest
from core.domain.federation.provisioning.connections import LONGEST_CONSTANT, ProvisioningSource
from entrypoints.http.console.kit.cells import value_key
from entrypoints.http.console.kit.forms import Asked
from entrypoints.http.console.kit.rows import Row, RowField, Rows
from entrypoints.http.console.kit.sent_forms import SeveralFaults
from ports.texts import Text

_LONGEST_ATTRIBUTE: Final = 200
_SOURCES: Final[Mapping[str, str]] = {one.value: value_key("provisioning_source", one) for one in ProvisioningSource}


def _mapping_rows(found: Any) -> Sequence[Row]:
    return [{"attribute": one.attribute, "source": one.source.value, "argument": one.argument or ""} for one in found.mapping]


def _mapping_of(rows: Sequence[Row]) -> Mapping[str, Any]:
    """No row at all means the mapping that is there, or the usual one. Raises `SeveralFaults`."""
    faults = [
        BadRequest(f"mapping[{place}].source: one of {', '.join(_SOURCES)}", words="field_choice")
        for place, row in enumerate(rows)
        if row["source"] not in _SOURCES
    ]
    if faults:
        raise SeveralFaults(faults)
    return {"mapping": [{**row, "argument": row["argument"] or None} for row in rows] or None}


def _said(text: Text, row: Row) -> tuple[str, str]:
    source = text(_SOURCES[row["source"]]) if row["source"] in _SOURCES else ""
    return row["attribute"], f"{source} {row['argument']}".strip()


MAPPING: Final = Asked(
    "mapping",
    label="console.people_there.mapping",
    hint="console.people_there.mapping_hint",
    rows=Rows(
        fields=(
            RowField(name="attribute", label="console.people_there.attribute", longest=_LONGEST_ATTRIBUTE),
            RowField(name="source", label="console.people_there.source", options=(("", "console.choose"), *_SOURCES.items())),
            RowField(name="argument", label="console.people_there.argument", longest=LONGEST_CONSTANT, is_folded=True),
        ),
        one="console.people_there.attribute_number",
        add="console.people_there.add_attribute",
        more="console.people_there.attribute_more",
        said=_said,
    ),
    shown=_mapping_rows,
    stands_for=_mapping_of,
)
