"""Builds the parts that the settings configure. A faulty setting is refused with a sentence that names the setting."""

import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from adapters.crypto.key_ring import AesGcmKeyRing, KeyFile, MalformedKeys, parse
from adapters.crypto.password_digests import BuiltForAnotherProcessor
from adapters.crypto.passwords import Argon2Parameters, Argon2Passwords
from adapters.ip_addresses import ListedProxies, LocationDatabaseUnusable, ProxyListUnusable, locations, read_networks
from adapters.mail.transports import MailSettingsError, transport_for
from adapters.metrics import PrometheusMetrics
from adapters.outbound.client import GuardedClient, PlainClient
from adapters.outbound.dialer import EVERYWHERE, Dialer, DialerInside, SystemNames
from adapters.payments import HostedCheckout
from adapters.system import SystemClock
from core.domain.identity.upstream.providers import ClientAtProvider, Installed, Provider, ProviderEndpoints
from core.domain.secrets import Secret
from core.frozen import names_of
from core.usecases.services.billing import Receiving
from entrypoints.failures import StartFailed
from entrypoints.settings import Settings, SettingsError
from ports.identity.sign_in import Locations
from ports.mail import MailTransport
from ports.outbound import OperatorsOutbound
from ports.services.billing import PaymentProvider

KEY_FILE: Final = "encryption.keys"
NO_WIDGET: Final = "off"
_MODE: Final = re.compile(r"(?:sk|rk)_(live|test)_")


def require_usable(settings: Settings) -> None:
    """Looks at what several settings or a library decide, as `settings.read` looks at each setting alone. So a start refuses it before it
    makes anything. Raises `SettingsError`.
    """
    require_encryption_keys(settings)
    mail_transport(settings)
    installed_providers(settings)
    argon2_parameters(settings)
    widget_keys(settings)


def require_encryption_keys(settings: Settings) -> None:
    """Call this before a database is made: a first start that fails afterwards leaves a database without its keys, and no later start is
    the first. Raises `SettingsError`.
    """
    if settings.encryption_keys is not None:
        key_ring(settings)


def key_file(settings: Settings) -> KeyFile | None:
    """The file of an installation that keeps its own encryption keys. None when the keys are a setting."""
    return KeyFile(settings.data_dir / KEY_FILE) if settings.encryption_keys is None else None


def key_ring(settings: Settings) -> AesGcmKeyRing:
    """Raises `SettingsError` or `StartFailed`."""
    file = key_file(settings)
    if file is None:
        try:
            return AesGcmKeyRing(parse(settings.encryption_keys.reveal() if settings.encryption_keys is not None else ""))
        except MalformedKeys as error:
            raise SettingsError(f"POSTERN_ENCRYPTION_KEYS cannot be used: {error}") from None
    with _said(file):
        try:
            return file.ring()
        except FileNotFoundError:
            raise StartFailed(
                f"The encryption keys {file.path} are missing: put their backup there, or set POSTERN_ENCRYPTION_KEYS, if they were a "
                "setting before. Without them, nothing that the database keeps encrypted can be read. If this Postern has never been "
                f"ready, nothing is lost: remove {settings.data_dir}, and start anew"
            ) from None


def ensure_key_file(settings: Settings) -> None:
    """Makes the key file of a new installation. Do not call this later, because then a missing key file is a lost key file. Raises
    `StartFailed`.
    """
    file = key_file(settings)
    if file is not None:
        with _said(file):
            file.ensure()


@contextmanager
def _said(file: KeyFile) -> Iterator[None]:
    """Turns errors of the key file into a sentence."""
    try:
        yield
    except MalformedKeys as error:
        raise StartFailed(str(error)) from None
    except OSError as error:
        raise StartFailed(f"The encryption keys {file.path} cannot be used: {error.strerror}") from None


def mail_transport(settings: Settings) -> MailTransport:
    """Raises `SettingsError`."""
    try:
        return transport_for(settings.mail_url, settings.mail_sender, clock=SystemClock(), password=settings.mail_password)
    except MailSettingsError as error:
        raise SettingsError(f"POSTERN_MAIL, POSTERN_MAIL_SENDER or POSTERN_MAIL_PASSWORD cannot be used: {error}") from None


def guarded_dialer(settings: Settings, names: SystemNames) -> Dialer:
    return Dialer(names, settings.outbound_networks, settings.outbound_proxy)


def guarded_client(settings: Settings, dialer: Dialer) -> GuardedClient:
    """Raises `StartFailed`."""
    return GuardedClient(dialer, _authorities(settings), traced_hosts=settings.traces_hosts)


def plain_client(settings: Settings, names: SystemNames) -> PlainClient:
    """The HTTP client for URLs that the operator sets. Raises `StartFailed`."""
    return PlainClient(Dialer(names, EVERYWHERE, settings.outbound_proxy), _authorities(settings), traced_hosts=settings.traces_hosts)


def _authorities(settings: Settings) -> Path | None:
    authorities = settings.outbound_ca_file
    if authorities is not None:
        try:
            ssl.create_default_context(cafile=str(authorities))
        except (OSError, ssl.SSLError) as error:
            raise StartFailed(f"POSTERN_OUTBOUND_CA_FILE {authorities} cannot be used: {error.strerror}") from None
    return authorities


