"""Every `POSTERN_*` setting with its meaning, default and form, declared once. `docs/settings.md` is made from this module."""

# ruff: noqa: RUF009 - the calls in the class body are field declarations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import timedelta
from difflib import get_close_matches
from ipaddress import IPv4Network, IPv6Network, ip_address
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from core.domain.identity.accounts import SHORTEST_PASSWORD
from core.domain.identity.guards.bound_sessions import BindingRule
from core.domain.identity.passwords import LONGEST_LEAST
from core.domain.identity.registering import RegistrationPolicy
from core.domain.identity.session_limits import MOST_SESSIONS
from core.domain.key_proofs import NonceRule
from core.domain.secrets import Password, Secret
from core.frozen import Frozen
from entrypoints import settings_forms as forms
from entrypoints.settings_forms import Address, Malformed, SettingForm, ip_or_none

PREFIX: Final = "POSTERN_"
CONFIG: Final = "POSTERN_CONFIG"
# A file named by POSTERN_CONFIG takes the comments of systemd's EnvironmentFile=.
_COMMENTS: Final = ("#", ";")
_LOG_FORM: Final = "POSTERN_LOG_FORMAT"
# The names of the API for the three providers, and the names by which operators know these.
_ALIASES: Final = {"CODEHOST": "GITHUB", "WEBSUITE": "GOOGLE", "OFFICESUITE": "MICROSOFT"}

T = TypeVar("T")


class SettingsError(Exception):
    """A setting is unknown, malformed or missing. The message is one sentence that names the setting and never shows a secret's value."""


class Declaration(Frozen):
    """One setting. `default` is written as an operator would write it. If `default` is None, `unset` says what happens without a value."""

    name: str
    field: str
    form: SettingForm[Any]
    default: str | None
    unset: str
    description: str
    group: str
    secret: bool

    @property
    def names(self) -> tuple[str, ...]:
        """All names that set it. The first is the one to document."""
        provider, _, rest = self.name.removeprefix(PREFIX).partition("_")
        return (f"{PREFIX}{_ALIASES[provider]}_{rest}", self.name) if provider in _ALIASES else (self.name,)


def _setting(form: SettingForm[T], default: str, group: str, description: str) -> T:
    made: T = field(metadata={"form": form, "default": default, "unset": "", "group": group, "description": description, "secret": False})
    return made


def _optional(form: SettingForm[T], unset: str, group: str, description: str, *, secret: bool = False) -> T | None:
    made: T | None = field(
        metadata={"form": form, "default": None, "unset": unset, "group": group, "description": description, "secret": secret}
    )
    return made


