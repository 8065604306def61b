"""The mail server of an organization, and the fallback while this server fails."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identifiers import MailServerId, OrganizationId
from core.domain.jobs import NewJob
from core.domain.lines import typed_line
from core.domain.mail import Mail, NoMail
from core.domain.normal_forms import LONGEST_NORMALIZED, NotNormalized, normalized
from core.domain.outbound import NotADestination, host
from core.domain.record.events import SYSTEM, Actor, Event, Target
from core.domain.requests import Checks
from core.domain.secrets import Secret
from core.frozen import Frozen

ORGANIZATION_MAIL_JOB: Final = "mail.organization"
_BY_OWN_SERVER: Final = "by_own_server"
# After so long without a success, the installation's server takes over.
PATIENCE: Final = timedelta(hours=1)
# After a failure the server is not tried for so long. So a server that hangs keeps a worker busy only now and then.
REST: Final = timedelta(seconds=30)
LONG_REST: Final = timedelta(minutes=10)
LONGEST_USERNAME: Final = 320
LONGEST_PASSWORD: Final = 1000
LONGEST_FROM_NAME: Final = 100


class MailServerSettings(Frozen, kw_only=True):
    host: str
    port: int
    username: str
    from_email: str
    from_name: str | None = None


class NewMailServer(MailServerSettings, kw_only=True):
    """A mail server as somebody asks for it. Nothing of it is checked yet."""

    password: str


class MailServer(MailServerSettings, kw_only=True):
    """`failing_since` is the first failure after the last success. `fallen_back_at` is when the installation's server took over."""

    id: MailServerId
    organization: OrganizationId
    failing_since: datetime | None = None
    rests_until: datetime | None = None
    fallen_back_at: datetime | None = None
    created_at: datetime
    updated_at: datetime

    def rests(self, now: datetime) -> timedelta | None:
        """The time until the server may be tried again. None when it may be tried now."""
        return self.rests_until - now if self.rests_until is not None and self.rests_until > now else None

    @property
    def rest(self) -> timedelta:
        """The pause after the server's next failure."""
        return REST if self.fallen_back_at is None else LONG_REST


class OrganizationMail(Frozen):
    """A mail that an organization sends: an invitation, or our mail to its owners about its settings. Mails about a user's account are not
    among them, whatever organization's name they show. Their links open the account, which other organizations may use as well, and the
    operator of a mail server can read the mails.

    Which server sends a mail is decided when it leaves, so the job has both forms. `mail` may leave through either server. `by_own_server`
    is the same mail in custom texts of the organization, which no platform owner has approved: it never leaves through the installation's
    server.
    """

    mail: Mail
    organization: OrganizationId
    by_own_server: Mail | None = None

    def as_job(self) -> NewJob:
        payload = {**self.mail.as_job().payload, "organization": str(self.organization)}
        if self.by_own_server is not None:
            payload[_BY_OWN_SERVER] = dict(self.by_own_server.as_job().payload)
        return NewJob(ORGANIZATION_MAIL_JOB, payload, sealed=True)

    @classmethod
    def of_job(cls, payload: Mapping[str, Json]) -> "OrganizationMail":
        """Raises `NoMail`."""
        try:
            own = payload.get(_BY_OWN_SERVER)
            by_own_server = Mail.of_job(own) if isinstance(own, Mapping) else None
            return cls(Mail.of_job(payload), OrganizationId(UUID(str(payload.get("organization")))), by_own_server)
        except ValueError:
            raise NoMail from None


def sealing_context(server: MailServerId) -> str:
    return f"mail_servers.sealed_password:{server}"


def mail_host(text: str) -> str:
    """Raises `BadRequest`."""
    try:
        return host(text.strip())
    except NotADestination as refusal:
        raise BadRequest(f"host: {refusal}", words="host_malformed") from None


def mail_port(number: int) -> int:
    if not 1 <= number <= 65535:
        raise BadRequest("port: from 1 to 65535", words="field_bounds", values={"least": 1, "most": 65535})
    return number


def mail_username(text: str) -> str:
    # The name becomes part of an SMTP command.
    if not 1 <= len(text) <= LONGEST_USERNAME or not text.isprintable():
        raise BadRequest(f"username: 1 to {LONGEST_USERNAME} visible characters", words="visible_length", values={"most": LONGEST_USERNAME})
    return text


def mail_password(text: str) -> Secret:
    if not 1 <= len(text) <= LONGEST_PASSWORD or not text.isprintable():
        raise BadRequest(f"password: 1 to {LONGEST_PASSWORD} visible characters", words="visible_length", values={"most": LONGEST_PASSWORD})
    return Secret(text)


def sender_name(text: str | None) -> str | None:
    if text is None:
        return None
    name = typed_line("from_name", text)
    # “=?” begins an encoded word (RFC 2047), which would be decoded when the header is written.
    if len(name) > LONGEST_FROM_NAME or "=?" in name:
        raise BadRequest(f"from_name: at most {LONGEST_FROM_NAME} characters", words="text_too_long", values={"most": LONGEST_FROM_NAME})
    return name or None


PLACE: Final[Checks] = {"host": mail_host, "port": mail_port, "username": mail_username}
"""Checks the fields that say where the server is, and who signs in there."""


def require_name_of(organization: str, sender: str | None) -> None:
    """Nobody writes in the name of another: the sender's name is the organization's name, or begins with it. How letters are composed, and
    whether they are small, makes no difference. Raises `BadRequest`.
    """
    try:
        begins, name = _folded(sender or organization), _folded(organization)
    except NotNormalized:
        begins, name = sender or organization, organization
    if not begins.startswith(name) or _goes_on(begins[len(name) : len(name) + 1]):
        raise BadRequest(
            f"from_name: must be the organization's name, or begin with it: {organization}",
            words="sender_name",
            values={"name": organization},
        )


def _goes_on(letter: str) -> bool:
    """Whether a word goes on with it: "Payroll" does not begin with "Pay". Japanese and Chinese have no spaces between words."""
    return letter.isdecimal() or letter.lower() != letter.upper()


def _folded(name: str) -> str:
    return normalized(" ".join(name.split()).casefold(), "NFC", LONGEST_NORMALIZED)


def mail_server_configured(server: MailServer, actor: Actor) -> Event:
    return _event("organization.smtp.configured", server, actor, {"port": server.port})


def mail_server_removed(server: MailServer, actor: Actor) -> Event:
    return _event("organization.smtp.removed", server, actor, {})


def mail_server_failed(server: MailServer, failing_since: datetime) -> Event:
    return _event("organization.smtp.failed", server, SYSTEM, {"failing_since": failing_since.isoformat()})


def mail_server_recovered(server: MailServer) -> Event:
    return _event("organization.smtp.recovered", server, SYSTEM, {})


def _event(name: str, server: MailServer, actor: Actor, details: Mapping[str, Json]) -> Event:
    return Event(name, actor, Target("organization", str(server.organization)), server.organization, {"host": server.host, **details})
