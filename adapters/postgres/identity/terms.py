"""Terms of the installation and of organizations in PostgreSQL, and whether a user has to accept them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from msgspec import convert

from adapters.postgres.columns import Columns, IdRow, array, storable_text
from adapters.postgres.identity.proofs.sign_in_policy import ADMITS_ANYBODY
from adapters.postgres.statements import OnStatements, first, only
from core.domain.identifiers import OrganizationId, TermsId, UserId
from core.domain.identity.terms import MOST_LISTED, Acceptance, AcceptedTerms, KeptTerms, OwnTerms, PendingTerms, TermsVersion
from core.frozen import Frozen


def terms_due(person: LiteralString) -> LiteralString:
    """Until when the person may go on without accepting; null if nothing is missing. The statement reads `organizations`, whose row may be
    missing.

    This part and the ones below may be part of any statement. They read `organizations.asks_terms` from a row that the statement reads
    anyway, so where no terms are in force, no part calls a function.
    """
    return f"case when organizations.asks_terms then terms_due({person}, organizations.id) end"


def terms_due_in(organization: LiteralString, person: LiteralString) -> LiteralString:
    """The same as a subquery, for a statement that does not read `organizations`."""
    return f"""(
               select case when asking.asks_terms then terms_due(asked.person, asking.id) end
                 from (select {organization} as organization, {person} as person) as asked
                 join organizations as asking on asking.id = asked.organization
           )"""


def time_is_over(due: LiteralString) -> LiteralString:
    """`due` is one of the above."""
    return f"coalesce({due} <= now(), false)"


# The person of a session. A platform owner who acts in somebody's name goes on: they cannot accept for the person, and nobody asks them.
OF_SESSION: Final = "case when sessions.impersonator_id is null then sessions.user_id end"
OWES_TERMS: Final[LiteralString] = time_is_over(
    "case when organizations.asks_terms and sessions.impersonator_id is null then terms_due(sessions.user_id, organizations.id) end"
)

# Conditions on a row of `organizations`. A tie has who is a member, listed or not, uses an application, or has accepted a version before.
_HAS_A_TIE: Final = """organizations.id in (
               select org_id from memberships where user_id = %(user)s
                union
               select org_id from service_users where user_id = %(user)s
                union
               select organization_id from terms_acceptances where user_id = %(user)s
           )"""
_LETS_ANYBODY_IN: Final = f"exists (select from services where services.org_id = organizations.id and {ADMITS_ANYBODY})"


def may_accept(is_named: LiteralString) -> LiteralString:
    """A condition on a row of `organizations`: the person may accept its terms, and reads them as theirs. Without a tie, somebody who names
    the organization may, if one of its applications lets anybody in: their first sign-in there may have to wait for the acceptance.
    `is_named` is a condition.
    """
    return f"(organizations.status = 'active' and ({_HAS_A_TIE} or {is_named} and {_LETS_ANYBODY_IN}))"


TERMS: Final = Columns(TermsVersion, "terms", named={"organization": "organization_id"}, texts=("version", "address"))


class _Due(Frozen):
    due: datetime | None


class _Own(Frozen):
    pending: Sequence[Mapping[str, Any]]
    accepted: Sequence[Mapping[str, Any]]


class _Pending(Frozen):
    pending: Sequence[Mapping[str, Any]] | None


def _kept(*, accepted: int, **columns: Any) -> KeptTerms:
    return KeptTerms(TERMS.row(**columns), accepted)


def pending_terms(found: Sequence[Mapping[str, Any]] | None) -> tuple[PendingTerms, ...]:
    """What the function `terms_pending` has found."""
    if not found:
        return ()
    named = ("organization_slug", "organization_name")
    return tuple(convert([{**one, **{name: one[name] or "" for name in named}} for one in found], list[PendingTerms]))


class TermsRows(OnStatements):
    """Implements `ports.identity.accounts.TermsStore`."""

    async def list(self, organization: OrganizationId | None) -> Sequence[KeptTerms]:
        return await self._statements.ask(_kept, _LIST, {"organization": organization})

    async def in_force(self, organization: str) -> Sequence[PendingTerms]:
        rows = await self._statements.ask(_Pending, _IN_FORCE, {"slug": storable_text(organization)})
        return pending_terms(only(rows).pending)

    async def own(self, user: UserId, named: str) -> OwnTerms:
        row = only(await self._statements.ask(_Own, _OWN, {"user": user, "named": storable_text(named), "most": MOST_LISTED}))
        return OwnTerms(pending_terms(row.pending), convert(row.accepted, list[AcceptedTerms]))

    async def pending(self, user: UserId, organization: OrganizationId | None) -> Sequence[PendingTerms]:
        rows = await self._statements.ask(_Pending, _PENDING, {"user": user, "organization": organization})
        return pending_terms(only(rows).pending)

    async def due(self, user: UserId) -> datetime | None:
        return only(await self._statements.ask(_Due, "select terms_due(%(user)s::uuid, null) as due", {"user": user})).due

    async def hold(self, organization: OrganizationId | None) -> Sequence[TermsVersion]:
        if organization is None:
            await self._statements.tell(_HOLD_INSTALLATION)
        return await self._statements.ask(TERMS.row, _HOLD, {"organization": organization})

    async def set(self, terms: TermsVersion) -> None:
        values = {**TERMS.values(terms), "organization": terms.organization}
        for statement in (_END_OTHERS, _PUT, _ASK):
            await self._statements.tell(statement, values)

    async def withdraw(self, organization: OrganizationId | None, at: datetime) -> TermsVersion | None:
        ended = first(await self._statements.ask(TERMS.row, _WITHDRAW, {"organization": organization, "at": at}))
        await self._statements.tell(_ASK, {"organization": organization})
        return ended

    async def hold_version(self, user: UserId, organization: str) -> TermsVersion | None:
        parameters = {"user": user, "slug": storable_text(organization)}
        for _ in range(2):
            # A statement that has waited for the end of a version does not see the next one: another statement does.
            held = await self._statements.ask(TERMS.row, _HOLD_VERSION, parameters)
            if held:
                return held[0]
        return None

    async def hold_shown(self, terms: Sequence[TermsId]) -> Sequence[TermsVersion]:
        return await self._statements.ask(TERMS.row, _HOLD_SHOWN, {"terms": array([str(one) for one in terms])})

    async def hold_own(self, user: UserId, terms: Sequence[TermsId], entered: OrganizationId | None) -> Sequence[TermsVersion]:
        parameters = {"user": user, "terms": array([str(one) for one in terms]), "entered": entered}
        return await self._statements.ask(TERMS.row, _HOLD_OWN, parameters)

    async def accept(self, accepted: Sequence[Acceptance]) -> Sequence[TermsId]:
        rows: list[IdRow] = []
        for one in sorted(accepted, key=lambda acceptance: str(acceptance.terms)):
            parameters = {"user": one.user, "terms": one.terms, "session": one.session, "at": one.at}
            rows += await self._statements.ask(IdRow, _ACCEPT, parameters)
        return [TermsId(UUID(str(row.id))) for row in rows]

    async def remove_all(self, user: UserId) -> None:
        await self._statements.tell("delete from terms_acceptances where user_id = %(user)s", {"user": user})


_OF_KEEPER: Final = "organization_id is not distinct from %(organization)s::uuid"

_LIST: Final[LiteralString] = f"""
    select {TERMS.names},
           (select count(*) from terms_acceptances as accepted where accepted.terms_id = terms.id)::int as accepted
      from terms
     where {_OF_KEEPER}
     order by ended_at desc nulls first, set_at desc, id desc
