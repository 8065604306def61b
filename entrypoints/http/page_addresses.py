"""The addresses of pages that a route names, or a page of another package: who leads to a page does not import what makes it."""

from typing import Final

# Of one's own account.
PASSWORD: Final = "/ui/password"  # noqa: S105 - the address of a page
PASSKEYS: Final = "/ui/passkeys"
ADD_PASSKEY: Final = f"{PASSKEYS}/add"
ORGANIZATIONS: Final = "/ui/organizations"
LINK_REQUEST: Final = "/ui/connect/{provider}/{request}"
"""The page on which a person answers whether to connect an account at a provider."""

# Of the installation.
PLATFORM_HOME: Final = "/ui/platform"
GOVERNED_ORGANIZATIONS: Final = f"{PLATFORM_HOME}/organizations"
GOVERNED_ORGANIZATION: Final = f"{GOVERNED_ORGANIZATIONS}/{{org_id}}"
GOVERNED_PEOPLE: Final = f"{PLATFORM_HOME}/people"
GOVERNED_PERSON: Final = f"{GOVERNED_PEOPLE}/{{user_id}}"
PROVIDERS: Final = f"{PLATFORM_HOME}/providers"
