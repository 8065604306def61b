"""Makes the first schema of 0.2.0 of the former migrations. Run: python3 fold.py > 0001_release_0_2.sql"""
import re, sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).parent))
from sqltext import Schema

import os
FORMER = Path(os.environ.get("FOLD_FORMER", Path(__file__).parent / "former"))
REPLACEABLE = Path(os.environ.get("FOLD_REPLACEABLE", Path(__file__).parent / "former-replaceable.sql")).read_text()

def former(number):
    (file,) = FORMER.glob(f"{number:04}_*.sql")
    return file.read_text()

def part(number, first, last=None):
    """From the line that begins with `first` to the end of the one that ends with `last`; without `last`, to the end of the statement."""
    text = former(number)
    assert text.count(first) == 1, (number, text.count(first), first)
    a = text.index(first)
    b = len(text) if last == "END" else text.index(last or ";\n", a) + len(last or ";\n")
    return text[a:b]

def table(number, name, until=None):
    """The table with its indexes: up to the next blank line."""
    text = former(number)
    m = re.search(rf"^create (?:unlogged )?table {name} \(", text, re.M)
    b = text.index(until, m.start()) + len(until) if until else text.find("\n\n", m.start())
    return (text[m.start():] if b < 0 else text[m.start():b]).rstrip("\n") + "\n"

s = Schema(former(1))

# --- What stands in replaceable.sql leaves.
names = {(k, n) for k, n in re.findall(r"^create or replace (view|function) (\w+)", REPLACEABLE, re.M)}
def leave(kind, name, end):
    m = re.search(rf"((?:^--[^\n]*\n)*)^create {kind} {name}\b", s.text, re.M)
    assert m, name
    b = s.text.index(end, m.end()) + len(end)
    s.text = s.text[:m.start()] + s.text[b:].lstrip("\n")
for kind, name in re.findall(r"^create (view|function) (\w+)", s.text, re.M):
    if (kind, name) in names or name == "signing_keys":
        body = s.text[re.search(rf"^create {kind} {name}\b", s.text, re.M).start():]
        leave(kind, name, ";\n" if kind == "view" else "\n$$;\n" if re.match(r"[^$]*\$\$.*?(\n\$\$;|\nend \$\$;)", body, re.S)[1] == "\n$$;" else "\nend $$;\n")

# --- The head.
s.swap("""-- breaking

-- The first schema. Later migrations change it, so it is read together with them (docs/decisions/0121-one-first-schema.md).

""", """-- breaking

-- The first schema of 0.2.0. Later migrations change it, so it is read together with them. The views and functions that nothing here is built
-- on stand in schema/replaceable.sql, which `migrate` applies after the migrations (docs/decisions/0240-the-first-schema-of-0-2-0.md).

""")

# --- People.
s.add("users",
    ("name", "text", "check (char_length(name) between 1 and 200)", "",
     "    -- What people say of themselves. All of it is optional, and only the person writes it, or a provider of the installation at the first\n    -- sign-in.\n"),
    ("given_name", "text", "check (char_length(given_name) between 1 and 200)"),
    ("family_name", "text", "check (char_length(family_name) between 1 and 200)"),
    ("username", "text", "unique check (username ~ '^[a-z0-9][a-z0-9._-]{1,38}[a-z0-9]$')"),
    ("zoneinfo", "text", "check (char_length(zoneinfo) between 1 and 64)"),
    ("picture_id", "uuid", "", "-- of its row in `pictures`"),
    ("profile_updated_at", "timestamptz", ""),
    ("origin_service_id", "uuid", "", "",
     "    -- The service that the account was made through, by its registration or by its servers. No other service may ever delete it.\n"),
    ("origin_org_id", "uuid", "", "",
     "    -- The organization whose directory, key or own provider made the account. It decides about the account while nobody else holds it.\n"),
    ("address_vouched_by", "text", "", "",
     "    -- The organization's own provider that vouches for the address, as organization/provider. Kept when either is gone; null: none, or proved.\n"),
    ("deactivated_by_org_id", "uuid", "", "",
     "    -- The organization whose directory has deactivated it, while there is that organization.\n"),
    ("deactivated_by", "uuid", "", "",
     "    -- The same, and kept when the organization is gone. A trigger keeps it from the two columns that say that an account is deactivated.\n"),
    ("anonymized_at", "timestamptz", "", "-- what is left of a person who was forgotten, for good"),
    ("locked_at", "timestamptz", "", "",
     "    -- When the account was last locked, by its person, its maker or the platform. It is locked now if it was deactivated at this very moment.\n"
     "    -- The moment stays when the account is open again: links in mails from before it lock nothing any more.\n"),
    ("passkey_offered_at", "timestamptz", "", "-- null: never"),
    ("passkey_offers_ended_at", "timestamptz", "", "-- null: the person may be offered one again"),
)
s.constrain("users", """constraint users_anonymized check (
        anonymized_at is null or (deactivated_at is not null and password_hash is null and not is_platform_owner)
    )""")
