"""People's own accounts, and how they sign in."""

from typing import Final

from entrypoints.http.machinery.endpoints import Endpoints
from entrypoints.http.routes.identity import (
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
    sign_in,
)

ROUTES: Final = Endpoints.of(
    accounts, identities, devices, mfa, own_terms, passkeys, pictures, sign_in, impersonation, mail_budgets, privacy
)