_ADDRESSES: Final = "Addresses"
_STORAGE: Final = "Storage"
_OWNER: Final = "First platform owner"
_MAIL: Final = "Mail"
_TOKENS: Final = "Tokens and passwords"
_SIGN_IN: Final = "Sign-in"
_PROVIDERS: Final = "Upstream providers"
_ORGANIZATIONS: Final = "Organizations"
_CODEHOST: Final = "GitHub, or a code host with its protocol"
_WEBSUITE: Final = "Google, or a provider like it"
_OFFICESUITE: Final = "Microsoft, or a provider like it"
_OUTBOUND: Final = "Outbound calls"
_BILLING: Final = "Billing"
_LIMITS: Final = "Limits"
_LIFE: Final = "Start and stop"
_LOGS: Final = "Logs"
_METRICS: Final = "Metrics"
_TRACES: Final = "Traces"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings in force, read once at the start."""

    bind: Address = _setting(
        forms.address,
        "127.0.0.1:8000",
        _ADDRESSES,
        "The address to listen at: `host:port`, `[ipv6]:port` or `unix:/path/to/socket`. Port 0 takes a free port, and the start says "
        "which port.",
    )
    base_url: str | None = _optional(
        forms.origin,
        "made from `POSTERN_BIND`",
        _ADDRESSES,
        "The public URL of this installation, as browsers and applications know it. Links in emails and the issuer of tokens use this"
        " address. Postern never trusts a request's `Host` header. People's passkeys belong to the host of this address, and need a"
        " host that is a name.",
    )
    frontend_url: str | None = _optional(
        forms.url, "`{POSTERN_BASE_URL}/ui`", _ADDRESSES, "The address of the frontend to which pages and emails send people."
    )
    security_contact: tuple[str, ...] | None = _optional(
        forms.contacts,
        "`/.well-known/security.txt` is 404",
        _ADDRESSES,
        "Where people report a weakness of this installation: `mailto:…`, `https://…` or `tel:…`, several separated by commas. "
        "`/.well-known/security.txt` (RFC 9116) names them.",
    )
    passkey_id: str | None = _optional(
        forms.passkey_id,
        "the host of `POSTERN_BASE_URL`",
        _ADDRESSES,
        "The host that passkeys belong to (RP ID), if it is not the host of `POSTERN_BASE_URL`: after a move to another domain, the host"
        " from before, which then serves `/.well-known/webauthn` for good. Passkeys belong to one host at a time: another value makes all"
        " of them unusable until it is set back.",
    )
    passkey_origins: tuple[str, ...] = _setting(
        forms.passkey_origins,
        "",
        _ADDRESSES,
        "Origins whose pages may also create and use passkeys, separated by commas, at most five. They are compared whole. The origin of"
        " `POSTERN_BASE_URL` always may.",
    )
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = _setting(
        forms.networks,
        "",
        _ADDRESSES,
        "Networks of the proxies in front of Postern, separated by commas. Only these proxies may tell Postern the client's address "
        "(`X-Forwarded-For`).",
    )
    cors_origins: tuple[str, ...] = _setting(
        forms.origins, "", _ADDRESSES, "Origins of browser applications that may call the API, separated by commas."
    )
    tls_certificate: Path | None = _optional(
        forms.path, "plain HTTP", _ADDRESSES, "The file with the certificate chain (PEM), to serve HTTPS without a proxy in front."
    )
    tls_key: Path | None = _optional(forms.path, "plain HTTP", _ADDRESSES, "The file with the certificate's private key (PEM).")

    data_dir: Path = _setting(
        forms.path,
        "./.postern",
        _STORAGE,
        "The directory for all data outside an external database: the embedded PostgreSQL, its encryption keys, email files.",
    )
    database_url: Secret | None = _optional(
        forms.database_url,
        "an embedded PostgreSQL in the data directory",
        _STORAGE,
        "The PostgreSQL (14 or later) to use: `postgresql://user:password@host:5432/database`, with libpq's options.",
        secret=True,
    )
    encryption_keys: Secret | None = _optional(
        forms.secret,
        "with the embedded PostgreSQL, the first start makes `encryption.keys` in the data directory; otherwise required",
        _STORAGE,
        "The keys that encrypt stored secrets: `id:base64` pairs with keys of 32 bytes, separated by commas, the newest first. `postern "
        "keys generate` prints a key.",
        secret=True,
    )
    pool_size: int = _setting(forms.whole(1, 500), "10", _STORAGE, "The most database connections that one process opens.")
    database_wait: timedelta = _setting(
        forms.duration(0, 3600), "30s", _STORAGE, "How long a start waits for a database that does not answer yet."
    )
    standby_reads: timedelta = _setting(
        forms.duration(0, 86_400),
        "1m",
        _STORAGE,
        "With several hosts in the address of the database, of which none takes writes and one gives no answer: how long another one may "
        "be read. A session that was ended elsewhere meanwhile may read for as long. With `0s`, nobody reads while none takes "
        "writes.",
    )

    migrate: bool = _setting(
        forms.switch,
        "on",
        _STORAGE,
        "Whether `postern serve` migrates the database. With `off`, `postern serve` does not start until `postern migrate` has run.",
    )

    owner_email: str = _setting(
        forms.text, "owner@postern.local", _OWNER, "The email address of the platform owner that the first start creates."
    )
    owner_password: Password | None = _optional(
        forms.password, "the first start makes a password and prints it once", _OWNER, "The password of that platform owner.", secret=True
    )

    mail: str = _setting(
        forms.mail,
        "file:",
        _MAIL,
        "How Postern sends mail: `smtp://user@host:587` (STARTTLS), `smtps://user@host:465`, `file:<dir>` (one `.eml` per mail; without a "
        "directory, `mail` in the data directory) or `console`.",
    )
    mail_password: Secret | None = _optional(
        forms.secret, "taken from `POSTERN_MAIL`", _MAIL, "The SMTP password, to keep it out of `POSTERN_MAIL`.", secret=True
    )
    mail_sender: str = _setting(forms.sender, "Postern <postern@localhost>", _MAIL, "The sender of all emails: `Name <address>`.")

    email_change: str = _setting(
        forms.choice("verified", "immediate"),
        "verified",
        _MAIL,
        "With `verified`, an account's new email address takes effect once the person has opened the link in the email to this"
        " address. With `immediate`, the new address takes effect at once. `immediate` is for installations without email: anyone can"
        " then claim any unused address, and with it all rights that organizations give to people of the address's domain.",
    )

    access_token_lifetime: timedelta = _setting(forms.duration(60, 86_400), "15m", _TOKENS, "How long an access token is valid.")
    session_lifetime: timedelta = _setting(
        forms.duration(3600, 365 * 86_400),
        "90d",
        _TOKENS,
        "How long a session lasts at most, even if it is used. Organizations and services can set a lower value.",
    )
    session_idle: timedelta = _setting(
        forms.duration(300, 30 * 86_400),
        "30d",
        _TOKENS,
        "The idle timeout of a session. Organizations and services can set a lower value. A change counts for new sign-ins. The use of a"
        " session is written once a minute, and applications that check tokens themselves use one when they refresh it.",
    )
    most_sessions: int | None = _optional(
        forms.whole(1, MOST_SESSIONS),
        "any number",
        _TOKENS,
        "How many concurrent sessions one person can have. The next one ends the oldest, and the person gets an email. Organizations"
        " and services may say less.",
    )
    reauthentication_window: timedelta = _setting(
        forms.duration(60, 86_400),
        "10m",
        _TOKENS,
        "The maximum age of a recent sign-in or reauthentication. A person must have authenticated recently to change the email"
        " address or MFA, or to transfer an organization.",
    )
    argon2_memory: int = _setting(forms.size(8192, 4 << 30), "19456KiB", _TOKENS, "Argon2id: the memory that one password hash uses.")
    argon2_passes: int = _setting(forms.whole(1, 100), "2", _TOKENS, "Argon2id: the number of passes over that memory.")
    argon2_lanes: int = _setting(forms.whole(1, 64), "1", _TOKENS, "Argon2id: the number of lanes. Each is a thread.")
    argon2_workers: int | None = _optional(
        forms.whole(1, 256), "one per processor", _TOKENS, "How many passwords one process hashes at the same time."
    )
    argon2_queue: int = _setting(
        forms.whole(0, 10_000),
        "64",
        _TOKENS,
        "How many passwords may wait while all hashing threads are busy. Further requests get 503 with `Retry-After`. Besides these"
        " places, Postern keeps a quarter as many for addresses that somebody has signed in from, and another quarter for known"
        " devices, sessions and magic links.",
    )

    password_length: int = _setting(
        forms.whole(SHORTEST_PASSWORD, LONGEST_LEAST),
        str(SHORTEST_PASSWORD),
        _TOKENS,
        "How many characters a new password must have. Organizations may ask their members for more.",
    )
    password_filter: Path | None = _optional(
        forms.path,
        "only the list that Postern ships counts",
        _TOKENS,
        "A file with the hashes of breached passwords, which `postern passwords build` makes from public lists. No one can choose such"
        " a password. A new file that you rename to this name takes effect within ten seconds; a damaged one is refused in a log line,"
        " and the one before stays.",
    )
    password_ranges: str | None = _optional(
        forms.url,
        "no service is asked",
        _TOKENS,
        "Instead of a file, a service that knows the hashes of breached passwords, such as `https://api.pwnedpasswords.com/range`. It"
        " gets the first five digits of a hash (SHA-1) and nothing else. A service that does not answer within half a second knows"
        " nothing. It is called as webhooks are, so a private address needs `POSTERN_OUTBOUND_NETWORKS`.",
    )
    breached_at_sign_in: str = _setting(
        forms.choice("off", "tell", "change"),
        "off",
        _TOKENS,
        "What a sign-in does whose password was right and stands in one of these lists: `tell` lets the person in, and mails them once"
        " a month; `change` lets nobody in, and emails a link to choose another password.",
    )

    geoip_database: Path | None = _optional(
        forms.path,
        "locations are unknown and not used",
        _SIGN_IN,
        "A database file in MaxMind's format (`.mmdb`, City or Country) with the locations of IP addresses. A newer file takes effect"
        " at the next start.",
    )
    proxy_networks: tuple[IPv4Network | IPv6Network, ...] = _setting(
        forms.networks,
        "",
        _SIGN_IN,
        "Networks of VPNs and proxies, separated by commas. A sign-in from one of them has a higher risk score.",
    )
    proxy_networks_file: Path | None = _optional(
        forms.path, "no further networks", _SIGN_IN, "A file with more such networks, one per line; `#` begins a comment."
    )

    login_event_retention: timedelta = _setting(
        forms.duration(31 * 86_400, 3650 * 86_400),
        "400d",
        _SIGN_IN,
        "How long Postern keeps sign-ins, failed ones too, and uses of MFA, with their addresses and places. Then Postern deletes"
        " these records. A person's habits, and statistics, reach back no further. Sign-ins go by whole months, so some stay up to a"
        " month longer.",
    )

    registration: str = _setting(
        forms.choice(*RegistrationPolicy),
        RegistrationPolicy.ANYBODY.value,
        _SIGN_IN,
        "Who can register on the pages: `anybody`; `except_domains` for all but addresses of disposable email domains and of"
        " `POSTERN_REGISTRATION_DOMAINS`, with the domains below them; `domains` for addresses of `POSTERN_REGISTRATION_DOMAINS`,"
        " without the domains below them; `invitation` for those who are invited; `closed` for those alone who open the link of an"
        " invitation. Organizations may let in fewer on their pages. Directories, an organization's own providers and verified"
        " domains, applications, imports and the command line make accounts under each of them.",
    )
    registration_domains: tuple[str, ...] = _setting(
        forms.mail_domains, "", _SIGN_IN, "The email domains of `POSTERN_REGISTRATION`, separated by commas."
    )
    throwaway_domains: Path | None = _optional(
        forms.path,
        "the list that Postern ships",
        _SIGN_IN,
        "A file with email domains that offer disposable mailboxes, one on each line; `#` begins a comment. They count, with the"
        " domains below them, where a rule of registration says `except_domains`. A newer file takes effect at the next start.",
    )
    unverified_account_retention: timedelta = _setting(
        forms.duration(0, 3650 * 86_400),
        "30d",
        _SIGN_IN,
        "How long Postern keeps an account whose email address is not verified and that has never been used. Then Postern deletes the"
        " account, unless a magic link to it still works, and the address is free. Accounts that a directory, a service or an import"
        " has made, and accounts with a membership, stay. `0` keeps all accounts.",
    )

    export_login_events: int = _setting(
        forms.whole(1, 1_000_000),
        "10000",
        _SIGN_IN,
        "How many sign-ins a person's export names, the newest first. The export always says how many sign-ins there are.",
    )

    codehost_client_id: str | None = _optional(
        forms.text,
        "no one can sign in with this provider, except in organizations that have a client of their own there",
        _PROVIDERS,
        f"{_CODEHOST}: the ID of this installation's client there. Allow `{{POSTERN_BASE_URL}}/auth/codehost/callback` as its redirect "
        "URI.",
    )
    codehost_client_secret: Secret | None = _optional(
        forms.secret,
        "no one can sign in with this provider",
        _PROVIDERS,
        f"{_CODEHOST}: the client secret.",
        secret=True,
    )
    codehost_issuer: str = _setting(
        forms.endpoint,
        "https://github.com/login/oauth",
        _PROVIDERS,
        f"{_CODEHOST}: the issuer, as the provider's answers name it.",
    )
    codehost_authorization_url: str = _setting(
        forms.endpoint,
        "https://github.com/login/oauth/authorize",
        _PROVIDERS,
        f"{_CODEHOST}: the authorization endpoint.",
    )
    codehost_token_url: str = _setting(
        forms.endpoint,
        "https://github.com/login/oauth/access_token",
        _PROVIDERS,
        f"{_CODEHOST}: the token endpoint.",
    )
    codehost_userinfo_url: str = _setting(
        forms.endpoint,
        "https://api.github.com/user",
        _PROVIDERS,
        f"{_CODEHOST}: the endpoint that says who a person is.",
    )
    codehost_jwks_url: str = _setting(
        forms.endpoint,
        "https://github.com/login/oauth/.well-known/jwks",
        _PROVIDERS,
        f"{_CODEHOST}: the URL of its public keys. Postern does not read these keys, since the code host issues no ID tokens.",
    )
    codehost_emails_url: str = _setting(
        forms.endpoint,
        "https://api.github.com/user/emails",
        _PROVIDERS,
        f"{_CODEHOST}: the endpoint that lists a person's addresses.",
    )
    websuite_client_id: str | None = _optional(
        forms.text,
        "no one can sign in with this provider, except in organizations that have a client of their own there",
        _PROVIDERS,
        f"{_WEBSUITE}: the ID of this installation's client there. Allow `{{POSTERN_BASE_URL}}/auth/websuite/callback` as its redirect "
        "URI.",
    )
    websuite_client_secret: Secret | None = _optional(
        forms.secret, "no one can sign in with this provider", _PROVIDERS, f"{_WEBSUITE}: the client secret.", secret=True
    )
    websuite_issuer: str = _setting(
        forms.endpoint, "https://accounts.google.com", _PROVIDERS, f"{_WEBSUITE}: the issuer, as the provider's answers name it."
    )
    websuite_authorization_url: str = _setting(
        forms.endpoint,
        "https://accounts.google.com/o/oauth2/v2/auth",
        _PROVIDERS,
        f"{_WEBSUITE}: the authorization endpoint.",
    )
    websuite_token_url: str = _setting(
        forms.endpoint, "https://oauth2.googleapis.com/token", _PROVIDERS, f"{_WEBSUITE}: the token endpoint."
    )
    websuite_userinfo_url: str = _setting(
        forms.endpoint,
        "https://openidconnect.googleapis.com/v1/userinfo",
        _PROVIDERS,
        f"{_WEBSUITE}: the userinfo endpoint.",
    )
    websuite_jwks_url: str = _setting(
        forms.endpoint,
        "https://www.googleapis.com/oauth2/v3/certs",
        _PROVIDERS,
        f"{_WEBSUITE}: the URL of the provider's public keys.",
    )
    officesuite_client_id: str | None = _optional(
        forms.text,
        "no one can sign in with this provider, except in organizations that have a client of their own there",
        _PROVIDERS,
        f"{_OFFICESUITE}: the ID of this installation's client there. Allow `{{POSTERN_BASE_URL}}/auth/officesuite/callback` as its "
        "redirect URI.",
    )
    officesuite_client_secret: Secret | None = _optional(
        forms.secret, "no one can sign in with this provider", _PROVIDERS, f"{_OFFICESUITE}: the client secret.", secret=True
    )
    officesuite_issuer: str = _setting(
        forms.endpoint,
        "https://login.microsoftonline.com/{tenantid}/v2.0",
        _PROVIDERS,
        f"{_OFFICESUITE}: the issuer. `{{tenantid}}` stands for the tenant that a token names.",
    )
    officesuite_authorization_url: str = _setting(
        forms.endpoint,
        "https://login.microsoftonline.com/common/oauth2/v2.0/authorize",
        _PROVIDERS,
        f"{_OFFICESUITE}: the authorization endpoint.",
    )
    officesuite_token_url: str = _setting(
        forms.endpoint,
        "https://login.microsoftonline.com/common/oauth2/v2.0/token",
        _PROVIDERS,
        f"{_OFFICESUITE}: the token endpoint.",
    )
    officesuite_userinfo_url: str = _setting(
        forms.endpoint,
        "https://graph.microsoft.com/oidc/userinfo",
        _PROVIDERS,
        f"{_OFFICESUITE}: the userinfo endpoint.",
    )
    officesuite_jwks_url: str = _setting(
        forms.endpoint,
        "https://login.microsoftonline.com/common/discovery/v2.0/keys",
        _PROVIDERS,
        f"{_OFFICESUITE}: the URL of the provider's public keys.",
    )

    text_hosts: tuple[str, ...] = _setting(
        forms.hosts,
        "",
        _ORGANIZATIONS,
        "Domains to which own texts may link without a proof, with all hosts below them, separated by commas. Texts of an organization"
        " also link to the domains that it has verified; texts of the installation to these alone.",
    )
    org_auto_approve: bool = _setting(
        forms.switch,
        "off",
        _ORGANIZATIONS,
        "With `on`, everybody can found organizations that are active at once. With `off`, a new one waits until a platform owner approves "
        "it.",
    )

    open_registration: bool = _setting(
        forms.switch,
        "off",
        _ORGANIZATIONS,
        "With `on`, clients on people's own devices, such as MCP clients, can register themselves (dynamic client registration) at"
        " `POST /oauth/register` (RFC 7591). Nothing is stored, and such a client gets in only where an organization and its API say"
        " `registered_clients: on`.",
    )

    bound_sessions: str = _setting(
        forms.choice(*BindingRule),
        "off",
        _SIGN_IN,
        "Whether a sign-in on a page offers the browser to bind the session to a key in its device (Device Bound Session Credentials):"
        " `offer`, or `off`. Where a browser accepts, its cookies are of no use elsewhere after ten minutes. Sessions that are bound stay"
        " bound when this is `off` again.",
    )

    dpop_nonces: str = _setting(
        forms.choice(*NonceRule),
        "nobody",
        _TOKENS,
        "Whose proofs of keys (DPoP) need a nonce of this minute: `nobody`, `confidential` for clients that authenticate, where they do, "
        "or `everybody`. With `everybody`, libraries in browsers that know no nonces get no tokens.",
    )

    outbound_networks: tuple[IPv4Network | IPv6Network, ...] = _setting(
        forms.networks,
        "",
        _OUTBOUND,
        "Networks that Postern may call on behalf of organizations (for webhooks, for example), besides public addresses; separated by "
        "commas. Every organization can then reach all addresses in these networks, so name single machines rather than whole networks.",
    )
    outbound_proxy: Secret | None = _optional(
        forms.proxy,
        "calls go straight to their destination",
        _OUTBOUND,
        "An HTTP proxy for calls on behalf of organizations: `http://user:password@host:3128`. Postern still resolves and checks every "
        "name itself, and asks the proxy for a connection to the checked address. Postern ignores proxies that the environment names.",
        secret=True,
    )
    outbound_ca_file: Path | None = _optional(
        forms.path,
        "the machine's own authorities alone",
        _OUTBOUND,
        "A file with certificates of private authorities (PEM). Calls on behalf of organizations trust these authorities as well.",
    )

    billing_api_url: str = _setting(
        forms.url,
        "https://api.stripe.com",
        _BILLING,
        "The address of the payment provider's HTTP API. Calls to this address leave through `POSTERN_OUTBOUND_PROXY` and trust"
        " `POSTERN_OUTBOUND_CA_FILE`. The address may be on this machine.",
    )
    billing_key: Secret | None = _optional(
        forms.secret,
        "nothing can be bought",
        _BILLING,
        "The secret key with which Postern calls the payment provider. The key needs the rights to read and write customers, checkout and "
        "portal sessions, and subscriptions, and no other rights.",
        secret=True,
    )
    billing_webhook_secrets: tuple[Secret, ...] | None = _optional(
        forms.secrets,
        "Postern refuses the payment provider's events",
        _BILLING,
        "The secrets with which the payment provider signs its events to `/webhooks/billing`, separated by commas. To change the secret, "
        "name the old and the new secret for a while.",
        secret=True,
    )

    delivery_retention: timedelta = _setting(
        forms.duration(86_400, 365 * 86_400),
        "30d",
        _OUTBOUND,
        "How long Postern keeps deliveries to webhooks and logout notices, with their outcomes. A replay can bring back even older events. "
        "Deliveries go by whole months, so some stay up to a month longer.",
    )
    event_retention: timedelta = _setting(
        forms.duration(86_400, 3650 * 86_400),
        "90d",
        _OUTBOUND,
        "How long Postern keeps events, which webhooks are sent and which a replay can bring back. They stay at least as long as "
        "deliveries. Events go by whole months, so some stay up to a month longer.",
    )

    rate_limits: bool = _setting(
        forms.switch,
        "on",
        _LIMITS,
        "`off` lifts every rate limit: per address, account, device and API key. Use `off` for measurements only, since it invites "
        "guessing. The limits for pending invitations and for the keys of a service are not rate limits, and stay.",
    )
    mails_per_network: int = _setting(
        forms.whole(0, 1_000_000),
        "20",
        _LIMITS,
        "How many mails strangers in one network may ask for in an hour, by registering, or by asking for a link or a code. A network is a "
        "/24 of IPv4 or a /56 of IPv6; a /48 has four times as many. Beyond it mails wait for the next hour, or the request is refused. "
        "0: no such budget.",
    )
    mails_per_domain: int = _setting(
        forms.whole(0, 1_000_000),
        "60",
        _LIMITS,
        "How many emails can be requested per hour without signing in, to the addresses of one email domain. Providers of free mail"
        " have no limit. 0: no such budget.",
    )
    mails_per_organization: int = _setting(
        forms.whole(0, 1_000_000),
        "300",
        _LIMITS,
        "How many emails can be requested per hour without signing in, on the pages of one organization. 0: no such budget.",
    )
    mails_per_installation: int = _setting(
        forms.whole(0, 10_000_000),
        "3000",
        _LIMITS,
        "How many emails can be requested per hour without signing in, in total. It also bounds how many rows the other budgets"
        " make. 0: no such budget.",
    )
    puzzles: bool = _setting(
        forms.switch,
        "on",
        _LIMITS,
        "Where many requests come from, pages require a bot challenge (proof of work) from the browser before they register somebody,"
        " mail something or check a password. In quiet times they ask for nothing. `off` never asks. Without rate limits, nothing is"
        " asked for either.",
    )
    widget: str = _setting(
        forms.choice("off", "turnstile", "hcaptcha"),
        "off",
        _LIMITS,
        "Where a page would require that bot challenge, it shows the CAPTCHA of another provider instead, on a page of its own. The"
        " provider then learns the network address of the person, and when; docs/operations/people.md says more. `off` calls no other"
        " provider.",
    )
    widget_site_key: str | None = _optional(
        forms.text,
        "with a CAPTCHA, required",
        _LIMITS,
        "The public key of this site at the CAPTCHA provider. Pages show it.",
    )
    widget_secret: Secret | None = _optional(
        forms.secret,
        "with a CAPTCHA, required",
        _LIMITS,
        "The secret with which Postern verifies responses with the CAPTCHA provider. The provider is called as webhooks are: through "
        "`POSTERN_OUTBOUND_PROXY`, if there is one.",
        secret=True,
    )
    body_limit: int = _setting(
        forms.size(1024, 1 << 30),
        "64KiB",
        _LIMITS,
        "The longest request body, at endpoints that do not set their own limit. A process that decodes a body does nothing else "
        "meanwhile, so a high limit lets one request delay all others.",
    )
    most_connections: int = _setting(
        forms.whole(1, 1_000_000),
        "12000",
        _LIMITS,
        "The most open client connections of one process. If a process has that many, a new connection replaces an idle connection of the "
        "address with the most connections.",
    )
    connections_per_address: int = _setting(
        forms.whole(1, 1_000_000),
        "2000",
        _LIMITS,
        "The most open connections of one process from one address, even with rate limits off. An IPv6 network of /64 counts as one "
        "address. A /56 may have twice as many connections, and a /48 four times as many. Trusted proxies and a Unix socket have no such "
        "limit.",
    )
    most_requests: int = _setting(
        forms.whole(1, 100_000),
        "512",
        _LIMITS,
        "The most requests that one process works on at once. Further requests get 503. A request whose body is still arriving, or whose "
        "answer the client is still reading, does not count. Such requests wait: twice as many in all, and a quarter as many from one "
        "address.",
    )
    request_timeout: timedelta = _setting(forms.duration(1, 3600), "30s", _LIMITS, "How long one request may take.")
    header_timeout: timedelta = _setting(forms.duration(1, 600), "10s", _LIMITS, "How long a client may take to send a request's head.")
    body_timeout: timedelta = _setting(
        forms.duration(1, 3600),
        "20s",
        _LIMITS,
        "How long a client may take to send a request's body, or to read an answer. A client that keeps a pace of 1 KiB a second may take "
        "longer. Postern cuts off a client earlier if the client is slower than this pace for 10 s.",
    )
    keep_alive: timedelta = _setting(
        forms.duration(0, 3600),
        "75s",
        _LIMITS,
        "How long Postern keeps an idle connection open. Choose a longer time than the proxy's own timeout, so that the proxy closes "
        "first.",
    )

    shutdown_timeout: timedelta = _setting(
        forms.duration(0, 600),
        "3s",
        _LIFE,
        "How long requests in flight may still take after SIGTERM. Then actors finish their current work.",
    )
    log_level: str = _setting(forms.choice("debug", "info", "warning", "error"), "info", _LOGS, "The least severe level that is logged.")
    log_format: str = _setting(
        forms.choice("auto", "json", "text"), "auto", _LOGS, "`auto` is `text` on a terminal and `json` everywhere else."
    )

    metrics_bind: Address | None = _optional(
        forms.address,
        "`/metrics` is served at the same address as everything else",
        _METRICS,
        "A separate address that serves `/metrics` and nothing else, in the form of `POSTERN_BIND`. Let only your monitoring reach this "
        "address. The address serves plain HTTP, even if all other addresses serve HTTPS.",
    )
    metrics_token: Secret | None = _optional(
        forms.secret,
        "everybody who can reach `/metrics` may read it",
        _METRICS,
        "The bearer token that `/metrics` requires (`Authorization: Bearer …`).",
        secret=True,
    )

    traces_endpoint: str | None = _optional(
        forms.endpoint,
        "nothing is traced",
        _TRACES,
        "The address at which your OpenTelemetry collector takes traces by OTLP/HTTP: `http://127.0.0.1:4318/v1/traces`. Postern calls it "
        "directly, without `POSTERN_OUTBOUND_PROXY`, and trusts `POSTERN_OUTBOUND_CA_FILE`. The address may be a private one.",
    )
    traces_headers: tuple[tuple[str, Secret], ...] | None = _optional(
        forms.headers,
        "no further headers",
        _TRACES,
        "Headers that the collector asks for: `Authorization=Bearer abc`; several are separated by commas. They need an endpoint with"
        " `https://`, except on this machine.",
        secret=True,
    )
    traces_sample: float = _setting(
        forms.share,
        "0.1",
        _TRACES,
        "The share of requests and jobs that are traced, from 0 to 1. For a request that goes on with a proxy's trace, the proxy has "
        "decided.",
    )
    traces_from_proxies: bool = _setting(
        forms.switch,
        "off",
        _TRACES,
        "With `on`, a request goes on with the trace that its header `traceparent` names, if the request comes from one of "
        "`POSTERN_TRUSTED_PROXIES`. This proxy must begin traces itself, or take the header out of what clients send: otherwise clients "
        "decide what is traced. From anybody else, the header never counts.",
    )
    traces_hosts: tuple[str, ...] = _setting(
        forms.hosts,
        "",
        _TRACES,
        "Hosts of your own that continue Postern's traces, separated by commas: calls to them carry `traceparent`. No other host gets"
        " the trace IDs.",
    )

    @property
    def embedded(self) -> bool:
        return self.database_url is None

    @property
    def public_url(self) -> str:
        if self.base_url is not None:
            return self.base_url
        return self.bind.url("https" if self.tls_certificate is not None else "http")

    @property
    def mail_url(self) -> str:
        """The full value: `file:` with its directory, even if the setting leaves the directory out."""
        return f"file:{self.data_dir / 'mail'}" if self.mail == "file:" else self.mail

    @property
    def public_frontend_url(self) -> str:
        return self.frontend_url or f"{self.public_url}/ui"


def _declared() -> tuple[Declaration, ...]:
    return tuple(Declaration(PREFIX + one.name.upper(), one.name, **one.metadata) for one in fields(Settings))


DECLARATIONS: Final = _declared()
_BY_NAME: Final = {name: one for one in DECLARATIONS for name in one.names}
_FILE_NAMES: Final = {f"{name}_FILE": one for name, one in _BY_NAME.items() if one.secret}


def read(environment: Mapping[str, str]) -> Settings:
    """The settings of this environment and of the file that its POSTERN_CONFIG names. The environment wins. Raises `SettingsError`."""
    given = _of_environment(environment)
    config = environment.get(CONFIG)
    if config:
        # Several names set one setting, also a `_FILE`. If the environment sets one of them, all of them in the file are ignored.
        theirs = _of_file(Path(config))
        said = {_declaration(name).field for name in given}
        given = {**{name: value for name, value in theirs.items() if _declaration(name).field not in said}, **given}
    settings = Settings(**{one.field: _value(one, given) for one in DECLARATIONS})
    _require_sense(settings)
    return settings


def log_form(environment: Mapping[str, str]) -> str | None:
    """The form of the log that is asked for, whatever else is wrong with the settings: a start that fails tells it in this form."""
    named = environment.get(_LOG_FORM)
    if not named and (config := environment.get(CONFIG)):
        with suppress(OSError, UnicodeDecodeError):
            for line in Path(config).read_text(encoding="utf-8").splitlines():
                name, _, value = line.partition("=")
                if name.strip() == _LOG_FORM:
                    named = _unquoted(value.strip())
    return named


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


def _declaration(name: str) -> Declaration:
    return _FILE_NAMES.get(name) or _BY_NAME[name]


def _of_environment(environment: Mapping[str, str]) -> dict[str, str]:
    # An empty value means "not set": compose files and unit files pass on a variable without a value as an empty one.
    given = {name: value for name, value in environment.items() if name.startswith(PREFIX) and name != CONFIG and value.strip()}
    for name in environment:
        if name.startswith(PREFIX) and name != CONFIG:
            _require_known(name, "")
    return given


def _of_file(file: Path) -> dict[str, str]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise SettingsError(f"{CONFIG}: the file {file} cannot be read: {reason}") from None
    given: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith(_COMMENTS):
            continue
        name, equals, value = text.partition("=")
        where = f" (line {number} of {file})"
        if not equals:
            raise SettingsError(f"Line {number} of {file} is not of the form NAME=value")
        name = name.strip()
        _require_known(name, where)
        if name in given:
            raise SettingsError(f"{name} is set twice{where}")
        if value := _unquoted(value.strip()):
            given[name] = value
    return given


def _require_known(name: str, where: str) -> None:
    if name in _BY_NAME or name in _FILE_NAMES:
        return
    if name.endswith("_FILE") and name.removesuffix("_FILE") in _BY_NAME:
        raise SettingsError(
            f"{name} is unknown{where}: only secrets can be read from a file, and {name.removesuffix('_FILE')} is not a secret"
        )
    # The comparison leaves the prefix out, since the prefix would make all names look alike.
    near = get_close_matches(name.removeprefix(PREFIX), [one.removeprefix(PREFIX) for one in (*_BY_NAME, *_FILE_NAMES)], n=1)
    hint = f"; did you mean {PREFIX}{near[0]}?" if near else ""
    raise SettingsError(f"{name} is not a setting of Postern{where}{hint}")


def _value(one: Declaration, given: Mapping[str, str]) -> Any:
    found = [given_one for name in one.names if (given_one := _given(one, name, given)) is not None]
    if len({text for _, text in found}) > 1:
        raise SettingsError(f"{' and '.join(name for name, _ in found)} are both set, and differ; set only one")
    name, text = found[0] if found else (one.name, one.default)
    if text is None:
        return None
    try:
        return one.form.parse(text)
    except Malformed as error:
        # The address of a mail server with a slip in it may hold a password anywhere.
        hidden = one.secret or (one.field == "mail" and ":" in text)
        shown = "" if hidden else f", not {forms.masked_url(text)!r}"
        raise SettingsError(f"{name} must be {error}{shown}") from None


def _given(one: Declaration, name: str, given: Mapping[str, str]) -> tuple[str, str] | None:
    """What is given under this name or, for a secret, in the file that `_FILE` names; and under which of the two. None for neither."""
    in_file = f"{name}_FILE"
    if not one.secret or in_file not in given:
        return (name, given[name]) if name in given else None
    if name in given:
        raise SettingsError(f"{name} and {in_file} are both set; set only one")
    return in_file, _secret_of(in_file, Path(given[in_file]))


def _secret_of(name: str, file: Path) -> str:
    try:
        text = file.read_text(encoding="utf-8").strip("\r\n")
    except OSError as error:
        raise SettingsError(f"{name}: the file {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{name}: the file {file} is not UTF-8 text") from None
    if not text:
        raise SettingsError(f"{name}: the file {file} is empty")
    return text


def _require_sense(settings: Settings) -> None:
    """Make the checks that need more than one setting."""
    if settings.database_url is not None and settings.encryption_keys is None:
        raise SettingsError(
            "POSTERN_ENCRYPTION_KEYS is required with POSTERN_DATABASE_URL, since every process must have the same keys: "
            "`postern keys generate` makes one"
        )
    if settings.metrics_bind is not None and settings.metrics_bind == settings.bind and settings.bind.port != 0:
        raise SettingsError("POSTERN_METRICS_BIND must differ from POSTERN_BIND")
    if (settings.tls_certificate is None) is not (settings.tls_key is None):
        missing, given = ("KEY", "CERTIFICATE") if settings.tls_key is None else ("CERTIFICATE", "KEY")
        raise SettingsError(f"POSTERN_TLS_{missing} is required with POSTERN_TLS_{given}")
    if settings.billing_key is not None and urlsplit(settings.billing_api_url).scheme == "http" and not _is_near(settings.billing_api_url):
        raise SettingsError("POSTERN_BILLING_API_URL must begin with https://, except on this machine: POSTERN_BILLING_KEY travels there")
    if (
        settings.traces_headers
        and settings.traces_endpoint is not None
        and urlsplit(settings.traces_endpoint).scheme == "http"
        and not _is_near(settings.traces_endpoint)
    ):
        raise SettingsError("POSTERN_TRACES_ENDPOINT must begin with https://, except on this machine: POSTERN_TRACES_HEADERS travel there")


def _is_near(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host == "localhost" or (ip_or_none(host) is not None and ip_address(host).is_loopback)


def in_force(settings: Settings) -> list[tuple[str, str]]:
    """Each setting as an operator would write it, with secrets masked."""
    return [(one.name, _written(one, getattr(settings, one.field))) for one in DECLARATIONS]


def is_default(one: Declaration, value: str) -> bool:
    """Whether the value, as `in_force` writes it, is the one that the setting has by itself."""
    return value == ("" if not one.default else _written(one, one.form.parse(one.default)))


def in_force_by_group(settings: Settings) -> Sequence[tuple[str, Sequence[tuple[Declaration, str]]]]:
    """The same with the declarations, in their groups."""
    groups: dict[str, list[tuple[Declaration, str]]] = {}
    for one, (_, value) in zip(DECLARATIONS, in_force(settings), strict=True):
        groups.setdefault(one.group, []).append((one, value))
    return [*groups.items()]


def _written(one: Declaration, value: Any) -> str:
    if value is None:
        return ""
    if one.secret and isinstance(value, tuple):
        return "***"
    if isinstance(value, Secret):
        return forms.masked_url(value.reveal()) if one.field == "database_url" else "***"
    text = one.form.write(value)
    return forms.masked_url(text) if one.field == "mail" else text
