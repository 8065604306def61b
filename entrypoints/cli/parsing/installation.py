"""The commands about the installation: its schema, keys, logs, backups, settings and mail."""

import argparse
from pathlib import Path
from typing import Final

from entrypoints.cli.parsing.parts import Commands, add_json, command, count, head, identifier, numbers, share, up_to

SERVING_ROLE: Final = "postern_app"
"""The role that `postern grants` means without --role."""
_OUTGOING_WORK: Final = ("mail", "deliveries", "billing", "siem", "provisioning", "hooks")
# As `BudgetScope` has them, which the parser need not load.
_BUDGETS: Final = ("network", "mail_domain", "organization", "installation")


def add_serve_command(commands: "Commands[argparse.ArgumentParser]") -> None:
    serve = command(commands, "serve", "serve", "run the server, with its own PostgreSQL unless POSTERN_DATABASE_URL is set")
    serve.add_argument("--processes", type=count, default=1, metavar="N", help="how many processes share the port (default: 1)")
    serve.add_argument("--as-child", type=numbers, default=None, help=argparse.SUPPRESS)


def add_schema_commands(commands: "Commands[argparse.ArgumentParser]") -> None:
    migrate = command(commands, "migrate", "migrate", "migrate the database to the schema of this version")
    either = migrate.add_mutually_exclusive_group()
    either.add_argument("--plan", action="store_true", help="dry run: only show what would be done")
    either.add_argument(
        "--grant", metavar="ROLE", help="then grant this role the permissions that serving needs, and no others (postern grants)"
    )
    migrate.add_argument(
        "--although-older-processes-run",
        action="store_true",
        help="apply breaking migrations while older processes serve, which may then fail",
    )
    add_json(migrate)

    grants = command(commands, "grants", "grants", "print the grants that the serving database role needs, those on the audit log included")
    grants.add_argument("--role", default=SERVING_ROLE, help=f"the serving role (default: {SERVING_ROLE})")
    grants.add_argument("--apply", action="store_true", help="apply them, as the role that owns the tables")
    add_json(grants)


def add_demo_command(commands: "Commands[argparse.ArgumentParser]") -> None:
    demo = command(commands, "demo", "demo", "create an organization, people and a service, and run a sample application")
    demo.add_argument("--port", type=up_to(65535), default=None, metavar="N", help="the application's port (default: 8001, or a free one)")
    demo.add_argument("--all", action="store_true", help="also a second tenant, an MCP server and client, and an application by SAML")


def add_mcp_command(commands: "Commands[argparse.ArgumentParser]") -> None:
    mcp = command(commands, "mcp", "mcp.serving", "run an MCP server: an assistant reads settings and proposes changes to an owner")
    mcp.set_defaults(without_settings=True)
    mcp.add_argument("--url", required=True, metavar="URL", help="the URL of Postern, such as https://id.example.com")
    mcp.add_argument("--organization", default=None, metavar="SLUG", help="the only organization that the tools can read")
    mcp.add_argument(
        "--token-file",
        type=Path,
        default=None,
        metavar="FILE",
        help="the file with the management key or access token (default: the variable MCP_TOKEN)",
    )


def add_doctor_command(commands: "Commands[argparse.ArgumentParser]") -> None:
    doctor = command(commands, "doctor", "doctor", "check the installation, in one line per check")
    add_json(doctor)
    doctor.add_argument(
        "--processes", type=count, default=None, metavar="N", help="how many processes will serve (default: as many as serve now)"
    )
    doctor.add_argument(
        "--backups", type=Path, default=None, metavar="DIR", help="where the backups are (default: backups in the data directory)"
    )


def add_verb_commands(commands: "Commands[argparse.ArgumentParser]") -> None:
    text = "print a script with which a shell completes this command line"
    completion = command(commands, "completion", "verbs.completion", text)
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")
    completion.set_defaults(without_settings=True, commands=commands)
    verbs = command(commands, "verbs", "verbs.listing", "list the nouns of the API that are also commands, with their verbs")
    add_json(verbs)
    verbs.set_defaults(without_settings=True)


