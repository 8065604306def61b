"""Who may sign in to a service, as statements decide it. The rule of the domain is `SignInPolicy.admits`; a test compares the two."""

from typing import LiteralString


def admits(is_member: LiteralString) -> LiteralString:
    """Of a row of `services`. `is_member` says whether the person is a member of its organization, by their own act or not: a statement
    that joins the membership looks at its role, one that locks the membership looks at the row that it has locked. Without a row of
    `services` it is null for everybody but members.
    """
    return f"(services.sign_in_policy = 'anyone' or {is_member})"
