"""An organization's enterprise connections by OpenID Connect, SAML or LDAP, and its own OAuth clients at the social providers."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final

from core.domain.errors import BadRequest, Conflict
from core.domain.formats import Json, fields_as_json
from core.domain.identifiers import OAuthCredentialId, OrganizationId, UpstreamProviderId
from core.domain.identity.upstream.claims import Voucher
from core.domain.identity.upstream.connections import (
    NOTHING_SET,
    ConnectionState,
    KeptCertificate,
    ProviderKind,
    SamlChange,
    SamlSettings,
    tested_digest,
)
from core.domain.identity.upstream.directory_visits import second_factor_values
from core.domain.identity.upstream.identity_assertions import NO_ASSERTIONS, AssertionSettings, usable_assertion_settings
from core.domain.identity.upstream.ldap.settings import NOTHING_DESCRIBED, LdapChange, LdapSettings, examined_settings
from core.domain.identity.upstream.providers import Provider
from core.domain.identity.upstream.refreshes import AskedBecause, RefreshFault, Taken
from core.domain.lines import typed_line
from core.domain.outbound import NotADestination, destination
from core.domain.record.events import SYSTEM, Actor, Event, Target, differences
from core.domain.requests import UNCHANGED, Checks, RecordChange, Unchanged, checked
from core.domain.saml import entity_id
from core.domain.secrets import Secret
from core.domain.tenancy.profile_fields import is_field_key
from core.frozen import Frozen, replace

LONGEST_OAUTH_CREDENTIAL: Final = 500


class OAuthCredentials(Frozen, kw_only=True):
    """An organization's own client at a social provider. It replaces the installation's client in the organization's sign-ins. The secret
    is not part of it; it is opened only for use.
    """

    id: OAuthCredentialId
    organization: OrganizationId
    provider: Provider
    client_id: str
    created_at: datetime
    updated_at: datetime


def oauth_credential_context(credentials: OAuthCredentialId) -> str:
    return f"oauth_credentials.sealed_client_secret:{credentials}"


def client_id(text: str) -> str:
    return _visible("client_id", text.strip())


def client_secret(text: str) -> Secret:
    return Secret(_visible("client_secret", text))


def _visible(field: str, text: str) -> str:
    # Both values go into requests to the provider. Providers issue only such characters (RFC 6749, appendix A).
    if not 1 <= len(text) <= LONGEST_OAUTH_CREDENTIAL or not text.isascii() or not text.isprintable():
        raise BadRequest(
            f"{field}: 1 to {LONGEST_OAUTH_CREDENTIAL} visible ASCII characters",
            words="ascii_length",
            values={"most": LONGEST_OAUTH_CREDENTIAL},
        )
    return text


# The API's event names speak of services, because these credentials are for sign-ins to services. The credentials belong to the
# organization all the same.
def credentials_updated(credentials: OAuthCredentials, actor: Actor) -> Event:
    return _event_oauth_credential("service.oauth_credentials.updated", credentials, actor)


def credentials_removed(credentials: OAuthCredentials, actor: Actor) -> Event:
    return _event_oauth_credential("service.oauth_credentials.removed", credentials, actor)


def _event_oauth_credential(name: str, credentials: OAuthCredentials, actor: Actor) -> Event:
    details = {"provider": credentials.provider.value, "client_id": credentials.client_id}
    return Event(name, actor, Target("organization", str(credentials.organization)), credentials.organization, details)


# Each provider is a button on the organization's sign-in page.
MOST_PROVIDERS: Final = 20
LONGEST_NAME: Final = 100
LONGEST_ISSUER: Final = 500
MOST_SCOPES: Final = 20
LONGEST_SCOPE: Final = 200
MOST_MAPPED: Final = 50
LONGEST_CLAIM: Final = 200
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
# RFC 6749 section 3.3.
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


NO_MAPPING: Final[Mapping[str, str]] = MappingProxyType({})


class Upkeep(Frozen, kw_only=True):
    """What the daily check of a connection has found out about the identity provider."""

    read_at: datetime | None = None
    """When its metadata were last read and understood."""
    fault: str = ""
    """Why they could not be read at the last look, as `RefreshFault` has it. Empty when they could."""
    failing_since: datetime | None = None
    certificate_until: datetime | None = None
    """When our certificate ends. None until that was read."""
    signed: Mapping[str, datetime] = MappingProxyType({})
    """When each certificate last signed an answer, by fingerprints."""


NO_UPKEEP: Final = Upkeep()

# An organization has twenty providers at once.
MOST_SUCCEEDED: Final = 100


class UpstreamProvider(Frozen, kw_only=True):
    """An enterprise connection: any identity provider that speaks OpenID Connect, with the organization's client there, SAML, or LDAP. It
    is known by its issuer. The client's secret and our private keys are not part of it; they are opened only for use.
    """

    id: UpstreamProviderId
    organization: OrganizationId
    kind: ProviderKind = ProviderKind.OIDC
    state: ConnectionState = ConnectionState.ACTIVE
    name: str
    issuer: str
    """For SAML the provider's entity id, and empty while nobody has named it."""
    client_id: str
    """Empty for SAML and LDAP."""
    scopes: tuple[str, ...]
    """Scopes to ask for, besides those that identify a person."""
    enabled: bool
    """Whether people can sign in through the provider. A provider that is not active is never enabled."""
    profile_mapping: Mapping[str, str] = NO_MAPPING
    """The keys of the organization's fields, by the provider's claims that are written into them at each sign-in."""
    second_factor_values: tuple[str, ...] = ()
    """The provider's words for a second factor that counts for the organization's own rule. Without any, none counts; LDAP has none."""
    saml: SamlSettings | None = None
    """None for any other kind."""
    ldap: LdapSettings | None = None
    """None for any other kind."""
    certificate: str = ""
    """Our certificate at a SAML provider, in PEM."""
    next_certificate: str = ""
    """Postern's next certificate, which its metadata already contains."""
    former_certificate: str = ""
    """Ours from before. Its key still opens what a directory encrypts for it."""
    secret_set_at: datetime | None = None
    """When the client's secret, or the bind password, was last changed. None when it never was, and for LDAP while there is none."""
    tested_digest: bytes | None = None
    """The settings that the last successful test was about."""
    tested_at: datetime | None = None
    activated_at: datetime | None = None
    """When an owner activated the provider. None while it is active since an owner made it."""
    upkeep: Upkeep = NO_UPKEEP
    assertions: AssertionSettings = NO_ASSERTIONS
    succeeds: tuple[Voucher, ...] = ()
    """The providers whose successor an owner has named this one: it vouches for the accounts that they have vouched for."""
    created_at: datetime
    updated_at: datetime

    @property
    def digest(self) -> bytes:
        """The settings of this moment, as `tested_digest` has those that were tested."""
        facts: Mapping[str, Json] = {
            **fields_as_json(self, ("kind", "issuer", "client_id", "scopes")),
            **({} if self.ldap is None else {"ldap": examined_settings(self.ldap)}),
            # Left out where nothing counts: the digests of before stay right.
            **({"second_factor_values": list(self.second_factor_values)} if self.second_factor_values else {}),
        }
        return tested_digest(facts, self.saml, self.secret_set_at)

    @property
    def was_tested(self) -> bool:
        """Whether a test of the settings as they are now has succeeded."""
        return self.tested_digest is not None and self.tested_digest == self.digest

    @property
    def issues_assertions(self) -> bool:
        """Whether the provider's assertions count at this moment."""
        return self.assertions.issues and self.enabled and self.state is ConnectionState.ACTIVE

    @property
    def keeps_in_step(self) -> bool:
        return self.ldap is not None and self.ldap.keeps_in_step

    @property
    def was_ever_active(self) -> bool:
        """Whether people may have connected identities. They are stored with the issuer and the subject, so these must stay."""
        return self.state is ConnectionState.ACTIVE or self.activated_at is not None