s.cut("-- What people say of themselves. All of it is optional, and only the person writes it, or a provider of the installation at the first sign-in.\n\n", "\n\n")
s.cut("alter table users add column name        text", "alter table users add column profile_updated_at timestamptz;\n\n")
s.swap("""-- The service that the account was made through, by its registration or by its servers. No other service may ever delete it.
alter table users add column origin_service_id uuid references all_services on delete set null;
alter table users add column anonymized_at timestamptz;   -- what is left of a person who was forgotten, for good
alter table users add constraint users_anonymized check (
    anonymized_at is null or (deactivated_at is not null and password_hash is null and not is_platform_owner)
);
create index users_of_origin on""", """-- Where accounts come from, and who has deactivated them. These tables come after people, whom they refer to.
alter table users add foreign key (origin_service_id)     references all_services      on delete set null;
alter table users add foreign key (origin_org_id)         references all_organizations on delete set null;
alter table users add foreign key (deactivated_by_org_id) references all_organizations on delete set null;
create index users_of_origin on""")
s.swap("""
-- The organization whose directory, key or own provider made the account. It decides about the account while nobody else holds it.
alter table users add column origin_org_id uuid references all_organizations on delete set null;
""", "")
s.swap("""-- The organization's own provider that vouches for the address, as organization/provider. Kept when either is gone; null: none, or proved.
alter table users add column address_vouched_by text;
-- A voucher""", """create index users_deactivated_by_organization on users (deactivated_by_org_id, id) where deactivated_by_org_id is not null;

-- A voucher""")
s.swap("""-- The organization whose directory has deactivated it, while there is that organization.
alter table users add column deactivated_by_org_id uuid references all_organizations on delete set null;
create index users_deactivated_by_organization on users (deactivated_by_org_id, id) where deactivated_by_org_id is not null;
-- The same, and kept when the organization is gone. A trigger keeps it from the two columns that say that an account is deactivated.
alter table users add column deactivated_by uuid;
""", "\n")

# --- Organizations.
O = "all_organizations"
s.add(O,
    ("admin_factor", "text", "check (admin_factor in ('second_factor', 'passkey'))", "",
     "    -- What it asks of its administrators, beyond what it asks of all members; null: nothing more.\n"),
    ("admin_required_since", "timestamptz", ""),
    ("all_factor", "text", "constraint all_organizations_all_factor check (all_factor in ('passkey', 'role_passkey'))", "",
     "    -- Whom it asks for a passkey; null: nobody. The role is that of a service, by its id, and without a foreign key: an organization arrives\n"
     "    -- before its services, and a role that has ended reaches nobody.\n"),
    ("all_factor_role_id", "uuid", ""),
    ("all_required_since", "timestamptz", ""),
    ("passkey_offers", "boolean", "not null default true"),
    ("shortest_password", "smallint", "check (shortest_password between 8 and 64)", "",
     "    -- What it asks of its members' next passwords, and what their sign-ins with stolen ones do; null: as the installation, and nothing.\n"),
    ("breached_at_sign_in", "text", "check (breached_at_sign_in in ('tell', 'change'))"),
    ("session_idle_minutes", "integer", "check (session_idle_minutes between 5 and 43200)", "-- null: as the installation"),
    ("most_sessions", "smallint", "check (most_sessions between 1 and 100)", "-- of one person at once; null: as many as come"),
    ("risk_policies", "jsonb", "not null default '[]'", "", "    -- Rules for risk, with their exceptions, and since when any of them counts.\n"),
    ("risk_exceptions", "jsonb", "not null default '[]'"),
    ("risk_counts_since", "timestamptz", ""),
    ("registration_policy", "text", "not null default 'anybody'\n        check (registration_policy in ('anybody', 'except_domains', 'domains', 'invitation', 'closed'))", "",
     "    -- Whom its pages give an account. The domains are let in, or refused, as the policy says.\n"),
    ("registration_domains", "text[]", "not null default '{}'"),
    ("metadata_clients", "text", "not null default 'off' check (metadata_clients in ('off', 'named', 'any'))", "",
     "    -- Whose documents it and its APIs let in: of nobody, of the named hosts, of all.\n"),
    ("metadata_hosts", "text[]", "not null default '{}'"),
    ("registered_clients", "text", "not null default 'off' check (registered_clients in ('off', 'on'))", "-- programs that register themselves"),
    ("agents", "text", "not null default 'allowed' check (agents in ('allowed', 'forbidden'))"),
    ("agents_since", "timestamptz", "", "-- as `agent_since` of a service, for all agents of the organization"),
    ("afar_since", "timestamptz", "", "-- since when its applications may ask people who are elsewhere; null: they may not"),
    ("asks_terms", "boolean", "not null default false", "",
     "    -- Whether requests about it have to ask for terms at all: its own, or the installation's. Every look-up reads this row anyway.\n"),
    ("look", "text", "check (jsonb_typeof(look::jsonb) = 'object')", "-- null: ours",
     "    -- What its pages and mails wear besides name, logo and colour. It is text, because one look-up brings it as it stands, together with the\n"
     "    -- links, and each process keeps what it has read by this text.\n"),
    ("languages", "text", "check (languages ~ '^[a-z]{2}(,[a-z]{2})*$')", "-- the first one first; null: all of ours"),
    ("texts_digest", "text", "check (texts_digest ~ '^[0-9a-f]{64}$')", "-- of its own texts; null: none"),
    ("approved_texts", "text", "check (approved_texts ~ '^[0-9a-f]{64}$')", "-- the digest of the texts with a platform owner's yes; null: none"),
)
s.after("create index organizations_going on all_organizations (deleted_at) where deleted_at is not null;\n", """-- Texts are looked up by their digest.
create index organizations_with_texts on all_organizations (texts_digest) where texts_digest is not null;
-- Every page for platform owners counts the organizations whose texts wait for their yes. The index has the whole condition, so that the planner
-- knows how few there are.
create index organizations_whose_texts_wait on all_organizations ((coalesce(texts_digest <> approved_texts, texts_digest is not null)));
""")

