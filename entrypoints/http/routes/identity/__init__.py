"""People's own accounts, and how they sign in."""

from typing import Final

from entrypoints.http.machinery.endpoints import Endpoints
from entrypoints.http.routes.identity import (
    account_locks,
    account_passwords,
    accounts,
    devices,
    identities,
    impersonation,
    mail_budgets,
    mfa,
    own_terms,
    passkeys,
    pictures,
    privacy,
    provider_tokens,
    realms,
    reauthentication,
    sessions,
    sign_in,
    sign_in_links,
)

ROUTES: Final = Endpoints.of(
    accounts,
    account_passwords,
    account_locks,
    identities,
    provider_tokens,
    devices,
    mfa,
    own_terms,
    passkeys,
    pictures,
    sign_in,
    sign_in_links,
    realms,
    sessions,
    reauthentication,
    impersonation,
    mail_budgets,
    privacy,
)
