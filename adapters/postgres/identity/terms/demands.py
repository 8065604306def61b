"""Parts for any statement: whether somebody has to accept terms before they go further. `organizations.asks_terms` is read with a row that
the statement reads anyway, so where nobody asks for terms, no part calls a function.
"""

from typing import Final, LiteralString

from adapters.postgres.identity.proofs.sign_in_policy import ADMITS_ANYBODY


def terms_due(person: LiteralString) -> LiteralString:
    """Until when the person may go on without accepting; null if nothing is missing. The statement reads `organizations`, whose row may be
    missing.
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