NOT_VALID = "-- Not valid, as in every database that came here from before: nobody has read all rows for it."
m = s.entries("memberships")
s.column("memberships", "came_by", " constraint memberships_came_by check (came_by in ('added', 'founded', 'accepted', 'created'))", "")
s.swap("""    -- founded the organization; accepted an invitation with the mailed link or in their own list; the invitation created the account;
    -- or was added by others
""", """    -- founded the organization; accepted an invitation with the mailed link or in their own list; the invitation created the account;
    -- came by a directory that speaks LDAP; or was added by others
""")
s.after("create index memberships_of_role on memberships (role_id) where role_id is not null;\n", f"""{NOT_VALID}
alter table memberships add constraint memberships_came_by check (came_by in ('added', 'founded', 'accepted', 'created', 'ldap')) not valid;
""")

# Relations come after all that they refer to, and so have their columns in place.
block = s.cut("-- Who may do what: a subject (a user, the holders of a role", "create index relations_to_object on relations (organization_id, object_id, relation);\n\n")
s.cut("alter table relations add column team_id uuid", "create index relations_of_service_role on relations (object_id, id) where service_id is not null;\n\n")
s.after("create unique index former_slugs_of_service on former_slugs (service_id, noun, slug) where service_id is not null;\n\n", block)
s.add("relations",
    ("team_id", "uuid", "references teams on delete cascade"),
    ("service_id", "uuid", "references all_services on delete cascade", "-- of the role that is assigned"),
    after="role_id")
s.constrain("relations",
    "constraint relations_one_subject check (num_nonnulls(user_id, role_id, team_id, built_in_role) = 1)",
    """constraint relations_assignment check (
        num_nonnulls(id, service_id, created_at) = case object_type when 'service_role' then 3 else 0 end
    )""")
s.after("create unique index relations_of_role on relations (role_id, object_id, relation) where role_id is not null;\n",
    "create unique index relations_of_team on relations (team_id, object_id, relation) where team_id is not null;\n")
s.after("create index relations_to_object on relations (organization_id, object_id, relation);\n", """create index relations_of_service on relations (service_id, id) where service_id is not null;
create index relations_of_service_role on relations (object_id, id) where service_id is not null;
""")

# --- Services.
S = "all_services"
s.column(S, "service_type", "('web', 'mobile', 'desktop', 'api')", "('web', 'mobile', 'desktop', 'api', 'metadata', 'proxy')")
s.add(S,
    ("access_token_alg", "text", "not null default 'ES256' check (access_token_alg in ('RS256', 'ES256'))", "-- of the tokens that it holds"),
    ("kept_client_id", "text", "", "",
     "    -- The client id that its programs are configured with, where it comes from another system. The one that counts is this, or else its own.\n"),
    ("document_digest", "bytea", "", "-- of what a consent is about: addresses, method and keys in the document"),
    ("is_agent", "boolean", "not null default false", "-- acts for people, until a date that the person has chosen"),
    ("agent_since", "timestamptz", "", "-- what people allowed before counts no more; null: all counts"),
    ("session_lifetime_hours", "smallint", "check (session_lifetime_hours between 1 and 2160)", "-- null: as the organization"),
    ("session_idle_minutes", "integer", "check (session_idle_minutes between 5 and 43200)"),
    ("most_sessions", "smallint", "check (most_sessions between 1 and 100)"),
    ("dpop_bound_access_tokens", "boolean", "not null default false", "-- its tokens are good with the proof of a key alone (RFC 9449)"),
    ("frontchannel_logout_uri", "text", "", "-- null: none",
     "    -- What a browser loads in a frame when its person signs out.\n"),
    ("frontchannel_logout_session_required", "boolean", "not null default false"),
    ("profile", "text", "not null default 'standard' constraint all_services_profile check (profile in ('standard', 'fapi2'))"),
    ("logo_digest", "text", "check (logo_digest ~ '^[0-9a-f]{64}$')", "-- of its picture in consents, lists and mails; null: none"),
)
s.constrain(S, """-- The client id of a client by document is its address, and that of an open client all that it has said of itself. Behind either stands
    -- the organization's id, after a #, which no address has: the same client is another one in each organization, and nobody can name it
    -- but by what it says.
    constraint all_services_kept_client_id check (
        case
            when service_type = 'metadata'
            then deleted_at is not null
              or kept_client_id is not null
             and (kept_client_id like 'https://%#' || org_id and length(kept_client_id) <= 540
                  or kept_client_id like 'open:%#' || org_id and length(kept_client_id) <= 1061)
            else kept_client_id ~ '^[A-Za-z0-9._~-]{8,80}$' and kept_client_id !~ '^-*([0-9A-Fa-f]-*){32}$'
        end
    )""")
