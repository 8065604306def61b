"""Options for decoding a JWT when the domain, and not the library, checks the claims."""

from typing import Any, Final

# The library checks the signature alone. The domain checks the claims, by the clock that the rest of the product uses.
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
