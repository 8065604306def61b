"""The changes that an organization's directory may make. All rows of the database before and after are compared; any other change is a
fault.

The rules come from our promises, not from the product's statements: this module works out once more who owns an account.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal
from uuid import UUID

from adapters.postgres.identity.privacy.forgetting import NOBODY
from adapters.postgres.jobs import sealing_context
from core.domain.identifiers import JobId
from core.domain.mail import Email
from tests.http.people import People

Row = dict[str, Any]
State = frozenset[tuple[str, str]]
"""The table and the text of each row."""

# Counters of limits, and a table that no test fills.
_PASSED_OVER: Final = ("rate_limit_buckets", "schema_migrations")
_ACCOUNTS: Final = (
    *("users", "memberships", "provisioned_users", "service_users", "all_organizations", "sessions", "all_services", "scim_groups"),
    *("audit_entries", "invitations", "passkeys", "identities", "former_addresses", "relations", "join_requests", "held_accounts"),
)
# Each row in these tables belongs to one person, to a session or to an identity of the person.
_OF_PERSON: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            *("mfa_secrets", "backup_codes", "passkeys", "identities", "devices", "mailed_tokens", "preauthentications", "sessions"),
            *("consents", "device_codes", "authorization_codes", "login_events", "service_users", "flows", "mfa_events"),
        ),
        "user_id",
    ),
    **dict.fromkeys(("refresh_tokens", "browser_sessions"), "session_id"),
}
# The rights of a plain member. The directory may not decide about people with more rights.
_PLAIN: Final = frozenset({"member", "holder", "org.members.view", "services.view", "end_users.view"})
# A directory adds an account whose address nobody has proved. Then rows of the person who registered the address are removed from these.
_DISOWNED: Final = frozenset(
    {
        *("passkeys", "identities", "devices", "mailed_tokens", "preauthentications", "sessions", "device_codes", "refresh_tokens"),
        *("mfa_secrets", "backup_codes"),
    }
)
# Tables whose rows are never changed or removed here.
_ADDED: Final = frozenset({"audit_pending", "webhook_deliveries", "logout_notices"})
_OWN_USER: Final = frozenset(
    {
        *("email", "email_key", "email_verified_at", "password_hash", "pending_email", "pending_email_key", "deactivated_at"),
        *("deactivated_by_org_id", "deactivated_by", "updated_at", "password_changed_at", "language", "locked_at"),
    }
)


class TableReader:
    """Reads all tables in one statement."""

    def __init__(self, people: People) -> None:
        self._people = people
        tables = people.rows("select tablename as name from pg_tables where schemaname = 'public' order by tablename")
        named = [one["name"] for one in tables if one["name"] not in _PASSED_OVER]
        self._statement = " union all ".join(f"select '{table}' as of, row_to_json({table})::text as row from {table}" for table in named)
        keys = people.rows(
            """
            select pg_class.relname as of, array_agg(pg_attribute.attname::text) as names
              from pg_index
              join pg_class on pg_class.oid = pg_index.indrelid
              join pg_attribute on pg_attribute.attrelid = pg_class.oid and pg_attribute.attnum = any (pg_index.indkey)
             where pg_index.indisprimary
             group by pg_class.relname
            """
        )
        self.keys: Mapping[str, list[str]] = {one["of"]: one["names"] for one in keys}

    def read(self) -> State:
        return frozenset((one["of"], one["row"]) for one in self._people.rows(self._statement))

    def mail_of(self, job: Row) -> tuple[str | None, str | None]:
        """The account that a waiting mail, or a request for a mail, is for, and the address in the form for comparisons."""
        sealed = bytes.fromhex(job["sealed_payload"].removeprefix("\\x"))
        payload = json.loads(self._people.opened(sealed, sealing_context(JobId(UUID(job["id"])))))
        address = payload.get("to", payload.get("email"))
        return payload.get("account"), None if address is None else Email(address).key


@dataclass(frozen=True, slots=True)
class Change:
    table: str
    before: Row | None
    after: Row | None

    @property
    def kind(self) -> Literal["added", "removed", "changed"]:
        return "added" if self.before is None else "removed" if self.after is None else "changed"

    @property
    def columns(self) -> set[str]:
        """The columns that differ."""
        before, after = self.before or {}, self.after or {}
        return {name for name in {*before, *after} if before.get(name) != after.get(name)}

    def is_of(self, organization: str, column: str = "org_id") -> bool:
        return all(row[column] == organization for row in (self.before, self.after) if row is not None)

    def one(self, column: str) -> Any:
        row = self.before or self.after or {}
        return row[column]

    def only(self, *columns: str) -> bool:
        return self.kind == "changed" and self.columns <= set(columns)

    def __str__(self) -> str:
        if self.kind != "changed":
            return f"{self.table} {self.kind}: {self.before or self.after}"
        before, after = self.before or {}, self.after or {}
        told = {name: (before.get(name), after.get(name)) for name in sorted(self.columns)}
        return f"{self.table} changed: {told} of {before}"


def changes(before: State, after: State, keys: Mapping[str, list[str]]) -> list[Change]:
    old, new = (
        {(table, tuple(str(row.get(name)) for name in keys.get(table, row))): row for table, row in _decoded(rows)}
        for rows in (before - after, after - before)
    )
    return [Change(at[0], old.get(at), new.get(at)) for at in {**old, **new}]


def _decoded(rows: Iterable[tuple[str, str]]) -> Iterable[tuple[str, Row]]:
    return ((table, json.loads(text)) for table, text in rows)


class Accounts:
    """The owners of the accounts, in one state of the database."""

    def __init__(self, state: State) -> None:
        self.tables: dict[str, list[Row]] = {table: [] for table in _ACCOUNTS}
        for table, row in _decoded(one for one in state if one[0] in self.tables):
            self.tables[table].append(row)
        self.users = {row["id"]: row for row in self.tables["users"]}
        self.roles = {(row["org_id"], row["user_id"]): row["role"] for row in self.tables["memberships"]}
        mighty = {row["role_id"] for row in self.tables["relations"] if row["role_id"] is not None and row["relation"] not in _PLAIN}
        self._running = {
            (row["organization_id"], row["user_id"])
            for row in self.tables["relations"]
            if row["user_id"] is not None and (row["relation"] not in _PLAIN or row["object_id"] in mighty)
        }
        self.sessions = {row["id"]: row for row in self.tables["sessions"]}
        self.entries = {row["id"]: row for row in self.tables["audit_entries"]}

    def known(self, organization: str) -> set[str]:
        """The accounts that the organization's directory knows."""
        return {
            row["user_id"] for table in ("memberships", "provisioned_users") for row in self.tables[table] if row["org_id"] == organization
        }

    def said(self, organization: str) -> str:
        """All kept data that the organization's directory has sent."""
        kept = [row for table in ("provisioned_users", "scim_groups") for row in self.tables[table] if row["org_id"] == organization]
        return "\n".join(str(value) for row in kept for name, value in row.items() if name != "user_id")

    def is_barred(self, user: str) -> bool:
        """Whether the platform has deactivated the account."""
        return self.users[user]["deactivated_at"] is not None and self.users[user]["deactivated_by"] is None

    def runs(self, organization: str, user: str) -> bool:
        return (organization, user) in self._running

    def listed(self, organization: str, asking: Collection[str]) -> set[str]:
        """Accounts of which another organization has anything. Those that ask at the same moment may give theirs up meanwhile."""
        return {
            row["user_id"]
            for table in ("memberships", "provisioned_users", "service_users")
            for row in self.tables[table]
            if row["org_id"] not in {organization, *(asking if table != "service_users" else ())}
        }

    def own(self, organization: str) -> set[str]:
        """Accounts that this organization has made, and that nobody else holds; except those of people who run the organization."""
        held = {row["user_id"] for row in self.tables["held_accounts"]}
        return {
            row["id"]
            for row in self.tables["users"]
            if row["origin_org_id"] == organization
            and not row["is_platform_owner"]
            and (row["deactivated_at"] is None or row["deactivated_by_org_id"] == organization)
            and row["id"] not in held
            and not self.runs(organization, row["id"])
        }