s.after("create unique index services_slug on all_services (org_id, slug) where deleted_at is null;\n",
    "create unique index services_oauth_client_id on all_services ((coalesce(kept_client_id, client_id::text)));\n")
s.settings("service_users", "fillfactor = 80")
s.after("-- Its end users: people who signed in to a service, or were made through it.", " An entry is changed at each visit: with room on the page, that\n-- touches no index.")
s.add("client_secrets", ("last_used_at", "timestamptz", "", "-- so that nobody ends one that is still in use"))
s.settings("client_secrets", "fillfactor = 80")

# --- Keys of applications' users, APIs, trusted issuers.
s.after("create index management_keys_due on management_keys (expires_at);\n", "\n-- Trusted issuers: whose signed tokens stand in place of a secret.\n" + table(15, "trusted_issuers"))
s.add("scim_groups", ("profile_mapping", "jsonb", "not null default '{}'", "-- the organization's fields by the directory's attributes"))
s.add("provisioned_users",
    ("is_scims", "boolean", "not null default true", "",
     "    -- Who lists the person: SCIM by a token, one connection by LDAP, or nobody (docs/decisions/0197-who-lists-a-person.md).\n"),
    ("scim_token_id", "uuid", "", "",
     "    -- The token that wrote the row last. No reference: a token that is gone lists nobody, and leaves its rows as they are.\n"))

# --- Devices and sessions.
s.column("devices", "trust_digest", " unique", "")
s.swap("create trigger devices_kept_for before insert or update of last_used_at on devices for each row execute function keep_last_used_week();\n",
    "-- Who says the week with the time is spared the call.\n" + part(22, "create or replace trigger devices_kept_for").replace("create or replace trigger", "create trigger"))
s.column("sessions", "device_id", " references devices on delete set null", "", "-- no reference: it would end no session")
s.swap("-- Deleting the rows that they refer to must not read all sessions.\n", "-- Deleting what they name must not read all sessions.\n")
s.swap("create trigger sessions_kept_for before insert or update of expires_at on sessions for each row execute function keep_expires_day();\n",
    "-- Who says the day with the time is spared the call (docs/decisions/0174-what-a-sign-in-writes.md).\n" + part(22, "create or replace trigger sessions_kept_for").replace("create or replace trigger", "create trigger"))
s.add("sessions",
    ("audiences", "jsonb", "", "",
     "    -- The APIs that it is for: [{resource_id, identifier, scopes}]; null: for no API. Without a foreign key to the API: a session whose API is\n"
     "    -- gone must not become one for no API.\n"),
    ("act", "jsonb", "", "",
     "    -- Who acts in the person's name, as tokens say it in `act`: {\"sub\": client id, \"act\": …}; null: the person's application and nobody else.\n"),
    ("exchanged_from", "uuid", "", "",
     "    -- The API, or the service, that the exchanged token was for; null: no exchange opened the session.\n"),
    ("key_thumbprint", "text", "", "-- as RFC 7638 has it, in base64url; null: its tokens are good for whoever has them"),
    ("minutes_idle", "integer", "", "-- without a use for so long, it ends; null: thirty days",
     "    -- It carries what ends it at the next sign-in, so that nobody looks the rules up.\n"),
    ("most", "smallint", "", "-- sign-ins of its person at once: their own, or in the organization; null: any number"),
    ("most_in_service", "smallint", "", "-- the same for its service"),
    ("let_in_by", "uuid[]", "", "-- the organizations whose rules for risk let it in, and those that it stays out of"),
    ("kept_out_by", "uuid[]", ""),
    ("factor_through", "uuid", "", "-- the directory that stated a second factor; kept when it is gone",
     "    -- What its directory has stated. What counts, the connection says at each request.\n"),
    ("factor_stated", "text", "", "-- by this value"),
    ("hook_verdicts", "jsonb", "", "",
     "    -- What hooks have said, by the name under which a hook counts and the organization: {\"<counts_as>/<organization>\": {\"hook\", \"at\", \"no\"}}.\n"),
)
s.after("create index sessions_of_parent on sessions (parent_id) where parent_id is not null;\n",
    "-- The janitor's: sessions of exchanged tokens go soon after their end.\ncreate index sessions_exchanged on sessions (ends_at) where exchanged_from is not null;\n")
m33 = part(33, "-- A sign-in and all sessions that were opened from it count as one.", "END")
s.before("-- Every refresh token of a live session, so that the return of an old one is recognised.", m33.rstrip("\n") + "\n\n")

s.add("authorization_codes",
    ("audiences", "jsonb", "", "-- as in sessions"),
    ("key_thumbprint", "text", "", "-- null: redeemed with any key, or with none"))
