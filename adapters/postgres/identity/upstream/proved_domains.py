"""Which domains an organization has proved, as a part of any statement."""

from typing import LiteralString


def proved_domains(organization: LiteralString) -> LiteralString:
    """As its own or for a route. In ASCII: which addresses they are of, `mail_domain` knows."""
    return f"""(
             select array_agg(proved.domain)
               from (
                        select domains.domain from domains where domains.org_id = {organization} and domains.verified_at is not null
                     union all
                        select domain_routes.domain
                          from domain_routes
                         where domain_routes.org_id = {organization} and domain_routes.verified_at is not null
                    ) as proved
         )"""
