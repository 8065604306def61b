"""Groups: what an application makes rights of in its own house, by OpenID Connect and SAML alike."""

from collections.abc import Sequence


def groups(organization_slug: str, role: str) -> Sequence[str]:
    """The person's role in the organization of the service. It names the organization, since an application may serve several. Somebody who
    is no member has none.
    """
    return [f"{organization_slug}/{role}"] if role else []
