"""Requests to become a member, in PostgreSQL, and the facts that decide whether the domain of an address makes a person a member."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString

from adapters.postgres.branding import branded, bring, dress_of
from adapters.postgres.columns import Columns, IdRow, storable_text
from adapters.postgres.identity.accounts import ACCOUNT
from adapters.postgres.identity.sign_in_domains import awaits_role, was_turned_away
from adapters.postgres.statements import OnStatements, first
from adapters.postgres.tenancy.members import administrators
from core.domain.identifiers import JoinRequestId, OrganizationId, UserId
from core.domain.requests import Page
from core.domain.tenancy.domains import JoinPolicy
from core.domain.tenancy.join_requests import MOST_LISTED, Asking, JoinCandidate, JoinRequest, JoinRequestStatus, OwnJoinRequest
from core.domain.tenancy.tiers import user_limit
from ports.tenancy.receivers import Owner

JOIN_REQUEST: Final = Columns(JoinRequest, "join_requests", named={"organization": "org_id", "user": "user_id"}, prefix="request_")


def _about(columns: dict[str, Any]) -> Mapping[str, Any]:
    """A person, an organization, and the person's request there. The rest stays in `columns`."""
    return {
        "account": ACCOUNT.taken(columns),
        "branding": branded(columns.pop("org_name"), columns.pop("logo_digest"), columns.pop("primary_color"), columns.pop("dress")),
        "user_limit": user_limit(columns.pop("max_users"), columns.pop("default_max_users")),
        "request": JOIN_REQUEST.taken_or_none(columns),
    }


def _candidate(*, join_policy: str, **columns: Any) -> JoinCandidate:
    return JoinCandidate(policy=JoinPolicy(join_policy), **_about(columns), **columns)


def _asking(**columns: Any) -> Asking:
    return Asking(**_about(columns), **columns)


class JoinRequestRows(OnStatements):
    """Implements `ports.tenancy.members.JoinRequestStore`."""

    async def list(self, organization: OrganizationId, status: JoinRequestStatus | None, page: Page) -> Sequence[JoinRequest]:
        parameters = {
            "organization": organization,
            "status": None if status is None else status.value,
            "limit": page.limit,
            "offset": page.offset,
        }
        return await self._statements.ask(JOIN_REQUEST.row, _LISTS[status], parameters)

    async def list_own(self, user: UserId) -> Sequence[OwnJoinRequest]:
        return await self._statements.ask(OwnJoinRequest, _LIST_OWN, {"user": user, "limit": MOST_LISTED})

    async def find_candidate_for_update(self, user: UserId, domain: str) -> JoinCandidate | None:
        # The locks are separate statements. So the last one sees what others committed while the locks waited, above all the number of
        # members.
        parameters = {"user": user, "domain": storable_text(domain)}
        await self._statements.tell(_HOLD, parameters)
        await self._statements.tell(_HOLD_CANDIDATE, parameters)
        row = first(await self._statements.ask(dict[str, Any], _CANDIDATE, parameters))
        if row is None:
            return None
        await bring(self._statements, row["dress"])
        return _candidate(**row)

    async def add(self, request: JoinRequest) -> bool:
        return bool(await self._statements.ask(IdRow, _ADD, JOIN_REQUEST.values(request)))

    async def find(self, organization: OrganizationId, request: JoinRequestId) -> Asking | None:
        parameters = {"organization": organization, "id": request}
        await self._statements.tell(_HOLD_ASKING, parameters)
        row = first(await self._statements.ask(dict[str, Any], _FIND, parameters))
        if row is None:
            return None
        await bring(self._statements, row["dress"])
        return _asking(**row)

    async def close(self, request: JoinRequestId, status: JoinRequestStatus, by: UserId | None, at: datetime) -> None:
        await self._statements.tell(_CLOSE, {"id": request, "status": status.value, "by": by, "at": at})

    async def administrators(self, organization: OrganizationId) -> Sequence[Owner]:
        return await administrators(self._statements, organization)


