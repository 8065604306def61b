"""The commands about people, organizations and services, one at a time."""

import argparse
from pathlib import Path
from typing import Final

from entrypoints.cli.parsing.parts import Commands, add_json, command, own_limit, up_to
from entrypoints.failures import FAILURE

_CAN: Final = f"a capability: the exit status is 0 if they have it, {FAILURE} if not; without this option, 0 if they can sign in"

ORGANIZATION_COMMANDS: Final = {
    "create": "create an organization for an existing account, which becomes its owner",
    "list": "list organizations, newest first",
    "show": "show an organization, with its tier, its limits and its owner",
    "approve": "approve a pending organization",
    "reject": "reject a pending organization permanently",
    "suspend": "suspend an active organization: all its members are denied access",
    "activate": "end a suspension",
    "tier": "assign another tier to an organization, or its own limits",
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
    "csv": "the table, in UTF-8, with the column names in the first line",
    "postern": "NDJSON; docs/guides/from-a-table.md describes it",
}
_IMPORT_CLIENTS: Final = {
    "keycloak": "write clients and groups to this new file, and import no people",
    "auth0": "write the clients, roles and connections of a0deploy's tenant.yaml or folder to this new file, and import no people",
}
_PRIVACY_COMMANDS: Final = {
    "export": "print the data stored about a person, as JSON",
    "forget": "anonymize a person permanently; a serving process removes the rest",
}
_SIGNAL_COMMANDS: Final = {
    "pause": "pause an organization's signal streams: events are kept, and applications cannot undo the pause",
    "resume": "end the pause of an operator",
}
_USER_COMMANDS: Final = {
    "show": "show everything about an account",
    "lock": "revoke all access to an account, and email a link to choose a new password, which unlocks the account",
    "deactivate": "deactivate an account: revoke all its sessions, and deny new sign-ins",
    "activate": "allow a deactivated account to sign in again",
    "reset-password": "revoke all access: password, passkeys, linked accounts and sessions, and email a link to choose a new password",
    "revoke-sessions": "sign an account out everywhere",
    "disable-mfa": "remove the second factor of an account whose owner has lost it",
}


def add_access_command(commands: "Commands[argparse.ArgumentParser]") -> None:
    access = command(commands, "access", "access", "explain what a person can do in an organization, and why")
    access.add_argument("--user", required=True, help="the person's email address")
    access.add_argument("--organization", required=True, help="the organization's slug")
    access.add_argument("--service", default=None, help="the slug of a service: show which claims it would get, and why")
    add_json(access)
    access.add_argument("--can", dest="capability", default=None, help=_CAN)


def add_text_commands(texts: "Commands[argparse.ArgumentParser]") -> None:
    exported = command(
        texts, "export", "configuration.texts", "export the open texts of a language as a gettext file (.po)", action="export"
    )
    exported.add_argument("--language", required=True, metavar="CODE", help="the language, such as de")
    imported = command(
        texts,
        "import",
        "configuration.texts",
        "import the custom texts of a language from such a file: all of them, or none",
        action="import",
    )
    imported.add_argument("file", metavar="FILE", help="the file, or - for standard input")
    for one in (exported, imported):
        one.add_argument("--organization", metavar="SLUG", help="of this organization (default: of the installation)")
    add_json(imported)


def add_organization_commands(organization: "Commands[argparse.ArgumentParser]") -> None:
    for name, text in ORGANIZATION_COMMANDS.items():
        one = command(organization, name, "organization", text, action=name)
        if name == "list":
            one.add_argument("--status", choices=("pending", "active", "suspended", "rejected"), help="only organizations in this state")
            one.add_argument("--limit", type=up_to(1000), default=50, metavar="N", help="the maximum number to list (default: 50)")
            one.add_argument("--offset", type=up_to(1_000_000), default=0, metavar="N", help="how many to skip")
        else:
            one.add_argument("--organization", required=True, metavar="SLUG", help="its slug")
        add_json(one)
        if name == "create":
            one.add_argument("--name", required=True, help="its name")
            one.add_argument("--owner", required=True, metavar="EMAIL", help="the email address of the owner's account")
        if name in {"list", "approve", "tier"}:
            one.add_argument("--tier", metavar="NAME", help="free, professional or another existing tier")
        if name in {"reject", "suspend"}:
            one.add_argument("--reason", required=name == "reject", help="the reason, which is stored and shown to the people affected")
        if name == "tier":
            for limit in ("--max-users", "--max-services"):
                one.add_argument(
                    limit, type=own_limit, metavar="N", help="its own limit instead of the tier's; `none` returns to the tier's"
                )
        if name == "delete":
            one.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    add_moving_commands(organization)


