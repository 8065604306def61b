"""Where a directory says who a person is: the mapping of a connection, and the presets for directories that many organizations have."""

from collections.abc import Mapping, Sequence
from typing import Final

from core.frozen import Frozen

NAME_ID: Final = "name_id"
"""A source that is the subject's NameID, and no attribute."""


class AttributeMapping(Frozen, kw_only=True):
    """Each source is `NAME_ID` or the exact name of an attribute. Several are tried in order, and the first one that the directory sent
    counts; the subject has exactly one source, since a person must not get another subject when the directory sends more or less.
    """

    subject: str = NAME_ID
    email: Sequence[str] = ()
    given_name: Sequence[str] = ()
    family_name: Sequence[str] = ()
    name: Sequence[str] = ()
    groups: Sequence[str] = ()
    fields: Mapping[str, str] = {}
    """The keys of the organization's fields, by the attributes that go into them."""
