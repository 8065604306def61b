"""`postern mail`: shows the mails that Postern wrote to files. The command needs neither the server nor the database."""

import argparse
import re
import time
from itertools import islice
from pathlib import Path
from typing import Final

from adapters.mail.local import FolderUnreadable, KeptMail, MailFolder
from adapters.mail.transports import MailSettingsError, mail_directory
from entrypoints.cli.output.printing import moment, print_json, printable
from entrypoints.failures import OK, StartFailed
from entrypoints.settings import Settings, SettingsError

_LOOK_EVERY: Final = 0.1
# Control characters are replaced: a terminal obeys them, and other people write parts of a mail's text.
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    folder = MailFolder(_directory(settings))
    try:
        if arguments.action == "list":
            _list(folder, arguments)
        elif arguments.json:
            mail = _found(folder, arguments)
            print_json({**_record(mail), "text": mail.text, "links": list(mail.links)})
        else:
            _show(_found(folder, arguments), only_link=arguments.link)
    except FolderUnreadable as error:
        raise StartFailed(str(error)) from None
    return OK


def _directory(settings: Settings) -> Path:
    if not settings.mail_url.startswith("file:"):
        where = "the console" if settings.mail == "console" else "an email server"
        raise StartFailed(f"POSTERN_MAIL sends emails to {where}: `postern mail` reads only files, with POSTERN_MAIL=file:<dir>")
    try:
        return mail_directory(settings.mail_url)
    except MailSettingsError as error:
        raise SettingsError(f"POSTERN_MAIL cannot be used: {error}") from None


def _record(mail: KeptMail) -> dict[str, object]:
    return {"id": mail.id, "to": mail.to, "subject": mail.subject, "sent_at": mail.sent_at}


def _list(folder: MailFolder, arguments: argparse.Namespace) -> None:
    if arguments.json:
        found = islice(folder.mails(to=arguments.to, subject=arguments.subject), arguments.limit)
        print_json([_record(mail) for mail in found])
        return
    for mail in islice(folder.mails(to=arguments.to, subject=arguments.subject), arguments.limit):
        print(f"{printable(mail.id)}  {_sent(mail):<20}  {printable(mail.to, 320)}  {printable(mail.subject, 500)}")


def _found(folder: MailFolder, arguments: argparse.Namespace) -> KeptMail:
    deadline = time.monotonic() + arguments.wait
    while True:
        mail = _look(folder, arguments)
        if mail is not None:
            return mail
        if time.monotonic() >= deadline:
            raise StartFailed(f"Email not found{' yet' if arguments.wait else ''}; `postern mail list` shows all")
        time.sleep(_LOOK_EVERY)


def _look(folder: MailFolder, arguments: argparse.Namespace) -> KeptMail | None:
    if arguments.id is None:
        return next(folder.mails(to=arguments.to, subject=arguments.subject), None)
    mail = folder.find(arguments.id)
    return mail if mail is not None and mail.fits(arguments.to, arguments.subject) else None


def _show(mail: KeptMail, *, only_link: bool) -> None:
    if not only_link:
        print(f"To: {printable(mail.to, 320)}\nSubject: {printable(mail.subject, 500)}\nSent: {_sent(mail)}\n")
        print(_CONTROLS.sub("\N{REPLACEMENT CHARACTER}", mail.text), end="")
    elif mail.links:
        print(printable(mail.links[0], 4096))
    else:
        raise StartFailed(f"The email {printable(mail.subject, 500)!r} to {printable(mail.to, 320)} has no link")


def _sent(mail: KeptMail) -> str:
    return "unknown" if mail.sent_at is None else moment(mail.sent_at)
