"""How the remote systems of people who are sent outwards differ, from the public documents that docs/scim-dialects.md names. None was
tried.
"""

from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True)
class RemoteDialect:
    """What a SCIM server takes. The defaults are those of RFC 7644."""

    patches: bool = True
    filters: frozenset[str] = frozenset({"id", "username", "externalid", "displayname", "emails.value"})
    """The attributes that a filter may compare, in small letters. Any other filter is refused."""
    ignores_filters: bool = False
    """Answers a request with a filter as one without. A caller that takes the first of what is listed takes somebody else."""
    longest_page: int = 100
    pages: bool = True
    """Without pages, a list is its beginning, wherever it is asked to start."""
    cursors: bool = False
    """Lists by cursor where it is asked to (RFC 9865), without a total."""
    says_cursors: bool | None = None
    """What its configuration says of cursors, where that is something else."""
    cursor_lasts: int = 1 << 30
    """So many requests after its page, a cursor has expired."""
    required: tuple[str, ...] = ("userName",)
    refused: frozenset[str] = frozenset()
    """Attributes with which a person is refused."""
    one_value: bool = False
    """An attribute with many values takes one."""
    lone_operations: frozenset[str] = frozenset()
    """Attributes of which one PATCH changes no more than one."""
    handles: bool = False
    """Makes its own name from userName: small letters, no domain, at most 21 characters."""
    numbers: bool = False
    """Ids are numbers, in JSON, too."""
    deletes: str = "removes"
    """`removes` a person, `deactivates` them, or `refuses`."""
    groups: bool = True


GENERIC: Final = RemoteDialect()
POSTERN: Final = RemoteDialect(longest_page=100, groups=False)
SLACK: Final = RemoteDialect(longest_page=1000, required=("userName", "emails"), handles=True, deletes="deactivates")
AWS: Final = RemoteDialect(
    filters=frozenset({"username", "externalid"}),
    longest_page=100,
    pages=False,
    cursors=True,
    says_cursors=False,
    required=("userName", "displayName", "name.givenName", "name.familyName"),
    refused=frozenset({"password", "ims", "photos", "x509Certificates", "entitlements", "groups"}),
    one_value=True,
    lone_operations=frozenset({"username", "active"}),
)
AWS_BEFORE: Final = replace(AWS, longest_page=50, cursors=False)
"""Its older endpoints, which take no notice of a cursor."""
DIALECTS: Final = {"generic": GENERIC, "postern": POSTERN, "slack": SLACK, "aws": AWS}
