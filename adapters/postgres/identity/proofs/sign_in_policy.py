"""The SQL that decides who may sign in to a service. The rule of the domain is `SignInPolicy.admits`; a test compares the two."""

from typing import LiteralString


def admits(is_member: LiteralString) -> LiteralString:
    """A condition on a row of `services`. `is_member` is a condition: the person is a member of the service's organization, by their own
    act or not. A statement that joins the membership passes a condition on the role; a statement that locks the membership passes a
    condition on the locked row. Without a row of `services` the result is null for everybody but members.
    """
    return f"(services.sign_in_policy = 'anyone' or {is_member})"
