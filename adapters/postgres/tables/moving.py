"""What becomes of rows when their organization moves to another installation.

Most of it follows from the catalogue, so that a new column travels by itself: the rows of a table are those with the organization's
`org_id`, or with a `service_id` of its services; a foreign key leads into the file, and to nobody else's row; a sealed value is opened
where the organization is, and sealed again where it goes. What is written here is what the catalogue cannot know.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, LiteralString

from core.domain.tenancy.roles import BuiltInRole, Capability
from core.frozen import Frozen, field


class IdMeaning(StrEnum):
    """The meaning of a column of ids that has no foreign key."""

    ITS_OWN = "its own"
    """The row's own, as `id` is."""
    PERSON = "a person"
    """Becomes the person's id here; the nil id for somebody whom the file does not have."""
    ORGANIZATION = "the organization"
    KEPT = "kept"
    """Says nothing here, and decides nothing."""
    CHECKED = "checked"
    """A `check` of the table says what it may be."""


class Moved(Frozen):
    """`rows` is a further condition on the rows that leave, and `arrives` on those that arrive. `leaves` are columns that arrive with
    their defaults, because they say how things stood there. `sets` are values in place of those in the file: SQL, in which `row` is the row
    of the file. `checks` are conditions that each row must meet, by what it does otherwise. `kept_by` are columns whose rows may be gone.
    """

    rows: LiteralString = "true"
    arrives: LiteralString = "true"
    leaves: tuple[str, ...] = ()
    sets: Mapping[str, LiteralString] = field(default_factory=dict)
    checks: Mapping[str, LiteralString] = field(default_factory=dict)
    kept_by: Mapping[str, str] = field(default_factory=dict)
    ids: Mapping[str, IdMeaning] = field(default_factory=dict)
    of_people: bool = False
    """A person's own, not the organization's: it leaves only for people with an own tie, and arrives only with people who are trusted and
    have had no account here."""


# Columns of any table that say who works on the row at the moment, or how the last calls went.
ALWAYS_LEFT: Final = frozenset({"lease", "leased_until", "rests_until", "failing_since", "fallen_back_at"})

# A text that nobody has published anywhere yet.
NEW_PROOF: Final[Mapping[str, LiteralString]] = {"token": "replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '')"}

OWN_TIE: Final[LiteralString] = "case when person.is_trusted then row.own_since end"


def _words(words: Iterable[LiteralString]) -> LiteralString:
    """A list for `in`. The words are those of enumerations of ours."""
    return "('" + "', '".join(words) + "')"


_BUILT_IN: Final = _words(role.value for role in BuiltInRole)
_GIVEN: Final = _words(role.value for role in BuiltInRole if role is not BuiltInRole.OWNER)
_CAPABILITIES: Final = _words(capability.value for capability in Capability)
# The slug of a role is a name: what counts is the role's id, or for a role of ours that there is none.
_OWN_ROLE: Final[LiteralString] = "exists (select from arriving_roles as named where named.id = row.role_id and named.slug = row.role)"
MEMBERS_ROLE: Final[LiteralString] = f"case when row.role_id is null then row.role in {_BUILT_IN} else {_OWN_ROLE} end"
GIVEN_ROLE: Final[LiteralString] = f"case when row.role_id is null then row.role in {_GIVEN} else {_OWN_ROLE} end"
OWNER_ALONE: Final[LiteralString] = "row.user_id = (select owned.owner_user_id from arriving_all_organizations as owned)"
# People and teams have at the organization what their own rows say, and roles what they permit.
_AS_SAID: Final[LiteralString] = """
    case row.object_type
        when 'role' then row.relation = 'holder' and named.role_id = row.object_id
        else named.role_id is null and named.role = row.relation
    end
"""
RELATION: Final[LiteralString] = f"""
    case
        when row.object_type = 'service_role' then row.relation = 'holder'
        when row.role_id is not null then row.object_type = 'organization' and row.relation in {_CAPABILITIES}
        when row.team_id is not null then exists (select from arriving_teams as named where named.id = row.team_id and {_AS_SAID})
        else exists (select from arriving_memberships as named where named.user_id = row.user_id and {_AS_SAID})
    end
"""

# Why rows stay where they are.
OF_A_SIGN_IN: Final = "It ends with the sign-in or the request that it belongs to"
OF_CALLS: Final = "It is about calls that the other installation has received or made"
OF_SIGN_INS: Final = "Sign-ins belong to the people; an organization's counts of them travel"
LEADS_THERE: Final = "It leads to the other installation, or to a document there"
OF_PAYMENTS: Final = "It is what the other installation's payment provider knows"
OF_A_PERSON: Final = "It is a matter between the person and the other installation"
