"""The mail server of an organization."""

from datetime import datetime
from typing import Annotated

import msgspec

from core.domain.errors import BadRequest
from core.domain.tenancy.mail_servers import LONGEST_FROM_NAME, LONGEST_PASSWORD, LONGEST_USERNAME, MailServer, NewMailServer
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown, taken
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import SECRET, EmailText, MessageText, OrganizationPath, bounded, example
from entrypoints.http.machinery.limits import CREDENTIALS

_TAGS = ("settings",)
_SMTP = "/api/organizations/{org_slug}/smtp"
_MANAGE = able(Capability.SETTINGS_MANAGE, impersonated=True)
# The mail server reads and sends the organization's mails, and outlasts an impersonation.
_IN_PERSON = able(Capability.SETTINGS_MANAGE, impersonated=False)

_Username = Annotated[str, bounded({"minLength": 1, "maxLength": LONGEST_USERNAME}, examples=["acme"])]
_Password = Annotated[str, SECRET, bounded({"minLength": 1, "maxLength": LONGEST_PASSWORD}, examples=["correct horse"])]
_FromName = Annotated[str, bounded({"maxLength": LONGEST_FROM_NAME}, examples=["Acme"])]
_Port = Annotated[int, example(587)]
_Host = Annotated[str, example("smtp.acme.example")]
_HostText = Annotated[str, bounded({"minLength": 1, "maxLength": 253}, examples=["smtp.acme.example"])]


class SmtpBody(msgspec.Struct, frozen=True, kw_only=True):
    """An email server, and the sender of its emails."""

    host: _HostText
    """The host name or the IP address of the server."""
    port: _Port
    """The port of the server. Port 465 uses implicit TLS; every other port requires STARTTLS."""
    username: _Username
    """The user name for authentication."""
    password: _Password
    """The password for authentication. Postern stores the password encrypted, and no response contains it."""
    from_email: EmailText
    """The sender's email address."""
    from_name: _FromName | None = None
    """The sender's name. It must be the organization's name, or begin with it."""


class SmtpRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The email server of an organization, without its password. If none is set, only `configured` is present."""

    configured: Annotated[bool, example(True)]
    """Whether an email server is set."""
    host: _Host | msgspec.UnsetType = msgspec.UNSET
    """The host name or the IP address of the server."""
    port: _Port | msgspec.UnsetType = msgspec.UNSET
    """The port of the server."""
    username: Annotated[str, example("acme")] | msgspec.UnsetType = msgspec.UNSET
    """The user name for authentication."""
    from_email: Annotated[str, example("it@acme.example")] | msgspec.UnsetType = msgspec.UNSET
    """The sender's email address."""
    from_name: Annotated[str, example("Acme")] | msgspec.UnsetType | None = msgspec.UNSET
    """The sender's name."""
    failing_since: datetime | msgspec.UnsetType | None = msgspec.UNSET
    """When the server started to fail; null if the server works."""
    fallback_since: datetime | msgspec.UnsetType | None = msgspec.UNSET
    """When the installation's email server took over; null if it has not."""


class SmtpTestResult(msgspec.Struct, frozen=True):
    """The result of the test."""

    success: Annotated[bool, example(True)]
    """Whether the email server accepted the email."""
    message: MessageText


_wanted = taken(SmtpBody, NewMailServer)
_record = shown(MailServer, SmtpRecord, named={"fallback_since": "fallen_back_at"}, configured=lambda _server: True)


@endpoint.post(_SMTP, caller=_IN_PERSON, keys=True, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def set_mail_server(call: Call[SmtpBody, None, OrganizationPath, Member], postern: Postern) -> SmtpRecord:
    """Set the email server of an organization

    The server sends the organization's invitations, and the emails to its owners about its settings. Emails about people's accounts do not
    use this server, because their links give access to the account. While the server fails, emails wait. After 1 hour of failures, the
    installation's server takes over until this server accepts emails again, and the owners get an email.
    """
    server = await postern.tenancy.mail_servers.configure(call.caller, call.actor, _wanted(call.body))
    return _record(server)


@endpoint.get(_SMTP, caller=_MANAGE, keys=True, tags=_TAGS)
async def get_mail_server(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> SmtpRecord:
    """Get the email server of an organization

    The response does not contain the password. If no email server is set, only `configured` is present.
    """
    server = await postern.tenancy.mail_servers.get(call.caller)
    return SmtpRecord(configured=False) if server is None else _record(server)


@endpoint.delete(_SMTP, caller=_IN_PERSON, keys=True, limit=CREDENTIALS, status=204, tags=_TAGS)
async def remove_mail_server(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> NoBody:
    """Delete the email server of an organization

    The organization's emails use the installation's server again. If no email server is set, nothing happens.
    """
    await postern.tenancy.mail_servers.remove(call.caller, call.actor)
    return NO_BODY


@endpoint.post(f"{_SMTP}/test", caller=_IN_PERSON, limit=CREDENTIALS, tags=_TAGS)
async def test_mail_server(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> SmtpTestResult:
    """Send a test email through the email server of an organization

    The email goes to you. The response contains whether the server accepted the email and, if not, the server's response.
    """
    tested = await postern.tenancy.mail_servers.test(call.caller, call.actor)
    return SmtpTestResult(tested.success, tested.message)