def add_files_command(commands: "Commands[argparse.ArgumentParser]") -> None:
    files = command(commands, "files", "files", "write the alert rules, the dashboard or the runbook of this version")
    files.set_defaults(without_settings=True)
    files.add_argument("kind", choices=("alerts", "dashboard", "runbook"), help="which of them")
    files.add_argument("--to", metavar="FOLDER", default=".", help="default: the current folder")
    add_json(files)


def add_size_command(commands: "Commands[argparse.ArgumentParser]") -> None:
    size = command(commands, "size", "sizing.size", "estimate what an installation needs: processes, cores, memory, connections, disk")
    size.set_defaults(without_settings=True)
    size.add_argument("--people", type=up_to(1_000_000_000), required=True, metavar="N", help="the number of accounts")
    size.add_argument("--sign-ins-a-day", type=up_to(1_000_000_000), metavar="N", help="default: one for each of the people")
    size.add_argument(
        "--peak-share", type=share, default=0.25, metavar="X", help="the share of them in the busiest hour of the day (default: 0.25)"
    )
    size.add_argument("--tokens", type=up_to(1000), default=4, metavar="N", help="tokens that applications get, a sign-in (default: 4)")
    size.add_argument("--reads", type=up_to(10_000), default=50, metavar="N", help="requests with a token, a sign-in (default: 50)")
    size.add_argument("--machines", type=count, default=2, metavar="N", help="serving machines; one of several can be offline (default: 2)")
    add_json(size)


def add_key_commands(keys: "Commands[argparse.ArgumentParser]") -> None:
    add_json(command(keys, "list", "keys", "show the keys and their ages", action="list"))
    rotate = command(keys, "rotate", "keys", "rotate keys without downtime; all kinds, unless one is specified", action="rotate")
    rotate.add_argument("--signing", action="store_true", help="only the keys that sign tokens")
    rotate.add_argument("--encryption", action="store_true", help="only the keys that encrypt stored secrets")
    rotate.add_argument("--registrations", action="store_true", help="only the key that signs dynamic client registrations")
    add_json(rotate)
    add_json(command(keys, "reencrypt", "keys", "re-encrypt what is stored under an older encryption key, now", action="reencrypt"))
    generate = command(keys, "generate", "keys_generate", "print a new key for POSTERN_ENCRYPTION_KEYS")
    generate.set_defaults(without_settings=True)
    recovery = command(keys, "recovery", "backups.recovery_key", "make a recovery key, for which backups encrypt the encryption keys")
    recovery.add_argument("--to", default=".", metavar="FOLDER", help="where to write both halves (default: the current folder)")
    recovery.add_argument("--x25519", action="store_true", help="an X25519 key in PEM, without ML-KEM")
    recovery.set_defaults(without_settings=True)
    add_json(recovery)


def add_password_commands(passwords: "Commands[argparse.ArgumentParser]") -> None:
    build = command(passwords, "build", "passwords.build", "build the filter of breached passwords from public lists of hashes")
    build.add_argument("lists", nargs="+", metavar="FILE", help="a list: a hash by SHA-1 or NTLM on each line; gzip is fine")
    build.add_argument("--to", default="passwords.filter", metavar="FILE", help="the filter (default: passwords.filter)")
    add_json(build)
    build.set_defaults(without_settings=True)


def add_story_command(commands: "Commands[argparse.ArgumentParser]") -> None:
    story = command(commands, "story", "record.story", "show what followed from one request, by the ID in its response or in the log")
    story.add_argument("id", metavar="ID", help="the `request_id` of a log line, or the `X-Request-Id` of an answer")
    story.add_argument("--since", metavar="TIME", help="search from this time on (default: 5 minutes before the time in the ID)")
    story.add_argument(
        "--until", metavar="TIME", help="search up to this time (default: 1 hour after the time in the ID; with --since: now)"
    )
    add_json(story)


