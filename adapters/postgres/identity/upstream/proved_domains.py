"""The domains that an organization has proved, as a part of any statement."""

from typing import LiteralString


def proved_domains(organization: LiteralString) -> LiteralString:
    """An array of the domains that the organization has proved as its own, or for a route. They are in ASCII, as `mail_domain` returns
    the domain of an address.
    """
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
