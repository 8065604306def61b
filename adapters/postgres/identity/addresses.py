"""SQL parts about email addresses: whether one is verified or only asserted by an identity provider, and the domains that an organization
has verified.
"""

from typing import Final, LiteralString

# Before a statement that writes people and the identities by which an organization's own providers know them, in one transaction: whether
# their addresses are proved is what the rows say. The trigger `identities_vouch` would take such identities for those of a process of the
# release before, which writes that a provider's word proves an address.
BRINGS_PROOFS: Final = "select set_config('postern.brings_proofs', 'yes', true)"


def is_proved(person: LiteralString = "users") -> LiteralString:
    """A condition on a row of `users`: somebody has proved that they read the mailbox, or a provider of the installation has.

    `core.domain.identity.upstream.claims` defines for which purpose an asserted address is enough; each statement states by one of these
    functions which of the two it requires.
    """
    return f"{person}.email_verified_at is not null"


def is_unproved(person: LiteralString = "users") -> LiteralString:
    """Nobody has proved the address. An organization's own provider may have vouched for it."""
    return f"{person}.email_verified_at is null"


def nobody_knows(person: LiteralString = "users") -> LiteralString:
    """Nobody has proved the address, and no provider has vouched for it."""
    return f"({person}.email_verified_at is null and {person}.address_vouched_by is null)"


def is_vouched(person: LiteralString = "users") -> LiteralString:
    """Nobody has proved the address, and an organization's own provider has vouched for it."""
    return f"({person}.email_verified_at is null and {person}.address_vouched_by is not null)"


def may_answer(organization: LiteralString, person: LiteralString = "users") -> LiteralString:
    """Whether the person may accept or confirm a membership in this organization: their address is proved, or a provider of this very
    organization has opened the session in the parameter `session`. Without a session, the person has used a mailed link, which proves it.
    """
    return f"""(
               {person}.email_verified_at is not null or %(session)s::uuid is null
            or exists (
                   select
                     from sessions
                     join upstream_providers as providers on providers.id = sessions.opened_through
                    where sessions.id = %(session)s and sessions.user_id = {person}.id and sessions.impersonator_id is null
                      and providers.org_id = {organization}
               )
           )"""


def is_vouched_by(organization: LiteralString, person: LiteralString = "users") -> LiteralString:
    """Whether a provider of this very organization has vouched for the address. False for an address that is proved: who has proved it
    tells an organization nothing about a person whom it only lists.
    """
    return f"coalesce(split_part({person}.address_vouched_by, '/', 1) = {organization}::text, false)"


def is_verified_for(organization: LiteralString, person: LiteralString = "users") -> LiteralString:
    """Whether the address counts as verified towards this organization: it is proved, or a provider of this organization has vouched for
    it. False without an organization, unless the address is proved.
    """
    return f"({person}.email_verified_at is not null or {is_vouched_by(organization, person)})"


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