s.settings("authorization_codes", "fillfactor = 60")
s.before("""create table authorization_codes (
""", "-- A code is changed once, seconds after it was made: with room on the page, that touches no index.\n")
s.add("device_codes",
    ("audiences", "jsonb", "", "-- as in sessions"),
    ("approved_in", "uuid", "", "-- the session in which the person has approved it: what hooks have said stands there"))

s.before("-- The device flow: what a device is known by until a person has let it in.", """-- Somebody waits on a page for the first sign-in to an application (docs/decisions/0233-why-and-the-first-sign-in.md): one row for a person,
-- for ten minutes. The refused requests that the browser session sent meanwhile stand in the row, so that they go with it.
""" + table(57, "awaited_sign_ins") + "\n")
s.before("-- What a person has allowed an application. Gone when they take it back.", """-- A yes from afar (OpenID CIBA): an application asks for a person who is elsewhere, and polls until the person has answered. Requests of
-- minutes: a crash of the database forgets them, and the applications ask again. The janitor removes expired ones.
""" + table(44, "afar_requests").replace("answered_at      timestamptz", "answered_at     timestamptz") + """
-- "Never again from this one": the person hears of no further request of the application.
""" + table(44, "afar_blocks") + "\n")

# --- APIs, after consents.
apis = """
-- APIs of organizations that tokens are made for. The columns of the proof are those of `domains`, and the same statements write them.
""" + part(6, "create table resource_servers (", "create index resource_servers_approved on resource_servers (approved_at) where approved_at is not null;\n").replace("\n\ncreate index resource_servers_approved", "\ncreate index resource_servers_approved") + "\n" + part(6, "-- The services that a resource server names", "create index resource_admissions_of_service on resource_admissions (service_id, id);\n") + "\n" + \
    part(13, "-- The services that may exchange tokens towards a resource server.", "create index resource_exchanges_of_service on resource_exchanges (service_id, id);\n") + "\n" + \
    part(6, "-- Every identifier for which tokens were ever made", "END") + """
-- What people allow applications at APIs. An agent's grant is the person's consent at one API, until a date.
""" + part(7, "create table resource_consents (", "create index resource_consents_of_resource on resource_consents (resource_id);\n") + """
-- What clients published last that describe themselves in a document at their own https address (client ID metadata documents). One row serves
-- all organizations.
""" + table(11, "metadata_documents") + "\n" + part(11, "-- The last requests of such clients that were refused", "create index document_refusals_oldest on document_refusals (occurred_at);\n") + """
-- Whether an application lets its users make keys for its own API, and the bounds of these. No row: it never turned them on.
""" + part(12, "create table user_key_settings (", "END")
s.after("create index consents_of_service on consents (service_id, id);\n", apis)
s.add("resource_servers",
    ("metadata_clients", "text", "not null default 'off' check (metadata_clients in ('off', 'named', 'any'))", "-- as in organizations"),
    ("metadata_hosts", "text[]", "not null default '{}'"),
    ("registered_clients", "text", "not null default 'off' check (registered_clients in ('off', 'on'))"))
s.add("resource_consents",
    ("document_digest", "bytea", "", "-- of the document that the person was shown: good as long as that says the same"),
    ("id", "uuid", "", "-- of an agent's grant; null: of an ordinary application"),
    ("expires_at", "timestamptz", ""))
s.column("pushed_requests", "service_id", "not null references", "references", "-- null: of a client that nobody has placed yet")
s.column("client_assertions", "service_id", "not null references", "references", "-- null: of a client by document: it counts once in all organizations")
s.after("create index client_assertions_of_service on client_assertions (service_id, id);\n",
    "create unique index client_assertions_of_documents on client_assertions (digest) where service_id is null;\n")

# --- Signals.
s.add("logout_notices",
    ("stream_id", "uuid", "", "-- no reference: nobody who signs out waits for a stream",
     "    -- Of a stream that hears of the end. It waits by `tell_at`, and `next_at` stays null. `session_id` is then a digest of stream and session:\n    -- no signal names a session.\n"),
    ("tell_at", "timestamptz", "", "-- null: told, given up, or no signal"),
    ("ended_all", "boolean", "", "-- no other session of the person was left at the application"),
    ("by_policy", "boolean", "", "-- it ran out"))
s.after("create index logout_notices_oldest     on logout_notices (created_at);\n",
    "-- Dispatchers find by it what waits for a stream. It holds those rows alone.\ncreate index logout_notices_told on logout_notices (stream_id, tell_at) where tell_at is not null;\n")
signals = "-- Shared signals (docs/decisions/0236-shared-signals.md).\n\n" + part(52, "-- What an owner has turned on for an application. No row: no signals.", "create index signal_streams_of_service on signal_streams (service_id, id);\n")
s.before("-- Up to when sessions that expired are noticed. One row at most.", signals + "create index signal_streams_granted on signal_streams (granted_by) where granted_by is not null;\n\n")
s.add("signal_streams", ("granted_by", "uuid", "references users on delete cascade", "-- the person who lets the application make it; null: made by its own token"))

