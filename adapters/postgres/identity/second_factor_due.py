"""When the members of an organization have to have a second factor, as a part of any statement that meets them."""

from typing import Final, LiteralString


def second_factor_due(person: LiteralString) -> LiteralString:
    """When the grace period ends, or ended, of a member who has no second factor although the organization requires one; null for all
    others. The statement reads `organizations` and `memberships`, of which a row may be missing. Nobody's second factor is looked for as
    long as there is no rule.

    It is one look into an index for each row: a condition with `exists` could become a scan of everybody's.

    `person` is who would have to give it: the member, or a platform owner who acts in the member's name.
    """
    return f"""
           case
               when organizations.mfa_required_since is not null and memberships.user_id is not null
                and (select mfa_secrets.enabled_at from mfa_secrets where mfa_secrets.user_id = {person} limit 1) is null
               then greatest(organizations.mfa_required_since, memberships.created_at) + organizations.mfa_grace_days * interval '1 day'
           end"""


def second_factor_due_in(organization: LiteralString, person: LiteralString) -> LiteralString:
    """The same for a statement that reads neither: for this person in this organization."""
    return f"""(
               select {second_factor_due(person)}
                 from organizations
                 join memberships on memberships.org_id = organizations.id and memberships.user_id = {person}
                where organizations.id = {organization}
           )"""


# Who acts in a session.
ACTING: Final = "coalesce(sessions.impersonator_id, sessions.user_id)"

# The grace period is over.
OWES_SECOND_FACTOR: Final[LiteralString] = f"coalesce({second_factor_due(ACTING)} <= now(), false)"
