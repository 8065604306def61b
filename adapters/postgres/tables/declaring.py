"""What a table is, said once: whose its rows are, what its columns hold, and what becomes of the rows when an organization moves, when its
organization ends, with the time, and when a person is exported or forgotten.

    Table(
        "webhooks",
        whose=ORGANIZATION,
        holds=(plain(FACT, "name", "url"), plain(WORD, "events"), sealed("sealed_secret", "previous_sealed_secret")),
        moves=Moved(),
        ends=Ends.ROWS,
    )

Each question is asked of every table. Where the answer is no, a sentence says why. A table that leaves a question open stops the import,
and `tests/adapters/postgres/tables` compares the answers with PostgreSQL's catalogue.

Most of what becomes of rows in a move to another installation follows from the catalogue, so that a new column travels by itself: the rows
of a table are those with the organization's `org_id`, or with a `service_id` of its services; a foreign key leads into the file, and to
nobody else's row; a sealed value is opened where the organization is, and sealed again where it goes. What is written here is what the
catalogue cannot know.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, LiteralString

from core.domain.identity.endings import CredentialKind
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


class Whose(Frozen):
    """Whose the rows are. `organization` is the expression that gives the organization of a row, which is called `one`; None for rows of
    people and of the installation. `column` names the owner, which is a row of `owners`.
    """

    owner: str
    organization: LiteralString | None = None
    column: LiteralString = ""
    owners: LiteralString = ""


def _of(owner: str, column: LiteralString, owners: LiteralString, organization: LiteralString = "org_id") -> Whose:
    return Whose(owner, f"(select {organization} from {owners} where {owners}.id = one.{column})", column, owners)


ORGANIZATION: Final = Whose("organization", "one.org_id", "org_id", "all_organizations")
# The same, by the column's other name.
OWN_ORGANIZATION: Final = Whose("organization", "one.organization_id", "organization_id", "all_organizations")
SERVICE: Final = _of("service", "service_id", "all_services")
PROVIDER: Final = _of("provider", "upstream_provider_id", "upstream_providers")
CONNECTION: Final = _of("provider", "connection_id", "upstream_providers")
CONNECTION_OUTWARDS: Final = _of("connection outwards", "connection_id", "provisioning_connections")
RUN_OUTWARDS: Final = _of(
    "run",
    "run_id",
    "provisioning_runs",
    "(select org_id from provisioning_connections where provisioning_connections.id = provisioning_runs.connection_id)",
)
WEBHOOK: Final = _of("webhook", "webhook_id", "webhooks")
HOOK: Final = _of("hook", "hook_id", "hooks")
DEADLINE: Final = _of("deadline", "deadline_id", "offboarding_deadlines")
SESSION: Final = _of("session", "session_id", "sessions", "organization_id")
ENTRY: Final = _of("entry", "entry_id", "audit_entries", "organization_id")
EXPORT: Final = _of("export", "export_id", "siem_configurations")
PERSON: Final = Whose("person")
INSTALLATION: Final = Whose("installation")


class Ends(StrEnum):
    """How rows go when their organization is deleted, or their service alone."""

    ROWS = "in batches, by their ids"
    PEOPLE = "in batches, by the ids of their people"
    ONE = "in batches, by the ids of their owners, which have one row each"
    OWN = "by statements of their own, in `upkeep/purging.py`"
    CASCADES = "with a row that they refer to, by a foreign key"


class Eraser(StrEnum):
    """The eraser of personal data, apart from the janitor."""

    ACCOUNT = "with the account"
    """A foreign key that cascades."""
    DELETION = "when the account is deleted"
    """A statement of the deletion, since the row has no foreign key to the account or outlives it."""
    ORGANIZATION = "with the organization"
    JANITOR = "by the janitor only"


class Personal(Frozen):
    """`person` is the column of the same table that names the person; None if no column does. `unshown` is the reason why a person's
    export does not show the column, where it shows others of the table.
    """

    what: str
    person: str | None
    eraser: Eraser
    retention: str
    unshown: str = ""


class Sealing(Frozen):
    """`context` is what the value was sealed with, before the row's `key`: the same text as in the code that seals the value. Without one,
    it is the column's full name.
    """

    context: LiteralString | None
    key: LiteralString
    key_type: LiteralString


class Holding(Frozen):
    """What some columns hold. `what` is the reason why it is nothing personal, if it is a sentence."""

    columns: tuple[LiteralString, ...]
    what: Personal | str
    sealing: Sealing | None = None


class Setting(StrEnum):
    """The setting that says how long rows are kept."""

    LOGIN_EVENTS = "login_event_retention"
    DELIVERIES = "delivery_retention"
    EVENTS = "event_retention"


class Age(Frozen):
    """A sweep of the janitor, by its name in the log. `condition` is that of a row whose time is over; without one, the statement stands in
    `upkeep/housekeeping.py`. `oldest_first` names a column of times, and keeps the planner on its index, however long the table is.
    """

    name: str
    condition: LiteralString | None = None
    oldest_first: LiteralString | None = None
    key: LiteralString = "id"
    kept: Setting | None = None


class ExportPart(Frozen):
    """The `part` of a person's export that shows what a table holds: a field of `core.domain.identity.privacy.Export`. The part shows the
    columns in `shows` by their own names, and those in `named` by the names there. `beside` is a second part with columns of the same
    table.
    """

    part: str
    shows: tuple[LiteralString, ...] = ()
    named: Mapping[LiteralString, LiteralString] = field(default_factory=dict)
    beside: "ExportPart | None" = None

    @property
    def values(self) -> Mapping[LiteralString, LiteralString]:
        """The columns, by the names that the part shows them by."""
        return {column: column for column in self.shows} | dict(self.named)


# What a table says whose rows let nobody in.
NO_CREDENTIAL: Final = "none"


class Table(Frozen):
    """`opens` is the kind of credential or grant that the rows are (`core/domain/identity/endings`), or `NO_CREDENTIAL`. `moves` and `ends`
    are a sentence if the rows stay. `until` tells an operator what ends a row; without it, a row ends with the thing that it belongs to.
    Tables that hold personal data say in `exported` which part of a person's export shows these, or by a sentence why none does, and in
    `forgotten` who changes these when the person is forgotten. The export's statement is joined from `exported`.
    """

    name: LiteralString
    whose: Whose
    holds: tuple[Holding, ...]
    moves: Moved | str
    ends: Ends | str
    opens: CredentialKind | tuple[CredentialKind, ...] | str | None = None
    until: str | None = None
    ages: tuple[Age, ...] = ()
    exported: ExportPart | str | None = None
    forgotten: str | None = None

    def __post_init__(self) -> None:
        if self.opens != NO_CREDENTIAL and not (self.kinds and all(isinstance(kind, CredentialKind) for kind in self.kinds)):
            raise TypeError(
                f"{self.name}: say by `opens` which kind of credential or grant the rows are, or {NO_CREDENTIAL!r}. A new kind owes a line"
                " for each cause in core/domain/identity/endings, a page, a mail and a part of the export there, and a way of being made"
                " in tests/security/endings"
            )
        for told in (self.exported, self.forgotten):
            if bool(self.personal) != bool(told):
                raise TypeError(f"{self.name}: say of personal data, and of nothing else, whether they are exported and forgotten")
        if self.ages and not self.until:
            raise TypeError(f"{self.name}: say how long rows stay")
        if any(one.eraser is Eraser.JANITOR for one in self.personal.values()) and not self.ages:
            raise TypeError(f"{self.name}: say when the janitor erases it")
        columns = [column for holding in self.holds for column in holding.columns]
        if len(set(columns)) != len(columns):
            raise TypeError(f"{self.name}: a column is said twice")
        self._require_parts()

    @property
    def kinds(self) -> tuple[CredentialKind, ...]:
        """The kinds of credential and grant that the rows are. None for `NO_CREDENTIAL`."""
        return self.opens if isinstance(self.opens, tuple) else (self.opens,) if isinstance(self.opens, CredentialKind) else ()

    @property
    def personal(self) -> Mapping[str, Personal]:
        return {column: what for column, what in self._columns() if isinstance(what, Personal)}

    @property
    def plain(self) -> Mapping[str, str]:
        """The columns that could hold personal data, and hold none, each with the reason."""
        return {column: what for column, what in self._columns() if isinstance(what, str)}

    @property
    def sealed(self) -> Mapping[LiteralString, Sealing]:
        return {column: holding.sealing for holding in self.holds if holding.sealing for column in holding.columns}

    @property
    def parts(self) -> Sequence[ExportPart]:
        """The parts of a person's export that show the rows. None for a table whose sentence says why it is not exported."""
        part = self.exported
        if not isinstance(part, ExportPart):
            return ()
        return (part,) if part.beside is None else (part, part.beside)

    def _require_parts(self) -> None:
        shown = {column for part in self.parts for column in part.values.values()}
        for column, one in self.personal.items():
            if self.parts and column not in shown and not one.unshown:
                raise TypeError(
                    f"{self.name}.{column} is personal, and in no part of a person's export: name it in `shows` of a part, or say by"
                    " `unshown` why the person does not get it"
                )
            if one.unshown and (column in shown or not self.parts):
                raise TypeError(f"{self.name}.{column}: `unshown` is for a column that no part shows, where a part shows others")

    def _columns(self) -> Iterator[tuple[str, Personal | str]]:
        return ((column, holding.what) for holding in self.holds for column in holding.columns)