# --- Passkeys, flows, what somebody owes.
s.add("passkeys",
    ("user_handle", "bytea", "", "",
     "    -- The name of the person at the authenticator, where another system made the passkey; null: the account's id.\n"),
    ("awaits_first_use", "boolean", "not null default false", "-- the other system did not say whether it may be copied, so its first use here does"),
    ("made_in", "uuid", "", "-- the session in which the person added it; kept when that is gone; null: not known"),
    ("made_on", "text", "", "-- the browser and system; null: made before, or elsewhere"))
s.cut("-- The name of the person at the authenticator, where another system made the passkey. Null: the account's id.\n", "alter table passkeys add column made_in uuid;\n")
s.add("flows", ("hooks_asked", "smallint", "not null default 0", "-- how often it has asked"))

# Identities come before those who owe the second factor. Providers come before identities, and before all that hangs on them.
providers = s.cut("-- An organization's own provider. Its issuer and client stay as they are for the people who are connected.\n", "    constraint upstream_providers_former check ((former_certificate is null) = (former_sealed_private_key is null))\n);\n")
due = s.cut("create index upstream_providers_due on upstream_providers (refresh_at);\n\n", "\n")
identities = s.cut("create table identities (\n", "create index identities_by_provider on identities (upstream_provider_id, id) where upstream_provider_id is not null;\n\n")
vouch = s.cut("-- A process of the release before writes that an organization's own provider proves the address", "    for each row when (new.upstream_provider_id is not null) execute function vouch_for_address();\n\n")
s.cut("-- By which identity somebody has come in who still owes the second factor: their sign-in ends with it.\n", "create index preauthentications_of_identity on preauthentications (identity_id) where identity_id is not null;\n\n")
s.text = s.text.replace("\n\n\n", "\n\n")
s.before("create table preauthentications (", providers + due.rstrip("\n") + "\n" +
    "create index upstream_providers_in_step on upstream_providers (id) where kind = 'ldap' and ldap @> '{\"keeps_in_step\": true}';\n\n" +
    "-- The accounts of people at providers.\n" + identities + vouch)
s.add("preauthentications", ("identity_id", "uuid", "references identities on delete cascade", "-- by which they have come in: their sign-in ends with it"))
s.after("create index preauthentications_of_service on preauthentications (service_id, id) where service_id is not null;\n",
    "create index preauthentications_of_identity on preauthentications (identity_id) where identity_id is not null;\n")
U = "upstream_providers"
s.column(U, "kind", "check (kind in ('oidc', 'saml'))", "check (kind in ('oidc', 'saml', 'ldap'))")
s.add(U,
    ("ldap", "jsonb", "", "-- the settings of LDAP"),
    ("sealed_bind_password", "bytea", "", "-- with the digest of what it belongs to"),
    ("issues_assertions", "boolean", "not null default false", "-- of identity, for its people"),
    ("assertion_issuer", "text", "", "-- of SAML; null: the issuer of the connection"),
    ("assertion_jwks_uri", "text", "", "-- of SAML: where its keys are published, or"),
    ("assertion_jwks", "jsonb", "", "-- pasted"),
    ("assertion_subject", "text", "not null default 'sub'", "-- the claim that has the identity's subject"),
    ("second_factor_values", "text[]", "not null default '{}'", "-- those of its answers that count as a second factor; none: nothing does"))
s.drop(U, "constraint upstream_providers_whole")
s.constrain(U, """constraint upstream_providers_whole check (
        case kind
            when 'oidc' then client_id is not null and sealed_client_secret is not null and saml is null
            when 'saml' then client_id is null and sealed_client_secret is null and saml is not null and certificate is not null
                 and sealed_private_key is not null
            else client_id is null and sealed_client_secret is null and saml is null and sealed_private_key is null
        end
    )""", """constraint upstream_providers_ldap check (
        (kind = 'ldap') = (ldap is not null) and (sealed_bind_password is null or (kind = 'ldap' and secret_set_at is not null))
    )""", "constraint upstream_providers_factors check (kind <> 'ldap' or second_factor_values = '{}')")
s.drop("identities", "constraint identities_provider check")
s.after("create index identities_by_provider on identities (upstream_provider_id, id) where upstream_provider_id is not null;\n",
    f"""-- The provider is a word of the three, a short name, or the id of an organization's own.
{NOT_VALID}
alter table identities add constraint identities_provider
    check (upstream_provider_id is null or provider = upstream_provider_id::text) not valid;
""")

# --- Directories.
s.before("-- A test of a provider's settings, in one browser.", part(16, "-- Accepted assertions, each once.", "END").rstrip("\n") + "\n\n")
s.add("connection_tests",
    ("session_id", "uuid", "", "",
     "    -- Who has started it: it ends with their session, key or link, and with their right. No references: what is gone lets nobody go on.\n"),
    ("management_key_id", "uuid", ""), ("setup_link_id", "uuid", ""))
keeping = part(27, "-- How far each connection has come. Whoever makes a run holds the row's lease", "END")
s.before("-- `domain`, `token` and what follows `verified_at` are the proof, as in `domains`.", part(26, "-- Wrong passwords that a directory got from us, by whom they were about", "END") + """
-- Keeping in step with directories that speak LDAP: docs/decisions/0193-keeping-in-step-with-a-directory.md.

""" + keeping + "\n")
s.add("directory_people", ("is_kept", "boolean", "not null default false", "",
    "    -- An owner has decided that the person is the organization's own member, whatever this directory says, as long as they are a member.\n"))