_HOLD: Final = """
    select
      from organizations
     where id = (select org_id from domain_routes where domain = %(domain)s and verified_at is not null)
       for no key update
"""

# The address decides whether the person may join, so this lock keeps the account's address from changing. The account is locked before the
# request, because a change of address first locks the account and then ends the account's requests.
_HOLD_CANDIDATE: Final = "select from users where id = %(user)s for key share"
_HOLD_ASKING: Final = """
    select
      from users
     where id = (select user_id from join_requests where id = %(id)s and org_id = %(organization)s)
       for key share
"""

_ABOUT: Final[LiteralString] = f"""
           {ACCOUNT.names},
           organizations.name as org_name, organizations.logo_digest, organizations.primary_color,
           {dress_of("organizations")} as dress,
           organizations.member_count, organizations.max_users, tiers.default_max_users,
           {JOIN_REQUEST.names}"""

_CANDIDATE: Final[LiteralString] = f"""
    select {_ABOUT},
           organizations.id as organization, routes.domain, routes.join_policy,
           exists (
               select from memberships where memberships.org_id = organizations.id and memberships.user_id = users.id
           ) as is_member,
           {was_turned_away("organizations.id")} as was_turned_away,
           {awaits_role("organizations.id")} as awaits_role,
           (
               select others.created_at from join_requests as others where others.org_id = organizations.id order by others.id desc limit 1
           ) as told_at
      from domain_routes as routes
      join organizations on organizations.id = routes.org_id and organizations.status = 'active'
      join tiers on tiers.id = organizations.tier_id
      join users on users.id = %(user)s
      left join join_requests on join_requests.org_id = organizations.id and join_requests.user_id = users.id
     where routes.domain = %(domain)s and routes.verified_at is not null
"""

# Of two sign-ins at once, the second waits for the first's commit and then adds nothing.
_ADD: Final = """
    insert into join_requests (id, org_id, user_id, email, status, created_at)
    values (%(id)s, %(organization)s, %(user)s, %(email)s, 'pending', %(created_at)s)
        on conflict (org_id, user_id) do nothing
 returning id
"""

_FIND: Final[LiteralString] = f"""
    select {_ABOUT}, {awaits_role("organizations.id")} as awaits_role
      from join_requests
      join organizations on organizations.id = join_requests.org_id
      join tiers on tiers.id = organizations.tier_id
      join users on users.id = join_requests.user_id
     where join_requests.id = %(id)s and join_requests.org_id = %(organization)s
       for no key update of join_requests
"""

_CLOSE: Final = """
    update join_requests
       set status = %(status)s, decided_at = %(at)s, decided_by = %(by)s
     where id = %(id)s and status = 'pending'
"""

_PART: Final = "order by id desc limit %(limit)s offset %(offset)s"
_OF: Final[LiteralString] = f"select {JOIN_REQUEST.names} from join_requests where org_id = %(organization)s"
_LIST_CLOSED: Final[LiteralString] = f"{_OF} and status = %(status)s {_PART}"

# Each list reads an index: the index of all requests to the organization, or the index of its pending requests.
_LISTS: Final[Mapping[JoinRequestStatus | None, LiteralString]] = {
    None: f"{_OF} {_PART}",
    JoinRequestStatus.PENDING: f"{_OF} and status = 'pending' {_PART}",
    JoinRequestStatus.APPROVED: _LIST_CLOSED,
    JoinRequestStatus.DECLINED: _LIST_CLOSED,
}

_LIST_OWN: Final = """
    select organizations.name as organization_name, join_requests.created_at
      from join_requests
      join organizations on organizations.id = join_requests.org_id
     where join_requests.user_id = %(user)s and join_requests.status = 'pending' and organizations.status = 'active'
     order by join_requests.id desc
     limit %(limit)s
"""
