"""How a JWT is decoded whose claims the domain judges."""

from typing import Any, Final

# The signature alone: what the claims must say is a rule of the domain, by the clock that the rest of the product uses.
SIGNATURE_ALONE: Final[Any] = {
    "require": [],
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
}