s.column("directory_run_people", "what", " check (what in ('end', 'left_out'))", "")
s.swap("-- Whom a run names: those whom it would end, and those whom it has left out.\n", "-- Whom a run names: those whom it would end, those whom it has left out, and in a first plan who comes.\n")
s.after("create index directory_run_people_of_user on directory_run_people (user_id) where user_id is not null;\n", f"""{NOT_VALID}
alter table directory_run_people
  add constraint directory_run_people_what_check check (what in ('end', 'left_out', 'comes')) not valid;
""")

# --- Providers of the installation.
further = part(40, "create table further_providers (", ");\n")
s.before("-- Used up by getting another digest, by which only the same browser finds them until they expire.\n", "-- Further providers of the installation, besides the three. A draft is never enabled.\n" + further + "\n" +
    part(40, "-- The word of a further provider about somebody who is not connected", "create index posted_answers_expired on posted_answers (expires_at);\n") + "\n")
s.add("further_providers",
    ("state", "text", "not null default 'active' check (state in ('draft', 'active'))"),
    ("tested_digest", "bytea", "", "-- the settings that the last successful test was about; null: none"),
    ("tested_at", "timestamptz", ""),
    ("namings", "jsonb", "not null default '{}' check (jsonb_typeof(namings) = 'object')", "",
     "    -- What ids meant under issuers of before, while people hang on them: by issuer, the address of the profile and the path of the id.\n"))
s.constrain("further_providers", "constraint further_providers_drafts_are_off check (state = 'active' or not enabled)")
s.add("oauth_states", ("tests", "boolean", "not null default false", "-- a platform owner tests a provider: nobody signs in, and nothing is connected"))

# --- Proxies.
proxies = part(24, "-- What such an application asks of whoever comes, and what it is told.", "END")
s.before("-- Random keys of this installation, sealed by the key ring:", "-- Applications behind a proxy: docs/decisions/0185-applications-behind-a-proxy.md.\n\n" + proxies + "\n")

# --- Sign-ins and their counts.
s.add("login_events",
    ("decision", "jsonb", "", "-- which rule for risk decided"),
    ("spot", "smallint[]", "", "",
     "    -- Where it came from, in tenths of a degree, as far as the database of places has it: who cannot have travelled.\n"))
s.after("create index login_events_newest on login_events (created_at);\n", "\n-- The installation's own rules for risk. One row, or none before the first change. Each sign-in looks at it.\n" +
    table(37, "installation_risk_policies") + "\n" + part(37, "-- Decisions are rare, and sign-ins are many", "create index risk_decisions_newest on risk_decisions (created_at);   -- the janitor's\n"))
s.cut("create index uncounted_logins_of_organization on", ";\n")
s.cut("create function queue_logins() returns trigger", "    referencing new table as rows for each statement execute function queue_logins();\n")
s.after("""    hour            timestamptz not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
""", "\n" + part(22, "-- A statement logs one sign-in: its row needs no table of new rows around it", "end $$;\n") + part(22, "create trigger logins_added"))
s.swap("-- are committed; and whoever adds these to the counts is exact at any moment.\n", "-- are committed; and whoever adds these to the counts is exact at any moment. The table holds the sign-ins of a few seconds: whoever asks for\n-- those of one organization reads them all.\n")

# --- Signing keys.
s.text = s.text.replace("all_signing_keys", "signing_keys")
s.drop("signing_keys", "constraint signing_keys_purpose_check")
s.after("create unique index signing_keys_one_next    on signing_keys (purpose) where state = 'next';\n", f"""{NOT_VALID}
alter table signing_keys add constraint signing_keys_purpose_check
    check (purpose in ('access', 'access_rs256', 'id', 'id_es256')) not valid;

""")

# --- Looks and texts.
looks = "\n" + "-- The pictures that `look` of the organization names, beside the logo.\n" + table(47, "look_pictures") + "\n-- The picture of an application, which `logo_digest` of the service names.\n" + table(47, "service_logos") + """
-- Texts of organizations and of the installation in place of ours.
""" + table(46, "organization_texts") + """-- After a release that changes our texts, an actor compares the own ones with them, some at a time. It finds them by this index, so that a batch
-- costs the same however many texts there are.
create index organization_texts_to_compare on organization_texts (language, compared_with);

""" + part(46, "-- What tells the texts of the installation from all others. No row: there are none.", "END") + """
-- Where texts of organizations wait for a platform owner's yes. One row, or none before the first change.
""" + table(48, "text_approval_rules")
s.after("create index logos_by_digest on logos (digest);\n", looks)

# --- Deliveries.
s.add("webhook_deliveries", ("kind", "text", "not null default 'webhook'", "",
     "    -- `signal`: `webhook_id` names a stream. Without a check: the parts of months to come are made without one.\n"))

