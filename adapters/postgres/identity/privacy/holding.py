"""What holds an account. Before a tenant moves, deactivates, deletes or forgets one, it is asked here whether anything holds it besides
what is the tenant's.
"""

from typing import Final, LiteralString

# Of a row of `users`. Whom a directory has deactivated it can bring back, so it holds them as long as it knows them. What is being deleted
# holds an account, too. `has_come` is false of somebody whom a service has added and who has not signed in to it.
TIES: Final[LiteralString] = """
               select 'membership' as kind, memberships.org_id, null::uuid as service_id, true as has_come
                 from memberships
                where memberships.user_id = users.id
                union all
               select 'directory', provisioned_users.org_id, null, true
                 from provisioned_users
                where provisioned_users.user_id = users.id
                union all
               select 'service', service_users.org_id, service_users.service_id, service_users.first_login_at is not null
                 from service_users
                where service_users.user_id = users.id
                union all
               select 'ownership', all_organizations.id, null, true
                 from all_organizations
                where all_organizations.owner_user_id = users.id
"""


def held_by(ties: LiteralString) -> LiteralString:
    """Whether one of these ties, or the platform, holds a row of `users`."""
    return f"(users.is_platform_owner or exists (select from ({TIES}) as ties where {ties}))"


# No tenant's to say, even of somebody who came to be through it.
HELD_BY_NOTHING_ELSE: Final[LiteralString] = "not " + held_by("ties.kind = 'ownership' or ties.org_id <> %(organization)s")

# Nobody who registered by themselves, or was let in by a service.
BELONGS_HERE_ALONE: Final[LiteralString] = f"""
    select (users.origin_org_id is not distinct from %(organization)s or memberships.came_by = 'created') and {HELD_BY_NOTHING_ELSE} as yes
      from users
      join memberships on memberships.user_id = users.id and memberships.org_id = %(organization)s
     where users.id = %(user)s
"""

# An address that somebody has proved is remembered when the account gives it up.
NOBODYS: Final[LiteralString] = f"""
    select users.email_verified_at is null and users.deactivated_at is null and not {held_by("true")}
           and not exists (select from former_addresses where former_addresses.user_id = users.id) as yes
      from users
     where users.id = %(user)s
"""