def add_audit_commands(audit: "Commands[argparse.ArgumentParser]", commands: "Commands[argparse.ArgumentParser]") -> None:
    add_story_command(commands)
    storage = command(
        commands, "storage", "record.storage", "show table sizes, their growth, their retention, and how long the disk space lasts"
    )
    storage.add_argument("--free", metavar="SIZE", help="the free space of the database's disk, such as 200GiB")
    add_json(storage)
    verify = command(audit, "verify", "audit", "verify that no entry of the log was removed, added or altered")
    add_json(verify)
    verify.add_argument(
        "--organization", metavar="SLUG", help="only this organization's log; the id for one that was deleted, or `platform`"
    )
    verify.add_argument(
        "--head", type=head, metavar="N:DIGEST", help="the end of the log at an earlier time: detects whether it was truncated since then"
    )
    verify.add_argument(
        "--resume", type=Path, metavar="FILE", help="save the progress in this file, and continue from it after an interruption"
    )
    verify.add_argument("--workers", type=int, choices=range(1, 5), default=1, help="how many parts of chains to read in parallel")


def add_backup_commands(backup: "Commands[argparse.ArgumentParser]") -> None:
    create = command(backup, "create", "backups.create", "dump the database, with a manifest of what is in it")
    create.add_argument("--database", metavar="URL", help="connect with this database URL, as a role with read access only")
    add_json(create)
    create.add_argument("--seal-keys-for", metavar="FILE", help="add the encryption keys, encrypted for this recovery key")
    check = command(backup, "check", "backups.check", "restore a backup into a scratch database, and verify it")
    check.add_argument("--scratch", metavar="URL", help="a server for the scratch database (default: a temporary PostgreSQL)")
    check.add_argument("--work", metavar="FOLDER", help="where that PostgreSQL stores its files (default: the folder for temporary files)")
    check.add_argument("--database", metavar="URL", help="verify this restored copy instead; with a backup or --in, compare the two")
    check.add_argument("--no-sign-in", action="store_true", help="with --database: do not write to the copy")
    check.add_argument("--json", action="store_true", help="print the result as JSON")
    restore = command(backup, "restore", "backups.restore", "restore a backup into the database of the settings, which must be empty")
    restore.add_argument("--recovery-key", metavar="FILE", help="extract the encryption keys from the backup, with the private half")
    add_json(restore)
    restore.add_argument("--hold", action="store_true", help="hold all work that has external effects, and do not ask")
    restore.add_argument(
        "--let-go", action="append", default=[], choices=_OUTGOING_WORK, help="release this work; may be repeated (default: ask, or hold)"
    )
    listed = command(backup, "list", "backups.listing", "list backups, newest first", action="list")
    listed.add_argument("--json", action="store_true", help="print the list as JSON")
    keys = command(backup, "keys", "backups.listing", "print the encryption keys that were sealed into a backup", action="keys")
    keys.add_argument("--recovery-key", metavar="FILE", required=True, help="the private half of the recovery key")
    for one in (create, check, restore, listed, keys):
        text = "the folder of all backups (default: backups in the data directory)"
        one.add_argument("--to" if one is create else "--in", dest="places", metavar="FOLDER", help=text)
    for one in (check, restore, keys):
        one.add_argument("backup", nargs="?", default=None, metavar="BACKUP", help="its name or its path (default: the newest)")


def add_upgrade_commands(upgrade: "Commands[argparse.ArgumentParser]") -> None:
    rehearse = command(upgrade, "rehearse", "upgrading.rehearse", "try the upgrade to this version on a backup, in a scratch database")
    rehearse.add_argument("--scratch", metavar="URL", help="a server for the scratch database (default: a temporary PostgreSQL)")
    rehearse.add_argument("--work", metavar="FOLDER", help="where the scratch files are (default: the folder for temporary files)")
    rehearse.add_argument(
        "--in", dest="places", metavar="FOLDER", help="the folder of all backups (default: backups in the data directory)"
    )
    add_json(rehearse)
    rehearse.add_argument("--out", metavar="FILE", help="also write the result as JSON to this file")
    rehearse.add_argument("backup", nargs="?", default=None, metavar="BACKUP", help="its name or its path (default: the newest)")