class UpstreamProviderChange(RecordChange, kw_only=True):
    """A change of the settings that are not those of SAML."""

    name: str | Unchanged = UNCHANGED
    issuer: str | Unchanged = UNCHANGED
    client_id: str | Unchanged = UNCHANGED
    client_secret: str | Unchanged = UNCHANGED
    scopes: Sequence[str] | Unchanged = UNCHANGED
    enabled: bool | Unchanged = UNCHANGED
    profile_mapping: Mapping[str, str] | Unchanged = UNCHANGED
    second_factor_values: Sequence[str] | Unchanged = UNCHANGED

    @property
    def is_of_openid_connect(self) -> bool:
        """Whether a provider of SAML has none of this."""
        return not self.said.keys().isdisjoint({"client_id", "client_secret", "scopes"})

    @property
    def stored(self) -> dict[str, Any]:
        """What becomes values of the provider as they are stored. Raises `BadRequest`."""
        return checked(self.said, CHECKS)


def with_issuer(provider: UpstreamProvider, named: str | None) -> UpstreamProvider:
    """Raises `BadRequest` for another issuer once people may be known by the present one."""
    if named is None or named == provider.issuer:
        return provider
    if provider.kind is not ProviderKind.SAML or provider.was_ever_active:
        # Identities are stored with their issuer, so connected people would no longer be recognised.
        raise BadRequest("issuer: it cannot be changed; to use another one, create another provider", words="make_another_provider")
    return replace(provider, issuer=entity_id(named) if named else "")


