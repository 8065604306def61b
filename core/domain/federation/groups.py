"""Groups: an application can derive rights in its own house from them. OpenID Connect and SAML use the same groups."""

from collections.abc import Sequence


def groups(organization_slug: str, role: str) -> Sequence[str]:
    """The person's role in the organization of the service, as a group. The group names the organization, since an application may serve
    several. A person who is no member has no group.
    """
    return [f"{organization_slug}/{role}"] if role else []
