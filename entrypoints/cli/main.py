"""The `postern` command: its arguments and its exit status. Each command's module is loaded only when that command is called."""

import argparse
import errno
import gc
import io
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, TextIO

from entrypoints.failures import ALREADY_SERVED, FAILURE, USAGE, StartFailed, sole
from entrypoints.numbers import is_number

if TYPE_CHECKING:
    from core.domain.record.audit_chains import ChainHead

_INTERRUPTED: Final = 130
# The number of new objects after which the garbage collector runs. One or two requests in flight make Python's default of 700 objects, all
# still in use, so with the default the collector would look through these objects several times in each request.
_YOUNG: Final = 5_000
_EPILOG: Final = f"""\
The verbs of the API are commands, too, such as `postern team list`: `postern verbs` lists them.

Settings are environment variables: docs/settings.md lists them, `postern config` shows those in force.

exit status:
  0  done, or stopped when asked to
  {FAILURE}  failed; the reason is on standard error
  {USAGE}  the command line or a setting is wrong
  {ALREADY_SERVED}  another Postern process uses the data directory
  {_INTERRUPTED}  interrupted (Ctrl-C)
"""

# Errors of reading and writing an open file carry no name.
_OF_DISKS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
_LONGEST_PATH: Final = 4096

_CAN: Final = f"a capability: the exit status is 0 if they have it, {FAILURE} if not; without this option, 0 if they are let in at all"

_ORGANIZATION_COMMANDS: Final = {
    "create": "found an organization for an existing account, which then owns it",
    "list": "list organizations, newest first",
    "show": "show an organization, with its tier, its limits and its owner",
    "approve": "approve a pending organization",
    "reject": "reject a pending organization for good",
    "suspend": "suspend an active organization: everybody in it is refused",
    "activate": "end a suspension",
    "tier": "give an organization another tier, or its own limits",
    "delete": "delete an organization and everything in it, for good",
}
_IMPORT_COMMANDS: Final = {
    "keycloak": "import the people of a Keycloak realm",
    "auth0": "import the users of an Auth0 tenant",
    "firebase": "import the users of a Firebase project",
    "cognito": "import the users of a user pool of Amazon Cognito",
    "zitadel": "import the people of Zitadel's organizations",
    "authentik": "import the people of authentik",
    "csv": "import people from a table",
    "postern": "import people that another Postern, or a script, has written down",
}
_IMPORT_FILES: Final = {
    "keycloak": "the export of one realm: its file, or the folder of its files",
    "auth0": "the bulk export of users (NDJSON or JSON), or files for a bulk import",
    "firebase": "what firebase auth:export wrote, as JSON or CSV",
    "cognito": "what aws cognito-idp list-users wrote (JSON, also several pages), or a table with the columns of Cognito's user import",
    "zitadel": "the answer of POST /admin/v1/export",
    "authentik": "what ak export_blueprint wrote",
    "csv": "the table, in UTF-8, with the names of its columns in the first line",
    "postern": "NDJSON; docs/guides/from-a-table.md describes it",
}
_IMPORT_CLIENTS: Final = {
    "keycloak": "write clients and groups into this new file, and import nobody",
    "auth0": "write the clients, roles and connections of a0deploy's tenant.yaml or folder into this new file, and import nobody",
}
_PRIVACY_COMMANDS: Final = {
    "export": "print what is kept about a person, as JSON",
    "forget": "anonymize a person for good; a serving process removes the rest",
}
# Nouns with verbs beside the commands written by hand.
_WITH_VERBS: Final = ("organization", "service")
_OUTGOING_WORK: Final = ("mail", "deliveries", "billing", "siem")
_USER_COMMANDS: Final = {
    "show": "show everything about an account",
    "deactivate": "lock an account: end all its sessions, and refuse new sign-ins",
    "activate": "let a deactivated account sign in again",
    "reset-password": "let nobody in any more: end password, passkeys, connected accounts and sessions, and mail a link for a new password",
    "revoke-sessions": "sign an account out everywhere",
    "disable-mfa": "remove the second factor of an account whose owner has lost it",
}


def main(arguments: Sequence[str] | None = None) -> int:
    _bear_any_text(sys.stdout)
    words = sys.argv[1:] if arguments is None else arguments
    given = _parser(words).parse_args(words)
    try:
        status = _run(given)
        # A server's output is its log. Whoever stops a server asks whether it stopped well, and not whether the last lines found room.
        with suppress(OSError) if given.module == "serve" else nullcontext():
            _flush()  # here, so that a full disk under our output is told like any other failure
        return status  # noqa: TRY300 - the flush may fail
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:  # the reader of our output has closed the pipe
        _print_no_more()
        return FAILURE
    except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - the outermost handler of the command
        status = _explain(sole(error), as_json=_answers_in_json(given))
        with suppress(OSError):
            _flush()
        return status