def add_config_commands(commands: "Commands[argparse.ArgumentParser]") -> None:
    """Without a command, `postern config` shows settings: what the process reads from its environment. The commands are about what people
    set in the database.
    """
    text = "show the effective settings, with secrets masked; or, with a command, export, plan and apply configuration documents"
    config = command(commands, "config", "config", text)
    add_json(config)
    documents = config.add_subparsers(title="commands for configuration documents", metavar="command", required=False)
    exported = command(documents, "export", "configuration.export", "print what is set, as a document; secrets are never in it")
    exported.add_argument(
        "--organization", metavar="SLUG", help="only this organization (default: the installation with all organizations)"
    )
    exported.add_argument("--whole", action="store_true", help="declare that collections contain exactly these entries")
    add_json(exported, "print JSON instead of YAML")
    planned = command(
        documents, "plan", "configuration.plan", "show what a document would change; exit status 0 without changes, 2 with changes"
    )
    applied = command(documents, "apply", "configuration.apply", "apply a document; to finish an interrupted run, apply it again")
    for one in (planned, applied):
        one.add_argument("files", nargs="+", metavar="FILE", help="YAML or JSON; several files are one document")
        one.add_argument(
            "--owner", action="append", default=[], metavar="SLUG=EMAIL", help="the owner of a new organization; may be repeated"
        )
        one.add_argument(
            "--secrets-from",
            action="append",
            default=[],
            metavar="PREFIX|DIR/",
            help="allow references to environment variables with this prefix, or to files in this folder; may be repeated (default: none)",
        )
        add_json(one)
    applied.add_argument("--yes", action="store_true", help="do not ask for confirmation before deletions")
    applied.add_argument("--digest", metavar="DIGEST", help="apply only the plan with this digest, as shown by `plan`")
    schema = command(documents, "schema", "configuration.schema", "print the JSON schema of documents, for editors")
    schema.set_defaults(without_settings=True)


def add_jobs_commands(jobs: "Commands[argparse.ArgumentParser]") -> None:
    add_json(command(jobs, "list", "backups.work", "show how many jobs are queued, and how many of them are held", action="list"))
    held = command(jobs, "hold", "backups.work", "hold queued work, after a restore by other means than Postern", action="hold")
    released = command(jobs, "release", "backups.work", "release held work", action="release")
    for one in (held, released):
        add_json(one)
        one.add_argument(
            "--kind", action="append", default=[], choices=_OUTGOING_WORK, help="only this kind; may be repeated (default: all)"
        )


def add_mail_commands(mail: "Commands[argparse.ArgumentParser]") -> None:
    listed = command(mail, "list", "mail", "list emails, newest first", action="list")
    shown = command(mail, "show", "mail", "show the newest email that matches, or the one with this ID", action="show")
    for one in (listed, shown):
        add_json(one)
        one.add_argument("--to", default="", metavar="ADDRESS", help="only emails to this address")
        one.add_argument("--subject", default="", metavar="WORDS", help="only emails with this text in the subject")
    listed.add_argument("--limit", type=up_to(1000), default=50, metavar="N", help="the maximum number to list (default: 50)")
    shown.add_argument("id", nargs="?", default=None, metavar="ID", help="the email's ID, from the list")
    shown.add_argument("--link", action="store_true", help="show only the link in it")
    shown.add_argument("--wait", type=up_to(600), default=0, metavar="SECONDS", help="how long to wait for a matching email (default: 0)")


def add_held_back_commands(held_back: "Commands[argparse.ArgumentParser]") -> None:
    add_json(command(held_back, "list", "guards.held_back", "list the email rate limits that were reached in the last day", action="list"))
    lift = command(
        held_back,
        "lift",
        "guards.held_back",
        "lift a rate limit temporarily, such as for a day with many registrations from one place",
        action="lift",
    )
    lift.add_argument("--budget", required=True, choices=_BUDGETS, help="the scope of the rate limit")
    text = "an IP address, an email domain, or an organization's ID; empty for the installation"
    lift.add_argument("--key", default="", help=text)
    lift.add_argument("--hours", type=up_to(168), required=True, metavar="N", help="for how many hours, up to 168")
    restored = command(held_back, "restore", "guards.held_back", "remove an exception", action="restore")
    restored.add_argument("id", type=identifier, metavar="ID", help="the rate limit's ID, from the list")
    for one in (lift, restored):
        add_json(one)