class Territory:
    """The changes that one organization's directory may have made between two states."""

    def __init__(
        self,
        organization: str,
        before: Accounts,
        after: Accounts,
        asking: Collection[str],
        mail_of: Callable[[Row], tuple[str | None, str | None]],
    ) -> None:
        self.organization = organization
        self._mail_of = mail_of
        self._before = before
        self._after = after
        self._own = before.own(organization)
        self._listed = before.listed(organization, asking)
        self._known = before.known(organization)
        # Other organizations' data about an address are forgotten with the account if the person has proved the address, now or earlier
        # (0055).
        users, self._gone = before.users, self._own - after.users.keys()
        gone = self._gone
        self._forgotten = {users[user]["email_key"] for user in gone if users[user]["email_verified_at"] is not None}
        self._forgotten |= {row["email_key"] for row in before.tables["former_addresses"] if row["user_id"] in gone}
        self._services = {row["id"] for row in before.tables["all_services"] if row["org_id"] == organization}
        # Where others had listed a person whose account is gone, the place goes, and is counted.
        self._losing = {row["org_id"] for row in before.tables["memberships"] if row["user_id"] in gone}
        self._services |= {row["service_id"] for row in before.tables["service_users"] if row["user_id"] in gone}

    def allows(self, one: Change) -> bool:
        rule = getattr(self, f"_{one.table}", None)
        if rule is not None:
            return bool(rule(one))
        if one.table in _OF_PERSON:
            return self._of_person(one)
        return one.table in _ADDED and one.kind == "added"

    def _jobs(self, one: Change) -> bool:
        """Mails for an account are removed with the account, and so are mails to an address that the person has proved."""
        if one.kind != "removed" or one.one("sealed_payload") is None:
            return one.kind == "added"
        account, address = self._mail_of(one.before or {})
        return account in self._gone or address in self._forgotten

    def _was_disowned(self, user: str) -> bool:
        account = self._before.users.get(user)
        return (
            account is not None and account["email_verified_at"] is None and account["deactivated_at"] is None and user not in self._known
        )

    def _of_person(self, one: Change) -> bool:
        user = one.one(_OF_PERSON[one.table])
        if _OF_PERSON[one.table] == "session_id":
            session = self._before.sessions.get(user)
            if session is None:
                return False
            if self._inside(session):
                return True
            user = session["user_id"]
        return one.kind != "added" and (user in self._own or (one.table in _DISOWNED and self._was_disowned(user)))

    def _inside(self, session: Row) -> bool:
        """Sessions that were opened in the organization or in its services, by people who do not run the organization."""
        return session["organization_id"] == self.organization and not self._before.runs(self.organization, session["user_id"])

    def _sessions(self, one: Change) -> bool:
        if one.before is not None and self._inside(one.before) and one.only("revoked_at"):
            return True
        return self._of_person(one)

    def _users(self, one: Change) -> bool:
        before, after = one.before, one.after
        if before is None:
            assert after is not None
            plain = (after["origin_org_id"], after["is_platform_owner"], after["password_hash"], after["email_verified_at"])
            return plain == (self.organization, False, None, None) and after["origin_service_id"] is None
        if before["id"] in self._own:
            return self._own_user(one, before)
        if after is None:
            return False
        if self._was_disowned(before["id"]):
            return one.only("password_hash", "password_changed_at", "pending_email", "pending_email_key", "origin_service_id", "updated_at")
        # A directory's deactivation ends when it adds the person again. If nobody has proved the address, any directory may do so.
        may_lift = before["deactivated_by_org_id"] is not None and before["email_verified_at"] is None
        may_lift |= before["deactivated_by_org_id"] == self.organization
        lifted = may_lift and after["deactivated_at"] is None and after["deactivated_by_org_id"] is None
        return lifted and one.only("deactivated_at", "deactivated_by_org_id", "deactivated_by", "updated_at")

    def _own_user(self, one: Change, before: Row) -> bool:
        """A directory can prove no address and choose no password, and both are removed when the address changes. A proved address, and
        what another organization has of the person, keep the account from being moved.
        """
        after = one.after
        if after is None:
            return True
        is_moved = after["email_key"] != before["email_key"]
        proofs = {None} if is_moved else {None, before["password_hash"], before["email_verified_at"]}
        may_move = (before["email_verified_at"] is None and before["id"] not in self._listed) or not is_moved
        return may_move and one.only(*_OWN_USER) and {after["password_hash"], after["email_verified_at"]} <= proofs

    def _goes_along(self, one: Change) -> bool:
        return one.after is None and one.one("user_id") in self._gone

    def _memberships(self, one: Change) -> bool:
        if self._goes_along(one):
            return True
        if not one.is_of(self.organization):
            return False
        if one.before is not None and one.after is not None:
            # An account with a new address has confirmed nothing yet.
            user = one.before["user_id"]
            keys = [accounts.users[user]["email_key"] for accounts in (self._before, self._after)]
            return user in self._own and keys[0] != keys[1] and one.only("own_since") and one.after["own_since"] is None
        return one.one("role") == "member" if one.after is not None else not self._before.runs(self.organization, one.one("user_id"))

    def _member_words(self, one: Change) -> bool:
        """The words of the organization's own members, and those that follow an account of its own to other places."""
        users = {
            row["user_id"]
            for state in (self._before, self._after)
            for row in state.tables["memberships"]
            if row["id"] == one.one("membership_id")
        }
        return one.kind != "changed" and (one.is_of(self.organization) or users <= self._own)

    def _relations(self, one: Change) -> bool:
        if self._goes_along(one):
            return True
        if one.kind == "changed" or not one.is_of(self.organization, "organization_id"):
            return False
        if one.after is not None:
            return (one.after["relation"], one.after["object_id"]) == ("member", self.organization)
        return one.one("user_id") is not None and not self._before.runs(self.organization, one.one("user_id"))

    def _all_organizations(self, one: Change) -> bool:
        return one.one("id") in {self.organization, *self._losing} and one.only("member_count")

    def _invitations(self, one: Change) -> bool:
        """Invitations to people who leave end."""
        if one.kind != "changed" or one.before is None or one.after is None or one.after["status"] != "cancelled":
            return False
        return one.is_of(self.organization) or (one.before["email_key"] in self._forgotten and one.after["email"] == NOBODY)

    def _provisioned_users(self, one: Change) -> bool:
        return one.is_of(self.organization) or self._goes_along(one)

    def _scim_groups(self, one: Change) -> bool:
        return one.is_of(self.organization)

    def _former_members(self, one: Change) -> bool:
        """The mark of a former member is removed with the account, too."""
        return one.is_of(self.organization) or (one.after is None and one.one("user_id") in self._own)

    def _join_requests(self, one: Change) -> bool:
        if one.one("user_id") in self._own and one.after is None:
            return True
        return one.is_of(self.organization) and one.only("status", "decided_at") and (one.after or {})["status"] == "approved"

    def _scim_exchanges(self, one: Change) -> bool:
        """The kept exchanges are written later, so they may belong to another directory."""
        return one.kind != "changed"

    def _all_services(self, one: Change) -> bool:
        return one.one("id") in self._services and one.only("user_count")

    def _service_user_marks(self, one: Change) -> bool:
        return one.one("service_id") in self._services

    def _record(self, one: Change) -> bool:
        if one.kind != "added":
            return False
        told, about = one.one("organization_id"), one.one("target_id") if one.one("target_type") == "user" else None
        return told in {None, self.organization} or about in self._gone or (about is not None and self._was_disowned(about))

    _audit_entries = _record

    def _events(self, one: Change) -> bool:
        return self._record(one) or (one.only("personal") and self._may_forget(one.one("organization_id"), one))

    def _audit_personal(self, one: Change) -> bool:
        if one.kind == "added":
            return True
        entry = self._before.entries.get(one.one("entry_id")) or self._after.entries[one.one("entry_id")]
        return one.after is None and self._may_forget(entry["organization_id"], Change("audit_entries", entry, entry))

    def _may_forget(self, organization: str | None, told: Change) -> bool:
        """Whether an entry may be forgotten: it is about a deleted person, or it is the organization's own."""
        about = told.one("target_id")
        invited = {row["id"] for row in self._before.tables["invitations"] if row["email_key"] in self._forgotten}
        return organization == self.organization or about in self._own or about in invited

    def _privacy_requests(self, one: Change) -> bool:
        return one.one("user_id") in self._own or one.one("user_id") not in self._before.users

    _former_addresses = _privacy_requests