# Why a column holds nothing personal.
WORD: Final = "A word from a closed list, or a name that the program gives"
FACT: Final = "A fact about an organization, its roles, services, plans or keys"
ID: Final = "An id"
OPAQUE: Final = "A key, or a digest of random bits"
DETAILS: Final = "Details of an act. What they say about a person is kept in a column of its own"
COMMITMENT: Final = "A digest that says nothing without its source; Postern erases the salt together with the source"
PAYMENT_ID: Final = "The payment provider's id of a thing. It says nothing without the provider"

# Why rows do not end with an organization.
A_PERSONS: Final = "They are a person's, not an organization's"
THE_INSTALLATIONS: Final = "They are the installation's"

# Who changes personal data when a person is forgotten.
BY_STATEMENT: Final = "by an SQL statement"
WITH_SESSIONS: Final = "they are deleted with their sessions"
UNREADABLE: Final = "the person can only be determined with the encryption key ring"

# Why personal data are not in a person's export.
SHORT_LIVED: Final = "they belong to a single sign-in, and are deleted soon after it"
HIDDEN: Final = "they are secrets, or digests of secrets"
LISTED: Final = "the person can see them in their account"
ORGANIZATIONS_OWN: Final = "they are records of the organization"
# Why a part of the export does not show some columns.
SAME: Final = "they contain the same value again, for comparison"
COMPARED: Final = "they are only useful to the software that compares them"
WHAT_HAPPENED: Final = "the export contains the event, its time, and whether it succeeded"

WHILE_ACCOUNT: Final = "As long as the account."
WHOLE_MONTHS: Final = "They are deleted by whole months, so some are kept up to a month longer."


def plain(reason: str, *columns: LiteralString) -> Holding:
    return Holding(columns, reason)


def sealed(
    *columns: LiteralString,
    key: LiteralString = "id",
    key_type: LiteralString = "uuid",
    context: LiteralString | None = None,
    personal: Personal | None = None,
) -> Holding:
    return Holding(columns, personal or OPAQUE, Sealing(context, key, key_type))


def personal(column: LiteralString, what: str, eraser: Eraser, retention: str, person: str | None = None, *, unshown: str = "") -> Holding:
    return Holding((column,), Personal(what, person, eraser, retention, unshown))


def of_account(column: LiteralString, what: str, person: str = "user_id", *, unshown: str = "") -> Holding:
    return personal(column, what, Eraser.ACCOUNT, WHILE_ACCOUNT, person, unshown=unshown)
