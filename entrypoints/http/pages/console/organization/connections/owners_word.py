"""What an owner sees of a provider before the provider signs people in: each setting that the digest is of, whole."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from entrypoints.http.pages.console.cells import Column, code, copied, listed, when, words, yes_or_no

_LABELS: Final = "console.field"


def settings_of(provider: Callable[[Any], Any]) -> tuple[Column, ...]:
    """Facts about the provider in a record. A record that has none, or a provider of the other kind, leaves facts empty, and no page shows
    these.
    """

    def of(name: str) -> Callable[[Any], Any]:
        return lambda record: getattr(provider(record), name, None)

    def of_saml(name: str) -> Callable[[Any], Any]:
        return lambda record: getattr(getattr(provider(record), "saml", None), name, None)

    def certificates(record: Any) -> Sequence[str] | None:
        known = of_saml("certificates")(record)
        return None if known is None else [one.fingerprint for one in known]

    return (
        words(of("kind"), f"{_LABELS}.kind"),
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
        code(of("client_id"), f"{_LABELS}.client_id"),
        listed(of("scopes"), f"{_LABELS}.scopes"),
        when(of("tested_at"), f"{_LABELS}.tested_at"),
        code(of("digest"), f"{_LABELS}.digest"),
    )