def ways_left_behind(before: Accounts, after: Accounts) -> list[str]:
    """Ways to sign in that must be removed when the address changes, and are still there."""
    keys = {user: row["email_key"] for user, row in before.users.items()}
    moved = {user for user, row in after.users.items() if keys.get(user, row["email_key"]) != row["email_key"]}
    return [
        f"{row['user_id']} has kept one of their {table}"
        for table in ("passkeys", "identities", "sessions")
        for row in after.tables[table]
        if row["user_id"] in moved and row.get("revoked_at") is None
    ]


def faults_within(accounts: Accounts, tables: State) -> list[str]:
    """Faults in one state of the database, regardless of their cause."""
    found: list[str] = []
    members: dict[str, list[Row]] = {}
    for row in accounts.tables["memberships"]:
        members.setdefault(row["org_id"], []).append(row)
    for one in accounts.tables["all_organizations"]:
        here = members.get(one["id"], [])
        if [row["user_id"] for row in here if row["role"] == "owner"] != [one["owner_user_id"]]:
            found.append(f"{one['slug']} has not exactly its owner")
        if one["member_count"] != len(here):
            found.append(f"{one['slug']} counts {one['member_count']} members of {len(here)}")
    related = {
        (row["organization_id"], row["user_id"])
        for table, row in _decoded(one for one in tables if one[0] == "relations")
        if row["user_id"]
    }
    if related != set(accounts.roles):
        found.append(f"members and relations differ: {related ^ set(accounts.roles)}")
    found += [
        f"is_member is wrong: {row}"
        for row in accounts.tables["provisioned_users"]
        if row["is_member"] is not ((row["org_id"], row["user_id"]) in accounts.roles)
    ]
    for session in accounts.tables["sessions"]:
        user = accounts.users[session["user_id"]]
        if session["revoked_at"] is None and user["deactivated_by_org_id"] is not None:
            found.append(f"somebody whom a directory has deactivated has a session: {user['email']}")
    for request in accounts.tables["join_requests"]:
        user = accounts.users[request["user_id"]]
        if request["status"] == "pending" and (user["email_verified_at"] is None or Email(request["email"]).key != user["email_key"]):
            found.append(f"a request to join is of an address that is not the account's any more: {request['email']}, {user['email']}")
    return found