def with_settings(provider: UpstreamProvider, change: SamlChange, now: datetime) -> SamlSettings:
    """Raises `BadRequest`, also for another source of the subject once people may be known by the present one."""
    before = provider.saml or NOTHING_SET
    after = change.applied(before, now)
    if provider.was_ever_active and after.subject_source != before.subject_source:
        raise BadRequest("subject_source: it cannot be changed; to use another one, create another provider", words="make_another_provider")
    return after


def with_description(provider: UpstreamProvider, change: LdapChange) -> UpstreamProvider:
    """The provider with other settings of LDAP. The bind password belongs to hosts, port, TLS, authority and account: it goes with any of
    them. Raises `BadRequest`, also for another attribute of identity once people may be known by the present one.
    """
    before = provider.ldap or NOTHING_DESCRIBED
    after = change.applied(before)
    if provider.was_ever_active and after.identity_attribute is not before.identity_attribute:
        raise BadRequest(
            "identity_attribute: it cannot be changed; to use another one, create another provider", words="make_another_provider"
        )
    kept = provider.secret_set_at if after.binding == before.binding else None
    return with_secret(replace(provider, ldap=after), kept)


def with_secret(provider: UpstreamProvider, at: datetime | None) -> UpstreamProvider:
    """The provider whose secret was set then. None takes a bind password away."""
    return replace(provider, secret_set_at=at)


def turned(provider: UpstreamProvider, *, enabled: bool | None) -> UpstreamProvider:
    """The provider turned on or off. None leaves it. Raises `BadRequest` for one that is not active."""
    if enabled and provider.state is not ConnectionState.ACTIVE:
        raise BadRequest("enabled: the provider is not active yet: test it, and ask an owner to activate it", words="connection_untested")
    return provider if enabled is None else replace(provider, enabled=enabled)


def as_made(provider: UpstreamProvider, *, by_owner: bool) -> UpstreamProvider:
    """The provider as it begins. From anybody but an owner it is a draft, whatever the organization has proved: no proof that comes later
    makes it count.
    """
    return provider if by_owner else replace(provider, state=ConnectionState.DRAFT, enabled=False)


