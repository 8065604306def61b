"""Own ties and listed ones, as statements ask. An organization can list anybody: by a directory, by an invitation accepted on behalf, by an
API key. A tie that the person did not make themselves is no consent, no rule over them elsewhere, and no news of them. `Membership`, in the
domain, tells the idea.

Other statements read ties without asking whose they are, for one of four reasons. Inside the organization and its services a tie counts
whoever made it: `callers`, the sign-in policy, `second_factor_due`, `session_hours`. A tie holds the account against *other* tenants:
`identity/privacy/holding`. The platform's owners see everything: `platform`. And the person themselves sees where they are listed.
"""

from typing import Final, LiteralString

# Of a row of `memberships`: the person founded, accepted or confirmed it.
IS_OWN_MEMBERSHIP: Final = "memberships.own_since is not null"

# Of a row of `service_users`: the person consented, or signed in where the service was named. A use makes no membership their own.
IS_OWN_USE: Final = "service_users.own_since is not null"


def is_own_member(organization: LiteralString, person: LiteralString) -> LiteralString:
    """For a statement that does not read `memberships`. Without `offset 0`, a long list of people would have the planner read all of it."""
    return f"""exists (
               select from memberships
                where memberships.org_id = {organization} and memberships.user_id = {person} and {IS_OWN_MEMBERSHIP}
               offset 0
           )"""


def is_listed(person: LiteralString) -> LiteralString:
    """Whether anybody lists this person as a member who has not confirmed it. Also where that organization is being deleted: whoever goes
    on looks at the list.
    """
    return f"exists (select from memberships where memberships.user_id = {person} and not ({IS_OWN_MEMBERSHIP}) offset 0)"


def has_come(use: LiteralString = "service_users") -> LiteralString:
    """Of a row of `service_users`: the person has told the service, or its organization, who they are. They consented, they signed in where
    the service was named, or they came as a member by their own act.
    """
    member = is_own_member(f"{use}.org_id", f"{use}.user_id")
    return f"({use}.own_since is not null or {use}.first_login_at is not null and {member})"


# A person comes back to a service, for `on conflict (service_id, user_id) do update set`: what was there first stays, and what they made
# their own remains theirs.
ENTERED_AGAIN: Final = """
                    first_login_at = coalesce(service_users.first_login_at, excluded.first_login_at),
                    last_login_at = greatest(service_users.last_login_at, excluded.last_login_at),
                    own_since = coalesce(service_users.own_since, excluded.own_since)
"""