def _flush() -> None:
    try:
        print(end="", flush=True)
    except OSError as error:
        closed_terminal = error.errno == errno.EIO and stat.S_ISCHR(os.fstat(sys.stdout.fileno()).st_mode)
        _print_no_more()
        if not closed_terminal:  # nobody misses what a closed terminal does not show
            raise


def _print_no_more() -> None:
    """Python would raise again when it closes standard output at the exit, and end with a status of its own."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _bear_any_text(out: TextIO) -> None:
    """Writes a character that the output's encoding lacks as its escape code, as standard error does by default. Otherwise a person's name
    could end a command with an error.
    """
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(errors="backslashreplace")


def _run(given: argparse.Namespace) -> int:
    # The parser of the command line is garbage now. It would stay for good among the objects that the collector does not look through.
    gc.collect()
    # The loaded modules stay loaded, so the garbage collector need not look through their objects.
    gc.disable()
    command = import_module(f"{__package__}.{given.module}")
    gc.freeze()
    gc.set_threshold(_YOUNG)
    gc.enable()
    if given.without_settings:
        return int(command.run(given))
    from entrypoints import logs, settings  # noqa: PLC0415 - `postern version` does not need them

    in_force = settings.read(os.environ)
    # A command prints its own result. Log lines below a warning would only stand between the lines of the result.
    level = "warning" if in_force.log_level == "info" and given.module != "serve" else in_force.log_level
    logs.configure(level, in_force.log_format)
    return int(command.run(given, in_force))


def _answers_in_json(given: argparse.Namespace) -> bool:
    """Whether a program reads what this command says: it asked for JSON, or a server's log is to hold nothing but JSON lines."""
    return _log_is_json() if given.module == "serve" else bool(getattr(given, "json", False))


def _log_is_json() -> bool:
    from entrypoints import logs  # noqa: PLC0415 - `postern version` does not need it
    from entrypoints.settings import log_form  # noqa: PLC0415

    # Words and settings are refused before the log is configured.
    return logs.form() == "json" or log_form(os.environ) == "json"


def _explain(error: BaseException, *, as_json: bool) -> int:
    """Prints a sentence for a foreseen error, and logs a stack trace for any other. Returns the exit status."""
    if isinstance(error, KeyboardInterrupt):
        return _INTERRUPTED
    if (foreseen := _foreseen(error)) is not None:
        return _say(*foreseen, as_json=as_json)
    import structlog  # noqa: PLC0415 - only when something failed

    structlog.get_logger().critical("crashed", error=type(error).__name__, exc_info=error)
    return FAILURE


def _foreseen(error: BaseException) -> tuple[str, int] | None:
    """The sentence, and the exit status."""
    from core.domain.errors import Refusal, RetryLater  # noqa: PLC0415 - only when something failed
    from entrypoints.settings import SettingsError  # noqa: PLC0415

    match error:
        case SettingsError():
            return str(error), USAGE
        case StartFailed():
            return str(error), error.status
        case RetryLater() if error.detail is not None:
            # Callers of the API do not get the detail. The operator at the command line gets the detail, to repair the cause.
            return f"{error.message}: {error.detail}", FAILURE
        case Refusal():
            return error.message, FAILURE
        case OSError() if error.filename is not None or error.errno in _OF_DISKS:
            from entrypoints.cli.output.printing import printable  # noqa: PLC0415

            file = "" if error.filename is None else f"{printable(str(error.filename), _LONGEST_PATH)}: "
            return f"{file}{error.strerror}", FAILURE
    return None


def _say(sentence: str, status: int, *, as_json: bool) -> int:
    if as_json:
        now = f"{datetime.now(UTC).isoformat()[:-6]}Z"
        line = {"timestamp": now, "level": "error", "event": "failed", "message": sentence, "exit_status": status}
        print(json.dumps(line), file=sys.stderr)
    else:
        print(f"postern: {sentence}", file=sys.stderr)
    return status


class _Parser(argparse.ArgumentParser):
    """Tells programs what is wrong with their words in the form in which they read everything else."""

    def error(self, message: str) -> NoReturn:
        if "--json" in sys.argv or (sys.argv[1:2] == ["serve"] and _log_is_json()):
            sys.exit(_say(f"{message} ({self.prog} --help)", USAGE, as_json=True))
        super().error(message)


