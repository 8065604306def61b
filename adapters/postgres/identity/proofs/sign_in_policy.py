"""The SQL that decides who may sign in to a service. The rule of the domain is `SignInPolicy.admits`; a test compares the two."""

from typing import Final, LiteralString

# A condition on `services`: nobody has decided whom the application lets in.
ADMITS_ANYBODY: Final = "services.sign_in_policy = 'anyone'"
# A condition on `services`: the application lets nobody in who holds none of its roles.
ASKS_FOR_ROLE: Final = "services.sign_in_policy = 'assigned'"


def assignments_of(person: LiteralString, organization: LiteralString, service: LiteralString) -> LiteralString:
    """A source of rows: the assignments, among `relations`, by which the person holds roles of the organization's service. Their
    `object_id` is the role. The arguments are expressions of ids. The rule stands in the schema, in the function of this name.

    A role that is given to everybody has no assignment, so it opens no service.
    """
    return f"held_service_roles({person}, {organization}, {service})"


def is_assigned(person: LiteralString) -> LiteralString:
    """A condition on a row of `services`: the service asks for an assigned role, and the person holds one."""
    return f"""
        case services.sign_in_policy
            when 'assigned' then holds_service_role({person}, services.org_id, services.id)
            else false
        end"""


def admits(is_member: LiteralString, person: LiteralString) -> LiteralString:
    """A condition on a row of `services`. `is_member` is a condition: the person is a member of the service's organization, by their own
    act or not. A statement that joins the membership passes a condition on the role; a statement that locks the membership passes a
    condition on the locked row. `person` is an expression of the person's id. Without a row of `services` it admits members alone.

    PostgreSQL looks at roles only if the service asks for one.
    """
    return f"""
        case services.sign_in_policy
            when 'anyone' then true
            when 'assigned' then holds_service_role({person}, services.org_id, services.id)
            else {is_member}
        end"""