def add_moving_commands(organization: "Commands[argparse.ArgumentParser]") -> None:
    key = command(
        organization, "receive-key", "moving.receive_key", "print the public key that encrypts organizations moving to this installation"
    )
    key.add_argument("--x25519", action="store_true", help="the key without ML-KEM, for an installation whose libraries lack it")
    leave = command(organization, "export", "moving.departure", "export a whole organization to a file for another installation")
    leave.add_argument("--organization", required=True, metavar="SLUG", help="its slug")
    leave.add_argument("--to", required=True, metavar="FILE", help="the file to write; it must not exist")
    leave.add_argument("--for", required=True, dest="key", metavar="KEY", help="the key that `receive-key` printed on the new installation")
    arrive = command(organization, "import", "moving.arrival", "import a whole organization from the file of another installation")
    arrive.add_argument("file", metavar="FILE", help="what `export` has written for this installation")
    arrive.add_argument("--plan", action="store_true", help="dry run: check everything, show what would be imported, and write nothing")
    arrive.add_argument(
        "--trust-people", action="store_true", help="trust the other installation: verified email addresses, passwords, MFA, consents"
    )
    arrive.add_argument("--slug", metavar="SLUG", help="its new slug (default: unchanged)")
    arrive.add_argument("--tier", metavar="NAME", help="its tier (default: the tier of the same name)")
    arrive.add_argument("--report", metavar="FILE", help="write each person's old and new ID to this CSV file")
    for one in (key, leave, arrive):
        add_json(one)


def add_service_commands(service: "Commands[argparse.ArgumentParser]") -> None:
    listed = command(service, "list", "service", "list services, newest first", action="list")
    listed.add_argument("--organization", metavar="SLUG", help="only this organization's services")
    listed.add_argument("--limit", type=up_to(1000), default=50, metavar="N", help="the maximum number to list (default: 50)")
    listed.add_argument("--offset", type=up_to(1_000_000), default=0, metavar="N", help="how many to skip")
    shown = command(service, "show", "service", "show a service, with counts of its objects", action="show")
    shown.add_argument("--organization", required=True, metavar="SLUG", help="the organization's slug")
    shown.add_argument("--service", required=True, metavar="SLUG", help="its slug")
    client = command(service, "client-id", "service", "set the client ID that a service had in another system", action="client-id")
    client.add_argument("--organization", required=True, metavar="SLUG", help="the organization's slug")
    client.add_argument("--service", required=True, metavar="SLUG", help="its slug")
    which = client.add_mutually_exclusive_group(required=True)
    which.add_argument("--keep", metavar="ID", help="the ID: 8 to 80 letters, digits and . _ ~ -, and no UUID")
    which.add_argument("--own", action="store_const", dest="keep", const=None, help="restore the ID that Postern generated")
    for one in (listed, shown, client):
        add_json(one)


def add_import_commands(imports: "Commands[argparse.ArgumentParser]") -> None:
    for name, text in _IMPORT_COMMANDS.items():
        one = command(imports, name, "imports.people", text, action=name)
        one.add_argument("files", nargs="+", metavar="FILE", help=_IMPORT_FILES[name])
        one.add_argument("--plan", action="store_true", help="dry run: show what would be done, and write nothing")
        one.add_argument("--report", type=Path, metavar="FILE", help="write a line about each person into this new file (.csv or .ndjson)")
        one.add_argument("--organization", metavar="SLUG", help="make the people members of this organization (default: none)")
        one.add_argument("--role", default="member", metavar="SLUG", help="the role that they get in the organization (default: member)")
        one.add_argument(
            "--map-role",
            action="append",
            default=[],
            metavar="THEIRS=OURS",
            help="people with this role there get that role here; may be repeated",
        )
        one.add_argument("--trust-verified", action="store_true", help="trust email addresses that the other system has verified")
        one.add_argument("--usernames", action="store_true", help="import user names; they are never issued again afterwards")
        one.add_argument(
            "--relying-party", default="", metavar="HOST", help="the relying party ID of the passkeys, if the files do not contain it"
        )
        one.add_argument("--source", default="", metavar="NAME", help="the namespace of the people's IDs, if the files do not contain it")
        one.add_argument("--tell", action="store_true", help="send emails and webhooks about the people (default: none)")
        add_json(one, "print the totals as JSON")
        one.set_defaults(hashes=None, states=None, only_organization="", map=[], delimiter=",", clients=None, hash=None, hash_config=None)
        if name == "keycloak":
            one.add_argument("--only-organization", default="", metavar="ALIAS", help="only members of this organization of the realm")
        if name == "zitadel":
            one.add_argument("--only-organization", default="", metavar="NAME", help="only people of the organization with this name or ID")
            one.add_argument("--states", metavar="FILE", help="the answers of POST /v2/users, which contain each user's state (required)")
        if name in {"keycloak", "auth0"}:
            one.add_argument("--clients", metavar="FILE", help=_IMPORT_CLIENTS[name])
        if name == "auth0":
            one.add_argument("--hashes", metavar="FILE", help="the file of password hashes from Auth0's support")
        if name in {"csv", "postern", "firebase"}:
            one.add_argument("--hash", metavar="FORM", help="the library of hashes that do not contain their format, such as better-auth")
            one.add_argument(
                "--hash-config", metavar="FILE", help="the password hash parameters of a Firebase project, for --hash firebase"
            )
        if name == "csv":
            one.add_argument("--map", action="append", metavar="COLUMN=MEANING", help="what a column means; can be repeated")
            one.add_argument("--delimiter", choices=(",", ";", "tab"), help="the delimiter (default: a comma)")