def _parser(words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The parser of the commands written by hand, and of the verbs that these words ask for."""
    parser: argparse.ArgumentParser = _Parser(
        prog="postern",
        description="Self-hosted, multi-tenant single sign-on and identity platform.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(title="commands", metavar="command", required=True)

    serve = _command(commands, "serve", "serve", "run the server, with its own PostgreSQL unless POSTERN_DATABASE_URL names one")
    serve.add_argument("--processes", type=_count, default=1, metavar="N", help="how many processes share the address (default: 1)")
    serve.add_argument("--as-child", type=_numbers, default=None, help=argparse.SUPPRESS)

    _add_schema_commands(commands)

    _add_owner_commands(_group(commands, "owner", "manage platform owners"))

    user = _group(commands, "user", "manage one account at a time")
    for name, text in _USER_COMMANDS.items():
        one = _command(user, name, "user", text, action=name)
        one.add_argument("--email", required=True, help="the account's e-mail")
        _add_json(one)
        if name == "reset-password":
            one.add_argument("--print", action="store_true", dest="print_link", help="show the link here instead of mailing it")

    stats = _command(user, "stats", "user", "count passwords, by the system that made their hash", action="stats")
    _add_json(stats)

    _add_privacy_commands(_group(commands, "privacy", "hand out what is kept about a person, or have them forgotten"))

    _add_organization_commands(
        _group(commands, "organization", "manage organizations: found, approve, suspend, limit, move and delete them")
    )

    _add_service_commands(_group(commands, "service", "make and look at services, the applications of organizations"))
    _add_json(_command(_group(commands, "saml", "look at SAML"), "status", "saml", "show where each service with SAML stands"))

    _add_import_commands(_group(commands, "import", "take over people of another system, and write its clients down as configuration"))

    invite = _command(commands, "invite", "organization", "invite a person to an organization, by mail", action="invite")
    invite.add_argument("--organization", required=True, metavar="SLUG", help="the organization's slug")
    invite.add_argument("--email", required=True, help="the person's e-mail")
    invite.add_argument("--role", default="member", metavar="SLUG", help="the role that the person gets (default: member)")
    _add_json(invite)

    api_key = _group(commands, "api-key", "manage API keys, which services' own servers call with")
    revoke = _command(api_key, "revoke", "api_key", "delete an API key: from the next request on, it is refused", action="revoke")
    _add_json(revoke)
    revoke.add_argument("--prefix", required=True, metavar="sk_XXXXXX", help="the beginning of the key, up to the second underscore")

    _add_access_command(commands)

    _add_mail_commands(_group(commands, "mail", "read mail that went into files (POSTERN_MAIL=file:…)"))

    _add_key_commands(_group(commands, "keys", "manage signing and encryption keys"))

    _add_backup_commands(_group(commands, "backup", "make backups, prove them and restore them"))
    _add_jobs_commands(_group(commands, "jobs", "look at work that goes out of the house, and let held work go after a restore"))

    _add_billing_commands(_group(commands, "billing", "look at what the payment provider reports, and ask it"))

    _add_audit_commands(_group(commands, "audit", "check the audit log"), commands)

    _add_demo_command(commands)

    _add_config_commands(commands)
    _add_doctor_command(commands)
    _add_size_command(commands)
    _add_verb_commands(commands)
    _add_files_command(commands)
    version = _command(commands, "version", "version", "print the version")
    _add_json(version)
    version.set_defaults(without_settings=True)
    if _asks_for_verbs(commands.choices, words):
        from entrypoints.cli.verbs.offering import offer  # noqa: PLC0415 - with it come all routes

        offer(commands, words[0])
    return parser


def _asks_for_verbs(commands: Mapping[str, argparse.ArgumentParser], words: Sequence[str]) -> bool:
    """Whether the words are no command written by hand, and no option."""
    if not words or words[0].startswith("-"):
        return False
    if words[0] not in commands:
        return True
    by_hand = commands[words[0]]._subparsers  # noqa: SLF001 - argparse has no public name for it
    return words[0] in _WITH_VERBS and by_hand is not None and not (len(words) > 1 and words[1] in _names_in(by_hand))


def _names_in(group: "argparse._ArgumentGroup") -> Iterable[str]:
    return group._group_actions[0].choices or ()  # noqa: SLF001 - as above


Commands = argparse._SubParsersAction  # noqa: SLF001 - argparse has no public name for it


def _command(commands: "Commands[argparse.ArgumentParser]", name: str, module: str, text: str, **defaults: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False)
    parser.set_defaults(module=module, without_settings=False, **defaults)
    return parser


def _group(commands: "Commands[argparse.ArgumentParser]", name: str, text: str) -> "Commands[argparse.ArgumentParser]":
    parser = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False)
    return parser.add_subparsers(title="commands", metavar="command", required=True)


def _add_json(parser: argparse.ArgumentParser, text: str = "print JSON, for programs") -> None:
    parser.add_argument("--json", action="store_true", help=text)


def _add_access_command(commands: "Commands[argparse.ArgumentParser]") -> None:
    access = _command(commands, "access", "access", "explain what a person may do in an organization, and why")
    access.add_argument("--user", required=True, help="the person's e-mail")
    access.add_argument("--organization", required=True, help="the organization's slug")
    access.add_argument("--service", default=None, help="the slug of a service: show what it would learn of the person, and why")
    _add_json(access)
    access.add_argument("--can", dest="capability", default=None, help=_CAN)


def _add_schema_commands(commands: "Commands[argparse.ArgumentParser]") -> None:
    migrate = _command(commands, "migrate", "migrate", "bring the database to the schema that this version needs")
    either = migrate.add_mutually_exclusive_group()
    either.add_argument("--plan", action="store_true", help="only show what would be done")
    either.add_argument("--grant", metavar="ROLE", help="afterwards give this role what serving needs, and nothing else (postern grants)")
    _add_json(migrate)

    grants = _command(
        commands, "grants", "grants", "print the grants that the serving database role needs, those on the audit log included"
    )
    grants.add_argument("--role", default="postern_app", help="the serving role (default: postern_app)")
    grants.add_argument("--apply", action="store_true", help="apply them, as the role that owns the tables")
    _add_json(grants)


def _add_story_command(commands: "Commands[argparse.ArgumentParser]") -> None:
    story = _command(commands, "story", "record.story", "tell what followed from one request, by the id in its answer or in the log")
    story.add_argument("id", metavar="ID", help="the `request_id` of a log line, or the `X-Request-Id` of an answer")
    story.add_argument("--since", metavar="TIME", help="look from this time on (default: five minutes before the moment that the id tells)")
    story.add_argument("--until", metavar="TIME", help="look up to this time (default: an hour after that moment; with --since: now)")
    _add_json(story)


def _add_demo_command(commands: "Commands[argparse.ArgumentParser]") -> None:
    demo = _command(commands, "demo", "demo", "make an organization, people and a service, and run an application that signs them in")
    demo.add_argument("--port", type=_up_to(65535), default=None, metavar="N", help="the application's port (default: 8001, or a free one)")


def _add_doctor_command(commands: "Commands[argparse.ArgumentParser]") -> None:
    doctor = _command(commands, "doctor", "doctor", "check the installation, in one line per check")
    _add_json(doctor)
    doctor.add_argument(
        "--processes", type=_count, default=None, metavar="N", help="how many processes will serve (default: as many as serve now)"
    )
    doctor.add_argument(
        "--backups", type=Path, default=None, metavar="DIR", help="where the backups are (default: backups in the data directory)"
    )


def _add_verb_commands(commands: "Commands[argparse.ArgumentParser]") -> None:
    text = "print a script with which a shell completes this command line"
    completion = _command(commands, "completion", "verbs.completion", text)
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell that reads it")
    completion.set_defaults(without_settings=True, commands=commands)
    verbs = _command(commands, "verbs", "verbs.listing", "list the nouns of the API that are commands, too, with their verbs")
    _add_json(verbs)
    verbs.set_defaults(without_settings=True)


def _add_files_command(commands: "Commands[argparse.ArgumentParser]") -> None:
    files = _command(commands, "files", "files", "write the alert rules, the dashboard or the runbook of this version")
    files.set_defaults(without_settings=True)
    files.add_argument("kind", choices=("alerts", "dashboard", "runbook"), help="which of them")
    files.add_argument("--to", metavar="FOLDER", default=".", help="default: the current folder")
    _add_json(files)


def _add_size_command(commands: "Commands[argparse.ArgumentParser]") -> None:
    size = _command(commands, "size", "sizing.size", "say what an installation needs: processes, cores, memory, connections, disk")
    size.set_defaults(without_settings=True)
    size.add_argument("--people", type=_up_to(1_000_000_000), required=True, metavar="N", help="how many accounts there are")
    size.add_argument("--sign-ins-a-day", type=_up_to(1_000_000_000), metavar="N", help="default: one for each of the people")
    size.add_argument(
        "--peak-share", type=_share, default=0.25, metavar="X", help="the share of them in the busiest hour of the day (default: 0.25)"
    )
    size.add_argument("--tokens", type=_up_to(1000), default=4, metavar="N", help="tokens that applications get, a sign-in (default: 4)")
    size.add_argument("--reads", type=_up_to(10_000), default=50, metavar="N", help="requests with a token, a sign-in (default: 50)")
    size.add_argument("--machines", type=_count, default=2, metavar="N", help="serving machines; one of several may be away (default: 2)")
    _add_json(size)


def _add_key_commands(keys: "Commands[argparse.ArgumentParser]") -> None:
    _add_json(_command(keys, "list", "keys", "show the keys and their ages", action="list"))
    rotate = _command(keys, "rotate", "keys", "put new keys in force without downtime; both kinds, unless one is named", action="rotate")
    rotate.add_argument("--signing", action="store_true", help="only the keys that sign tokens")
    rotate.add_argument("--encryption", action="store_true", help="only the keys that encrypt stored secrets")
    _add_json(rotate)
    _add_json(_command(keys, "reencrypt", "keys", "re-encrypt what is stored under an older encryption key, now", action="reencrypt"))
    generate = _command(keys, "generate", "keys_generate", "print a new key for POSTERN_ENCRYPTION_KEYS")
    generate.set_defaults(without_settings=True)


def _add_audit_commands(audit: "Commands[argparse.ArgumentParser]", commands: "Commands[argparse.ArgumentParser]") -> None:
    _add_story_command(commands)
    storage = _command(commands, "storage", "record.storage", "say what grows, how fast, what ends it, and until when the disk lasts")
    storage.add_argument("--free", metavar="SIZE", help="the free space of the database's disk, such as 200GiB")
    _add_json(storage)
    verify = _command(audit, "verify", "audit", "find out whether anything in the log was removed, added or altered")
    _add_json(verify)
    verify.add_argument(
        "--organization", metavar="SLUG", help="only this organization's log; the id for one that was deleted, or `platform`"
    )
    verify.add_argument(
        "--head", type=_head, metavar="N:DIGEST", help="where the log ended at an earlier time: finds out whether it was cut off since"
    )
    verify.add_argument("--resume", type=Path, metavar="FILE", help="keep in this file how far it came, and go on there after a stop")
    verify.add_argument("--workers", type=int, choices=range(1, 5), default=1, help="how many parts of chains to read at once")


def _add_organization_commands(organization: "Commands[argparse.ArgumentParser]") -> None:
    for name, text in _ORGANIZATION_COMMANDS.items():
        one = _command(organization, name, "organization", text, action=name)
        if name == "list":
            one.add_argument("--status", choices=("pending", "active", "suspended", "rejected"), help="only organizations in this state")
            one.add_argument("--limit", type=_up_to(1000), default=50, metavar="N", help="the most to list (default: 50)")
            one.add_argument("--offset", type=_up_to(1_000_000), default=0, metavar="N", help="how many to skip")
        else:
            one.add_argument("--organization", required=True, metavar="SLUG", help="its slug")
        _add_json(one)
        if name == "create":
            one.add_argument("--name", required=True, help="its name")
            one.add_argument("--owner", required=True, metavar="EMAIL", help="the e-mail of the account that owns it")
        if name in {"list", "approve", "tier"}:
            one.add_argument("--tier", metavar="NAME", help="free, professional or another existing tier")
        if name in {"reject", "suspend"}:
            one.add_argument("--reason", required=name == "reject", help="the reason, which is stored and shown to those concerned")
        if name == "tier":
            for limit in ("--max-users", "--max-services"):
                one.add_argument(limit, type=_limit, metavar="N", help="its own limit in place of the tier's; `none` returns to the tier's")
        if name == "delete":
            one.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    _add_moving_commands(organization)


def _add_moving_commands(organization: "Commands[argparse.ArgumentParser]") -> None:
    key = _command(organization, "receive-key", "moving.receive_key", "print the key to which others seal organizations that move here")
    leave = _command(organization, "export", "moving.departure", "write an organization, whole, to a file for another installation")
    leave.add_argument("--organization", required=True, metavar="SLUG", help="its slug")
    leave.add_argument("--to", required=True, metavar="FILE", help="the file to write, which must not be there yet")
    leave.add_argument("--for", required=True, dest="key", metavar="KEY", help="the key that `receive-key` has printed at the new place")
    arrive = _command(organization, "import", "moving.arrival", "take an organization, whole, out of the file of another installation")
    arrive.add_argument("file", metavar="FILE", help="what `export` has written for this installation")
    arrive.add_argument("--plan", action="store_true", help="check everything and show what would arrive, and write nothing")
    arrive.add_argument(
        "--trust-people", action="store_true", help="believe the other installation: proved addresses, passwords, second factors, consents"
    )
    arrive.add_argument("--slug", metavar="SLUG", help="its slug here (default: the one that it had)")
    arrive.add_argument("--tier", metavar="NAME", help="its tier here (default: the one of the same name)")
    arrive.add_argument("--report", metavar="FILE", help="write everybody's id there and here to this CSV file")
    for one in (key, leave, arrive):
        _add_json(one)


def _add_service_commands(service: "Commands[argparse.ArgumentParser]") -> None:
    listed = _command(service, "list", "service", "list services, newest first", action="list")
    listed.add_argument("--organization", metavar="SLUG", help="only this organization's services")
    listed.add_argument("--limit", type=_up_to(1000), default=50, metavar="N", help="the most to list (default: 50)")
    listed.add_argument("--offset", type=_up_to(1_000_000), default=0, metavar="N", help="how many to skip")
    shown = _command(service, "show", "service", "show a service, with counts of what it has", action="show")
    shown.add_argument("--organization", required=True, metavar="SLUG", help="the organization's slug")
    shown.add_argument("--service", required=True, metavar="SLUG", help="its slug")
    client = _command(service, "client-id", "service", "let a service keep the client id that it had elsewhere", action="client-id")
    client.add_argument("--organization", required=True, metavar="SLUG", help="the organization's slug")
    client.add_argument("--service", required=True, metavar="SLUG", help="its slug")
    which = client.add_mutually_exclusive_group(required=True)
    which.add_argument("--keep", metavar="ID", help="the id: 8 to 80 letters, digits and . _ ~ -, and no UUID")
    which.add_argument("--own", action="store_const", dest="keep", const=None, help="back to the id that Postern has given it")
    for one in (listed, shown, client):
        _add_json(one)


def _add_import_commands(imports: "Commands[argparse.ArgumentParser]") -> None:
    for name, text in _IMPORT_COMMANDS.items():
        one = _command(imports, name, "imports.people", text, action=name)
        one.add_argument("files", nargs="+", metavar="FILE", help=_IMPORT_FILES[name])
        one.add_argument("--plan", action="store_true", help="only tell what would be done: nothing is written")
        one.add_argument("--report", type=Path, metavar="FILE", help="write a line about each person into this new file (.csv or .ndjson)")
        one.add_argument("--organization", metavar="SLUG", help="list the people as members of this organization (default: of none)")
        one.add_argument("--role", default="member", metavar="SLUG", help="the role that they get there (default: member)")
        one.add_argument(
            "--map-role",
            action="append",
            default=[],
            metavar="THEIRS=OURS",
            help="people with this role there get that role here; may repeat",
        )
        one.add_argument("--trust-verified", action="store_true", help="count an address as proved where the other system says so")
        one.add_argument("--usernames", action="store_true", help="take over user names, which are never issued again afterwards")
        one.add_argument("--relying-party", default="", metavar="HOST", help="what the passkeys belong to, if the files do not say it")
        one.add_argument("--source", default="", metavar="NAME", help="where the ids of the people count, if the files do not say it")
        one.add_argument("--tell", action="store_true", help="send mails and webhooks about the people (default: nobody is told)")
        _add_json(one, "print the totals as JSON, for programs")
        one.set_defaults(hashes=None, states=None, only_organization="", map=[], delimiter=",", clients=None, hash=None, hash_config=None)
        if name == "keycloak":
            one.add_argument("--only-organization", default="", metavar="ALIAS", help="only members of this organization of the realm")
        if name == "zitadel":
            one.add_argument("--only-organization", default="", metavar="NAME", help="only people of the organization with this name or id")
            one.add_argument("--states", metavar="FILE", help="the answers of POST /v2/users, which say who is active (needed)")
        if name in {"keycloak", "auth0"}:
            one.add_argument("--clients", metavar="FILE", help=_IMPORT_CLIENTS[name])
        if name == "auth0":
            one.add_argument("--hashes", metavar="FILE", help="the file of password hashes that Auth0's support gives out")
        if name in {"csv", "postern", "firebase"}:
            one.add_argument("--hash", metavar="FORM", help="the library whose hashes do not name their form, such as better-auth")
            one.add_argument(
                "--hash-config", metavar="FILE", help="the password hash parameters of a Firebase project, for --hash firebase"
            )
        if name == "csv":
            one.add_argument("--map", action="append", metavar="COLUMN=MEANING", help="what a column means; may repeat")
            one.add_argument("--delimiter", choices=(",", ";", "tab"), help="what stands between cells (default: a comma)")


def _add_backup_commands(backup: "Commands[argparse.ArgumentParser]") -> None:
    create = _command(backup, "create", "backups.create", "dump the database, with a manifest of what is in it")
    create.add_argument("--database", metavar="URL", help="connect with this address, of a role that may only read")
    _add_json(create)
    create.add_argument("--seal-keys-for", metavar="FILE", help="add the encryption keys, sealed for this X25519 public key (PEM)")
    check = _command(backup, "check", "backups.check", "restore a backup into a scratch database, and prove it")
    check.add_argument("--scratch", metavar="URL", help="a server to make the scratch database on (default: a PostgreSQL of its own)")
    check.add_argument("--work", metavar="FOLDER", help="where that PostgreSQL keeps its files (default: the folder for temporary files)")
    check.add_argument("--database", metavar="URL", help="prove this restored copy instead; with a backup or --in, compare the two")
    check.add_argument("--no-sign-in", action="store_true", help="with --database: do not write to the copy")
    check.add_argument("--json", action="store_true", help="print the result as JSON")
    restore = _command(backup, "restore", "backups.restore", "restore a backup into the database of the settings, which must be empty")
    restore.add_argument("--recovery-key", metavar="FILE", help="take the encryption keys out of the backup, with this private key (PEM)")
    _add_json(restore)
    restore.add_argument("--hold", action="store_true", help="hold all work that goes out of the house, and do not ask")
    restore.add_argument(
        "--let-go", action="append", default=[], choices=_OUTGOING_WORK, help="let this work go; may be repeated (default: ask, or hold)"
    )
    listed = _command(backup, "list", "backups.listing", "list backups, newest first", action="list")
    listed.add_argument("--json", action="store_true", help="print the list as JSON")
    keys = _command(backup, "keys", "backups.listing", "print the encryption keys that were sealed into a backup", action="keys")
    keys.add_argument("--recovery-key", metavar="FILE", required=True, help="the X25519 private key (PEM)")
    for one in (create, check, restore, listed, keys):
        text = "the folder of all backups (default: backups in the data directory)"
        one.add_argument("--to" if one is create else "--in", dest="places", metavar="FOLDER", help=text)
    for one in (check, restore, keys):
        one.add_argument("backup", nargs="?", default=None, metavar="BACKUP", help="its name or its path (default: the newest)")


def _add_config_commands(commands: "Commands[argparse.ArgumentParser]") -> None:
    """Without a command, `postern config` shows settings: what the process reads from its environment. The commands are about what people
    set in the database.
    """
    text = "show the settings in force, with secrets masked; or, with a command, export, plan and apply configuration documents"
    config = _command(commands, "config", "config", text)
    _add_json(config)
    documents = config.add_subparsers(title="commands for configuration documents", metavar="command", required=False)
    exported = _command(documents, "export", "configuration.export", "print what is set, as a document; secrets are never in it")
    exported.add_argument(
        "--organization", metavar="SLUG", help="only this organization (default: the installation with all organizations)"
    )
    exported.add_argument("--whole", action="store_true", help="say that collections have exactly these entries")
    _add_json(exported, "print JSON instead of YAML")
    planned = _command(
        documents, "plan", "configuration.plan", "show what a document would change; exit status 0 if nothing, 2 with a plan if something"
    )
    applied = _command(documents, "apply", "configuration.apply", "apply a document: what was cut off is finished by applying it again")
    for one in (planned, applied):
        one.add_argument("files", nargs="+", metavar="FILE", help="YAML or JSON; several files are one document")
        one.add_argument(
            "--owner", action="append", default=[], metavar="SLUG=EMAIL", help="the owner of a new organization; may be given several times"
        )
        one.add_argument(
            "--secrets-from",
            action="append",
            default=[],
            metavar="PREFIX|DIR/",
            help="allow references to environment variables whose names begin so, or to files in this folder; may be given several times"
            " (default: none)",
        )
        _add_json(one)
    applied.add_argument("--yes", action="store_true", help="do not ask where something would end")
    applied.add_argument("--digest", metavar="DIGEST", help="apply only the plan with this digest, as `plan` has shown it")
    schema = _command(documents, "schema", "configuration.schema", "print the JSON schema of documents, for editors")
    schema.set_defaults(without_settings=True)


def _add_jobs_commands(jobs: "Commands[argparse.ArgumentParser]") -> None:
    _add_json(_command(jobs, "list", "backups.work", "show how much waits, and how much of it is held", action="list"))
    held = _command(jobs, "hold", "backups.work", "hold what waits, after a restore by other means than ours", action="hold")
    released = _command(jobs, "release", "backups.work", "let held work go", action="release")
    for one in (held, released):
        _add_json(one)
        one.add_argument("--kind", action="append", default=[], choices=_OUTGOING_WORK, help="only this; may be repeated (default: all)")


def _add_billing_commands(billing: "Commands[argparse.ArgumentParser]") -> None:
    events = _command(billing, "events", "billing", "list the events of the payment provider, newest first", action="events")
    events.add_argument("--waiting", action="store_true", help="only events that have not been applied yet")
    _add_json(events)
    events.add_argument("--limit", type=_up_to(1000), default=50, metavar="N", help="the most to list (default: 50)")
    retry = _command(billing, "retry", "billing", "apply events that failed, now", action="retry")
    _add_json(retry)
    retry.add_argument("--event", metavar="ID", help="only this one; without it, all that wait")
    text = "ask the payment provider about all subscriptions, and correct what differs"
    _add_json(_command(billing, "reconcile", "billing", text, action="reconcile"))


def _add_owner_commands(owner: "Commands[argparse.ArgumentParser]") -> None:
    link = _command(owner, "link", "owner", "print a link that signs a platform owner in, once", action="link")
    link.add_argument("--email", help="the platform owner's e-mail; POSTERN_OWNER_EMAIL without it")
    create = _command(owner, "create", "owner", "make a platform owner, or promote an existing account", action="create")
    create.add_argument(
        "--email", required=True, help="the account's e-mail; the command asks for the password, or reads it from standard input"
    )
    for one in (link, create):
        _add_json(one)


def _add_privacy_commands(privacy: "Commands[argparse.ArgumentParser]") -> None:
    for name, text in _PRIVACY_COMMANDS.items():
        one = _command(privacy, name, "privacy", text, action=name)
        one.add_argument("--email", required=True, help="the person's e-mail")
        if name == "forget":
            _add_json(one)


def _add_mail_commands(mail: "Commands[argparse.ArgumentParser]") -> None:
    listed = _command(mail, "list", "mail", "list mails, newest first", action="list")
    shown = _command(mail, "show", "mail", "show the newest mail that matches, or the one with this id", action="show")
    for one in (listed, shown):
        _add_json(one)
        one.add_argument("--to", default="", metavar="ADDRESS", help="only mail to this address")
        one.add_argument("--subject", default="", metavar="WORDS", help="only mail with these words in its subject")
    listed.add_argument("--limit", type=_up_to(1000), default=50, metavar="N", help="the most to list (default: 50)")
    shown.add_argument("id", nargs="?", default=None, metavar="ID", help="the mail's id, from the list")
    shown.add_argument("--link", action="store_true", help="show only the link in it")
    shown.add_argument("--wait", type=_up_to(600), default=0, metavar="SECONDS", help="how long to wait for a matching mail (default: 0)")


def _up_to(most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not is_number(text) or int(text) > most:
            raise argparse.ArgumentTypeError(f"must be a number up to {most}, not {text!r}")
        return int(text)

    return number


def _limit(text: str) -> str:
    if text != "none":
        _up_to(2**31 - 1)(text)
    return text


def _count(text: str) -> int:
    if not is_number(text) or not 1 <= int(text) <= 256:
        raise argparse.ArgumentTypeError(f"must be a number from 1 to 256, not {text!r}")
    return int(text)


def _share(text: str) -> float:
    if not re.fullmatch(r"0\.[0-9]{1,6}|1(\.0{1,6})?", text) or not float(text):
        raise argparse.ArgumentTypeError(f"must be a number above 0 and up to 1, not {text!r}")
    return float(text)


def _head(text: str) -> "ChainHead":
    from core.domain.errors import BadRequest  # noqa: PLC0415
    from core.domain.record.audit_chains import ChainHead  # noqa: PLC0415 - of one command's own

    try:
        return ChainHead.parse(text)
    except BadRequest as error:
        raise argparse.ArgumentTypeError(error.message) from None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


if __name__ == "__main__":
    sys.exit(main())
