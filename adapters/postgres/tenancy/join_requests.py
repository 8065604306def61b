"""Requests to become a member, in PostgreSQL, and the facts that decide whether the domain of an address makes a person a member."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

from adapters.postgres.identity.accounts import ACCOUNT, AccountRow
from adapters.postgres.identity.realms.domains import awaits_role, was_turned_away
from adapters.postgres.rows import IdRow
from adapters.postgres.statements import Statements
from adapters.postgres.storable import storable_text
from adapters.postgres.tenancy.owners import administrators
from adapters.postgres.transaction import Transaction
from core.domain.branding import branding
from core.domain.email import Email
from core.domain.identifiers import JoinRequestId, OrganizationId, UserId
from core.domain.pages import Page
from core.domain.tenancy.domain_routes import JoinPolicy
from core.domain.tenancy.join_requests import MOST_LISTED, Asking, JoinCandidate, JoinRequest, JoinRequestStatus, OwnJoinRequest
from core.domain.tenancy.tiers import user_limit
from core.frozen import Frozen
from ports.tenancy.webhooks import Owner


class _Request(Frozen):
    id: UUID
    org_id: UUID
    user_id: UUID
    email: str
    status: str
    created_at: datetime
    decided_at: datetime | None
    decided_by: UUID | None

    def request(self) -> JoinRequest:
        return JoinRequest(
            id=JoinRequestId(self.id),
            organization=OrganizationId(self.org_id),
            user=UserId(self.user_id),
            email=Email(self.email),
            status=JoinRequestStatus(self.status),
            created_at=self.created_at,
            decided_at=self.decided_at,
            decided_by=None if self.decided_by is None else UserId(self.decided_by),
        )


class _About(AccountRow, kw_only=True):
    """A person, an organization, and the person's request there."""

    org_id: UUID
    org_name: str
    logo_digest: str | None
    primary_color: str | None
    member_count: int
    max_users: int | None
    default_max_users: int
    request_id: UUID | None
    request_email: str | None
    request_status: str | None
    requested_at: datetime | None
    decided_at: datetime | None
    decided_by: UUID | None

    def request(self) -> JoinRequest | None:
        if self.request_id is None or self.request_email is None or self.request_status is None or self.requested_at is None:
            return None
        row = _Request(
            self.request_id,
            self.org_id,
            self.id,
            self.request_email,
            self.request_status,
            self.requested_at,
            self.decided_at,
            self.decided_by,
        )
        return row.request()


class _Candidate(_About, kw_only=True):
    domain: str
    join_policy: str
    is_member: bool
    was_turned_away: bool
    awaits_role: bool
    told_at: datetime | None

    def candidate(self) -> JoinCandidate:
        return JoinCandidate(
            account=self.account(),
            organization=OrganizationId(self.org_id),
            branding=branding(self.org_name, self.logo_digest, self.primary_color),
            domain=self.domain,
            policy=JoinPolicy(self.join_policy),
            member_count=self.member_count,
            user_limit=user_limit(self.max_users, self.default_max_users),
            is_member=self.is_member,
            was_turned_away=self.was_turned_away,
            awaits_role=self.awaits_role,
            request=self.request(),
            told_at=self.told_at,
        )


class _Asking(_About, kw_only=True):
    awaits_role: bool

    def asking(self) -> Asking | None:
        request = self.request()
        if request is None:
            return None
        return Asking(
            request=request,
            account=self.account(),
            branding=branding(self.org_name, self.logo_digest, self.primary_color),
            member_count=self.member_count,
            user_limit=user_limit(self.max_users, self.default_max_users),
            awaits_role=self.awaits_role,
        )


class JoinRequestRows:
    """Implements `ports.tenancy.join_requests.JoinRequestStore`."""

    def __init__(self, statements: Statements | Transaction) -> None:
        self._statements = statements

    async def list(self, organization: OrganizationId, status: JoinRequestStatus | None, page: Page) -> Sequence[JoinRequest]:
        parameters = {
            "organization": organization,
            "status": None if status is None else status.value,
            "limit": page.limit,
            "offset": page.offset,
        }
        return [row.request() for row in await self._statements.ask(_Request, _LISTS[status], parameters)]

    async def list_own(self, user: UserId) -> Sequence[OwnJoinRequest]:
        return await self._statements.ask(OwnJoinRequest, _LIST_OWN, {"user": user, "limit": MOST_LISTED})

    async def hold_candidate(self, user: UserId, domain: str) -> JoinCandidate | None:
        # The locks are separate statements. So the last one sees what others committed while the locks waited, above all the number of
        # members.
        parameters = {"user": user, "domain": storable_text(domain)}
        await self._statements.tell(_HOLD, parameters)
        await self._statements.tell(_HOLD_CANDIDATE, parameters)
        rows = await self._statements.ask(_Candidate, _CANDIDATE, parameters)
        return rows[0].candidate() if rows else None

    async def add(self, request: JoinRequest) -> bool:
        parameters = {
            "id": request.id,
            "organization": request.organization,
            "user": request.user,
            "email": request.email.address,
            "created_at": request.created_at,
        }
        return bool(await self._statements.ask(IdRow, _ADD, parameters))

    async def find(self, organization: OrganizationId, request: JoinRequestId) -> Asking | None:
        parameters = {"organization": organization, "id": request}
        await self._statements.tell(_HOLD_ASKING, parameters)
        rows = await self._statements.ask(_Asking, _FIND, parameters)
        return rows[0].asking() if rows else None

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
           {ACCOUNT},
           organizations.id as org_id, organizations.name as org_name, organizations.logo_digest, organizations.primary_color,
           organizations.member_count, organizations.max_users, tiers.default_max_users,
           join_requests.id as request_id, join_requests.email as request_email, join_requests.status as request_status,
           join_requests.created_at as requested_at, join_requests.decided_at, join_requests.decided_by"""

_CANDIDATE: Final[LiteralString] = f"""
    select {_ABOUT},
           routes.domain, routes.join_policy,
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

_COLUMNS: Final = "id, org_id, user_id, email, status, created_at, decided_at, decided_by"
_PART: Final = "order by id desc limit %(limit)s offset %(offset)s"
_OF: Final[LiteralString] = f"select {_COLUMNS} from join_requests where org_id = %(organization)s"
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