def after_change(before: UpstreamProvider, after: UpstreamProvider, *, by_owner: bool) -> UpstreamProvider:
    """The provider after a change of its settings. A change of what was tested makes a draft again. Only a provider of OpenID Connect that
    is active stays so, when an owner changes it, or when it goes on to speak to the same client and nothing more counts as a second factor:
    its issuer says who is who, and cannot change. What counts as a second factor an owner says, or anybody who takes a value away, and no
    test has to say it.
    """
    if after.digest == before.digest:
        return after
    counts_more = not set(after.second_factor_values) <= set(before.second_factor_values)
    if (by_owner or not counts_more) and replace(after, second_factor_values=before.second_factor_values).digest == before.digest:
        return vouched_by_owner(before, after)
    stays_active = before.kind is ProviderKind.OIDC and before.state is ConnectionState.ACTIVE
    if stays_active and (by_owner or (after.client_id == before.client_id and not counts_more)):
        return after
    since = before.activated_at or (before.created_at if before.was_ever_active else None)
    return replace(after, state=ConnectionState.DRAFT, enabled=False, activated_at=since)


def vouched_by_owner(before: UpstreamProvider, after: UpstreamProvider) -> UpstreamProvider:
    """The provider after a change of its certificates by an owner, or by the directory itself, or of what counts as a second factor: it
    keeps its state, and counts as tested if it did before.
    """
    return replace(after, tested_digest=after.digest) if before.was_tested else after


def require_complete(provider: UpstreamProvider) -> None:
    """Raises `BadRequest` while nobody could be sent to the provider."""
    settings, described = provider.saml, provider.ldap
    if settings is not None:
        needed: Sequence[tuple[str, object]] = (
            *(("issuer", provider.issuer), ("sso_url", settings.sso_url), ("certificates", settings.certificates)),
        )
    elif described is not None:
        needed = (("hosts", described.hosts), ("bind_dn", described.bind_dn), ("bind_password", provider.secret_set_at))
    else:
        return
    missing = [name for name, is_there in needed if not is_there]
    if missing:
        hint = "Send the identity provider's metadata, or these values" if described is None else "Send these values"
        words = "connection_incomplete" if described is None else "ldap_incomplete"
        raise BadRequest(f"{', '.join(missing)}: missing. {hint}", words=words)


def tested(provider: UpstreamProvider, digest: bytes, now: datetime, lockout: tuple[int, int] | None) -> UpstreamProvider:
    """The provider after a successful test of the settings with this digest. Settings that have changed meanwhile stay untested. `lockout`
    are the threshold and the seconds that the test has read in a directory by LDAP.
    """
    if digest != provider.digest:
        return provider
    state = ConnectionState.TESTED if provider.state is ConnectionState.DRAFT else provider.state
    saml = None if provider.saml is None else replace(provider.saml, compares_contexts=True)
    threshold, seconds = lockout or (None, None)
    ldap = None if provider.ldap is None else replace(provider.ldap, read_threshold=threshold, read_seconds=seconds)
    return replace(provider, state=state, tested_digest=digest, tested_at=now, saml=saml, ldap=ldap)


CHANGED_SINCE: Final = "The settings have changed since you read them: read them again"


def activated(provider: UpstreamProvider, now: datetime) -> UpstreamProvider:
    """Raises `BadRequest` for a directory whose settings were never tested successfully as they are now. A provider of OpenID Connect needs
    no test, since one that an owner makes needs none.
    """
    if provider.state is ConnectionState.ACTIVE:
        return provider
    is_tested = provider.state is ConnectionState.TESTED and provider.was_tested
    if not is_tested and provider.kind is not ProviderKind.OIDC:
        raise BadRequest("The provider has not been tested successfully as it is now: test it first", words="connection_untested")
    return replace(provider, state=ConnectionState.ACTIVE, enabled=True, activated_at=now, updated_at=now)


def require_seen(seen: str, digest: bytes) -> None:
    """Raises `BadRequest` for what is no digest, and `Conflict` for that of other settings than these."""
    if not _DIGEST.fullmatch(seen):
        raise BadRequest("digest: send the digest of the settings that you have read, 64 hexadecimal digits", words="page_out_of_date")
    if seen != digest.hex():
        raise Conflict(CHANGED_SINCE, words="settings_changed")


