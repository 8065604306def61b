"""Refreshes the certificates of enterprise connections from the identity providers' metadata."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from core.domain.errors import BadRequest, NotFound
from core.domain.identity.upstream.connections import CertificateSource, KeptCertificate, SamlSettings, SeenMetadata, known
from core.domain.identity.upstream.saml.assertions import MOST_CERTIFICATES, DirectoryCertificate, DirectoryMetadata
from core.domain.outbound import OutboundDestination
from core.frozen import Frozen, replace

REFRESHED_EVERY: Final = timedelta(hours=22)
SPREAD: Final = timedelta(hours=4)
"""A turn comes up to so much later, so that connections which were due together do not stay together."""
AGAIN_AFTER_FAULT: Final = timedelta(hours=6)
LEASE: Final = timedelta(hours=1)
"""While one process refreshes a connection, no other process does. If the process dies, another one repeats the refresh after this time."""
READ_WITHIN: Final = timedelta(seconds=10)
MOST_REDIRECTS: Final = 3
KEPT_WHILE_MISSING: Final = timedelta(days=7)
"""A certificate that the metadata lack counts for so long. A mistake of a weekend is mended by then."""
REPORTED_AFTER: Final = timedelta(days=3)
"""Owners hear that metadata cannot be read after so much time."""
WARNINGS: Final = (30, 7, 1)
"""Owners get a mail so many days before an end, the earliest first."""
SOON: Final = timedelta(days=max(WARNINGS))
# Then operators hear of it, too.
URGENT: Final = timedelta(days=7)


class RefreshFault(StrEnum):
    """Why the metadata of a connection do not count. The connection goes on with what it has."""

    UNREACHABLE = "unreachable"
    """No answer came, or none within the time."""
    REFUSED = "refused"
    """The address may not be called, or leads to one that may not be called."""
    STATUS = "status"
    """The answer is not 200, or one redirect too many."""
    TOO_LONG = "too_long"
    NOT_METADATA = "not_metadata"
    """The answer is no metadata of a directory that can be used."""
    OTHER_ENTITY = "other_entity"
    """The metadata are another directory's. They are never taken over."""
    ENDED = "ended"
    """The metadata say that they are no longer valid."""
    TOO_MANY = "too_many"
    """With the new certificates there would be too many."""
    ISSUER = "issuer"
    """The issuer does not answer as OpenID Connect Discovery has it."""


# The certificates that are remembered as taken out. A directory changes its certificate every few years.
MOST_GONE: Final = 50


class AskedBecause(StrEnum):
    """Why a new certificate waits for an owner."""

    NOT_ENCRYPTED = "not_encrypted"
    """The metadata came by http, where anybody on the way can change them."""
    OTHER_HOST = "other_host"
    """A redirect led to another host than the one that was set."""
    NO_LONGER_SIGNED = "no_longer_signed"
    """The metadata were signed by a known certificate before, and are not now."""


class ConnectionEnding(StrEnum):
    """What owners are warned of."""

    DIRECTORY = "directory"
    """Of the last certificate of the directory that is known."""
    OURS = "ours"
    """Of our own certificate at the directory."""
    METADATA = "metadata"
    """Of the metadata that came as a file."""
    READING = "reading"
    """No end, but its beginning: since when the metadata cannot be read."""
    ENTITY = "entity"
    """Likewise: since when the metadata are another directory's."""


class Read(Frozen, kw_only=True):
    """Metadata that came from a connection's address."""

    metadata: DirectoryMetadata
    because: AskedBecause | None
    """Why the way on which they came does not suffice. None for https from the host that was set."""


class Taken(Frozen, kw_only=True):
    """What one reading changes.

    Postern reads the metadata of each connection every day, and decides which certificates are valid from now on. Nothing else is taken
    from them.
    """

    settings: SamlSettings
    added: Sequence[KeptCertificate] = ()
    removed: Sequence[KeptCertificate] = ()
    asked: Sequence[KeptCertificate] = ()
    """They wait for an owner from now on."""
    because: AskedBecause | None = None
    fault: RefreshFault | None = None


def way_taken(stations: Sequence[OutboundDestination]) -> AskedBecause | None:
    """Whether the addresses on the way to the metadata, the one that was set first, let new certificates count."""
    first = stations[0]
    if any(one.scheme != "https" for one in stations):
        return AskedBecause.NOT_ENCRYPTED
    if any((one.host, one.port) != (first.host, first.port) for one in stations):
        return AskedBecause.OTHER_HOST
    return None


