"""Custom claims of an application, as members of its organization configure them. `core/domain/claims.py` issues them."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from core.domain.claims import ClaimPlace, ClaimSource, OrganizationPart, ServiceClaim, is_reserved
from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identifiers import ServiceClaimId, ServiceId
from core.domain.record.events import Actor, Event, Target
from core.domain.services.services import Service
from core.frozen import Frozen

MOST_CLAIMS: Final = 50
"""The limit of a service. A list shows all of its claims at once."""
LONGEST_CLAIM_NAME: Final = 200
LARGEST_CONSTANT: Final = 1024
"""In bytes of JSON."""
DEEPEST_CONSTANT: Final = 5
# Beyond this, programs that read numbers as floats no longer tell neighbours apart (RFC 8259 section 6).
_LARGEST_NUMBER: Final = 2**53 - 1
# URIs are names, too: receivers of assertions ask for them, and applications use them so that names never collide.
_CLAIM_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/#@~+-]{0,199}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")


class ConfiguredClaim(Frozen):
    """A claim as it is stored."""

    id: ServiceClaimId
    service: ServiceId
    claim: ServiceClaim
    created_at: datetime
    person_writes: bool | None = None
    """Whether the person may write the value of the field. Such a value proves nothing. None for a claim that is made of no field, and for
    a field that is gone.
    """


def checked_claim(claim: ServiceClaim) -> ServiceClaim:
    """Raises `BadRequest`."""
    if not _CLAIM_NAME.fullmatch(claim.name):
        raise BadRequest(
            f"name: 1 to {LONGEST_CLAIM_NAME} of A-Z, a-z, 0-9 and _.:/#@~+-, beginning with a letter, a digit or _",
            words="claim_name_malformed",
            values={"most": LONGEST_CLAIM_NAME},
        )
    if not claim.into or len(set(claim.into)) < len(claim.into):
        raise BadRequest(f"into: at least one of {', '.join(ClaimPlace)}, each once", words="tick_one")
    # An assertion has no protocol's names: its attributes are the receiver's own words.
    if is_reserved(claim.name) and claim.into != (ClaimPlace.SAML,):
        raise BadRequest(
            f"name: {claim.name!r} is reserved for Postern's own tokens and the standards; it is only allowed in saml",
            words="claim_name_reserved",
        )
    _require_argument(claim)
    return claim


def _require_argument(claim: ServiceClaim) -> None:
    match claim.source:
        case ClaimSource.PERSON_FIELD | ClaimSource.ORGANIZATION_FIELD:
            if not isinstance(claim.argument, str):
                raise BadRequest(f"argument: for the source {claim.source}, the key of the field", words="claim_field")
        case ClaimSource.ORGANIZATION:
            if claim.argument not in set(OrganizationPart):
                raise BadRequest(f"argument: for the source organization, one of {', '.join(OrganizationPart)}", words="claim_organization")
        case ClaimSource.CONSTANT:
            _require_constant(claim)
        case _:
            if claim.argument is not None:
                raise BadRequest(f"argument: the source {claim.source} has no argument", words="claim_takes_none")


def _require_constant(claim: ServiceClaim) -> None:
    value = claim.argument
    if value is None:
        raise BadRequest("argument: for the source constant, the value; it must not be null", words="claim_constant")
    _require_plain(value, DEEPEST_CONSTANT)
    if len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()) > LARGEST_CONSTANT:
        raise BadRequest(f"argument: a constant has at most {LARGEST_CONSTANT} bytes of JSON", words="claim_constant_unfit")
    if ClaimPlace.SAML in claim.into and not _fits_assertion(value):
        raise BadRequest(
            "argument: into saml, a constant is a text, a number, true or false, or a list of these", words="claim_constant_unfit"
        )


def _require_plain(value: Json, depth: int) -> None:
    """Every receiver and the database must read the value as we do."""
    match value:
        case str():
            if _CONTROL.search(value):
                raise BadRequest("argument: a text in a constant has no control characters", words="claim_constant_unfit")
        case bool() | None:
            pass
        case int() | float():
            # False also for what is not a number. An integer of JSON may have thousands of digits, which no float has room for.
            if not -_LARGEST_NUMBER <= value <= _LARGEST_NUMBER:
                raise BadRequest(
                    f"argument: a number in a constant is between -{_LARGEST_NUMBER} and {_LARGEST_NUMBER}", words="claim_constant_unfit"
                )
        case _ if depth == 0:
            raise BadRequest(f"argument: a constant has at most {DEEPEST_CONSTANT} levels", words="claim_constant_unfit")
        case Mapping():
            for name, inner in value.items():
                _require_plain(name, depth - 1)
                _require_plain(inner, depth - 1)
        case _:
            for inner in value:
                _require_plain(inner, depth - 1)


def _fits_assertion(value: Json) -> bool:
    return _is_scalar(value) or (not isinstance(value, Mapping | str) and isinstance(value, Sequence) and all(map(_is_scalar, value)))


def _is_scalar(value: Json) -> bool:
    return isinstance(value, str | int | float)


def require_room(count: int) -> None:
    if count >= MOST_CLAIMS:
        raise BadRequest(
            f"A service has at most {MOST_CLAIMS} claims: delete one first", words="limit_reached", values={"most": MOST_CLAIMS}
        )


def require_known(claim: ServiceClaim, keys: Collection[str]) -> None:
    """`keys` are those of the fields of the claim's owner: the installation or the organization. Raises `BadRequest`."""
    if claim.source.is_field and claim.argument not in keys:
        owner = "installation" if claim.source is ClaimSource.PERSON_FIELD else "organization"
        raise BadRequest(f"argument: the {owner} has no field with this key", words="claim_field_unknown")


def service_claim_created(claim: ConfiguredClaim, service: Service, actor: Actor) -> Event:
    return _event("service.claim.created", claim, service, actor, _stated(claim.claim))


def service_claim_updated(before: ConfiguredClaim, after: ConfiguredClaim, service: Service, actor: Actor) -> Event:
    old, new = _stated(before.claim), _stated(after.claim)
    changed = {f"old_{name}": value for name, value in old.items() if value != new[name]}
    return _event("service.claim.updated", after, service, actor, {**new, **changed})


def service_claim_deleted(claim: ConfiguredClaim, service: Service, actor: Actor) -> Event:
    return _event("service.claim.deleted", claim, service, actor, _stated(claim.claim))


def _stated(claim: ServiceClaim) -> Mapping[str, Json]:
    """An event says what the claim is made of. A constant may be long, and receivers of events need not know it."""
    argument = None if claim.source is ClaimSource.CONSTANT else claim.argument
    return {"claim": claim.name, "source": claim.source.value, "argument": argument, "into": [place.value for place in claim.into]}


def _event(name: str, claim: ConfiguredClaim, service: Service, actor: Actor, details: Mapping[str, Json]) -> Event:
    named: Mapping[str, Json] = {"service_slug": service.slug, "claim_id": str(claim.id)}
    return Event(name, actor, Target("service", str(service.id)), service.organization, {**named, **details})