def with_assertions(provider: UpstreamProvider, given: AssertionSettings, now: datetime, *, own_issuer: str) -> UpstreamProvider:
    """The provider with an owner's decision about its assertions. Only one that is active and was tested may issue them, and none in this
    installation's own name. Raises `BadRequest`.
    """
    if provider.kind is ProviderKind.LDAP and given.issues:
        raise BadRequest("issues: a directory by LDAP issues no assertions", words="provider_kind")
    settings = usable_assertion_settings(given, of_saml=provider.kind is ProviderKind.SAML)
    named = settings.issuer or (provider.issuer if settings.issues else "")
    if named.rstrip("/") == own_issuer.rstrip("/"):
        raise BadRequest("issuer: this installation's own tokens cannot be used as assertions", words="issuer_is_own")
    if settings.issues and not (provider.state is ConnectionState.ACTIVE and provider.was_tested):
        raise BadRequest(
            "issues: test the provider with its current settings, and ask an owner to activate it first", words="connection_untested"
        )
    return provider if settings == provider.assertions else replace(provider, assertions=settings, updated_at=now)


def sealing_context(provider: UpstreamProviderId) -> str:
    return f"upstream_providers.sealed_client_secret:{provider}"


def provider_name(text: str) -> str:
    name = typed_line("name", text)
    if not 1 <= len(name) <= LONGEST_NAME:
        raise BadRequest(f"name: 1 to {LONGEST_NAME} characters", words="field_length", values={"least": 1, "most": LONGEST_NAME})
    return name


def issuer(text: str) -> str:
    """The issuer, byte for byte as the provider's tokens have it (OpenID Connect Core, section 2). Raises `BadRequest`."""
    try:
        destination(text)
    except NotADestination as refusal:
        raise BadRequest(f"issuer: {refusal}", words="web_address") from None
    if "?" in text or len(text) > LONGEST_ISSUER:
        raise BadRequest(
            f"issuer: a URL of at most {LONGEST_ISSUER} characters, without a query",
            words="issuer_malformed",
            values={"most": LONGEST_ISSUER},
        )
    return text


def scopes(texts: Sequence[str]) -> tuple[str, ...]:
    if len(texts) > MOST_SCOPES or not all(len(one) <= LONGEST_SCOPE and _SCOPE.fullmatch(one) for one in texts):
        raise BadRequest(
            f"scopes: at most {MOST_SCOPES}, of at most {LONGEST_SCOPE} visible characters each, without quotes",
            words="scopes_malformed",
            values={"count": MOST_SCOPES, "most": LONGEST_SCOPE},
        )
    return tuple(dict.fromkeys(texts))


def profile_mapping(given: Mapping[str, str]) -> Mapping[str, str]:
    """Raises `BadRequest`. A field that does not exist, or that providers may not write, is ignored at the sign-in: it may come later."""
    if len(given) > MOST_MAPPED:
        raise BadRequest(f"profile_mapping: at most {MOST_MAPPED} claims", words="field_list", values={"most": MOST_MAPPED})
    if not all(1 <= len(claim) <= LONGEST_CLAIM and claim.isprintable() for claim in given):
        raise BadRequest(
            f"profile_mapping: the name of a claim has 1 to {LONGEST_CLAIM} visible characters",
            words="attribute_name",
            values={"most": LONGEST_CLAIM},
        )
    if not all(is_field_key(key) for key in given.values()):
        raise BadRequest("profile_mapping: each claim is mapped to the key of a field", words="mapping_key")
    if len(set(given.values())) < len(given):
        raise BadRequest("profile_mapping: each field only once", words="field_once")
    return dict(given)


CHECKS: Final[Checks] = {
    "name": provider_name,
    "client_id": client_id,
    "scopes": scopes,
    "profile_mapping": profile_mapping,
    "second_factor_values": second_factor_values,
}


