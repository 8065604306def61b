"""Which domains an organization has proved, for statements that have its id at hand, as `organization`."""

from typing import Final

# As its own or for a route. In ASCII: which addresses they are of, `mail_domain` knows.
PROVED_DOMAINS: Final = """(
             select array_agg(proved.domain)
               from (
                        select domains.domain from domains where domains.org_id = %(organization)s::uuid and domains.verified_at is not null
                     union all
                        select domain_routes.domain
                          from domain_routes
                         where domain_routes.org_id = %(organization)s::uuid and domain_routes.verified_at is not null
                    ) as proved
         )"""
