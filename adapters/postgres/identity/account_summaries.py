"""Summaries of accounts in PostgreSQL. Each number comes from an index of the person's own rows."""

from datetime import UTC, datetime, timedelta
from typing import Final, LiteralString

from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.factors.mfa import second_factor_since
from adapters.postgres.statements import ask
from core.domain.email import Email
from core.domain.identifiers import UserId
from core.domain.identity.account_summaries import MOST_REQUIRING, AccountSummary, RequiringOrganization
from core.domain.identity.risk import FAILED_ATTEMPTS
from core.frozen import Frozen

_LATELY: Final = timedelta(days=7)


class _Summary(Frozen):
    email: str
    pending_email: str | None
    created_at: datetime
    has_password: bool
    password_changed_at: datetime | None
    second_factor_since: datetime | None
    has_authenticator: bool
    passkeys: int
    connections: int
    backup_codes: int
    devices: int
    sessions: int
    organizations: int
    invitations: int
    failed_sign_ins: int
    has_fields: bool
    requiring: list[tuple[str, float]]

    def summary(self) -> AccountSummary:
        return AccountSummary(
            email=Email(self.email),
            pending_email=None if self.pending_email is None else Email(self.pending_email),
            created_at=self.created_at,
            has_password=self.has_password,
            password_changed_at=self.password_changed_at,
            second_factor_since=self.second_factor_since,
            has_authenticator=self.has_authenticator,
            passkeys=self.passkeys,
            connections=self.connections,
            backup_codes=self.backup_codes,
            devices=self.devices,
            sessions=self.sessions,
            organizations=self.organizations,
            invitations=self.invitations,
            failed_sign_ins=self.failed_sign_ins,
            has_fields=self.has_fields,
            requiring=[RequiringOrganization(name, datetime.fromtimestamp(due, UTC)) for name, due in self.requiring],
        )


class PostgresAccountSummaries:
    """Implements `ports.identity.account_summaries.AccountSummaryLookup`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def find(self, user: UserId, now: datetime) -> AccountSummary | None:
        parameters = {"user": user, "now": now, "lately": now - _LATELY, "failures": [failure.value for failure in FAILED_ATTEMPTS]}
        parameters["most_requiring"] = MOST_REQUIRING
        rows = await ask(self._pool, _Summary, _FIND, parameters)
        return rows[0].summary() if rows else None


_FIND: Final[LiteralString] = f"""
    select users.email, users.pending_email, users.created_at, users.password_hash is not null as has_password, users.password_changed_at,
           {second_factor_since("users.id")} as second_factor_since,
           exists (select from mfa_secrets where user_id = users.id and enabled_at is not null) as has_authenticator,
           (select count(*) from passkeys where user_id = users.id) as passkeys,
           (select count(*) from backup_codes where user_id = users.id and used_at is null) as backup_codes,
           (select count(*) from devices where user_id = users.id and revoked_at is null) as devices,
           (
               select count(*)
                 from sessions
                where user_id = users.id and revoked_at is null and expires_at > %(now)s and ends_at > %(now)s
           ) as sessions,
           (
               exists (select from profile_fields where org_id is null)
            or exists (
                   select
                     from memberships
                     join profile_fields on profile_fields.org_id = memberships.org_id
                    where memberships.user_id = users.id
               )
            or exists (
                   select
                     from service_users
                     join profile_fields on profile_fields.org_id = service_users.org_id
                    where service_users.user_id = users.id
               )
           ) as has_fields,
           (
               select count(*)
                 from memberships
                 join organizations on organizations.id = memberships.org_id
                where memberships.user_id = users.id
           ) as organizations,
           (
               select count(*)
                 from invitations
                 join organizations on organizations.id = invitations.org_id
                where invitations.email_key = users.email_key and users.email_verified_at is not null
                  and invitations.status = 'pending' and invitations.expires_at > %(now)s and organizations.status = 'active'
           ) as invitations,
           (select count(*) from identities where user_id = users.id) as connections,
           (
               select count(*)
                 from (
                          select reason, created_at from login_events where user_id = users.id order by id desc limit 100
                      ) as latest
                where latest.created_at > %(lately)s and latest.reason = any (%(failures)s)
           ) as failed_sign_ins,
           coalesce((
               select jsonb_agg(jsonb_build_array(one.name, extract(epoch from one.due)) order by one.due)
                 from (
                          select organizations.name,
                                 greatest(organizations.mfa_required_since, memberships.created_at)
                                 + organizations.mfa_grace_days * interval '1 day' as due
                            from memberships
                            join organizations on organizations.id = memberships.org_id
                           where memberships.user_id = users.id and organizations.mfa_required_since is not null
                             and organizations.status = 'active'
                           order by due
                           limit %(most_requiring)s
                      ) as one
           ), '[]') as requiring
      from users
     where users.id = %(user)s
"""