def payment_provider(settings: Settings, outbound: OperatorsOutbound) -> PaymentProvider | None:
    """The payment provider. None when billing is not set up."""
    key = settings.billing_key
    if key is None or not key.reveal():
        return None
    return HostedCheckout(outbound, settings.billing_api_url, key, SystemClock())


def receiving(settings: Settings) -> Receiving:
    """The webhook secrets, and the mode (live or test) that the provider's key names. News of the other mode do not concern this
    installation's sales.
    """
    key = "" if settings.billing_key is None else settings.billing_key.reveal()
    mode = _MODE.match(key)
    return Receiving(settings.billing_webhook_secrets or (), None if mode is None else mode[1] == "live")


def inside_client(settings: Settings, names: SystemNames) -> GuardedClient:
    """The HTTP client for unencrypted URLs that organizations set."""
    return GuardedClient(
        DialerInside(names, settings.outbound_networks, settings.outbound_proxy), _authorities(settings), traced_hosts=settings.traces_hosts
    )


def direct_client(settings: Settings, names: SystemNames) -> PlainClient:
    """The HTTP client for servers in the operator's own network. Raises `StartFailed`."""
    return PlainClient(Dialer(names, EVERYWHERE), _authorities(settings))


def installed_providers(settings: Settings) -> Mapping[Provider, Installed]:
    """Raises `SettingsError`."""
    return {provider: _installed(settings, provider) for provider in Provider}


def with_client(installed: Mapping[Provider, Installed]) -> frozenset[Provider]:
    """The providers that all organizations can use."""
    return frozenset(provider for provider, one in installed.items() if one.client is not None)


def _installed(settings: Settings, provider: Provider) -> Installed:
    def of(name: str) -> str:
        return str(getattr(settings, f"{provider.value}_{name}", ""))

    client_id: str | None = getattr(settings, f"{provider.value}_client_id")
    secret: Secret | None = getattr(settings, f"{provider.value}_client_secret")
    if bool(client_id) != (secret is not None):
        prefix = f"POSTERN_{provider.value.upper()}"
        raise SettingsError(f"{prefix}_CLIENT_ID and {prefix}_CLIENT_SECRET belong together: set both, or neither")
    endpoints = ProviderEndpoints(**{name: of(name) for name in names_of(ProviderEndpoints)})
    return Installed(endpoints, ClientAtProvider(client_id, secret) if client_id and secret is not None else None)


def widget_keys(settings: Settings) -> tuple[str, Secret] | None:
    """The key of the site and its secret. None when no widget is named. Raises `SettingsError`."""
    site_key, secret = settings.widget_site_key, settings.widget_secret
    if settings.widget == NO_WIDGET:
        if site_key is not None or secret is not None:
            raise SettingsError("POSTERN_WIDGET is off: name the widget that POSTERN_WIDGET_SITE_KEY and POSTERN_WIDGET_SECRET are for")
        return None
    if not site_key or secret is None or not secret.reveal():
        raise SettingsError(f"POSTERN_WIDGET={settings.widget} needs POSTERN_WIDGET_SITE_KEY and POSTERN_WIDGET_SECRET")
    if not settings.puzzles:
        raise SettingsError(f"POSTERN_WIDGET={settings.widget} needs POSTERN_PUZZLES=on: puzzles stand in while its maker is away")
    return site_key, secret


def argon2_parameters(settings: Settings) -> Argon2Parameters:
    """Raises `SettingsError`."""
    try:
        return Argon2Parameters(settings.argon2_memory // 1024, settings.argon2_passes, settings.argon2_lanes)
    except ValueError as error:
        raise SettingsError(f"POSTERN_ARGON2_MEMORY, POSTERN_ARGON2_PASSES or POSTERN_ARGON2_LANES cannot be used: {error}") from None


def password_hasher(settings: Settings, metrics: PrometheusMetrics) -> Argon2Passwords:
    """Raises `SettingsError` or `StartFailed`."""
    try:
        return Argon2Passwords(argon2_parameters(settings), settings.argon2_workers, metrics, most_queued=settings.argon2_queue)
    except BuiltForAnotherProcessor as error:
        raise StartFailed(str(error)) from None


def location_database(settings: Settings, closing: ExitStack) -> Locations:
    """Raises `StartFailed`."""
    try:
        return closing.enter_context(locations(settings.geoip_database))
    except LocationDatabaseUnusable as error:
        raise StartFailed(f"POSTERN_GEOIP_DATABASE {settings.geoip_database} cannot be used: {error}") from None


def listed_proxies(settings: Settings) -> ListedProxies:
    """Raises `StartFailed`."""
    file = settings.proxy_networks_file
    try:
        return ListedProxies([*settings.proxy_networks, *(read_networks(file) if file is not None else ())])
    except ProxyListUnusable as error:
        raise StartFailed(f"POSTERN_PROXY_NETWORKS_FILE {file} cannot be used: {error}") from None
