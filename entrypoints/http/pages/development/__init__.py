"""`/dev/mail`: the mails that were written into files, for a person who tries Postern on their own machine. The pages work without scripts.

The links in these mails sign in anybody who opens them. So the pages exist only where nobody else can reach them: `mail_pages_directory`
checks the settings, and `comes_from_this_machine` checks each request. To everybody else the pages do not exist.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from ipaddress import ip_address
from itertools import islice, takewhile
from pathlib import Path
from typing import Final, Self, TypeVar
from urllib.parse import urlsplit

import msgspec
import trio

from adapters.mail.local import FolderUnreadable, KeptMail, MailFolder
from adapters.mail.transports import mail_directory
from core.domain.errors import NotFound, Refusal, Unavailable
from core.domain.languages import DEFAULT
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import PagePolicy
from entrypoints.http.machinery.callers import CallerRule
from entrypoints.http.machinery.calls import Call, Request
from entrypoints.http.machinery.endpoints import Endpoint, Statement, declare
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.pages.kit import HTML, Pages
from entrypoints.settings import Settings

T = TypeVar("T")

_LIST: Final = "/dev/mail"
_MOST: Final = 100
# The page of who was invited waits so long for the mails.
_ARRIVE_WITHIN: Final = 2.0
_LOOKS_EVERY: Final = 0.05
_HOST: Final = re.compile(rb"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(?::[0-9]{1,5})?")
# A proxy adds these headers, to show itself or to name its client.
_FORWARDING: Final = re.compile(
    rb"x-forwarded(-.*)?|forwarded|via|x-real-ip|.*-client-ip|.*-connecting-ip|x-original-.*|x-envoy-.*|x-proxy.*"
)
# Punctuation at the end of a sentence does not belong to the address before it.
_ADDRESS: Final = re.compile(r"https?://[^\s<>\"]*[^\s<>\".,;:!?')\]]")


def mail_pages_directory(settings: Settings) -> Path | None:
    """The directory of the mails. None when these settings admit requests from outside of this machine, or send mail elsewhere."""
    alone = (
        settings.mail_url.startswith("file:")
        and _is_this_machine(settings.bind.host)  # empty for a Unix socket, which proxies on this machine connect to
        and _is_this_machine(urlsplit(settings.public_url).hostname or "")
        and not settings.trusted_proxies
    )
    return mail_directory(settings.mail_url) if alone else None


def comes_from_this_machine(request: Request) -> bool:
    """Whether a program on this machine asked us by our local name, and no header names a proxy in between. The check of `Host` defends
    against DNS rebinding, which makes a foreign name resolve to this machine. Two `Host` headers arrive joined by a comma, and so match no
    name.
    """
    # No proxy is trusted here, so this is the address of the peer itself.
    return (
        _is_this_machine(request.client_address)
        and _names_this_machine(request.header(b"host") or b"")
        and not any(_FORWARDING.fullmatch(name.lower()) for name in request.header_names)
    )


def mail_list(request: Request, settings: Settings) -> str:
    """The address of the list of mails. Empty where the list does not exist."""
    return _LIST if mail_pages_directory(settings) is not None and comes_from_this_machine(request) else ""


class NewMails:
    """The mails that come into the folder from now on, for a page that sends some and shows where they lead. To everybody else than whom
    the pages of mails serve, it is empty.
    """

    def __init__(self, request: Request, settings: Settings) -> None:
        directory = mail_pages_directory(settings) if comes_from_this_machine(request) else None
        self._folder = None if directory is None else MailFolder(directory)
        self._limiter = trio.CapacityLimiter(1)
        self._before = ""

    async def mark(self) -> Self:
        """What is there already counts no more."""
        if self._folder is not None:
            self._before = await self._read(self._folder.newest)
        return self

    async def links(self, emails: Sequence[str]) -> Mapping[str, str]:
        """The first link of the newest mail to each address. Mails are sent beside the request, so this waits for a moment."""
        found: Mapping[str, str] = {}
        if self._folder is not None:
            with trio.move_on_after(_ARRIVE_WITHIN):
                while len(found) < len(emails):
                    await trio.sleep(_LOOKS_EVERY)
                    found = await self._read(partial(self._links, self._folder, frozenset(emails)))
        return found

    def _links(self, folder: MailFolder, emails: Collection[str]) -> Mapping[str, str]:
        new = takewhile(lambda mail: mail.id > self._before, folder.mails())
        # The newest come first, and the newest counts.
        return {mail.to: mail.links[0] for mail in reversed(list(new)) if mail.to in emails and mail.links}

    async def _read(self, reading: Callable[[], T]) -> T:
        return await _read(reading, self._limiter)


class MailPath(msgspec.Struct, frozen=True):
    mail_id: str


class _OnThisMachine:
    """A caller on this machine. For everybody else the page does not exist."""

    name = "on_this_machine"
    scheme = None
    refuses: tuple[type[Refusal], ...] = (NotFound,)
    reads: tuple[str, ...] = ()

    def owes_limit(self, _method: str) -> bool:
        return False

    async def admit(self, request: Request, _postern: Postern) -> None:
        if not comes_from_this_machine(request):
            raise NotFound


ON_THIS_MACHINE: Final[CallerRule] = _OnThisMachine()


# Errors have the same form as everywhere else, so they do not reveal that pages exist here.
_STATEMENT: Final[Statement] = {"caller": ON_THIS_MACHINE, "limit": UNLIMITED, "produces": HTML}


class MailPages:
    def __init__(self, pages: Pages, directory: Path) -> None:
        self._pages = pages
        self._folder = MailFolder(directory)
        self._limiter = trio.CapacityLimiter(1)
        self.endpoints: Final = (self._list(), self._show())

    def _list(self) -> Endpoint:
        @declare("GET", _LIST, _STATEMENT, PagePolicy())
        async def list_mail(_call: Call[None, None, None, None], _postern: Postern) -> bytes:
            """List the newest mails"""
            mails = await self._read(lambda: list(islice(self._folder.mails(), _MOST)))
            # Most people come for the mail that was just sent.
            newest = list(parts(mails[0].text)) if mails else []
            return self._pages.page(
                "development/mail_list.html", DEFAULT, mails=[_shown(mail) for mail in mails], newest=newest, most=_MOST
            )

        return list_mail

    def _show(self) -> Endpoint:
        @declare("GET", f"{_LIST}/{{mail_id}}", _STATEMENT, PagePolicy())
        async def show_mail(call: Call[None, None, MailPath, None], _postern: Postern) -> bytes:
            """Show one mail, with its links"""
            mail = await self._read(partial(self._folder.find, call.path.mail_id))
            if mail is None:
                raise NotFound
            return self._pages.page("development/mail.html", DEFAULT, mail=_shown(mail), parts=list(parts(mail.text)), back=_LIST)

        return show_mail

    async def _read(self, reading: Callable[[], T]) -> T:
        return await _read(reading, self._limiter)


async def _read(reading: Callable[[], T], limiter: trio.CapacityLimiter) -> T:
    try:
        return await trio.to_thread.run_sync(reading, limiter=limiter)
    except FolderUnreadable as error:
        raise Unavailable(retry_after=1, detail=str(error)) from None


def parts(text: str) -> Iterator[tuple[str, str]]:
    """The pieces of a mail's text: each is a text, and its address if the text is a link."""
    at = 0
    for found in _ADDRESS.finditer(text):
        yield text[at : found.start()], ""
        yield found[0], found[0]
        at = found.end()
    yield text[at:], ""


def _shown(mail: KeptMail) -> Mapping[str, str]:
    sent = "" if mail.sent_at is None else f"{mail.sent_at:%Y-%m-%d %H:%M:%S} UTC"
    return {"path": f"{_LIST}/{mail.id}", "to": mail.to, "subject": mail.subject or "(no subject)", "sent": sent}


def _names_this_machine(host: bytes) -> bool:
    found = _HOST.fullmatch(host)
    return found is not None and _is_this_machine(found[1].decode("ascii").strip("[]"))


def _is_this_machine(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
