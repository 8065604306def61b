"""What holds an account besides one organization. That is no tenant's to say: other memberships, the services of others, another directory,
an organization that the person owns, the platform.
"""

from typing import Final, LiteralString

# Of a row of `users`.
HELD_BY_NOTHING_ELSE: Final[LiteralString] = """
               not users.is_platform_owner
           and not exists (select from memberships as others where others.user_id = users.id and others.org_id <> %(organization)s)
           and not exists (select from provisioned_users as others where others.user_id = users.id and others.org_id <> %(organization)s)
           and not exists (select from service_users where service_users.user_id = users.id and service_users.org_id <> %(organization)s)
           and not exists (select from all_organizations where all_organizations.owner_user_id = users.id)"""

# Nobody who registered by themselves, or was let in by a service.
BELONGS_HERE_ALONE: Final[LiteralString] = f"""
    select (users.origin_org_id is not distinct from %(organization)s or memberships.came_by = 'created') and {HELD_BY_NOTHING_ELSE} as yes
      from users
      join memberships on memberships.user_id = users.id and memberships.org_id = %(organization)s
     where users.id = %(user)s
"""
