"""Own ties and listed ones, as parts of statements. An organization can list anybody as a member: through its directory, through an
invitation that somebody else accepts for the person, or through an API key. A tie that the person did not make themselves does not count as
consent, gives no rights over the person elsewhere, and brings no news of the person. `Membership`, in the domain, explains the idea.

Other statements read ties without asking who made them, for one of four reasons. Inside the organization and its services, every tie
counts: `callers`, the sign-in policy, `second_factor_due`, `session_hours`. A tie holds the account against *other* tenants:
`identity/privacy/forgetting`. The platform's owners see everything: `platform`. And the person sees where organizations list them.
"""

from typing import Final, LiteralString

# A condition on a row of `memberships`: the person founded the organization, or accepted or confirmed the membership.
IS_OWN_MEMBERSHIP: Final = "memberships.own_since is not null"

# A condition on a row of `service_users`: the person consented, or signed in where the page named the service. Using a service does not
# turn a listed membership into an own one.
IS_OWN_USE: Final = "service_users.own_since is not null"


# A condition on a row of `memberships`: the person is the owner, because others made them the owner, and has not confirmed that. See
# `UnconfirmedOwnership`. Without `offset 0`, the planner reads all ownerships at once.
IS_UNCONFIRMED_OWNER: Final = """(
               memberships.role = 'owner' and exists (
                   select from ownerships where ownerships.membership_id = memberships.id and ownerships.confirmed_at is null
                   offset 0
               )
           )"""


def counts_for(person: LiteralString = "users") -> LiteralString:
    """A condition on a row of `memberships`: what an organization lists for the owner of an address opens nothing to whoever came only by
    the word of another organization's provider. See `core.domain.identity.upstream.claims`.
    """
    return f"""(
               {person}.address_vouched_by is null or {IS_OWN_MEMBERSHIP}
            or split_part({person}.address_vouched_by, '/', 1) = memberships.org_id::text
           )"""


# A condition on rows of `users` and `services`: the person is a member of the service's organization, for `admits`.
IS_MEMBER_HERE: Final[LiteralString] = f"""exists (
               select from memberships where memberships.org_id = services.org_id and memberships.user_id = users.id and {counts_for()}
           )"""


def is_own_member(organization: LiteralString, person: LiteralString) -> LiteralString:
    """Whether the person is a member by their own act, for a statement that does not read `memberships`. Without `offset 0`, a
    long list of people makes the planner read the whole table.
    """
    return f"""exists (
               select from memberships
                where memberships.org_id = {organization} and memberships.user_id = {person} and {IS_OWN_MEMBERSHIP}
               offset 0
           )"""


def is_listed(person: LiteralString) -> LiteralString:
    """Whether any organization lists this person as a member without the person's confirmation. An organization that is being deleted
    counts too: the page that asks the person reads the list itself.
    """
    return f"exists (select from memberships where memberships.user_id = {person} and not ({IS_OWN_MEMBERSHIP}) offset 0)"


def has_come(use: LiteralString = "service_users") -> LiteralString:
    """A condition on a row of `service_users`: the person has told the service, or its organization, who they are. Either they consented,
    or they signed in where the page named the service, or they became a member by their own act.
    """
    member = is_own_member(f"{use}.org_id", f"{use}.user_id")
    return f"({use}.own_since is not null or {use}.first_login_at is not null and {member})"


def shown_name(person: LiteralString) -> LiteralString:
    """The name by which others know the person of this row of `users`: see `core.domain.identity.profiles.shown_name`. Whether the
    reader may know the person is not asked here.
    """
    return f"coalesce({person}.name, nullif(concat_ws(' ', {person}.given_name, {person}.family_name), ''))"


def has_name(person: LiteralString) -> LiteralString:
    """Whether there is anything to show, for statements that must ask first whether the reader may see it."""
    return f"num_nonnulls({person}.name, {person}.given_name, {person}.family_name) > 0"


def may_know_of_failures(organization: LiteralString, service: LiteralString, person: LiteralString) -> LiteralString:
    """Whether the organization sees failed attempts of this person at its service: see `core.usecases.identity.login_events.audience`."""
    return f"""(
               exists (
                   select from service_users
                    where service_users.service_id = {service} and service_users.user_id = {person} and {has_come()}
               )
            or {is_own_member(organization, person)}
           )"""


def may_see_name(organization: LiteralString, person: LiteralString) -> LiteralString:
    """Whether the organization sees the person's name of today: of its own members, and of people who came to its services by themselves
    (0017).
    """
    return f"""(
               {is_own_member(organization, person)}
            or exists (
                   select from service_users
                    where service_users.user_id = {person} and service_users.org_id = {organization} and {has_come()}
                   offset 0
               )
           )"""


# The update for a person who returns to a service, after `on conflict (service_id, user_id) do update set`. The first sign-in stays the
# first, and a tie that the person made their own stays their own.
ENTERED_AGAIN: Final = """
                    first_login_at = coalesce(service_users.first_login_at, excluded.first_login_at),
                    last_login_at = greatest(service_users.last_login_at, excluded.last_login_at),
                    own_since = coalesce(service_users.own_since, excluded.own_since)
"""