def taken(settings: SamlSettings, issuer: str, read: Read, now: datetime) -> Taken:
    metadata = read.metadata
    if metadata.entity_id != issuer:
        return Taken(settings=settings, fault=RefreshFault.OTHER_ENTITY)
    if metadata.valid_until is not None and metadata.valid_until <= now:
        return Taken(settings=settings, fault=RefreshFault.ENDED)
    # A certificate that has ended may be in other hands by now, and so may one that the directory has taken out of its metadata.
    is_signed = any(
        one.fingerprint == metadata.signed_by and now <= one.valid_until and one.missing_since is None for one in settings.certificates
    )
    listed = {one.fingerprint: one for one in metadata.signing_certificates}
    had = {one.fingerprint for one in settings.certificates}
    new = [one for one in listed.values() if one.fingerprint not in had and now < one.valid_until]
    # A good signature says who wrote the metadata, and not when: somebody on the way may bring back older ones.
    come_back = any(one.fingerprint in settings.gone for one in new) or any(
        one.missing_since is not None and one.fingerprint in listed for one in settings.certificates
    )
    because = read.because if come_back else None
    if not is_signed:
        because = read.because or (AskedBecause.NO_LONGER_SIGNED if settings.metadata.was_signed else None)
    if because is not None:
        return _waiting(settings, listed, new, because, now)
    added = [replace(known(one, CertificateSource.METADATA, now), listed_at=now) for one in new]
    seen = [_seen(one, listed, now) for one in settings.certificates]
    kept = _kept([*seen, *added], now)
    if len(kept) > MOST_CERTIFICATES:
        return Taken(settings=settings, fault=RefreshFault.TOO_MANY)
    after = replace(
        settings,
        certificates=tuple(kept),
        waiting=(),
        declined=(),
        metadata=SeenMetadata(valid_until=metadata.valid_until, was_signed=is_signed),
    )
    stay = {one.fingerprint for one in kept}
    went = tuple(one.fingerprint for one in seen if one.fingerprint not in stay and one.fingerprint not in settings.gone)
    after = replace(after, gone=(*settings.gone, *went)[-MOST_GONE:])
    return Taken(settings=after, added=added, removed=[one for one in seen if one.fingerprint not in stay])


def _waiting(
    settings: SamlSettings,
    listed: dict[str, DirectoryCertificate],
    new: Sequence[DirectoryCertificate],
    because: AskedBecause,
    now: datetime,
) -> Taken:
    """Metadata that anybody may have written take nothing away, and only ask."""
    waited = {one.fingerprint: one for one in settings.waiting}
    declined = tuple(one for one in settings.declined if one in listed)
    # The bound is the same as for those that count.
    waiting = [
        waited.get(one.fingerprint) or replace(known(one, CertificateSource.METADATA, now), listed_at=now)
        for one in new
        if one.fingerprint not in declined
    ][:MOST_CERTIFICATES]
    asked = [one for one in waiting if one.fingerprint not in waited]
    after = replace(settings, waiting=tuple(waiting), declined=declined)
    return Taken(settings=after, asked=asked, because=because)


def _seen(one: KeptCertificate, listed: dict[str, DirectoryCertificate], now: datetime) -> KeptCertificate:
    if one.fingerprint in listed:
        return replace(one, listed_at=now, missing_since=None)
    return replace(one, missing_since=one.missing_since or now) if one.listed_at is not None else _unlisted(one, now)


def _unlisted(one: KeptCertificate, now: datetime) -> KeptCertificate:
    """A certificate that somebody has given by hand may be none of the metadata's."""
    return one if one.source is CertificateSource.HAND else replace(one, missing_since=now)


def _kept(certificates: Sequence[KeptCertificate], now: datetime) -> Sequence[KeptCertificate]:
    """Those that count from now on. What has ended, or was missing for long, goes, unless nothing good would be left."""
    kept = [
        one
        for one in certificates
        if now <= one.valid_until
        and (one.source is CertificateSource.HAND or one.missing_since is None or now - one.missing_since < KEPT_WHILE_MISSING)
    ]
    return kept if any(one.valid_from <= now for one in kept) else certificates


def approved(settings: SamlSettings, fingerprint: str) -> SamlSettings:
    """Raises `NotFound`."""
    one = _waits(settings, fingerprint)
    if len(settings.certificates) >= MOST_CERTIFICATES:
        raise BadRequest(
            f"certificates: at most {MOST_CERTIFICATES}: remove one first", words="certificates_most", values={"most": MOST_CERTIFICATES}
        )
    return replace(settings, certificates=(*settings.certificates, one), waiting=_without(settings, one))


def declined(settings: SamlSettings, fingerprint: str) -> SamlSettings:
    """Raises `NotFound`."""
    one = _waits(settings, fingerprint)
    return replace(settings, waiting=_without(settings, one), declined=(*settings.declined, fingerprint))


def _waits(settings: SamlSettings, fingerprint: str) -> KeptCertificate:
    one = next((one for one in settings.waiting if one.fingerprint == fingerprint), None)
    if one is None:
        raise NotFound("No such certificate is pending approval", words="certificate_not_waiting")
    return one


def _without(settings: SamlSettings, certificate: KeptCertificate) -> tuple[KeptCertificate, ...]:
    return tuple(one for one in settings.waiting if one is not certificate)


def directory_end(settings: SamlSettings) -> datetime | None:
    """When the last certificate of the directory that counts ends."""
    return max((one.valid_until for one in settings.certificates), default=None)