"""

_AS_PENDING: Final = """
                       jsonb_build_object(
                           'id', terms.id, 'organization', terms.organization_id, 'organization_slug', organizations.slug,
                           'organization_name', organizations.name, 'version', terms.version, 'address', terms.address,
                           'due_at', terms.due_at, 'is_over', terms.due_at <= now()
                       )
                       order by organizations.name nulls first, terms.id
"""

_IN_FORCE: Final[LiteralString] = f"""
    select jsonb_agg({_AS_PENDING}) as pending
      from terms
      left join organizations on organizations.id = terms.organization_id
     where terms.ended_at is null
       and (terms.organization_id is null or organizations.slug = %(slug)s and organizations.status = 'active')
"""

_PENDING: Final = "select terms_pending(%(user)s::uuid, %(organization)s::uuid) as pending"

_OWN: Final[LiteralString] = f"""
    select (
               select coalesce(jsonb_agg({_AS_PENDING}), '[]')
                 from terms
                 left join organizations on organizations.id = terms.organization_id
                where terms.ended_at is null
                  and (terms.organization_id is null or {may_accept("organizations.slug = %(named)s")})
                  and not exists (
                          select from terms_acceptances as accepted where accepted.user_id = %(user)s and accepted.terms_id = terms.id
                      )
           ) as pending,
           (
               select coalesce(
                          jsonb_agg(
                              jsonb_build_object(
                                  'organization_slug', coalesce(slug, ''), 'organization_name', coalesce(name, ''), 'version', version,
                                  'address', address, 'accepted_at', accepted_at, 'in_force', in_force
                              )
                              order by accepted_at desc, id desc
                          ),
                          '[]'
                      )
                 from (
                          select accepted.id, accepted.accepted_at, terms.version, terms.address, terms.ended_at is null as in_force,
                                 organizations.slug, organizations.name
                            from terms_acceptances as accepted
                            join terms on terms.id = accepted.terms_id
                            left join organizations on organizations.id = terms.organization_id
                           where accepted.user_id = %(user)s and (terms.organization_id is null or organizations.id is not null)
                           order by accepted.accepted_at desc, accepted.id desc
                           limit %(most)s
                      ) as mine
           ) as accepted
