"""The parser of the whole command line: the commands written by hand, and the verbs of the API."""

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, NoReturn

from entrypoints.cli.output.failures import INTERRUPTED, log_is_json, say
from entrypoints.cli.parsing.installation import (
    add_audit_commands,
    add_backup_commands,
    add_config_commands,
    add_demo_command,
    add_doctor_command,
    add_files_command,
    add_held_back_commands,
    add_jobs_commands,
    add_key_commands,
    add_mail_commands,
    add_mcp_command,
    add_password_commands,
    add_schema_commands,
    add_serve_command,
    add_size_command,
    add_upgrade_commands,
    add_verb_commands,
)
from entrypoints.cli.parsing.parts import add_json, command, group
from entrypoints.cli.parsing.tenants import (
    add_access_command,
    add_api_key_commands,
    add_billing_commands,
    add_hook_commands,
    add_import_commands,
    add_invite_command,
    add_organization_commands,
    add_owner_commands,
    add_privacy_commands,
    add_risk_commands,
    add_service_commands,
    add_signal_commands,
    add_text_commands,
    add_user_commands,
)
from entrypoints.failures import ALREADY_SERVED, FAILURE, USAGE

_EPILOG: Final = f"""\
The verbs of the API are commands, too, such as `postern team list`: `postern verbs` lists them.

Settings are environment variables: docs/settings.md lists them, `postern config` shows those in force.

exit status:
  0  done, or stopped when asked to
  {FAILURE}  failed; the reason is on standard error
  {USAGE}  the command line or a setting is wrong
  {ALREADY_SERVED}  another Postern process uses the data directory
  {INTERRUPTED}  interrupted (Ctrl-C)
"""
# Nouns with verbs beside the commands written by hand.
WITH_VERBS: Final = ("hook", "organization", "service", "signals", "texts")


class _Parser(argparse.ArgumentParser):
    """Tells programs what is wrong with their words in the form in which they read everything else, and people what they may have meant."""

    nouns: Sequence[str] = ()
    """Of the API, for which the parser has no commands."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            near = get_close_matches(str(value), dict.fromkeys([*map(str, action.choices or ()), *self.nouns]))
            if near:
                error.message += f"; did you mean {' or '.join(near)}?"
            raise

    def error(self, message: str) -> NoReturn:
        if "--json" in sys.argv or (sys.argv[1:2] == ["serve"] and log_is_json()):
            sys.exit(say(f"{message} ({self.prog} --help)", USAGE, as_json=True))
        super().error(message)


def command_line(words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The parser of the commands written by hand, and of the verbs that these words ask for."""
    own = _Parser(
        prog="postern",
        description="Self-hosted, multi-tenant single sign-on and identity platform.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser: argparse.ArgumentParser = own
    commands = parser.add_subparsers(title="commands", metavar="command", required=True)

    add_serve_command(commands)
    add_schema_commands(commands)
    add_owner_commands(group(commands, "owner", "manage platform owners"))
    add_risk_commands(group(commands, "risk-rules", "switch risk policies of the installation to report-only"))
    add_hook_commands(group(commands, "hook", "show sign-in hooks, and manage an organization's hook"))
    add_signal_commands(group(commands, "signals", "manage the shared signals of applications, and pause them"))
    add_user_commands(group(commands, "user", "manage one account at a time"))
    add_privacy_commands(group(commands, "privacy", "export a person's data, or erase the person"))
    add_organization_commands(
        group(commands, "organization", "manage organizations: create, approve, suspend, limit, move and delete them")
    )
    add_service_commands(group(commands, "service", "create and show services, the applications of organizations"))
    add_json(command(group(commands, "saml", "show SAML status"), "status", "saml", "show the SAML status of each service"))
    add_import_commands(group(commands, "import", "import people from another system, and convert its clients to a configuration file"))
    add_invite_command(commands)
    add_api_key_commands(group(commands, "api-key", "manage API keys of services' own servers"))
    add_access_command(commands)
    add_held_back_commands(group(commands, "held-back", "show email rate limits that were reached, and lift one temporarily"))
    add_text_commands(group(commands, "texts", "show and change custom texts, and export and import them for translators"))
    add_mail_commands(group(commands, "mail", "read emails that were written to files (POSTERN_MAIL=file:…)"))
    add_key_commands(group(commands, "keys", "manage signing and encryption keys"))
    add_password_commands(group(commands, "passwords", "build the filter of breached passwords (POSTERN_PASSWORD_FILTER)"))
    add_backup_commands(group(commands, "backup", "create, verify and restore backups"))
    add_upgrade_commands(group(commands, "upgrade", "try an upgrade before it is made"))
    add_jobs_commands(group(commands, "jobs", "show queued jobs with external effects, and resume paused jobs after a restore"))
    add_billing_commands(group(commands, "billing", "show events of the payment provider, and reconcile with it"))
    add_audit_commands(group(commands, "audit", "check the audit log"), commands)
    add_demo_command(commands)
    add_mcp_command(commands)
    add_config_commands(commands)
    add_doctor_command(commands)
    add_size_command(commands)
    add_verb_commands(commands)
    add_files_command(commands)
    explain = command(commands, "explain", "explaining", "explain an error of OAuth or OpenID Connect, from a file or standard input")
    add_json(explain)
    explain.add_argument("file", nargs="?", default="-", help="the file with the error; standard input by default")
    explain.set_defaults(without_settings=True)
    version = command(commands, "version", "version", "print the version")
    add_json(version)
    version.set_defaults(without_settings=True)
    if _asks_for_verbs(commands.choices, words):
        from entrypoints.cli.verbs.offering import offer, table  # noqa: PLC0415 - other commands need no table

        offer(commands, words[0])
        own.nouns = () if words[0] in commands.choices else tuple(table())
    return parser


def _asks_for_verbs(commands: Mapping[str, argparse.ArgumentParser], words: Sequence[str]) -> bool:
    """Whether the words are no command written by hand, and no option."""
    if not words or words[0].startswith("-"):
        return False
    if words[0] not in commands:
        return True
    by_hand = commands[words[0]]._subparsers  # noqa: SLF001 - argparse has no public name for it
    return words[0] in WITH_VERBS and by_hand is not None and not (len(words) > 1 and words[1] in _names_in(by_hand))


def _names_in(group: "argparse._ArgumentGroup") -> Iterable[str]:
    return group._group_actions[0].choices or ()  # noqa: SLF001 - as above