# --- Hooks, terms.
hooks = part(56, "create table hooks (", "create index hook_exchanges_newest on hook_exchanges (at);        -- the janitor's\n")
s.before("-- Links with which a customer's administrator sets an organization up without an account", "-- Hooks before a sign-in (docs/decisions/0239-hooks-before-a-sign-in.md).\n" + hooks + "\n")
terms = part(43, "-- A version stays when the next one follows it: acceptances are of a version.", "create index terms_acceptances_of_organization on terms_acceptances (organization_id);\n") + "\n" + part(43, "-- An organization that is made, or arrives, while the installation has terms.", "END")
s.before("-- Unlogged: losing it in a crash of the database opens the buckets once, and each taken token costs no write-ahead log.\n",
    "-- Terms of the installation and of organizations, and who has accepted which.\n\n" + terms + "\n")

# --- What counts for minutes and hours.
guesses = "".join(l for l in former(35).splitlines(True)[2:]).lstrip()
budgets = part(31, "-- How many mails strangers have asked for in an hour, by where they ask from and whom they name.", "END").replace(".\n\n-- Unlogged: losing it", ".\n-- Unlogged: losing it").replace("\n\ncreate index mail_budgets_hour", "\ncreate index mail_budgets_hour")
short = "\n".join([budgets.rstrip("\n") + "\n", guesses.rstrip("\n") + "\n", part(30, "-- The puzzles of pages that somebody has solved", "END").replace(".\n\ncreate", ".\ncreate").rstrip("\n") + "\n",
    part(38, "-- The proofs that were used, until they count no more anyway.", "END").rstrip("\n") + "\n"])
s.before("-- The objects that a configuration document manages.\n", short.replace("stands anywhere. Unlogged: neither a\n-- write-ahead log nor a backup has them.\n\ncreate", "stands anywhere. Unlogged: neither a\n-- write-ahead log nor a backup has them.\ncreate") + "\n")

# --- Settings.
s.before("-- How large each table was on each day, so that operators see what grows and how fast.", "-- For ten minutes, what settings were before a page changed them. Secrets are not in it.\n" + table(8, "changed_settings") +
    "\n-- Proposals: docs/decisions/0191-a-program-proposes-an-owner-applies.md.\n" + table(25, "proposals") + "\n")

# --- Provisioning, before the parts.
prov = former(54)
prov = prov[prov.index("create table provisioning_connections"):]
s.before("-- Three tables are cut by time: by the month in which an id was made.", "-- People arrive in the systems of applications, by SCIM: docs/decisions/0238-people-arrive-in-other-systems.md.\n\n" + prov + "\n")

# --- Migrations after 0057, as they are. Whoever finds one here edits it above as the others: columns into their tables.
for file in sorted(FORMER.glob("*.sql")):
    if int(file.name[:4]) > 57:
        body = file.read_text()
        body = re.sub(r"\A-- (additive|breaking).*\n(--\n)?", "", body)
        body = re.sub(r"^-- step: .*\n", "", body, flags=re.M).replace("index concurrently ", "index ")
        for kind, name in re.findall(r"^create (?:or replace )?(view|function) (\w+)", body, re.M):
            assert (kind, name) not in names, f"{file.name} makes {kind} {name} of replaceable.sql"
        if re.search(r"^(alter table|drop |update |insert )", body, re.M):
            print(f"{file.name}: put its alterations into their tables by hand, in fold.py (s.add, s.column, s.constrain)", file=sys.stderr)
        s.before("-- Three tables are cut by time: by the month in which an id was made.", body.strip("\n") + "\n\n")

# --- Parts.
a = s.text.index("-- Three tables are cut by time"); 
s.text = s.text[:a] + """-- Three tables are cut by time: by the month in which an id was made. The parts stand in a schema of their own, which nobody but the functions
-- for them names. There is a part for what was there before, one for each month, and one for the rest.
create schema partitions;

-- A new database begins with one part for all until the end of next month, the parts of the two months after it, and one for the rest. The
-- functions that make further ones come after the migrations, so this makes the bounds itself: the smallest id of a month.
do $$
declare
    parent text;
    name   text;
    month  timestamp := date_trunc('month', now() at time zone 'UTC');
    bounds uuid[] := array(
        select (lpad(to_hex(extract(epoch from (month + make_interval(months => number)) at time zone 'UTC')::bigint * 1000), 12, '0')
                   || repeat('0', 20))::uuid
          from generate_series(2, 4) as number
         order by number
    );
begin
    foreach parent in array array['login_events', 'events', 'webhook_deliveries'] loop
        execute format('create table partitions.%I partition of %I for values from (minvalue) to (%L)', parent || '_past', parent, bounds[1]);
        for number in 2..3 loop
            execute format(
                'create table partitions.%I partition of %I for values from (%L) to (%L)',
                parent || to_char(month + make_interval(months => number), '"_"YYYY"_"MM'), parent, bounds[number - 1], bounds[number]
            );
        end loop;
        execute format('create table partitions.%I partition of %I default', parent || '_rest', parent);
    end loop;
    for name in select relname from pg_class where relnamespace = 'partitions'::regnamespace and relkind = 'r' loop
        if starts_with(name, 'webhook_deliveries_') then
            execute format(
                'alter table partitions.%I set (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500)', name
            );
        end if;
    end loop;
end $$;
"""
print(re.sub(r"\n{3,}", "\n\n", s.text), end="")
