"""Redirect addresses of another system's client: the ones that a service may have, and the others with the reason why it may not."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from core.domain.errors import BadRequest
from core.domain.services.redirect_uris import redirect_uri
from core.frozen import Frozen

_ANY_PORT: Final = re.compile(r"(?P<host>http://(?:localhost|127\.0\.0\.1|\[::1\])):\*(?P<path>/[^*]*)?")
_PLACEHOLDER: Final = re.compile(r"##\w+##|@@\w+@@|\$\{|\$env\{")
_FIELD: Final = "redirect_uris"


class LostAddress(Frozen):
    address: str
    why: str


class Addresses(Frozen):
    kept: Sequence[str] = ()
    lost: Sequence[LostAddress] = ()
    takes_any_port: bool = False
    """An address on the person's device had a wildcard for its port, which installed applications need not name."""


def addresses(given: Iterable[str], root: str = "", *, is_public: bool = False, own_schemes: bool = True) -> Addresses:
    """`root` comes in front of addresses that begin with `/`. A public client may run on people's devices. `own_schemes` says whether an
    application may have a scheme of its own.
    """
    kept: dict[str, None] = {}
    lost: list[LostAddress] = []
    takes_any_port = False
    for one in dict.fromkeys(given):
        whole = f"{root.rstrip('/')}{one}" if one.startswith("/") and root else one
        on_device = _ANY_PORT.fullmatch(whole) if is_public else None
        try:
            for uri in [whole] if on_device is None else _of_any_port(on_device):
                kept[redirect_uri(uri, _FIELD, private_use=own_schemes)] = None
        except BadRequest as refusal:
            lost.append(LostAddress(whole, _why(whole, refusal)))
        else:
            takes_any_port = takes_any_port or on_device is not None
    return Addresses(tuple(kept), tuple(lost), takes_any_port)


def _of_any_port(found: re.Match[str]) -> Sequence[str]:
    host, path = found["host"], found["path"]
    # Programs that have no path of their own write the address with a slash or without.
    return [f"{host}{path}"] if path else [host, f"{host}/"]


def _why(address: str, refusal: BadRequest) -> str:
    if _PLACEHOLDER.search(address):
        return "it has a placeholder: write the address that stands for it"
    if "*" in address:
        return "there are no wildcards: write each address that the application uses"
    return refusal.message.removeprefix(f"{_FIELD}: ")