def require_room(count: int) -> None:
    if count >= MOST_PROVIDERS:
        raise BadRequest(
            f"An organization has at most {MOST_PROVIDERS} upstream providers: delete one first",
            words="limit_reached",
            values={"most": MOST_PROVIDERS},
        )


def provider_created(provider: UpstreamProvider, actor: Actor) -> Event:
    return _event("organization.upstream_provider.created", provider, actor, _facts(provider))


def provider_updated(before: UpstreamProvider, after: UpstreamProvider, actor: Actor, *, secret: bool) -> Event:
    """The event says what changed, with the earlier values. A bind password that goes has changed, too."""
    details: dict[str, Json] = {"name": after.name, **differences(_facts(before), _facts(after))}
    if secret or (before.secret_set_at is not None and after.secret_set_at is None):
        details["secret_changed"] = True
    return _event("organization.upstream_provider.updated", after, actor, details)


def key_changed(provider: UpstreamProvider, actor: Actor, change: str) -> Event:
    """Our next key pair at the provider was `made`, or signs from now on (`activated`), or our former one was `dropped`."""
    facts = {"name": provider.name, "our_certificate": change}
    return _event("organization.upstream_provider.updated", provider, actor, facts)


def provider_tested(provider: UpstreamProvider, actor: Actor, *, succeeded: bool) -> Event:
    return _event("organization.upstream_provider.tested", provider, actor, {"name": provider.name, "succeeded": succeeded})


def succeeding(provider: UpstreamProvider, former: UpstreamProviderId, before: Sequence[Voucher], now: datetime) -> UpstreamProvider:
    """The provider as the successor of a former one, and of those that the former one succeeds. Raises `BadRequest`."""
    if former == provider.id:
        raise BadRequest("provider_id: a provider cannot succeed itself", words="provider_successor")
    itself = Voucher(provider.organization, provider.id)
    added = (one for one in (Voucher(provider.organization, former), *before) if one not in provider.succeeds and one != itself)
    succeeds = (*provider.succeeds, *added)
    if len(succeeds) > MOST_SUCCEEDED:
        raise BadRequest(f"provider_id: a provider succeeds at most {MOST_SUCCEEDED} others", words="provider_successor")
    return provider if succeeds == provider.succeeds else replace(provider, succeeds=succeeds, updated_at=now)


def provider_succeeded(before: UpstreamProvider, after: UpstreamProvider, actor: Actor) -> Event:
    old, new = ([str(one.provider) for one in provider.succeeds] for provider in (before, after))
    facts = {"name": after.name, "old_successor_of": old, "new_successor_of": new}
    return _event("organization.upstream_provider.updated", after, actor, facts)


def provider_assertions_changed(before: UpstreamProvider, after: UpstreamProvider, actor: Actor) -> Event:
    changed = differences(_assertion_facts(before.assertions), _assertion_facts(after.assertions))
    return _event("organization.upstream_provider.updated", after, actor, {"name": after.name, **changed})


def provider_activated(provider: UpstreamProvider, actor: Actor) -> Event:
    """The event says what the owner has said yes to."""
    return _event("organization.upstream_provider.activated", provider, actor, {**_facts(provider), "digest": provider.digest.hex()})


def provider_deleted(provider: UpstreamProvider, actor: Actor) -> Event:
    return _event("organization.upstream_provider.deleted", provider, actor, _facts(provider))


def people_released(provider: UpstreamProvider, people: int, actor: Actor) -> Event:
    """The connection keeps in step no more, so it lists nobody."""
    return _event("organization.upstream_provider.people.released", provider, actor, {"name": provider.name, "people": people})


_IN_EVENTS: Final = ("name", "kind", "state", "issuer", "client_id", "scopes", "enabled", "profile_mapping", "second_factor_values")


