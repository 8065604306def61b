"""The `postern` command: what it takes, and what its exit status means. Each command's own module is loaded when it is called for."""

import argparse
import gc
import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final, TextIO

from entrypoints.failures import ALREADY_SERVED, FAILURE, USAGE, StartFailed, sole

if TYPE_CHECKING:
    from core.domain.audit_chains import Head

_INTERRUPTED: Final = 130
_EPILOG: Final = f"""\
Settings are environment variables: docs/settings.md lists them, `postern config` shows what is in force.

exit status:
  0  done, or stopped when asked to
  {FAILURE}  failed; the reason is on standard error
  {USAGE}  the command line or a setting is wrong
  {ALREADY_SERVED}  another Postern process uses the data directory
"""

_CAN: Final = f"a capability: the exit status is 0 when they have it, {FAILURE} when not; without it, when they get in at all"

_ORGANIZATION_COMMANDS: Final = {
    "list": "list organizations, the newest first",
    "show": "show an organization, with its tier, its limits and its owner",
    "approve": "let a pending organization in",
    "reject": "turn a pending organization away, for good",
    "suspend": "halt an active organization: everybody in it is refused",
    "activate": "end a suspension",
    "tier": "give an organization another tier, or limits of its own",
    "delete": "delete an organization with all that it has, for good",
}
_USER_COMMANDS: Final = {
    "show": "show what there is to know of an account",
    "deactivate": "keep somebody out: end all their sessions, and let them not sign in again",
    "activate": "let somebody in again",
    "reset-password": "end a password with all sessions, and mail a link to choose a new one",
    "revoke-sessions": "sign somebody out everywhere",
    "disable-mfa": "take the second factor from an account whose owner lost it",
}


def main(arguments: Sequence[str] | None = None) -> int:
    _bear_any_text(sys.stdout)
    given = _parser().parse_args(arguments)
    try:
        return _run(given)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain once more when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - the last one to hear of it
        return _explain(sole(error))


def _bear_any_text(out: TextIO) -> None:
    """What an output has no letters for is written as its code, as standard error does by itself: a name must not end a command."""
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(errors="backslashreplace")


def _run(given: argparse.Namespace) -> int:
    # What is loaded now stays: the collector need not look through it, neither while it grows nor ever after.
    gc.disable()
    command = import_module(f"entrypoints.cli.{given.module}")
    gc.freeze()
    gc.enable()
    if given.without_settings:
        return int(command.run(given))
    from entrypoints import logs, settings  # noqa: PLC0415 - what `postern version` does without

    in_force = settings.read(os.environ)
    # A command says what it has to say itself; what goes on underneath is of interest when something is wrong.
    level = "warning" if in_force.log_level == "info" and given.module != "serve" else in_force.log_level
    logs.configure(level, in_force.log_format)
    return int(command.run(given, in_force))


def _explain(error: BaseException) -> int:
    """A sentence for what we foresaw, a stack for what we did not."""
    from core.domain.errors import Refusal  # noqa: PLC0415 - only when something failed
    from entrypoints.settings import SettingsError  # noqa: PLC0415

    if isinstance(error, KeyboardInterrupt):
        return _INTERRUPTED
    if isinstance(error, SettingsError):
        return _say(str(error), USAGE)
    if isinstance(error, StartFailed):
        return _say(str(error), error.status)
    if isinstance(error, Refusal):
        return _say(error.message, FAILURE)
    import structlog  # noqa: PLC0415

    structlog.get_logger().critical("crashed", error=type(error).__name__, exc_info=error)
    return FAILURE