def add_billing_commands(billing: "Commands[argparse.ArgumentParser]") -> None:
    events = command(billing, "events", "billing", "list the events of the payment provider, newest first", action="events")
    events.add_argument("--waiting", action="store_true", help="only events that have not been applied yet")
    add_json(events)
    events.add_argument("--limit", type=up_to(1000), default=50, metavar="N", help="the maximum number to list (default: 50)")
    retry = command(billing, "retry", "billing", "apply events that failed, now", action="retry")
    add_json(retry)
    retry.add_argument("--event", metavar="ID", help="only this one (default: all pending)")
    text = "query the payment provider for all subscriptions, and correct differences"
    add_json(command(billing, "reconcile", "billing", text, action="reconcile"))


def add_owner_commands(owner: "Commands[argparse.ArgumentParser]") -> None:
    link = command(owner, "link", "owner", "print a single-use link that signs a platform owner in", action="link")
    link.add_argument("--email", help="the platform owner's email address (default: POSTERN_OWNER_EMAIL)")
    create = command(owner, "create", "owner", "create a platform owner, or promote an existing account", action="create")
    create.add_argument(
        "--email", required=True, help="the account's email address; the command asks for the password, or reads it from standard input"
    )
    for one in (link, create):
        add_json(one)


def add_privacy_commands(privacy: "Commands[argparse.ArgumentParser]") -> None:
    for name, text in _PRIVACY_COMMANDS.items():
        one = command(privacy, name, "privacy", text, action=name)
        one.add_argument("--email", required=True, help="the person's email address")
        if name == "forget":
            add_json(one)


def add_risk_commands(risk: "Commands[argparse.ArgumentParser]") -> None:
    shadow = command(risk, "shadow", "risk.rules", "switch the installation's denying policies to report-only")
    shadow.add_argument("--factors", action="store_true", help="also policies that require MFA or a passkey")
    add_json(shadow)


def add_hook_commands(hook: "Commands[argparse.ArgumentParser]") -> None:
    add_json(command(hook, "list", "guards.hooks", "list the hooks of all organizations with their response times, slowest first"))


def add_signal_commands(signals: "Commands[argparse.ArgumentParser]") -> None:
    for name, text in _SIGNAL_COMMANDS.items():
        one = command(signals, name, "guards.signals", text, action=name)
        one.add_argument("--organization", required=True, metavar="SLUG", help="the organization's slug")
        one.add_argument("--service", metavar="SLUG", help="the slug of one application; all of the organization by default")
        add_json(one)


def add_user_commands(user: "Commands[argparse.ArgumentParser]") -> None:
    for name, text in _USER_COMMANDS.items():
        one = command(user, name, "user", text, action=name)
        one.add_argument("--email", required=True, help="the account's email address")
        add_json(one)
        if name == "reset-password":
            one.add_argument("--print", action="store_true", dest="print_link", help="print the link instead of emailing it")
    stats = command(user, "stats", "user", "count passwords, by the system that created their hash", action="stats")
    add_json(stats)


def add_invite_command(commands: "Commands[argparse.ArgumentParser]") -> None:
    invite = command(commands, "invite", "organization", "invite a person to an organization by email", action="invite")
    invite.add_argument("--organization", required=True, metavar="SLUG", help="the organization's slug")
    invite.add_argument("--email", required=True, help="the person's email address")
    invite.add_argument("--role", default="member", metavar="SLUG", help="the role that the person gets (default: member)")
    add_json(invite)


def add_api_key_commands(api_key: "Commands[argparse.ArgumentParser]") -> None:
    revoke = command(api_key, "revoke", "api_key", "delete an API key; it is rejected from the next request on", action="revoke")
    add_json(revoke)
    revoke.add_argument("--prefix", required=True, metavar="sk_XXXXXX", help="the prefix of the key, up to the second underscore")
