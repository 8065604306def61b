"""What an owner sees of a provider before the provider signs people in: each setting that the digest is of, whole."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from core.domain.identity.upstream.connections import ProviderKind
from entrypoints.http.pages.console.cells import Column, code, copied, listed, number, when, words, yes_or_no

_LABELS: Final = "console.field"


def settings_of(provider: Callable[[Any], Any]) -> tuple[Column, ...]:
    """Facts about the provider in a record. A record that has none, or a provider of the other kind, leaves facts empty, and no page shows
    these.
    """

    def of(name: str) -> Callable[[Any], Any]:
        return lambda record: getattr(provider(record), name, None)

    def of_saml(name: str) -> Callable[[Any], Any]:
        return lambda record: getattr(getattr(provider(record), "saml", None), name, None)

    def of_ldap(name: str) -> Callable[[Any], Any]:
        return lambda record: getattr(getattr(provider(record), "ldap", None), name, None)

    def certificates(record: Any) -> Sequence[str] | None:
        known = of_saml("certificates")(record)
        return None if known is None else [one.fingerprint for one in known]

    return (
        words(of("kind"), ProviderKind, f"{_LABELS}.kind"),
        copied(of("issuer"), f"{_LABELS}.issuer"),
        listed(certificates, f"{_LABELS}.certificates_sha256"),
        code(of_saml("sso_url"), f"{_LABELS}.sso_url"),
        code(of_saml("slo_url"), f"{_LABELS}.slo_url"),
        code(of_saml("slo_response_url"), f"{_LABELS}.slo_response_url"),
        code(of_saml("metadata_url"), f"{_LABELS}.metadata_url"),
        code(of_saml("subject_source"), f"{_LABELS}.subject_source"),
        listed(of_saml("email_sources"), f"{_LABELS}.email_sources"),
        yes_or_no(of_saml("wants_encrypted"), f"{_LABELS}.wants_encrypted"),
        listed(of_saml("requested_contexts"), f"{_LABELS}.requested_contexts"),
        listed(of("second_factor_values"), f"{_LABELS}.second_factor_values"),
        listed(of_ldap("hosts"), f"{_LABELS}.hosts"),
        yes_or_no(of_ldap("start_tls"), f"{_LABELS}.start_tls"),
        code(of_ldap("ca_certificates"), f"{_LABELS}.ca_certificates"),
        code(of_ldap("bind_dn"), f"{_LABELS}.bind_dn"),
        code(of_ldap("base_dn"), f"{_LABELS}.base_dn"),
        code(of_ldap("search_scope"), f"{_LABELS}.search_scope"),
        code(of_ldap("person_filter"), f"{_LABELS}.person_filter"),
        listed(of_ldap("sign_in_attributes"), f"{_LABELS}.sign_in_attributes"),
        code(of_ldap("identity_attribute"), f"{_LABELS}.identity_attribute"),
        code(of_ldap("address_attribute"), f"{_LABELS}.address_attribute"),
        code(of_ldap("groups_attribute"), f"{_LABELS}.groups_attribute"),
        number(of_ldap("lockout_threshold"), f"{_LABELS}.lockout_threshold"),
        number(of_ldap("lockout_minutes"), f"{_LABELS}.lockout_minutes"),
        yes_or_no(of_ldap("accepts_lockouts"), f"{_LABELS}.accepts_lockouts"),
        code(of("client_id"), f"{_LABELS}.client_id"),
        listed(of("scopes"), f"{_LABELS}.scopes"),
        when(of("tested_at"), f"{_LABELS}.tested_at"),
        code(of("digest"), f"{_LABELS}.digest"),
    )
