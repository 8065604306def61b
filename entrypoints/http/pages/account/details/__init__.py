"""Fields on pages: the forms in which people see and write what the installation and organizations keep of them.

Every control of such a form sends one `fields`, the keeper's slug and the field's key, and one `values`, in the same order.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final

import msgspec

from core.domain.errors import BadRequest, Refusal
from core.domain.formats import Json
from core.domain.tenancy.profile_fields import MOST_FIELDS, FieldKind, FieldValue, ProfileField, checked_value, is_empty
from core.frozen import Frozen
from entrypoints.http.machinery.accepts import Form
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.pages.refusals import in_words
from ports.texts import Text

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,16}")
_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,16}[.,][0-9]{1,16}")
MOST_SHOWN: Final = 2 * MOST_FIELDS
MANY_VALUES: Final = Form(limit=128 << 10, most_fields=2 * MOST_SHOWN + 10)
"""A form with the usual fields, and a pair for each of the fields of two keepers."""
YES: Final = "yes"
NO: Final = "no"


class ValuesForm(BoundForm, frozen=True, kw_only=True):
    flow: str = ""
    fields: Annotated[Sequence[str], msgspec.Meta(max_length=MOST_SHOWN)] = ()
    values: Annotated[Sequence[str], msgspec.Meta(max_length=MOST_SHOWN)] = ()
    answer: str = ""

    @property
    def typed(self) -> Mapping[str, str]:
        """The typed texts, by the names of `Control`."""
        return dict(zip(self.fields, self.values, strict=False))


class Control(Frozen, kw_only=True):
    """One field on a page."""

    name: str
    """The keeper's slug, which is empty for the installation, and the field's key."""
    id: str
    """Names the control on its page."""
    field: ProfileField
    text: str
    """What the control shows."""
    error: str = ""


def named(slug: str, field: ProfileField) -> str:
    return f"{slug}/{field.key}"


def shown(value: FieldValue | None) -> str:
    """The value as the control of the field has it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return YES if value else NO
    return "\n".join(value) if isinstance(value, tuple) else str(value)


def read(field: ProfileField, text: str) -> Json:
    """The value that a person typed. The domain checks it, and refuses what could not be read."""
    typed = text.strip()
    match field.kind:
        case FieldKind.LIST:
            return [line.strip() for line in text.splitlines() if line.strip()]
        case FieldKind.BOOLEAN if typed in {YES, NO}:
            return typed == YES
        case FieldKind.NUMBER if _INTEGER.fullmatch(typed):
            return int(typed)
        case FieldKind.NUMBER if _DECIMAL.fullmatch(typed):
            return float(typed.replace(",", "."))
        case _:
            return typed


def mistakes(asked: Sequence[tuple[str, ProfileField]], typed: Mapping[str, str]) -> Mapping[str, Refusal]:
    """The refusal of each wrong or missing value, by the control's name."""
    found: dict[str, Refusal] = {}
    for slug, field in asked:
        name = named(slug, field)
        value = read(field, typed.get(name, ""))
        if is_empty(field, value):
            if field.required:
                found[name] = BadRequest(f"{field.key}: this field is required", words="field_required")
            continue
        try:
            checked_value(field, value)
        except BadRequest as refusal:
            found[name] = refusal
    return found


def controls(
    keeper: int, asked: Sequence[tuple[str, ProfileField]], texts: Mapping[str, str], wrong: Mapping[str, Refusal], words: Text
) -> Sequence[Control]:
    """The controls of the page's keeper with this number. `texts` and `wrong` are by the names of the controls."""
    return [
        Control(
            name=(name := named(slug, field)),
            id=f"field-{keeper}-{number}",
            field=field,
            text=texts.get(name, ""),
            error=in_words(wrong[name], words) if name in wrong else "",
        )
        for number, (slug, field) in enumerate(asked, 1)
    ]


def labels_of(made: Iterable[Control]) -> Mapping[str, str]:
    """The labels of controls, by their ids: the refusals of two numbers read the same."""
    return {control.id: control.field.label for control in made}