def _facts(provider: UpstreamProvider) -> Mapping[str, Json]:
    facts = fields_as_json(provider, _IN_EVENTS)
    if provider.ldap is not None:
        return {**facts, **_ldap_facts(provider.ldap)}
    return facts if provider.saml is None else {**facts, **_saml_facts(provider.saml)}


def _ldap_facts(settings: LdapSettings) -> Mapping[str, Json]:
    """The authorities as a digest: enough to see that they changed."""
    authorities = sha256(settings.ca_certificates.encode()).hexdigest() if settings.ca_certificates else ""
    steps = {"keeps_in_step": settings.keeps_in_step, "step_minutes": settings.step_minutes}
    return {**examined_settings(settings), **steps, "ca_certificates": authorities}


def _saml_facts(settings: SamlSettings) -> Mapping[str, Json]:
    return {
        **fields_as_json(settings, ("sso_url", "slo_url")),
        "certificates_sha256": [one.fingerprint for one in settings.certificates],
        **fields_as_json(settings, ("metadata_url", "subject_source", "email_sources", "wants_encrypted")),
        "requested_contexts": list(settings.contexts),
    }


def _assertion_facts(settings: AssertionSettings) -> Mapping[str, Json]:
    """Of pasted keys their names: enough to find out when which counted."""
    keys: Any = () if settings.jwks is None else settings.jwks["keys"]
    return {
        "issues_assertions": settings.issues,
        "assertion_issuer": settings.issuer,
        "assertion_jwks_uri": settings.jwks_uri,
        "assertion_keys": [str(one.get("kid", "")) for one in keys],
        "assertion_subject": settings.subject,
    }


def _event(name: str, provider: UpstreamProvider, actor: Actor, details: Mapping[str, Json]) -> Event:
    return Event(name, actor, Target("upstream_provider", str(provider.id)), provider.organization, details)


def is_looked_at(provider: UpstreamProvider) -> bool:
    """A draft is not: whoever completes it reads the metadata anew."""
    if provider.kind is ProviderKind.OIDC:
        return provider.enabled
    return provider.state is not ConnectionState.DRAFT


def is_same(before: UpstreamProvider, now: UpstreamProvider) -> bool:
    """Whether a look that began with `before` still says something."""
    return (
        is_looked_at(now)
        and now.issuer == before.issuer
        and (before.saml is None) == (now.saml is None)
        and (before.saml is None or now.saml is None or before.saml.metadata_url == now.saml.metadata_url)
    )


def certificates_changed(provider: UpstreamProvider, taken: Taken) -> Event:
    return _event_refreshe(
        "organization.upstream_provider.certificates.refreshed", provider, SYSTEM, _news(added=taken.added, removed=taken.removed)
    )


def certificates_wait(provider: UpstreamProvider, certificates: Sequence[KeptCertificate], because: AskedBecause) -> Event:
    details = {**_news(waiting=certificates), "reason": because.value}
    return _event_refreshe("organization.upstream_provider.certificates.waiting", provider, SYSTEM, details)


def certificate_decided(provider: UpstreamProvider, fingerprint: str, actor: Actor, *, approved: bool) -> Event:
    approval, refusal = "organization.upstream_provider.certificates.approved", "organization.upstream_provider.certificates.declined"
    name = approval if approved else refusal
    return _event_refreshe(name, provider, actor, {"certificate_sha256": fingerprint})


def reading_failed(provider: UpstreamProvider, fault: RefreshFault) -> Event:
    return _event_refreshe("organization.upstream_provider.metadata.failed", provider, SYSTEM, {"fault": fault.value})


def _news(**certificates: Sequence[KeptCertificate]) -> Mapping[str, Json]:
    return {f"{name}_sha256": [one.fingerprint for one in ones] for name, ones in certificates.items()}


def _event_refreshe(name: str, provider: UpstreamProvider, actor: Actor, details: Mapping[str, Json]) -> Event:
    target = Target("upstream_provider", str(provider.id))
    return Event(name, actor, target, provider.organization, {"name": provider.name, **details})