"""

# Organizations that are made now wait until the installation's terms are written, and then find them.
_HOLD_INSTALLATION: Final = "lock table all_organizations in share row exclusive mode"

_HOLD: Final[LiteralString] = f"select {TERMS.names} from terms where {_OF_KEEPER} order by set_at desc, id desc for no key update"

_END_OTHERS: Final[LiteralString] = f"update terms set ended_at = now() where {_OF_KEEPER} and ended_at is null and id <> %(id)s"

_PUT: Final = """
    insert into terms (id, organization_id, version, address, due_at, set_at, set_by)
    values (%(id)s, %(organization)s, %(version)s, %(address)s, %(due_at)s, %(set_at)s, %(set_by)s)
        on conflict (id) do update
       set due_at = excluded.due_at
"""

# Whether anything is asked for now, in the row that requests read.
_ASK: Final = """
    update all_organizations
       set asks_terms = exists (
               select from terms
                where terms.ended_at is null and (terms.organization_id is null or terms.organization_id = all_organizations.id)
           )
     where (%(organization)s::uuid is null or id = %(organization)s::uuid)
       and asks_terms <> exists (
               select from terms
                where terms.ended_at is null and (terms.organization_id is null or terms.organization_id = all_organizations.id)
           )
"""

_WITHDRAW: Final[LiteralString] = f"""
    update terms set ended_at = greatest(%(at)s, set_at) where {_OF_KEEPER} and ended_at is null
 returning {TERMS.names}
"""

# Whoever sets another version waits for the acceptance, or the acceptance waits and finds that this one has ended.
_HOLD_VERSION: Final[LiteralString] = f"""
    select {TERMS.names}
      from terms
     where ended_at is null
       and organization_id is not distinct from (select id from organizations where slug = %(slug)s and {may_accept("true")})
       and (%(slug)s = '') = (organization_id is null)
       for share
"""

_HOLD_SHOWN: Final[LiteralString] = f"""
    select {TERMS.names} from terms where id = any (%(terms)s::uuid[]) and ended_at is null order by id for share
"""

_HOLD_OWN: Final[LiteralString] = f"""
    select {TERMS.names}
      from terms
     where id = any (%(terms)s::uuid[])
       and (organization_id is null or organization_id = %(entered)s::uuid or exists (
               select from organizations where organizations.id = terms.organization_id and {may_accept("true")}
           ))
     order by id
       for share
"""

_ACCEPT: Final = """
    insert into terms_acceptances (user_id, terms_id, organization_id, accepted_at, session_id)
    select %(user)s, terms.id, terms.organization_id, %(at)s, %(session)s
      from terms
     where terms.id = %(terms)s
        on conflict (user_id, terms_id) do nothing
 returning terms_id as id
"""