def _say(sentence: str, status: int) -> int:
    print(f"postern: {sentence}", file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
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

    migrate = _command(commands, "migrate", "migrate", "bring the database to what this version needs")
    migrate.add_argument("--plan", action="store_true", help="only say what would be done")

    owner = _group(commands, "owner", "platform owners")
    create = _command(owner, "create", "owner", "make a platform owner, or promote an existing account")
    create.add_argument("--email", required=True, help="the account's e-mail; the password is asked for, or read from standard input")

    user = _group(commands, "user", "accounts, one at a time")
    for name, text in _USER_COMMANDS.items():
        one = _command(user, name, "user", text, action=name)
        one.add_argument("--email", required=True, help="whose account")
        if name == "reset-password":
            one.add_argument("--print", action="store_true", dest="print_link", help="show the link here instead of mailing it")

    _add_organization_commands(_group(commands, "organization", "organizations: who is let in, who is halted, what they get"))

    _add_service_commands(_group(commands, "service", "services: the applications of organizations"))

    api_key = _group(commands, "api-key", "API keys: by which services' own servers speak to us")
    revoke = _command(api_key, "revoke", "api_key", "delete a key: it is refused from the next request on", action="revoke")
    revoke.add_argument("--prefix", required=True, metavar="sk_XXXXXX", help="how it begins, up to the second underscore")

    access = _command(commands, "access", "access", "explain what somebody may do in an organization, and by which relation")
    access.add_argument("--user", required=True, help="whose account, by its e-mail")
    access.add_argument("--organization", required=True, help="by its slug")
    access.add_argument("--can", dest="capability", default=None, help=_CAN)

    keys = _group(commands, "keys", "signing and encryption keys")
    _command(keys, "list", "keys", "show the keys and their ages", action="list")
    rotate = _command(keys, "rotate", "keys", "put new keys in force, without downtime; both kinds unless one is named", action="rotate")
    rotate.add_argument("--signing", action="store_true", help="the keys that sign tokens")
    rotate.add_argument("--encryption", action="store_true", help="the keys under which secrets are stored")
    generate = _command(keys, "generate", "keys_generate", "print a new key for POSTERN_ENCRYPTION_KEYS")
    generate.set_defaults(without_settings=True)

    audit = _group(commands, "audit", "the audit log")
    verify = _command(audit, "verify", "audit", "find out whether anything was taken from it, put into it or altered")
    verify.add_argument(
        "--organization", metavar="SLUG", help="only this one's; also its id, all that is left of one that is gone, or `platform`"
    )
    verify.add_argument("--head", type=_head, metavar="N:DIGEST", help="where it ended at some time before: has it been cut off since?")

    _command(commands, "config", "config", "show the settings in force, secrets masked")
    _command(commands, "doctor", "doctor", "check the installation, one line each")
    version = _command(commands, "version", "version", "print the version")
    version.set_defaults(without_settings=True)
    return parser


Commands = argparse._SubParsersAction  # noqa: SLF001 - argparse has no public name for it


def _command(commands: "Commands[argparse.ArgumentParser]", name: str, module: str, text: str, **defaults: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False)
    parser.set_defaults(module=module, without_settings=False, **defaults)
    return parser


def _group(commands: "Commands[argparse.ArgumentParser]", name: str, text: str) -> "Commands[argparse.ArgumentParser]":
    parser = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False)
    return parser.add_subparsers(title="commands", metavar="command", required=True)


def _add_organization_commands(organization: "Commands[argparse.ArgumentParser]") -> None:
    for name, text in _ORGANIZATION_COMMANDS.items():
        one = _command(organization, name, "organization", text, action=name)
        if name == "list":
            one.add_argument("--status", choices=("pending", "active", "suspended", "rejected"), help="only those in this state")
            one.add_argument("--limit", type=_up_to(1000), default=50, metavar="N", help="how many (default: 50)")
            one.add_argument("--offset", type=_up_to(1_000_000), default=0, metavar="N", help="how many to pass over")
        else:
            one.add_argument("--organization", required=True, metavar="SLUG", help="which one")
        if name in {"list", "approve", "tier"}:
            one.add_argument("--tier", metavar="NAME", help="free, professional, or another that there is")
        if name in {"reject", "suspend"}:
            one.add_argument("--reason", required=name == "reject", help="kept, and shown to those who ask why")
        if name == "tier":
            for limit in ("--max-users", "--max-services"):
                one.add_argument(limit, type=_limit, metavar="N", help="in place of the tier's number; `none`: the tier's again")
        if name == "delete":
            one.add_argument("--yes", action="store_true", help="do not ask")


def _add_service_commands(service: "Commands[argparse.ArgumentParser]") -> None:
    listed = _command(service, "list", "service", "list services, the youngest first", action="list")
    listed.add_argument("--organization", metavar="SLUG", help="only those of this one")
    listed.add_argument("--limit", type=_up_to(1000), default=50, metavar="N", help="how many (default: 50)")
    listed.add_argument("--offset", type=_up_to(1_000_000), default=0, metavar="N", help="how many to pass over")
    shown = _command(service, "show", "service", "show a service, with how many of what it has", action="show")
    shown.add_argument("--organization", required=True, metavar="SLUG", help="whose")
    shown.add_argument("--service", required=True, metavar="SLUG", help="which one")


def _up_to(most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text[:11]) > most:
            raise argparse.ArgumentTypeError(f"must be a number up to {most}, not {text!r}")
        return int(text)

    return number


def _limit(text: str) -> str:
    if text != "none":
        _up_to(2**31 - 1)(text)
    return text


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:6]) <= 256:
        raise argparse.ArgumentTypeError(f"must be a number from 1 to 256, not {text!r}")
    return int(text)


def _head(text: str) -> "Head":
    from core.domain.audit_chains import Head  # noqa: PLC0415 - of one command's own
    from core.domain.errors import BadRequest  # noqa: PLC0415

    try:
        return Head.parse(text)
    except BadRequest as error:
        raise argparse.ArgumentTypeError(error.message) from None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


if __name__ == "__main__":
    sys.exit(main())
