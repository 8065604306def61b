-- breaking

-- The first schema of 0.2.0. Later migrations change it, so it is read together with them. The views and functions that nothing here is built
-- on stand in schema/replaceable.sql, which `migrate` applies after the migrations (docs/decisions/0240-the-first-schema-of-0-2-0.md).

create table users (
    id                uuid        primary key,
    email             text        not null,
    email_key         text        not null unique,     -- NFKC, case folded: what makes two addresses the same
    password_hash     text,                            -- null: signs in another way
    is_platform_owner boolean     not null default false,
    email_verified_at timestamptz,
    deactivated_at    timestamptz,
    password_changed_at timestamptz,
    registered_in     bytea,                           -- the digest of its browser's secret for flows; null: by the API, or proved
    pending_email     text,                            -- takes the place of `email` when it is verified
    pending_email_key text,
    language          text        check (language ~ '^[a-z]{2,8}$'),  -- for mails and pages; null: not chosen
    created_at        timestamptz not null default now(),
    updated_at        timestamptz not null default now(),
    -- What people say of themselves. All of it is optional, and only the person writes it, or a provider of the installation at the first
    -- sign-in.
    name              text        check (char_length(name) between 1 and 200),
    given_name        text        check (char_length(given_name) between 1 and 200),
    family_name       text        check (char_length(family_name) between 1 and 200),
    username          text        unique check (username ~ '^[a-z0-9][a-z0-9._-]{1,38}[a-z0-9]$'),
    zoneinfo          text        check (char_length(zoneinfo) between 1 and 64),
    picture_id        uuid,                            -- of its row in `pictures`
    profile_updated_at timestamptz,
    -- The service that the account was made through, by its registration or by its servers. No other service may ever delete it.
    origin_service_id uuid,
    -- The organization whose directory, key or own provider made the account. It decides about the account while nobody else holds it.
    origin_org_id     uuid,
    -- The organization's own provider that vouches for the address, as organization/provider. Kept when either is gone; null: none, or proved.
    address_vouched_by text,
    -- The organization whose directory has deactivated it, while there is that organization.
    deactivated_by_org_id uuid,
    -- The same, and kept when the organization is gone. A trigger keeps it from the two columns that say that an account is deactivated.
    deactivated_by    uuid,
    anonymized_at     timestamptz,                     -- what is left of a person who was forgotten, for good
    -- When the account was last locked, by its person, its maker or the platform. It is locked now if it was deactivated at this very moment.
    -- The moment stays when the account is open again: links in mails from before it lock nothing any more.
    locked_at         timestamptz,
    passkey_offered_at timestamptz,                    -- null: never
    passkey_offers_ended_at timestamptz,               -- null: the person may be offered one again
    constraint users_anonymized check (
        anonymized_at is null or (deactivated_at is not null and password_hash is null and not is_platform_owner)
    )
);
-- "Is there a platform owner?" is asked at every start.
create index users_platform_owners on users (id) where is_platform_owner;

-- Which hashes of other systems remain, by their kind and their parameters: refusals take as long as the slowest of them.
create index users_foreign_hashes
    on users ((split_part(password_hash, '$', 3) || '$' || split_part(password_hash, '$', 4)))
 where left(password_hash, 9) = '$foreign$';

create table pictures (
    id         uuid        primary key,                  -- random: it is in the picture's address
    user_id    uuid        not null unique references users on delete cascade,
    type       text        not null check (type in ('image/png', 'image/jpeg', 'image/webp')),
    content    bytea       not null check (octet_length(content) between 1 and 262144),
    created_at timestamptz not null
);

-- A user name is never issued twice, also when its account was forgotten: the digest outlives the account and tells nothing without the key.
create table used_usernames (
    digest bytea primary key
);

create table tiers (
    id                   uuid        primary key,
    name                 text        not null unique,
    display_name         text        not null,
    default_max_services integer     not null check (default_max_services >= 0),
    default_max_users    integer     not null check (default_max_users >= 0),
    price_cents          integer     not null check (price_cents >= 0),
    created_at           timestamptz not null default now()
);
insert into tiers (id, name, display_name, default_max_services, default_max_users, price_cents)
values ('01900000-0000-7000-8000-000000000001', 'free',         'Free',          3,  100,    0),
       ('01900000-0000-7000-8000-000000000002', 'professional', 'Professional', 10, 1000, 4900);

-- A deleted organization disappears from every answer at once, while its rows go in batches: all statements read the view.
create table all_organizations (
    id                 uuid        primary key,
    slug               text        not null,
    name               text        not null,
    status             text        not null default 'pending' check (status in ('pending', 'active', 'suspended', 'rejected')),
    tier_id            uuid        not null default '01900000-0000-7000-8000-000000000001' references tiers,    -- free
    owner_user_id      uuid        references users on delete set null,
    max_services       integer     check (max_services >= 0),
    max_users          integer     check (max_users >= 0),
    approved_at        timestamptz,
    approved_by        uuid,                            -- kept when the user is gone
    rejected_at        timestamptz,
    rejection_reason   text,
    suspended_at       timestamptz,
    suspension_reason  text,
    member_count       integer     not null default 0,
    logo_url           text,
    primary_color      text,
    device_trust_days  smallint    not null default 30 check (device_trust_days between 0 and 90),
    mfa_required_since timestamptz,                     -- of members; null: they need no second factor
    mfa_grace_days     smallint    not null default 7 check (mfa_grace_days between 0 and 90),
    session_hours      smallint    check (session_hours between 1 and 2160),  -- from the sign-in; null: as long as any session
    invitation_domains text[]      not null default '{}',                     -- of addresses; empty: any
    created_at         timestamptz not null,
    updated_at         timestamptz not null,
    deleted_at         timestamptz,                     -- its rows are on their way out
    sign_in_links      boolean     not null default true,   -- whether its members may sign in by a mailed link
    logo_digest        text,                                -- of its row in `logos`
    metadata           jsonb       not null default '{}',   -- for applications, by their API
    help_url           text,                                -- three pages of its own that the foot of our pages links to
    privacy_url        text,
    terms_url          text,
    -- What it asks of its administrators, beyond what it asks of all members; null: nothing more.
    admin_factor       text        check (admin_factor in ('second_factor', 'passkey')),
    admin_required_since timestamptz,
    -- Whom it asks for a passkey; null: nobody. The role is that of a service, by its id, and without a foreign key: an organization arrives
    -- before its services, and a role that has ended reaches nobody.
    all_factor         text        constraint all_organizations_all_factor check (all_factor in ('passkey', 'role_passkey')),
    all_factor_role_id uuid,
    all_required_since timestamptz,
    passkey_offers     boolean     not null default true,
    -- What it asks of its members' next passwords, and what their sign-ins with stolen ones do; null: as the installation, and nothing.
    shortest_password  smallint    check (shortest_password between 8 and 64),
    breached_at_sign_in text check (breached_at_sign_in in ('tell', 'change')),
    session_idle_minutes integer check (session_idle_minutes between 5 and 43200),  -- null: as the installation
    most_sessions      smallint    check (most_sessions between 1 and 100),  -- of one person at once; null: as many as come
    -- Rules for risk, with their exceptions, and since when any of them counts.
    risk_policies      jsonb       not null default '[]',
    risk_exceptions    jsonb       not null default '[]',
    risk_counts_since  timestamptz,
    -- Whom its pages give an account. The domains are let in, or refused, as the policy says.
    registration_policy text not null default 'anybody'
        check (registration_policy in ('anybody', 'except_domains', 'domains', 'invitation', 'closed')),
    registration_domains text[] not null default '{}',
    -- Whose documents it and its APIs let in: of nobody, of the named hosts, of all.
    metadata_clients   text        not null default 'off' check (metadata_clients in ('off', 'named', 'any')),
    metadata_hosts     text[]      not null default '{}',
    registered_clients text        not null default 'off' check (registered_clients in ('off', 'on')),  -- programs that register themselves
    agents             text        not null default 'allowed' check (agents in ('allowed', 'forbidden')),
    agents_since       timestamptz,                         -- as `agent_since` of a service, for all agents of the organization
    afar_since         timestamptz,  -- since when its applications may ask people who are elsewhere; null: they may not
    -- Whether requests about it have to ask for terms at all: its own, or the installation's. Every look-up reads this row anyway.
    asks_terms         boolean     not null default false,
    -- What its pages and mails wear besides name, logo and colour. It is text, because one look-up brings it as it stands, together with the
    -- links, and each process keeps what it has read by this text.
    look               text        check (jsonb_typeof(look::jsonb) = 'object'),  -- null: ours
    languages          text        check (languages ~ '^[a-z]{2}(,[a-z]{2})*$'),  -- the first one first; null: all of ours
    texts_digest       text        check (texts_digest ~ '^[0-9a-f]{64}$'),  -- of its own texts; null: none
    approved_texts     text        check (approved_texts ~ '^[0-9a-f]{64}$')  -- the digest of the texts with a platform owner's yes; null: none
);
create unique index organizations_slug on all_organizations (slug) where deleted_at is null;
create index organizations_by_slug_start on all_organizations (slug text_pattern_ops) where deleted_at is null;
create index organizations_by_name_start on all_organizations (lower(name) text_pattern_ops) where deleted_at is null;
create index organizations_newest on all_organizations (created_at desc, id desc) where deleted_at is null;
create index organizations_by_status on all_organizations (status, created_at desc, id desc) include (tier_id) where deleted_at is null;
create index organizations_by_tier on all_organizations (tier_id, created_at desc, id desc) include (status) where deleted_at is null;
create index organizations_of_owner on all_organizations (owner_user_id) where owner_user_id is not null;
create index organizations_going on all_organizations (deleted_at) where deleted_at is not null;
-- Texts are looked up by their digest.
create index organizations_with_texts on all_organizations (texts_digest) where texts_digest is not null;
-- Every page for platform owners counts the organizations whose texts wait for their yes. The index has the whole condition, so that the planner
-- knows how few there are.
create index organizations_whose_texts_wait on all_organizations ((coalesce(texts_digest <> approved_texts, texts_digest is not null)));

-- An organization's own roles. What they permit stands in `relations`.
create table roles (
    id          uuid        primary key,
    org_id      uuid        not null references all_organizations on delete cascade,
    slug        text        not null,
    name        text        not null,
    description text        not null default '',
    created_at  timestamptz not null,
    updated_at  timestamptz not null,
    unique (org_id, slug)
);

create table memberships (
    id         uuid        primary key,
    org_id     uuid        not null references all_organizations on delete cascade,
    user_id    uuid        not null references users on delete cascade,
    role       text        not null,                    -- its slug
    role_id    uuid        references roles,            -- null: the role is a built-in one
    created_at timestamptz not null,
    -- founded the organization; accepted an invitation with the mailed link or in their own list; the invitation created the account;
    -- came by a directory that speaks LDAP; or was added by others
    came_by    text        not null default 'added',
    own_since  timestamptz,                             -- when the person founded, accepted or confirmed it; null: others have listed them
    unique (org_id, user_id)
);
create index memberships_of_user on memberships (user_id);
create index memberships_oldest on memberships (org_id, created_at, id);
create index memberships_by_role on memberships (org_id, role, created_at, id);
create index memberships_of_role on memberships (role_id) where role_id is not null;
-- Not valid, as in every database that came here from before: nobody has read all rows for it.
alter table memberships add constraint memberships_came_by check (came_by in ('added', 'founded', 'accepted', 'created', 'ldap')) not valid;

-- Ownership that came to somebody by others: from a transfer, or with an organization that was moved here. An organization without a row
-- here is owned by whoever founded it. A row whose membership is not the owner's any more says nothing.
create table ownerships (
    org_id               uuid        primary key references all_organizations on delete cascade,
    membership_id        uuid        not null references memberships on delete cascade,    -- the owner's
    former_membership_id uuid        references memberships on delete set null,    -- the former owner's; null: none, or no member any more
    former_role          text        not null,                    -- what the owner was before; its slug
    former_role_id       uuid        references roles on delete set null,
    since                timestamptz not null,
    confirmed_at         timestamptz                              -- the owner's first act that needs an owner, or their word; null: neither
);
create index ownerships_of_member on ownerships (membership_id);
create index ownerships_of_former_owner on ownerships (former_membership_id) where former_membership_id is not null;
create index ownerships_of_role on ownerships (former_role_id) where former_role_id is not null;

-- Every list and every acceptance asks for the number of members, which must not cost a count of them.
create function count_members() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' then
        update all_organizations set member_count = member_count + changed.members
          from (select org_id, count(*) as members from rows group by org_id) as changed
         where all_organizations.id = changed.org_id;
    else
        update all_organizations set member_count = member_count - changed.members
          from (select org_id, count(*) as members from rows group by org_id) as changed
         where all_organizations.id = changed.org_id and all_organizations.deleted_at is null;
    end if;
    return null;
end $$;
create trigger members_added after insert on memberships referencing new table as rows for each statement execute function count_members();
create trigger members_removed after delete on memberships referencing old table as rows for each statement execute function count_members();

create table invitations (
    id           uuid        primary key,
    org_id       uuid        not null references all_organizations on delete cascade,
    email        text        not null,
    email_key    text        not null,
    role         text        not null,                   -- its slug
    role_id      uuid        references roles on delete set null,  -- of a role of the organization's own, while that role exists
    invited_by   uuid        references users on delete set null,
    token_digest bytea       not null unique,
    status       text        not null default 'pending' check (status in ('pending', 'accepted', 'rejected', 'cancelled', 'expired')),
    expires_at   timestamptz not null,
    created_at   timestamptz not null,
    closed_at    timestamptz,
    mailed_digest bytea      unique,                     -- of the token in the mail, which the inviter never sees
    made_by_key  uuid,                                   -- kept when the management key is gone
    constraint invitations_closed check ((status = 'pending') = (closed_at is null))
);
create unique index invitations_one_pending on invitations (org_id, email_key) where status = 'pending';
create index invitations_newest    on invitations (org_id, id desc);
create index invitations_by_status on invitations (org_id, status, id desc);
create index invitations_to_email  on invitations (email_key, id desc) where status = 'pending';
create index invitations_of_email  on invitations (org_id, email_key, id desc);
create index invitations_due       on invitations (expires_at) where status = 'pending';
create index invitations_of_role   on invitations (role_id) where role_id is not null;
create index invitations_by_inviter on invitations (invited_by) where invited_by is not null;
-- What to forget of a person, in all organizations.
create index invitations_of_address on invitations (email_key);

-- As with organizations: a deleted service disappears from every answer at once, while its rows go in batches.
create table all_services (
    id                    uuid        primary key,
    org_id                uuid        not null references all_organizations on delete cascade,
    slug                  text        not null,
    name                  text        not null,
    service_type          text        not null check (service_type in ('web', 'mobile', 'desktop', 'api', 'metadata', 'proxy')),
    client_id             uuid        not null unique,
    codehost_scopes       text[],
    websuite_scopes       text[],
    officesuite_scopes    text[],
    redirect_uris         text[]      not null default '{}',
    device_activation_uri text,
    user_count            integer     not null default 0,
    created_at            timestamptz not null,
    updated_at            timestamptz not null,
    deleted_at            timestamptz,                      -- its rows are on their way out
    sign_in_policy        text        not null default 'anyone' check (sign_in_policy in ('anyone', 'members', 'assigned')),
    trusted               boolean     not null default false,   -- members of its organization are not asked for consent
    jwks                  jsonb,                            -- the public keys that the client signs its assertions with
    id_token_alg          text        not null default 'RS256' check (id_token_alg in ('RS256', 'ES256')),
    post_logout_redirect_uris text[]  not null default '{}',
    backchannel_logout_uri text,                            -- null: it is not told of sessions that end
    backchannel_logout_session_required boolean not null default false,
    jwks_uri              text,                             -- where `jwks` is published, and was read last
    jwks_fetched_at       timestamptz,
    credential_removed_at timestamptz,                      -- when it last lost something that it could show who it is by
    metadata              jsonb       not null default '{}',   -- for applications, by their API
    assertion_audience    text        not null default 'endpoint'  -- what its client assertions are for, beside the issuer
        constraint all_services_assertion_audience check (assertion_audience in ('issuer', 'endpoint')),
    access_token_alg      text        not null default 'ES256' check (access_token_alg in ('RS256', 'ES256')),  -- of the tokens that it holds
    -- The client id that its programs are configured with, where it comes from another system. The one that counts is this, or else its own.
    kept_client_id        text,
    document_digest       bytea,                            -- of what a consent is about: addresses, method and keys in the document
    is_agent              boolean     not null default false,  -- acts for people, until a date that the person has chosen
    agent_since           timestamptz,                      -- what people allowed before counts no more; null: all counts
    session_lifetime_hours smallint check (session_lifetime_hours between 1 and 2160),  -- null: as the organization
    session_idle_minutes  integer     check (session_idle_minutes between 5 and 43200),
    most_sessions         smallint    check (most_sessions between 1 and 100),
    dpop_bound_access_tokens boolean not null default false,  -- its tokens are good with the proof of a key alone (RFC 9449)
    -- What a browser loads in a frame when its person signs out.
    frontchannel_logout_uri text,                           -- null: none
    frontchannel_logout_session_required boolean not null default false,
    profile               text        not null default 'standard' constraint all_services_profile check (profile in ('standard', 'fapi2')),
    logo_digest           text        check (logo_digest ~ '^[0-9a-f]{64}$'),  -- of its picture in consents, lists and mails; null: none
    constraint all_services_published_keys check (jwks_uri is null or (jwks is not null and jwks_fetched_at is not null)),
    -- The client id of a client by document is its address, and that of an open client all that it has said of itself. Behind either stands
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
    )
);
create unique index services_slug on all_services (org_id, slug) where deleted_at is null;
create unique index services_oauth_client_id on all_services ((coalesce(kept_client_id, client_id::text)));
create index services_oldest on all_services (org_id, created_at, id);
create index services_going on all_services (deleted_at) where deleted_at is not null;

-- Pages of these origins may call the token endpoint from a browser, if their service is a public client. A browser writes the host of an
-- origin in small letters, and leaves out the port that its scheme has anyway.
create function web_origins(uris text[]) returns text[] language sql immutable as $$
    select array(
        select distinct regexp_replace(lower(substring(uri from '^https?://[^/?]+')), '^(?:(https://.*):443|(http://.*):80)$', '\1\2')
          from unnest(uris) as uri
    )
$$;
create index services_origins on all_services using gin (web_origins(redirect_uris)) where service_type = 'web' and deleted_at is null;

create function remember_removed_keys() returns trigger language plpgsql as $$
begin
    new.credential_removed_at := clock_timestamp();
    return new;
end $$;
create trigger services_keys_removed before update of jwks on all_services
    for each row when (old.jwks is not null and new.jwks is null) execute function remember_removed_keys();

-- The last names of deleted services, whose sign-ins stay counted.
create table former_services (
    id         uuid        primary key,                 -- the service's
    org_id     uuid        not null references all_organizations on delete cascade,
    name       text        not null,
    deleted_at timestamptz not null
);
create index former_services_of_organization on former_services (org_id);

create function remember_service() returns trigger language plpgsql as $$
begin
    insert into former_services (id, org_id, name, deleted_at) values (new.id, new.org_id, new.name, new.deleted_at)
        on conflict (id) do nothing;
    return null;
end $$;
create trigger services_deleted after update of deleted_at on all_services
    for each row when (old.deleted_at is null and new.deleted_at is not null) execute function remember_service();

-- Where accounts come from, and who has deactivated them. These tables come after people, whom they refer to.
alter table users add foreign key (origin_service_id)     references all_services      on delete set null;
alter table users add foreign key (origin_org_id)         references all_organizations on delete set null;
alter table users add foreign key (deactivated_by_org_id) references all_organizations on delete set null;
create index users_of_origin on users (origin_service_id, id) where origin_service_id is not null;
create index users_of_origin_organization on users (origin_org_id, id) where origin_org_id is not null;
create index users_deactivated_by_organization on users (deactivated_by_org_id, id) where deactivated_by_org_id is not null;

-- A voucher counts for this address, and until somebody proves it.
create function forget_voucher() returns trigger language plpgsql as $$
begin
    if new.email_verified_at is not null or new.email_key <> old.email_key then
        new.address_vouched_by := null;
    end if;
    return new;
end $$;
create trigger users_address_proved before update of email_key, email_verified_at on users
    for each row execute function forget_voucher();
-- "Has this provider, which is gone, vouched for anybody?"
create index users_vouched on users (address_vouched_by) where address_vouched_by is not null;
-- Those that may end, because nobody has proved or vouched for their address, by their age.
create index users_nobody_knows on users (created_at)
 where email_verified_at is null and address_vouched_by is null and deactivated_at is null and origin_org_id is null and not is_platform_owner;

create function remember_who_deactivated() returns trigger language plpgsql as $$
begin
    if new.deactivated_at is null or new.anonymized_at is not null then
        new.deactivated_by := null;
    elsif new.deactivated_by_org_id is not null then
        new.deactivated_by := new.deactivated_by_org_id;
    elsif new.deactivated_at is distinct from old.deactivated_at then
        new.deactivated_by := null;
    end if;
    return new;
end $$;
create trigger users_deactivated before update of deactivated_at, deactivated_by_org_id on users
    for each row execute function remember_who_deactivated();

-- The made accounts that their people once let others hold. That never ends.
create table held_accounts (
    user_id    uuid        primary key references users on delete cascade,
    held_since timestamptz not null
);

-- An own membership in another organization than the maker. The transaction has the account before the membership.
create function let_organization_hold() returns trigger language plpgsql as $$
begin
    insert into held_accounts (user_id, held_since)
    select users.id, new.own_since from users where users.id = new.user_id and users.origin_org_id <> new.org_id
        on conflict (user_id) do nothing;
    return null;
end $$;
create trigger members_hold_when_added after insert on memberships
    for each row when (new.own_since is not null) execute function let_organization_hold();
create trigger members_hold_when_own after update of own_since on memberships
    for each row when (old.own_since is null and new.own_since is not null) execute function let_organization_hold();

-- A right on the platform, also one that was.
create function let_platform_hold() returns trigger language plpgsql as $$
begin
    insert into held_accounts (user_id, held_since) values (new.id, now()) on conflict (user_id) do nothing;
    return null;
end $$;
create trigger platform_holds after update of is_platform_owner on users
    for each row when (new.is_platform_owner and new.origin_org_id is not null) execute function let_platform_hold();

-- Its end users: people who signed in to a service, or were made through it. An entry is changed at each visit: with room on the page, that
-- touches no index.
create table service_users (
    service_id     uuid        not null references all_services on delete cascade,
    user_id        uuid        not null references users on delete cascade,
    org_id         uuid        not null references all_organizations on delete cascade,
    first_login_at timestamptz,                          -- null: made through the service, and not seen since
    last_login_at  timestamptz,
    created_at     timestamptz not null,
    own_since      timestamptz,                          -- when the person consented, or signed in where it was named; null: others listed them
    metadata       jsonb       not null default '{}',    -- for applications, by their API
    primary key (service_id, user_id)
) with (fillfactor = 80);
create index service_users_of_user         on service_users (user_id, org_id);
create index service_users_of_organization on service_users (org_id, user_id desc);
-- Pages of a service's users.
create index service_users_oldest on service_users (service_id, created_at, user_id);

-- The start of a page of a service's users is looked up among these, and not by walking over all users before it: each mark counts the users
-- from its place in that index up to the next mark. There are one to two thousand between two marks, unless many left.
create table service_user_marks (
    service_id uuid        not null references all_services on delete cascade,
    created_at timestamptz not null,
    user_id    uuid        not null,                     -- no reference: the person who stood there may have left
    users      integer     not null,
    primary key (service_id, created_at, user_id)
) with (fillfactor = 70);

create function count_service_users() returns trigger language plpgsql as $$
declare
    step constant integer := case tg_op when 'INSERT' then 1 else -1 end;
    mark record;
begin
    -- Most sign-ins are of somebody who has been there before.
    if not exists (select from rows) then
        return null;
    end if;
    -- In one order everywhere: two that change the users of the same services cannot deadlock. What follows sees what others did before.
    perform
       from all_services
      where id in (select service_id from rows) and (step > 0 or deleted_at is null)
      order by id
        for no key update;
    update all_services
       set user_count = user_count + step * changed.users
      from (select service_id, count(*) as users from rows group by service_id) as changed
     where all_services.id = changed.service_id and (step > 0 or all_services.deleted_at is null);
    if step < 0 then
        -- Of a service that is going. Whoever takes away the same at this moment has these rows, and waits for none of ours.
        delete from service_user_marks as marks
         using (
                   select service_id, created_at, user_id
                     from service_user_marks
                    where service_id = any (array(
                              select id from all_services where deleted_at is not null and id in (select service_id from rows)
                          ))
                      for update skip locked
               ) as going
         where (marks.service_id, marks.created_at, marks.user_id) = (going.service_id, going.created_at, going.user_id);
    else
        insert into service_user_marks (service_id, created_at, user_id, users)
        select distinct service_id, '-infinity'::timestamptz, '00000000-0000-0000-0000-000000000000'::uuid, 0 from rows
            on conflict do nothing;
    end if;
    for mark in
        update service_user_marks as marks
           set users = marks.users + step * changed.users
          from (
                   select rows.service_id, place.created_at, place.user_id, count(*)::integer as users
                     from rows
                     join all_services on all_services.id = rows.service_id and (step > 0 or all_services.deleted_at is null)
                    cross join lateral (
                              select marks.created_at, marks.user_id
                                from service_user_marks as marks
                               where marks.service_id = rows.service_id
                                 and (marks.created_at, marks.user_id) <= (rows.created_at, rows.user_id)
                               order by marks.created_at desc, marks.user_id desc
                               limit 1
                          ) as place
                    group by rows.service_id, place.created_at, place.user_id
               ) as changed
         where (marks.service_id, marks.created_at, marks.user_id) = (changed.service_id, changed.created_at, changed.user_id)
     returning marks.service_id, marks.created_at, marks.user_id, marks.users
    loop
        if mark.users = 0 then
            delete from service_user_marks as marks
             where (marks.service_id, marks.created_at, marks.user_id) = (mark.service_id, mark.created_at, mark.user_id)
               and marks.created_at > '-infinity';
        elsif mark.users > 2000 then
            -- A mark at each thousand, the last of which has what is left over.
            insert into service_user_marks (service_id, created_at, user_id, users)
            select mark.service_id, placed.created_at, placed.user_id,
                   case when placed.place / 1000 = mark.users / 1000 - 1 then mark.users - placed.place else 1000 end
              from (
                       select created_at, user_id, row_number() over (order by created_at, user_id) - 1 as place
                         from service_users
                        where service_id = mark.service_id and (created_at, user_id) >= (mark.created_at, mark.user_id)
                        order by created_at, user_id
                        limit mark.users
                   ) as placed
             where placed.place > 0 and placed.place % 1000 = 0 and placed.place / 1000 < mark.users / 1000;
            update service_user_marks as marks
               set users = 1000
             where (marks.service_id, marks.created_at, marks.user_id) = (mark.service_id, mark.created_at, mark.user_id);
        end if;
    end loop;
    return null;
end $$;
create trigger service_users_added after insert on service_users
    referencing new table as rows for each statement execute function count_service_users();
create trigger service_users_removed after delete on service_users
    referencing old table as rows for each statement execute function count_service_users();

-- What an installation or an organization keeps of people besides the address: fields that it has declared, and their values.

create table all_profile_fields (
    id         uuid        primary key,                  -- values are kept by it, so that a new field of the same key finds none
    org_id     uuid        references all_organizations on delete cascade,  -- null: the installation's
    key        text        not null,
    label      text        not null,
    kind       text        not null check (kind in ('text', 'number', 'boolean', 'date', 'choice', 'list')),
    rule       jsonb       not null default '{}',        -- lengths, bounds, choices
    written_by text[]      not null check (written_by <@ array['person', 'administrator', 'directory', 'service', 'provider']),
    scope      text        check (scope is null or org_id is null),  -- the scope that tells it to applications; null: none
    required   boolean     not null default false,
    asked_at   text        check (asked_at in ('registration', 'sign_in')),  -- null: no page asks for it
    position   smallint    not null default 0,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    deleted_at timestamptz                               -- its values go in batches, then the row
);
create unique index profile_fields_of_organization on all_profile_fields (org_id, key) where org_id is not null and deleted_at is null;
create unique index profile_fields_of_installation on all_profile_fields (key) where org_id is null and deleted_at is null;
create index profile_fields_in_organization on all_profile_fields (org_id, id);
create index profile_fields_asked on all_profile_fields (org_id) where asked_at is not null and deleted_at is null;
create index profile_fields_deleted on all_profile_fields (deleted_at) where deleted_at is not null;

-- One row for a person and whoever keeps it. Nobody else sees it.
create table profile_values (
    user_id    uuid        not null references users on delete cascade,
    org_id     uuid        references all_organizations on delete cascade,  -- null: the installation's
    values     jsonb       not null default '{}' check (pg_column_size(values) <= 40000),  -- by the ids of the fields
    asked      uuid[]      not null default '{}',        -- the fields that a page has asked for, whatever the answer was
    updated_at timestamptz not null
);
create unique index profile_values_of_organization on profile_values (user_id, org_id);
create unique index profile_values_of_installation on profile_values (user_id) where org_id is null;
create index profile_values_in_organization on profile_values (org_id, user_id) where org_id is not null;

-- What an organization keeps of a person ends with the last tie of the person to it, in whatever way that ends.
create function forget_profile_values() returns trigger language plpgsql as $$
begin
    delete from profile_values
     using (select distinct org_id, user_id from rows) as gone
     where profile_values.org_id = gone.org_id and profile_values.user_id = gone.user_id
       and not exists (select from memberships where memberships.org_id = gone.org_id and memberships.user_id = gone.user_id)
       and not exists (select from service_users where service_users.org_id = gone.org_id and service_users.user_id = gone.user_id)
       and not exists (
               select from provisioned_users where provisioned_users.org_id = gone.org_id and provisioned_users.user_id = gone.user_id
           );
    return null;
end $$;
create trigger members_forgotten after delete on memberships
    referencing old table as rows for each statement execute function forget_profile_values();
create trigger service_users_forgotten after delete on service_users
    referencing old table as rows for each statement execute function forget_profile_values();

-- Teams of an organization's members. A team may carry a role of the organization, and roles of its services.

create table teams (
    id          uuid        primary key,
    org_id      uuid        not null references all_organizations on delete cascade,
    slug        text        not null,                    -- never changes, and is never used again
    name        text        not null,
    source      text        not null default 'own' check (source in ('own', 'directory')),
    external_id text,                                    -- by which its directory knows it
    role        text        check (role <> 'owner'),     -- the slug of the organization's role that its members have by it; null: none
    role_id     uuid        references roles,            -- null: the role is a built-in one, or there is none
    created_at  timestamptz not null,
    updated_at  timestamptz not null,
    unique (org_id, slug),
    unique (id, org_id)
);
create unique index teams_of_directory on teams (org_id, external_id) where external_id is not null;
create index teams_by_source on teams (org_id, source, id);
create index teams_of_role on teams (role_id) where role_id is not null;

-- Leaving the organization leaves its teams.
create table team_members (
    team_id  uuid        not null,
    org_id   uuid        not null,
    user_id  uuid        not null,
    added_at timestamptz not null,
    primary key (team_id, org_id, user_id),
    foreign key (team_id, org_id) references teams (id, org_id) on delete cascade,
    foreign key (org_id, user_id) references memberships (org_id, user_id) on delete cascade
);
create index team_members_of_user on team_members (user_id, org_id);

-- Slugs that were used stay used: an application may still know their meaning.
create table former_slugs (
    org_id     uuid not null references all_organizations on delete cascade,
    service_id uuid references all_services on delete cascade,
    noun       text not null check (noun in ('team', 'service_role', 'permission')),
    slug       text not null
);
create unique index former_slugs_of_organization on former_slugs (org_id, noun, slug) where service_id is null;
create index former_slugs_in_organization on former_slugs (org_id);
create unique index former_slugs_of_service on former_slugs (service_id, noun, slug) where service_id is not null;

-- Who may do what: a subject (a user, the holders of a role, the members of a team) stands in a relation to an object.
--     user U    is owner, admin or member of    organization O
--     user U    is holder of                    role R
--     role R's holders have <capability> in     organization O
--     user U, the holders of role R, those with the built-in role B, or the members of team T    are holder of    role of a service S
create table relations (
    organization_id uuid not null references all_organizations on delete cascade,  -- whose rows they are
    user_id         uuid references users on delete cascade,
    role_id         uuid references roles on delete cascade,
    team_id         uuid references teams on delete cascade,
    service_id      uuid references all_services on delete cascade,                -- of the role that is assigned
    relation        text not null,
    object_type     text not null check (object_type in ('organization', 'role', 'service_role')),
    object_id       uuid not null,
    built_in_role   text check (built_in_role in ('owner', 'admin', 'member')),
    id              uuid unique,                       -- of an assignment of a service's role; null: a relation of another kind
    created_at      timestamptz,
    constraint relations_one_subject check (num_nonnulls(user_id, role_id, team_id, built_in_role) = 1),
    constraint relations_assignment check (
        num_nonnulls(id, service_id, created_at) = case object_type when 'service_role' then 3 else 0 end
    )
);
create unique index relations_of_user on relations (user_id, organization_id, object_id, relation) where user_id is not null;
create unique index relations_of_role on relations (role_id, object_id, relation) where role_id is not null;
create unique index relations_of_team on relations (team_id, object_id, relation) where team_id is not null;
create unique index relations_of_built_in_role on relations (organization_id, built_in_role, object_id, relation) where built_in_role is not null;
create index relations_to_object on relations (organization_id, object_id, relation);
create index relations_of_service on relations (service_id, id) where service_id is not null;
create index relations_of_service_role on relations (object_id, id) where service_id is not null;

-- What a service's roles permit in it, and who holds them. An assignment is a relation.

create table permissions (
    id          uuid        primary key,
    service_id  uuid        not null references all_services on delete cascade,
    key         text        not null check (key ~ '^[a-z0-9_.:-]{1,80}$'),
    description text        not null default '',
    created_at  timestamptz not null,
    unique (service_id, key)
);

create table service_roles (
    id                 uuid        primary key,
    org_id             uuid        not null references all_organizations on delete cascade,
    service_id         uuid        not null references all_services on delete cascade,
    slug               text        not null,
    name               text        not null,
    description        text        not null default '',
    permissions        text[]      not null default '{}',
    given_to_everybody boolean     not null default false,   -- whoever signs in to the service holds it
    created_at         timestamptz not null,
    updated_at         timestamptz not null,
    unique (service_id, slug)
);
create index service_roles_in_organization on service_roles (org_id);

-- Claims that a service's tokens and assertions have besides the standard ones.

create table service_claims (
    id         uuid        primary key,
    service_id uuid        not null references all_services on delete cascade,
    name       text        not null,
    source     text        not null check (source in ('person_field', 'organization_field', 'roles', 'permissions', 'teams', 'organization',
                                                      'plan', 'features', 'constant')),
    argument   jsonb,                                    -- the key of the field, the part of the organization, or the constant
    told_in    text[]      not null check (told_in <@ array['id_token', 'userinfo', 'access_token', 'saml']),
    created_at timestamptz not null,
    unique (service_id, name)
);

create table client_secrets (
    id         uuid        primary key,
    service_id uuid        not null references all_services on delete cascade,
    prefix     text        not null,
    digest     bytea       not null unique,
    created_by uuid,                                     -- kept when the user is gone
    created_at timestamptz not null,
    made_by_key uuid,                                    -- kept when the management key is gone
    last_used_at timestamptz                             -- so that nobody ends one that is still in use
) with (fillfactor = 80);
create index client_secrets_of_service on client_secrets (service_id, created_at);
create index client_secrets_made_by_key on client_secrets (made_by_key) where made_by_key is not null;

create function remember_removed_secret() returns trigger language plpgsql as $$
begin
    update all_services set credential_removed_at = clock_timestamp() where id = old.service_id and deleted_at is null;
    return null;
end $$;
create trigger client_secrets_removed after delete on client_secrets
    for each row execute function remember_removed_secret();

create table plans (
    id                 uuid        primary key,
    service_id         uuid        not null references all_services on delete cascade,
    name               text        not null,
    price_cents        integer     not null check (price_cents >= 0),
    currency           text        not null check (currency ~ '^[a-z]{3}$'),
    features           text[]      not null default '{}',
    billing_price_id   text,
    active_count       integer     not null default 0,   -- of its subscriptions, by their status
    past_due_count     integer     not null default 0,
    cancelled_count    integer     not null default 0,
    expired_count      integer     not null default 0,
    subscription_count integer     not null generated always as (active_count + past_due_count) stored,     -- of the current ones
    created_at         timestamptz not null,
    updated_at         timestamptz not null,
    deleted_at         timestamptz,                      -- kept for the history of who was on it
    key                text        not null,             -- never changes
    constraint plans_key_form check (key ~ '^[a-z0-9](?:[a-z0-9_-]{0,48}[a-z0-9])?$')
);
create index plans_of_service on plans (service_id, price_cents, created_at, id);
create unique index plans_key on plans (service_id, key) where deleted_at is null;

-- A plan that an older process makes gets its key from its name.
create function free_plan_key(service uuid, called text) returns text language plpgsql as $$
declare
    stem   text := coalesce(nullif(trim(both '-' from left(trim(both '-' from regexp_replace(lower(called), '[^a-z0-9]+', '-', 'g')), 40)), ''), 'plan');
    free   text := stem;
    number integer := 2;
begin
    while exists (select from plans where plans.service_id = service and plans.key = free and plans.deleted_at is null) loop
        free := stem || '-' || number;
        number := number + 1;
    end loop;
    return free;
end $$;

create function key_plan() returns trigger language plpgsql as $$
begin
    new.key := free_plan_key(new.service_id, new.name);
    return new;
end $$;
create trigger plans_keyed before insert on plans for each row when (new.key is null) execute function key_plan();

create table subscriptions (
    id                 uuid        primary key,
    service_id         uuid        not null references all_services on delete cascade,
    user_id            uuid        not null references users on delete cascade,
    plan_id            uuid        not null references plans,
    status             text        not null check (status in ('active', 'cancelled', 'expired', 'past_due')),
    current_period_end timestamptz not null,
    created_at         timestamptz not null,
    updated_at         timestamptz not null,
    managed            boolean     not null default false,   -- by the payment provider: it alone says when it ends
    overridden_at      timestamptz                           -- somebody has said otherwise through the API, until there is newer news
);
-- At most one is current, even when several are requested at once. The ended ones stay as history.
create unique index subscriptions_one_living on subscriptions (service_id, user_id) where status in ('active', 'past_due');
create index subscriptions_of_user    on subscriptions (user_id, service_id, created_at desc, id desc);
create index subscriptions_of_service on subscriptions (service_id, created_at, id);
create index subscriptions_by_status  on subscriptions (service_id, status, created_at, id);
create index subscriptions_of_plan    on subscriptions (plan_id, id);
create index subscriptions_ending     on subscriptions (current_period_end) where status = 'active';

-- Every list asks for the number of each status, and the removal of a plan asks whether any is current. One plan after the other, in one order
-- everywhere: two that move subscriptions of the same plans cannot deadlock.
create function count_subscriptions() returns trigger language plpgsql as $$
declare
    plan_ids uuid[];
    statuses text[];
    steps    integer[];
    changed  record;
begin
    if tg_op <> 'DELETE' then
        select array_agg(plan_id), array_agg(status), array_agg(1) into plan_ids, statuses, steps from come;
    end if;
    if tg_op <> 'INSERT' then
        select plan_ids || array_agg(plan_id), statuses || array_agg(status), steps || array_agg(-1) into plan_ids, statuses, steps from gone;
    end if;
    for changed in
        select plan_id,
               coalesce(sum(step) filter (where status = 'active'), 0)    as active,
               coalesce(sum(step) filter (where status = 'past_due'), 0)  as past_due,
               coalesce(sum(step) filter (where status = 'cancelled'), 0) as cancelled,
               coalesce(sum(step) filter (where status = 'expired'), 0)   as expired
          from unnest(plan_ids, statuses, steps) as moved (plan_id, status, step)
         group by plan_id
         order by plan_id
    loop
        update plans
           set active_count = active_count + changed.active, past_due_count = past_due_count + changed.past_due,
               cancelled_count = cancelled_count + changed.cancelled, expired_count = expired_count + changed.expired
         where id = changed.plan_id and (changed.active, changed.past_due, changed.cancelled, changed.expired) <> (0, 0, 0, 0);
    end loop;
    return null;
end $$;
create trigger subscriptions_added after insert on subscriptions
    referencing new table as come for each statement execute function count_subscriptions();
create trigger subscriptions_changed after update on subscriptions
    referencing old table as gone new table as come for each statement execute function count_subscriptions();
create trigger subscriptions_removed after delete on subscriptions
    referencing old table as gone for each statement execute function count_subscriptions();

-- Who pays, as the payment provider knows the organization. `id` marks the customer there, so that one whose making was never answered is
-- found again. An organization may have several. One that has not ended is for checkouts and for the portal.
create table billing_customers (
    id          uuid        primary key,
    org_id      uuid        not null references all_organizations on delete cascade,
    external_id text        unique,
    attempt     integer     not null default 0,
    asked_at    timestamptz,
    ended_at    timestamptz,
    created_at  timestamptz not null
);
create unique index billing_customers_current         on billing_customers (org_id) where ended_at is null;
create index        billing_customers_of_organization on billing_customers (org_id, id);

-- The checkout that a person began last. Repeated, it is answered as it was.
create table billing_checkouts (
    service_id  uuid        not null references all_services on delete cascade,
    user_id     uuid        not null references users on delete cascade,
    id          uuid        primary key,
    digest      text        not null,
    external_id text,
    asked_at    timestamptz not null,
    unique (user_id, service_id)
);
create index billing_checkouts_of_service on billing_checkouts (service_id, id);

-- News of the payment provider, taken before anything is done about it.
create table billing_events (
    id          text        primary key,
    type        text        not null,
    created     bigint      not null,
    subject     text,
    payload     jsonb       not null,
    received_at timestamptz not null,
    applied_at  timestamptz,
    outcome     text,
    attempts    integer     not null default 0,
    next_at     timestamptz not null,
    error       text
);
create index billing_events_waiting    on billing_events (next_at) where applied_at is null;
create index billing_events_of_subject on billing_events (subject) where applied_at is null;
create index billing_events_received   on billing_events (received_at);

-- Subscriptions at the payment provider. They outlive what they are for, until they are cancelled there: nothing here refers to it.
create table billing_subscriptions (
    external_id     text        primary key,
    customer        text,
    org_id          uuid,
    service_id      uuid,
    user_id         uuid,
    plan_id         uuid,
    subscription_id uuid        unique,
    facets          jsonb       not null,
    is_over         boolean     not null default false,
    released_at     timestamptz,
    cancel_at       timestamptz,
    cancel_attempts integer     not null default 0,
    check_at        timestamptz,
    created_at      timestamptz not null,
    updated_at      timestamptz not null
);
create index billing_subscriptions_of_user on billing_subscriptions (user_id, service_id);
create index billing_subscriptions_check   on billing_subscriptions (check_at) where check_at is not null;
create index billing_subscriptions_cancel  on billing_subscriptions (cancel_at) where cancel_at is not null;
create index billing_subscriptions_updated on billing_subscriptions (updated_at) where released_at is not null or service_id is null;

-- The daily look at all subscriptions of the provider, in pages.
create table billing_sweeps (
    one          boolean     primary key default true check (one),
    cursor       text,
    due_at       timestamptz not null,
    leased_until timestamptz
);

-- Whoever removes a subscription, or somebody's place in a service, for whatever reason, also ends the payments for it. By its name the first
-- trigger comes before the one that locks plans, in the order in which everything locks the two.
create function release_billing() returns trigger language plpgsql as $$
begin
    update billing_subscriptions
       set released_at = now(), subscription_id = null, org_id = null, service_id = null, user_id = null, plan_id = null, check_at = null,
           updated_at = now(), cancel_at = case when is_over then null else now() end
     where external_id in (select external_id from billing_subscriptions join gone on gone.id = billing_subscriptions.subscription_id);
    return null;
end $$;
create trigger subscriptions_released after delete on subscriptions
    referencing old table as gone for each statement execute function release_billing();

create function release_billing_of_user() returns trigger language plpgsql as $$
begin
    update billing_subscriptions
       set released_at = now(), subscription_id = null, org_id = null, service_id = null, user_id = null, plan_id = null, check_at = null,
           updated_at = now(), cancel_at = case when is_over then null else now() end
     where external_id in (
               select external_id
                 from billing_subscriptions
                 join gone on gone.service_id = billing_subscriptions.service_id and gone.user_id = billing_subscriptions.user_id
           );
    return null;
end $$;
create trigger service_users_released after delete on service_users
    referencing old table as gone for each statement execute function release_billing_of_user();

create table api_keys (
    id           uuid        primary key,
    service_id   uuid        not null references all_services on delete cascade,
    name         text        not null,
    prefix       text        not null unique,
    digest       bytea       not null unique,
    permissions  text[]      not null,
    expires_at   timestamptz,
    last_used_at timestamptz,
    created_by   uuid        not null,                   -- kept when the user is gone
    created_at   timestamptz not null,
    made_by_key  uuid                                    -- kept when the management key is gone
) with (fillfactor = 80);
create index api_keys_of_service on api_keys (service_id, created_at desc, id desc);
create index api_keys_made_by_key on api_keys (made_by_key) where made_by_key is not null;

-- Keys with which programs manage an organization, or the platform.
create table management_keys (
    id           uuid        primary key,
    org_id       uuid        references all_organizations on delete cascade,  -- null: of the platform
    name         text        not null,
    prefix       text        not null unique,
    digest       bytea       not null unique,
    capabilities text[]      not null,
    expires_at   timestamptz not null,
    last_used_at timestamptz,
    created_by   uuid        not null,                   -- kept when the user is gone
    created_at   timestamptz not null,
    adopted_by   uuid,                                   -- kept when the user is gone
    adopted_at   timestamptz,
    former_digest bytea      unique,                     -- of the secret before the last adoption, which counts until then
    former_until  timestamptz,
    former_holder uuid,                                  -- who knows the former secret; kept when the user is gone
    constraint management_keys_adopted check ((adopted_by is null) = (adopted_at is null)),
    constraint management_keys_former check (
        (former_digest is null) = (former_until is null) and (former_digest is null) = (former_holder is null)
    )
) with (fillfactor = 80);
create index management_keys_of_organization on management_keys (org_id, created_at desc, id desc);
create index management_keys_of_maker on management_keys (created_by);
create index management_keys_of_adopter on management_keys (adopted_by) where adopted_by is not null;
create index management_keys_due on management_keys (expires_at);

-- Trusted issuers: whose signed tokens stand in place of a secret.
create table trusted_issuers (
    id              uuid        primary key,
    org_id          uuid        not null references all_organizations on delete cascade,
    service_id      uuid        references all_services on delete cascade,
    key_id          uuid        references management_keys on delete cascade,
    name            text        not null check (char_length(name) between 1 and 100),
    issuer          text        not null check (length(issuer) <= 500),           -- compared byte by byte
    audience        text        not null check (length(audience) <= 500),
    jwks_uri        text,                                                         -- where the issuer publishes its keys
    jwks            jsonb,                                                        -- or the keys themselves
    subject_pattern text        not null check (char_length(subject_pattern) between 1 and 500),
    claims          jsonb       not null default '{}',                            -- {name: value} that the token must have
    last_used_at    timestamptz,
    created_at      timestamptz not null,
    updated_at      timestamptz not null,
    unique (org_id, name),
    constraint trusted_issuers_for_one check (num_nonnulls(service_id, key_id) = 1),
    constraint trusted_issuers_keys check (num_nonnulls(jwks_uri, jwks) = 1)
);
create index trusted_issuers_of_service on trusted_issuers (service_id, id) where service_id is not null;
create index trusted_issuers_of_key on trusted_issuers (key_id, id) where key_id is not null;

-- What directories provision, by SCIM.
create table scim_tokens (
    id           uuid        primary key,
    org_id       uuid        not null references all_organizations on delete cascade,
    name         text        not null,
    prefix       text        not null unique,
    digest       bytea       not null unique,
    expires_at   timestamptz,
    last_used_at timestamptz,
    created_by   uuid        not null,                   -- kept when the user is gone
    created_at   timestamptz not null
) with (fillfactor = 80);
create index scim_tokens_of_organization on scim_tokens (org_id, created_at desc, id desc);

-- The people of an organization whom its directory has said something of. Other members are known to it, too.
create table provisioned_users (
    org_id         uuid        not null references all_organizations on delete cascade,
    user_id        uuid        not null references users on delete cascade,
    external_id    text,
    work_email     text,                               -- null: the address of the account
    formatted_name text,
    given_name     text,
    family_name    text,
    display_name   text,
    is_member      boolean     not null,               -- as `memberships` has it: kept by the statements that change that
    is_deactivated boolean     not null default false,  -- by the directory; counts for those who are no members
    in_group       boolean     not null default true,  -- likewise
    created_at     timestamptz not null,
    updated_at     timestamptz not null,
    -- Who lists the person: SCIM by a token, one connection by LDAP, or nobody (docs/decisions/0197-who-lists-a-person.md).
    is_scims       boolean     not null default true,
    -- The token that wrote the row last. No reference: a token that is gone lists nobody, and leaves its rows as they are.
    scim_token_id  uuid,
    primary key (org_id, user_id)
);
create trigger provisioned_users_forgotten after delete on provisioned_users
    referencing old table as rows for each statement execute function forget_profile_values();
create index provisioned_users_of_user  on provisioned_users (user_id);
create index provisioned_users_absent   on provisioned_users (org_id, user_id) where not is_member;
create index provisioned_users_external on provisioned_users (org_id, external_id) where external_id is not null;

-- What the directory says of its one group, the organization.
create table scim_groups (
    org_id      uuid        primary key references all_organizations on delete cascade,
    external_id text,
    updated_at  timestamptz not null,
    groups      text        not null default 'organization' check (groups in ('organization', 'teams')),  -- what further groups are
    profile_mapping jsonb not null default '{}'  -- the organization's fields by the directory's attributes
);

-- The last requests of directories, for those who look after them.
create table scim_exchanges (
    id          uuid        primary key,
    org_id      uuid        not null references all_organizations on delete cascade,
    token_id    uuid        not null,
    token_name  text        not null,
    method      text        not null,
    path        text        not null,
    query       text,
    request     jsonb,                                 -- the form of the body, without its texts
    status      smallint    not null,
    scim_type   text,
    reason      text,
    occurred_at timestamptz not null
);
create index scim_exchanges_newest on scim_exchanges (org_id, id desc);
create index scim_exchanges_oldest on scim_exchanges (occurred_at);

create table devices (
    id              uuid        primary key,
    user_id         uuid        not null references users on delete cascade,
    token_digest    bytea       unique,                 -- null: revoked
    name            text        not null,
    device_type     text        not null check (device_type in ('browser', 'mobile', 'desktop', 'cli')),
    browser         text,
    browser_version text,
    os              text,
    os_version      text,
    last_used_at    timestamptz not null,
    last_address    inet,
    last_country    text,
    last_city       text,
    risk_score      real        not null default 0,
    risk_factors    text[]      not null default '{}',  -- the reasons of that score
    trust_digest    bytea,                              -- the device trust token; null: not trusted
    trusted_until   timestamptz,
    trusted_at      timestamptz,                        -- when that was given
    revoked_at      timestamptz,
    created_at      timestamptz not null,
    updated_at      timestamptz not null,
    last_used_week  date                                -- the Monday of the week of last_used_at: an index that holds no moving time
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
create index devices_of_person on devices (user_id);
-- The janitor's.
create index devices_revoked on devices (revoked_at) where revoked_at is not null;
create index devices_long_unused on devices (last_used_week);

create function keep_last_used_week() returns trigger language plpgsql as $$
begin
    new.last_used_week := date_trunc('week', new.last_used_at at time zone 'UTC')::date;
    return new;
end $$;
-- Who says the week with the time is spared the call.
create trigger devices_kept_for before insert or update of last_used_at on devices
    for each row when (new.last_used_week is distinct from date_trunc('week', new.last_used_at at time zone 'UTC')::date)
    execute function keep_last_used_week();

create table sessions (
    id               uuid        primary key,
    user_id          uuid        not null references users on delete cascade,
    device_id        uuid,                               -- no reference: it would end no session
    organization_id  uuid        references all_organizations on delete cascade,
    service_id       uuid        references all_services on delete cascade,
    created_at       timestamptz not null,
    last_seen_at     timestamptz not null,
    expires_at       timestamptz not null,
    ends_at          timestamptz not null default now() + interval '90 days',  -- even while it is used, no longer than this
    revoked_at       timestamptz,
    authenticated_by text[]      not null default '{}',
    impersonator_id  uuid        references users on delete cascade,
    impersonation_id uuid,
    parent_id        uuid        references sessions on delete cascade,   -- the one that it was opened from, and ends with
    depth            smallint    not null default 0 check (depth between 0 and 32),
    proved_at        timestamptz,                        -- when its person last showed a password, or signed in another way
    second_factor_at timestamptz,                        -- when they last showed a second factor
    scopes           text[],                             -- what an application was given; null: no application was given this session
    expires_day      date,                               -- the day of expires_at: an index that holds no moving time
    stated_at        timestamptz,                        -- when its person signed in at a provider, which says so; null: proved here
    refuses_applications boolean not null default false,  -- the directory that vouched for the person lets them use our own pages alone
    opened_through   uuid,                               -- an organization's own provider; kept when it is gone
    -- The APIs that it is for: [{resource_id, identifier, scopes}]; null: for no API. Without a foreign key to the API: a session whose API is
    -- gone must not become one for no API.
    audiences        jsonb,
    -- Who acts in the person's name, as tokens say it in `act`: {"sub": client id, "act": …}; null: the person's application and nobody else.
    act              jsonb,
    -- The API, or the service, that the exchanged token was for; null: no exchange opened the session.
    exchanged_from   uuid,
    key_thumbprint   text,                               -- as RFC 7638 has it, in base64url; null: its tokens are good for whoever has them
    -- It carries what ends it at the next sign-in, so that nobody looks the rules up.
    minutes_idle     integer,                            -- without a use for so long, it ends; null: thirty days
    most             smallint,  -- sign-ins of its person at once: their own, or in the organization; null: any number
    most_in_service  smallint,                           -- the same for its service
    let_in_by        uuid[],                             -- the organizations whose rules for risk let it in, and those that it stays out of
    kept_out_by      uuid[],
    -- What its directory has stated. What counts, the connection says at each request.
    factor_through   uuid,                               -- the directory that stated a second factor; kept when it is gone
    factor_stated    text,                               -- by this value
    -- What hooks have said, by the name under which a hook counts and the organization: {"<counts_as>/<organization>": {"hook", "at", "no"}}.
    hook_verdicts    jsonb,
    constraint sessions_roots check ((parent_id is null) = (depth = 0)),
    constraint sessions_service_in_organization check (service_id is null or organization_id is not null),
    constraint sessions_scopes_in_service check (scopes is null or service_id is not null),
    constraint sessions_impersonation check ((impersonator_id is null) = (impersonation_id is null))
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);  -- last_seen_at moves often
create index sessions_of_user on sessions (user_id);
-- The janitor's.
create index sessions_expired on sessions (expires_day);
create index sessions_revoked on sessions (revoked_at) where revoked_at is not null;
-- Deleting what they name must not read all sessions.
create index sessions_of_device       on sessions (device_id) where device_id is not null;
create index sessions_of_organization on sessions (organization_id, id) where organization_id is not null;
create index sessions_of_service      on sessions (service_id, id) where service_id is not null;
create index sessions_of_impersonator on sessions (impersonator_id) where impersonator_id is not null;
-- Every end of a session walks down from it.
create index sessions_of_parent on sessions (parent_id) where parent_id is not null;
-- The janitor's: sessions of exchanged tokens go soon after their end.
create index sessions_exchanged on sessions (ends_at) where exchanged_from is not null;

create function keep_expires_day() returns trigger language plpgsql as $$
begin
    new.expires_day := (new.expires_at at time zone 'UTC')::date;
    return new;
end $$;
-- Who says the day with the time is spared the call (docs/decisions/0174-what-a-sign-in-writes.md).
create trigger sessions_kept_for before insert or update of expires_at on sessions
    for each row when (new.expires_day is distinct from (new.expires_at at time zone 'UTC')::date) execute function keep_expires_day();

-- A sign-in and all sessions that were opened from it count as one. The oldest sign-ins beyond the number lose what they have there, and all
-- that was opened from it. A job tells the person and the applications.
--
-- A client of ours opens a session in the next organization from one in the last. What was opened in another organization does not end: from
-- then on it hangs on the nearest session above it that goes on.
--
-- Of requests that open sessions of one person, the second waits before its insert for the first to commit. The function looks after the
-- insert, by statements of its own, and so it sees what the first has opened. The lock on the account is no help here: a sign-in only shares
-- it. The wait comes before the insert, because a statement that inserts may hold other rows by its end.
create function end_oldest_sessions() returns trigger language plpgsql as $$
declare
    beyond uuid[];
    ended  uuid[];
begin
    if tg_when = 'BEFORE' then
        perform pg_advisory_xact_lock(hashtextextended(new.user_id::text, 34));
        return new;
    end if;
    with recursive line as (
             select sessions.id, sessions.id as sign_in
               from sessions
              where sessions.user_id = new.user_id and sessions.parent_id is null and sessions.revoked_at is null
          union all
             select sessions.id, line.sign_in from line join sessions on sessions.parent_id = line.id where sessions.revoked_at is null
         ),
         limits (service, most) as (
             values (null::uuid, new.most), (new.service_id, new.most_in_service)
         ),
         open as (
             select limits.service, limits.most, sessions.id, line.sign_in, sessions.created_at
               from limits
              cross join line
               join sessions on sessions.id = line.id
               left join organizations on organizations.id = sessions.organization_id
               left join services on services.id = sessions.service_id
              where limits.most is not null
                and sessions.organization_id is not distinct from new.organization_id
                and (limits.service is null or sessions.service_id = limits.service)
                and sessions.revoked_at is null and sessions.expires_at > now() and sessions.ends_at > now()
                and sessions.impersonator_id is null and sessions.exchanged_from is null
                -- What a rule has ended already takes nobody's place.
                and coalesce(
                        sessions.last_seen_at
                            + least(organizations.session_idle_minutes, services.session_idle_minutes) * interval '1 minute' > now(),
                        true
                    )
                and coalesce(
                        coalesce(sessions.proved_at, sessions.created_at)
                            + least(organizations.session_hours, services.session_lifetime_hours) * interval '1 hour' > now(),
                        true
                    )
         ),
         ranked as (
             select service, most, sign_in,
                    row_number() over (
                        partition by service order by bool_or(id = new.id) desc, max(created_at) desc, sign_in desc
                    ) as place
               from open
              group by service, most, sign_in
         )
    select array_agg(distinct open.id)
      into beyond
      from ranked
      join open on open.sign_in = ranked.sign_in and open.service is not distinct from ranked.service
     where ranked.place > ranked.most;
    if beyond is null then
        return null;
    end if;
    with recursive ending as (
             select sessions.id, sessions.parent_id as above
               from sessions
              where sessions.id = any (beyond) and (sessions.parent_id is null or sessions.parent_id <> all (beyond))
          union
             select sessions.id, ending.above
               from ending
               join sessions on sessions.parent_id = ending.id
              where new.organization_id is null or sessions.organization_id = new.organization_id
         ),
         held as (
             select sessions.id, ending.id is not null as ends, above.above
               from sessions
               left join ending on ending.id = sessions.id
               left join ending as above on above.id = sessions.parent_id and above.above <> all (array(select ending.id from ending))
              where sessions.id in (
                        select ending.id from ending
                         union all
                        select children.id from ending join sessions as children on children.parent_id = ending.id
                    )
                and sessions.revoked_at is null
              order by sessions.id                     -- the same order everywhere, against deadlocks
                for no key update of sessions
         ),
         goes_on as (
             update sessions set parent_id = coalesce(held.above, sessions.parent_id) from held where sessions.id = held.id and not held.ends
         ),
         revoked as (
             update sessions set revoked_at = now() from held where sessions.id = held.id and held.ends returning sessions.id
         )
    select array_agg(id order by id) into ended from revoked;
    if ended is not null then
        insert into jobs (id, kind, payload, run_at)
        values ((lpad(to_hex((extract(epoch from now()) * 1000)::bigint), 12, '0') || '-7' || substr(gen_random_uuid()::text, 16))::uuid,
                'sessions.displaced', json_build_object('by', new.id, 'sessions', ended), now());
        perform pg_notify('postern', 'sessions.displaced');
    end if;
    return null;
end $$;

create trigger sessions_in_turn before insert on sessions for each row
    when (new.most is not null or new.most_in_service is not null) execute function end_oldest_sessions();
create trigger sessions_at_most after insert on sessions for each row
    when (new.most is not null or new.most_in_service is not null) execute function end_oldest_sessions();

-- Every refresh token of a live session, so that the return of an old one is recognised. The janitor removes rotated ones after 30 days.
create table refresh_tokens (
    digest     bytea       primary key,
    session_id uuid        not null references sessions on delete cascade,
    created_at timestamptz not null,
    rotated_at timestamptz,                             -- null: the current one
    rotated_by bytea,                                   -- what the client that rotated it looked like, as a digest
    constraint refresh_tokens_rotation check ((rotated_at is null) = (rotated_by is null))
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
create index refresh_tokens_of_session on refresh_tokens (session_id);
create unique index refresh_tokens_one_current on refresh_tokens (session_id) where rotated_at is null;
create index refresh_tokens_rotated on refresh_tokens (rotated_at) where rotated_at is not null;

-- What a browser brings back to an application, which exchanges it for a session. The janitor removes expired ones after a day.
-- A code is changed once, seconds after it was made: with room on the page, that touches no index.
create table authorization_codes (
    id             uuid        primary key,
    digest         bytea       not null unique,
    service_id     uuid        not null references all_services on delete cascade,
    user_id        uuid        not null references users on delete cascade,
    parent_id      uuid        not null references sessions on delete cascade,  -- of the browser
    redirect_uri   text        not null,
    code_challenge text,                                -- null: the client has a credential of its own, and did without
    nonce          text,
    scopes         text[]      not null,
    auth_time      timestamptz not null,
    authenticated_by text[]    not null,
    provider       text        not null default 'session',  -- what the log of sign-ins says
    created_at     timestamptz not null,
    expires_at     timestamptz not null,
    redeemed_at    timestamptz,
    redeemed_with  bytea,                               -- what the client that redeemed it knew, as a digest
    session_id     uuid,                                -- the session that it was exchanged for; kept when that is gone
    stated_at      timestamptz,                         -- as in the session of the browser
    audiences      jsonb,                               -- as in sessions
    key_thumbprint text,                                -- null: redeemed with any key, or with none
    constraint authorization_codes_redeemed check (
        (redeemed_at is null) = (redeemed_with is null) and (redeemed_at is null) = (session_id is null)
    )
) with (fillfactor = 60);
create index authorization_codes_of_service on authorization_codes (service_id, id);
create index authorization_codes_of_user    on authorization_codes (user_id);
create index authorization_codes_of_parent  on authorization_codes (parent_id);
create index authorization_codes_expiry     on authorization_codes (expires_at);

-- Refused requests of applications: the last fifty of a service, for a week, with the reason of each. Nothing about people.
create table authorization_refusals (
    id          uuid        primary key,
    service_id  uuid        not null references all_services on delete cascade,
    place       text        not null,                   -- that refused it: authorize or token
    reason      text        not null,
    received    text        not null,                   -- an address without its query, scopes, the beginning of a secret
    expected    text        not null,                   -- the address that a code was sent to, where another one was received
    occurred_at timestamptz not null
);
create index authorization_refusals_of_service on authorization_refusals (service_id, id);
create index authorization_refusals_oldest     on authorization_refusals (occurred_at);

-- Somebody waits on a page for the first sign-in to an application (docs/decisions/0233-why-and-the-first-sign-in.md): one row for a person,
-- for ten minutes. The refused requests that the browser session sent meanwhile stand in the row, so that they go with it.
create table awaited_sign_ins (
    id         uuid        primary key,                       -- of the page
    user_id    uuid        not null unique references users on delete cascade,
    session_id uuid        not null references sessions on delete cascade,
    service_id uuid        not null references all_services on delete cascade,
    refusals   uuid[]      not null default '{}',             -- the newest first
    began_at   timestamptz not null,
    ends_at    timestamptz not null
);
create index awaited_sign_ins_of_session on awaited_sign_ins (session_id);
create index awaited_sign_ins_of_service on awaited_sign_ins (service_id, id);
create index awaited_sign_ins_oldest     on awaited_sign_ins (ends_at);

-- The device flow: what a device is known by until a person has let it in. The janitor removes expired ones.
create table device_codes (
    id               uuid        primary key,
    digest           bytea       not null unique,
    user_code_hmac   bytea       not null,                 -- of the code on the device's screen
    service_id       uuid        not null references all_services on delete cascade,
    scopes           text[]      not null,
    state            text        not null default 'pending' check (state in ('pending', 'approved', 'denied', 'consumed')),
    address          inet,                                 -- of the device
    user_agent       text,
    created_at       timestamptz not null,
    expires_at       timestamptz not null,
    poll_interval    integer     not null,                 -- in seconds
    polled_at        timestamptz,
    is_slowed        boolean     not null default false,   -- the last poll came too soon
    user_id          uuid        references users on delete cascade,    -- who has decided
    decided_at       timestamptz,
    proved_at        timestamptz,                          -- from here on: as in the session that approved
    second_factor_at timestamptz,
    authenticated_by text[],
    polled_in_header boolean     not null default false,   -- the last poll named its client there
    stated_at        timestamptz,                          -- as in the session that approved
    audiences        jsonb,                                -- as in sessions
    approved_in      uuid,  -- the session in which the person has approved it: what hooks have said stands there
    constraint device_codes_decided check (
        (state = 'pending') = (user_id is null) and (user_id is null) = (decided_at is null)
        and (authenticated_by is not null or state in ('pending', 'denied'))
    )
);
create unique index device_codes_user_code on device_codes (user_code_hmac) where state = 'pending';
create index device_codes_of_service on device_codes (service_id, id);
create index device_codes_of_user    on device_codes (user_id) where user_id is not null;
create index device_codes_expiry     on device_codes (expires_at);

-- A yes from afar (OpenID CIBA): an application asks for a person who is elsewhere, and polls until the person has answered. Requests of
-- minutes: a crash of the database forgets them, and the applications ask again. The janitor removes expired ones.
create unlogged table afar_requests (
    id              uuid        primary key,
    digest          bytea       not null unique,
    service_id      uuid        not null references all_services on delete cascade,
    user_id         uuid        references users on delete cascade,      -- null: of nobody who may answer
    scopes          text[]      not null,                                -- of ours
    resource_id     uuid,                                                -- the API, if one is asked for
    identifier      text,
    foreign_scopes  text[]      not null,                                -- of the API
    binding_message text,                                                -- the application's own words
    key_thumbprint  text,                                                -- of the key whose proof the request brought
    state           text        not null default 'pending' check (state in ('pending', 'allowed', 'refused', 'consumed')),
    created_at      timestamptz not null,
    expires_at      timestamptz not null,
    poll_interval   integer     not null,                                -- in seconds
    polled_at       timestamptz,
    is_slowed       boolean     not null default false,                  -- the last poll came too soon
    session_id      uuid,                                                -- in which the person said yes
    audiences       jsonb,                                               -- what the person has allowed at the API
    answered_at     timestamptz,
    constraint afar_requests_decided check (
        (state in ('allowed', 'consumed')) = (session_id is not null) and (state = 'pending') = (answered_at is null)
    )
);
create index afar_requests_of_service on afar_requests (service_id, id);
create index afar_requests_of_user    on afar_requests (user_id, id) where user_id is not null;
create index afar_requests_expiry     on afar_requests (expires_at);

-- "Never again from this one": the person hears of no further request of the application.
create table afar_blocks (
    id         uuid        primary key default gen_random_uuid(),
    user_id    uuid        not null references users on delete cascade,
    service_id uuid        not null references all_services on delete cascade,
    blocked_at timestamptz not null,
    unique (user_id, service_id)
);
create index afar_blocks_of_service on afar_blocks (service_id, id);

-- What a person has allowed an application. Gone when they take it back.
create table consents (
    id             uuid        primary key,
    user_id        uuid        not null references users on delete cascade,
    service_id     uuid        not null references all_services on delete cascade,
    scopes         text[],                              -- null: nothing by OpenID Connect
    granted_at     timestamptz not null,                -- the last time that the person said yes
    saml_entity_id text,                                -- the service provider that may learn who they are; null: none
    saml_scopes    text[],                              -- what it may learn; null: the consent is older, and covers address and role
    unique (user_id, service_id)
);
create index consents_of_service on consents (service_id, id);

-- APIs of organizations that tokens are made for. The columns of the proof are those of `domains`, and the same statements write them.
create table resource_servers (
    id                uuid        primary key,
    org_id            uuid        not null references all_organizations on delete cascade,
    identifier        text        not null check (length(identifier) <= 500),  -- compared byte by byte
    domain            text        not null,                 -- the identifier's host, which the token proves
    name              text        not null,
    service_id        uuid        references all_services on delete set null,  -- the service that stands for the API
    token_lifetime    integer     check (token_lifetime between 60 and 86400),  -- in seconds; null: the installation's
    admits            text        not null check (admits in ('all', 'named')),
    access_token_alg  text        not null default 'ES256' check (access_token_alg in ('RS256', 'ES256')),
    scopes            jsonb       not null default '[]',    -- [{name, description, permission}]
    token             text        not null,                 -- what proves the host is published
    verified_at       timestamptz,
    checked_at        timestamptz,
    next_check_at     timestamptz,
    misses            smallint    not null default 0,       -- checks in a row that found no proof
    approval_asked_at timestamptz,
    approved_at       timestamptz,                          -- by a platform owner, in place of a proof
    settles_at        timestamptz,                          -- until then, tokens of the organization that had the identifier may live
    created_at        timestamptz not null,
    updated_at        timestamptz not null,
    metadata_clients  text        not null default 'off' check (metadata_clients in ('off', 'named', 'any')),  -- as in organizations
    metadata_hosts    text[]      not null default '{}',
    registered_clients text not null default 'off' check (registered_clients in ('off', 'on')),
    unique (org_id, identifier),
    constraint resource_servers_checked check ((verified_at is null) = (next_check_at is null)),
    constraint resource_servers_one_reason check (verified_at is null or approved_at is null)
);
-- Tokens for an identifier are made for one organization. Claims that wait do not count.
create unique index resource_servers_active on resource_servers (identifier) where verified_at is not null or approved_at is not null;
create index resource_servers_due on resource_servers (next_check_at) where next_check_at is not null;
create index resource_servers_of_host on resource_servers (domain) where verified_at is not null or approved_at is not null;
create index resource_servers_of_service on resource_servers (service_id, id) where service_id is not null;
create index resource_servers_asking on resource_servers (approval_asked_at)
    where approval_asked_at is not null and verified_at is null and approved_at is null;
create index resource_servers_approved on resource_servers (approved_at) where approved_at is not null;

-- The services that a resource server names, because it does not admit all of the organization.
create table resource_admissions (
    id          uuid primary key,
    resource_id uuid not null references resource_servers on delete cascade,
    service_id  uuid not null references all_services on delete cascade,
    unique (resource_id, service_id)
);
create index resource_admissions_of_service on resource_admissions (service_id, id);

-- The services that may exchange tokens towards a resource server.
create table resource_exchanges (
    id          uuid primary key,
    resource_id uuid not null references resource_servers on delete cascade,
    service_id  uuid not null references all_services on delete cascade,
    unique (resource_id, service_id)
);
create index resource_exchanges_of_service on resource_exchanges (service_id, id);

-- Every identifier for which tokens were ever made, and for whom. The row stays when the resource server or the organization goes: programs
-- that trust the identifier may live longer.
create table resource_identifiers (
    key       text        primary key,                      -- in small letters, without slashes at its end: the same for what looks alike
    org_id    uuid        not null,                         -- without a foreign key: it outlives the organization
    is_proved boolean     not null,                         -- false: by a platform owner's approval alone
    given_at  timestamptz not null
);

-- What people allow applications at APIs. An agent's grant is the person's consent at one API, until a date.
create table resource_consents (
    user_id     uuid        not null,
    service_id  uuid        not null,
    resource_id uuid        not null,
    identifier  text        not null,
    scopes      text[]      not null,
    withheld    text[]      not null default '{}',          -- what they refused when they allowed the others
    granted_at  timestamptz not null,
    document_digest bytea,                                  -- of the document that the person was shown: good as long as that says the same
    id          uuid,                                       -- of an agent's grant; null: of an ordinary application
    expires_at  timestamptz,
    primary key (user_id, service_id, resource_id),
    foreign key (user_id, service_id) references consents (user_id, service_id) on delete cascade
);
create index resource_consents_of_service on resource_consents (service_id);
create index resource_consents_of_resource on resource_consents (resource_id);

-- What clients published last that describe themselves in a document at their own https address (client ID metadata documents). One row serves
-- all organizations.
create table metadata_documents (
    id          uuid        primary key,
    url_digest  bytea       not null unique,                -- of `url`, which is long
    url         text        not null check (length(url) <= 500),
    document    jsonb       not null,                       -- the members that are used, checked
    fetched_at  timestamptz not null,
    fresh_until timestamptz not null
);
create index metadata_documents_stale on metadata_documents (fresh_until);

-- The last requests of such clients that were refused before the client was one of the organization's.
create table document_refusals (
    id          uuid        primary key,
    org_id      uuid        not null references all_organizations on delete cascade,
    resource_id uuid        not null references resource_servers on delete cascade,
    address     text        not null,                       -- of the document
    reason      text        not null,
    said        text        not null,                       -- the reason in words
    occurred_at timestamptz not null
);
create index document_refusals_of_resource on document_refusals (resource_id, id desc);
create index document_refusals_of_organization on document_refusals (org_id, id);
create index document_refusals_oldest on document_refusals (occurred_at);

-- Whether an application lets its users make keys for its own API, and the bounds of these. No row: it never turned them on.
create table user_key_settings (
    service_id   uuid     primary key references all_services on delete cascade,
    enabled      boolean  not null,
    prefix       text,                                       -- the beginning of the application's keys; never null while enabled
    most_keys    smallint not null,                          -- of one person
    longest_days smallint,                                   -- null: a key may have no end
    resource_id  uuid     references resource_servers on delete set null,  -- the API whose scopes the keys carry
    updated_at   timestamptz not null,
    constraint user_key_settings_prefixed check (prefix is not null or not enabled)
);
create index user_key_settings_of_resource on user_key_settings (resource_id) where resource_id is not null;

create table user_keys (
    id           uuid        primary key,
    service_id   uuid        not null references all_services on delete cascade,
    user_id      uuid        not null references users on delete cascade,
    name         text        not null,
    prefix       text        not null unique,
    digest       bytea       not null unique,
    resource_id  uuid,                                       -- without a foreign key: a key of an API that is gone has no scopes
    scopes       text[]      not null,
    expires_at   timestamptz,
    last_used_at timestamptz,
    created_at   timestamptz not null,
    made_by_key  uuid,                                       -- the application's API key; null: the person made it. Kept when that key is gone
    foreign key (service_id, user_id) references service_users (service_id, user_id) on delete cascade
) with (fillfactor = 80);
create index user_keys_of_service on user_keys (service_id, id);
create index user_keys_of_user on user_keys (user_id, service_id, id);
create index user_keys_due on user_keys (expires_at) where expires_at is not null;

-- Whoever leaves an organization loses the keys of its applications that let only members and people with roles in, and of those that the
-- person entered only as a member.
create function end_user_keys_of_members() returns trigger language plpgsql as $$
begin
    delete from user_keys
     using gone
      join service_users on service_users.org_id = gone.org_id and service_users.user_id = gone.user_id
      join all_services on all_services.id = service_users.service_id
     where user_keys.service_id = service_users.service_id and user_keys.user_id = service_users.user_id
       and (all_services.sign_in_policy <> 'anyone' or service_users.own_since is null);
    return null;
end $$;
create trigger members_lose_user_keys after delete on memberships
    referencing old table as gone for each statement execute function end_user_keys_of_members();

-- Authorization requests that applications leave here before they send somebody along with their name (RFC 9126).
create table pushed_requests (
    id         uuid        primary key,
    digest     bytea       not null unique,             -- of the secret in the request's name
    service_id uuid        references all_services on delete cascade,  -- null: of a client that nobody has placed yet
    request    jsonb       not null,
    expires_at timestamptz not null
);
create index pushed_requests_of_service on pushed_requests (service_id, id);
create index pushed_requests_expiry     on pushed_requests (expires_at);

-- The assertions with which clients authenticated, by their ids: each is good once. The janitor removes expired ones.
create table client_assertions (
    id         uuid        primary key,
    service_id uuid        references all_services on delete cascade,  -- null: of a client by document: it counts once in all organizations
    digest     bytea       not null,                    -- of the assertion's `jti`
    expires_at timestamptz not null,
    unique (service_id, digest)
);
create index client_assertions_of_service on client_assertions (service_id, id);
create unique index client_assertions_of_documents on client_assertions (digest) where service_id is null;
create index client_assertions_expiry     on client_assertions (expires_at);

-- Services that are, or once were, told of their sessions' ends. The lease is a dispatcher's.
create table logout_receivers (
    service_id    uuid        primary key references all_services on delete cascade,
    failing_since timestamptz,                          -- nothing was received since then
    rests_until   timestamptz,                          -- it has asked for time
    lease         uuid,
    leased_until  timestamptz
) with (fillfactor = 70);

-- Ended sessions that services are told of. Neither the session nor its person need be there any longer.
create table logout_notices (
    id           uuid        primary key,
    service_id   uuid        not null references all_services on delete cascade,
    session_id   uuid        not null,
    user_id      uuid        not null,
    attempts     smallint    not null default 0,
    next_at      timestamptz,                           -- null: received, or given up
    delivered_at timestamptz,
    status_code  smallint,
    error        text,
    created_at   timestamptz not null,
    updated_at   timestamptz not null,
    -- Of a stream that hears of the end. It waits by `tell_at`, and `next_at` stays null. `session_id` is then a digest of stream and session:
    -- no signal names a session.
    stream_id    uuid,                                  -- no reference: nobody who signs out waits for a stream
    tell_at      timestamptz,                           -- null: told, given up, or no signal
    ended_all    boolean,                               -- no other session of the person was left at the application
    by_policy    boolean,                               -- it ran out
    unique (service_id, session_id)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
create index logout_notices_due        on logout_notices (service_id, next_at) where next_at is not null;
create index logout_notices_of_service on logout_notices (service_id, id);
create index logout_notices_oldest     on logout_notices (created_at);
-- Dispatchers find by it what waits for a stream. It holds those rows alone.
create index logout_notices_told on logout_notices (stream_id, tell_at) where tell_at is not null;

-- Shared signals (docs/decisions/0236-shared-signals.md).

-- What an owner has turned on for an application. No row: no signals. Turning off ends all its streams.
create table signal_settings (
    service_id uuid        primary key references all_services on delete cascade,
    events     text[]      not null,
    hosts      text[]      not null,                       -- that pushes may go to
    updated_at timestamptz not null,
    constraint signal_settings_events check (cardinality(events) > 0)
);

-- What an application has made to hear of events. The row is also what a dispatcher claims.
create table signal_streams (
    id            uuid        primary key,
    service_id    uuid        not null references signal_settings on delete cascade,
    method        text        not null check (method in ('push', 'poll')),
    endpoint      text,                                    -- null: it is polled
    sealed_header bytea,                                   -- the `Authorization` header of pushes; null: none
    events        text[]      not null,                    -- those that it asked for
    description   text,
    status        text        not null check (status in ('enabled', 'paused', 'disabled')),
    status_reason text,
    verified_at   timestamptz,                             -- when a proof of life was asked for last
    failing_since timestamptz,                             -- nothing was received since then
    rests_until   timestamptz,                             -- the receiver has asked for time
    lease         uuid,
    leased_until  timestamptz,
    created_at    timestamptz not null,
    updated_at    timestamptz not null,
    granted_by    uuid        references users on delete cascade,  -- the person who lets the application make it; null: made by its own token
    constraint signal_streams_endpoint check ((method = 'push') = (endpoint is not null)),
    constraint signal_streams_header check (sealed_header is null or endpoint is not null)
) with (fillfactor = 70);
create index signal_streams_of_service on signal_streams (service_id, id);
create index signal_streams_granted on signal_streams (granted_by) where granted_by is not null;

-- Up to when sessions that expired are noticed. One row at most.
create table logout_expiry (
    is_only    boolean     primary key default true check (is_only),
    seen_until timestamptz not null
);

-- What a mailed link carries: verification, reset, set-password, change of address.
create table mailed_tokens (
    digest     bytea       primary key,
    purpose    text        not null check (purpose in ('verify_email', 'reset_password', 'set_password', 'change_email', 'sign_in',
                                                   'magic_link', 'prove')),
    user_id    uuid        not null references users on delete cascade,
    email      text        not null,                    -- the address that it proves
    created_at timestamptz not null,
    expires_at timestamptz not null,
    used_at    timestamptz,
    flow_id     uuid,                                   -- that asked, and in which the code counts; of a proof, the session
    code_digest bytea,                                  -- keyed; of the code beside the link; null: the mail has none
    code_tries  smallint    not null default 0,
    constraint mailed_tokens_code check ((flow_id is null) = (code_digest is null))
);
create index mailed_tokens_of_user on mailed_tokens (user_id, purpose);
create index mailed_tokens_expiry on mailed_tokens (expires_at);
create index mailed_tokens_of_flow on mailed_tokens (flow_id) where flow_id is not null;

create table mfa_secrets (
    user_id       uuid        primary key references users on delete cascade,
    sealed_secret bytea       not null,
    created_at    timestamptz not null,
    enabled_at    timestamptz,                          -- null: set-up pending
    last_step     bigint      not null default 0,       -- an accepted time step is never accepted again
    session_id    uuid,                                 -- that began a pending set-up; kept when it is gone
    made_in       uuid                                  -- in which it was enabled; null: not known
);

create table passkeys (
    id                  uuid        primary key,
    user_id             uuid        not null references users on delete cascade,
    credential_id       bytea       not null unique,    -- the authenticator's name for it
    public_key          bytea       not null,           -- COSE_Key
    sign_count          bigint      not null,           -- the authenticator's, as of its last use; many always say 0
    name                text        not null,           -- the person's
    aaguid              uuid        not null,           -- the authenticator's model, or zero
    transports          text[]      not null,
    backup_eligible     boolean     not null,
    backed_up           boolean     not null,
    created_at          timestamptz not null,
    last_used_at        timestamptz,
    second_factor_since timestamptz,                    -- null: signs in by itself, and is not asked for after a password
    -- The name of the person at the authenticator, where another system made the passkey; null: the account's id.
    user_handle         bytea,
    awaits_first_use    boolean     not null default false,  -- the other system did not say whether it may be copied, so its first use here does
    made_in             uuid,                           -- the session in which the person added it; kept when that is gone; null: not known
    made_on             text                            -- the browser and system; null: made before, or elsewhere
);
create index passkeys_of_user on passkeys (user_id);
create index passkeys_second_factors on passkeys (user_id) where second_factor_since is not null;

-- Whom an import has taken from another system, so that a second import takes nobody twice.
create table imported_people (
    digest      bytea       primary key,                 -- keyed; of the source, and of its own name for the person
    user_id     uuid        references users on delete set null,  -- null: the account is gone, and does not come back by another import
    is_new      boolean     not null,                    -- the import made the account
    imported_at timestamptz not null
);
create index imported_people_of_user on imported_people (user_id) where user_id is not null;

-- Each is deleted by its first answer.
create table passkey_challenges (
    digest     bytea       primary key,                 -- of the challenge, its purpose and whom it was given to
    expires_at timestamptz not null
);
create index passkey_challenges_expiry on passkey_challenges (expires_at);

create table backup_codes (
    user_id uuid  not null references users on delete cascade,
    digest  bytea not null,                             -- HMAC-SHA256 under a server key
    used_at timestamptz,
    primary key (user_id, digest)
);

-- An organization's own provider. Its issuer and client stay as they are for the people who are connected.
create table upstream_providers (
    id                      uuid        primary key,
    org_id                  uuid        not null references all_organizations on delete cascade,
    kind                    text        not null default 'oidc' constraint upstream_providers_kind check (kind in ('oidc', 'saml', 'ldap')),
    state                   text        not null default 'active'
        constraint upstream_providers_state check (state in ('draft', 'tested', 'active')),
    name                    text        not null,
    issuer                  text        not null,
    client_id               text,
    sealed_client_secret    bytea,
    scopes                  text[]      not null,             -- beside those that say who somebody is
    enabled                 boolean     not null,
    created_at              timestamptz not null,
    updated_at              timestamptz not null,
    profile_mapping         jsonb       not null default '{}',  -- the organization's fields by the provider's claims
    saml                    jsonb,                            -- the settings of SAML
    certificate             text,                             -- ours, and the next one
    sealed_private_key      bytea,
    next_certificate        text,
    next_sealed_private_key bytea,
    secret_set_at           timestamptz,
    tested_digest           bytea,                            -- the settings that the last successful test was about
    tested_at               timestamptz,
    activated_at            timestamptz,
    refresh_at              timestamptz not null default now(),  -- when its metadata are read next
    refreshed_at            timestamptz,
    refresh_fault           text,                               -- why they could not be read at the last look
    failing_since           timestamptz,
    certificate_until       timestamptz,                        -- the end of our certificate, once the refresher has read it
    former_certificate      text,                               -- ours from before: it opens what was encrypted for it
    former_sealed_private_key bytea,
    succeeds                text[]      not null default '{}',  -- whose accounts are its own now, as organization/provider
    ldap                    jsonb,                              -- the settings of LDAP
    sealed_bind_password    bytea,                              -- with the digest of what it belongs to
    issues_assertions       boolean     not null default false,  -- of identity, for its people
    assertion_issuer        text,                               -- of SAML; null: the issuer of the connection
    assertion_jwks_uri      text,                               -- of SAML: where its keys are published, or
    assertion_jwks          jsonb,                              -- pasted
    assertion_subject       text        not null default 'sub',  -- the claim that has the identity's subject
    second_factor_values    text[]      not null default '{}',  -- those of its answers that count as a second factor; none: nothing does
    constraint upstream_providers_name unique (org_id, name),
    constraint upstream_providers_drafts_are_off check (state = 'active' or not enabled),
    constraint upstream_providers_next check ((next_certificate is null) = (next_sealed_private_key is null)),
    constraint upstream_providers_former check ((former_certificate is null) = (former_sealed_private_key is null)),
    constraint upstream_providers_whole check (
        case kind
            when 'oidc' then client_id is not null and sealed_client_secret is not null and saml is null
            when 'saml' then client_id is null and sealed_client_secret is null and saml is not null and certificate is not null
                 and sealed_private_key is not null
            else client_id is null and sealed_client_secret is null and saml is null and sealed_private_key is null
        end
    ),
    constraint upstream_providers_ldap check (
        (kind = 'ldap') = (ldap is not null) and (sealed_bind_password is null or (kind = 'ldap' and secret_set_at is not null))
    ),
    constraint upstream_providers_factors check (kind <> 'ldap' or second_factor_values = '{}')
);
create index upstream_providers_due on upstream_providers (refresh_at);
create index upstream_providers_in_step on upstream_providers (id) where kind = 'ldap' and ldap @> '{"keeps_in_step": true}';

-- The accounts of people at providers.
create table identities (
    id                   uuid        primary key,
    user_id              uuid        not null references users on delete cascade,
    provider             text        not null,
    upstream_provider_id uuid        references upstream_providers on delete cascade,
    issuer               text        not null,
    subject              text        not null,
    email                text        not null,
    came_through         uuid,                            -- through which it came; kept when that is gone
    linked_at            timestamptz not null,
    made_in              uuid,                            -- in which session it was connected; kept when that is gone; null: not known
    constraint identities_subject unique (provider, issuer, subject),
    constraint identities_of_user unique (user_id, provider)
);
create index identities_by_provider on identities (upstream_provider_id, id) where upstream_provider_id is not null;
-- The provider is a word of the three, a short name, or the id of an organization's own.
-- Not valid, as in every database that came here from before: nobody has read all rows for it.
alter table identities add constraint identities_provider
    check (upstream_provider_id is null or provider = upstream_provider_id::text) not valid;

-- A process of the release before writes that an organization's own provider proves the address of the account that it makes or reclaims. It
-- writes account and identity in one transaction. So do imports and moves, whose people may have proved their address: they say so.
create function vouch_for_address() returns trigger language plpgsql as $$
begin
    update users
       set email_verified_at = null, address_vouched_by = providers.org_id || '/' || providers.id
      from upstream_providers as providers
     where users.id = new.user_id and providers.id = new.upstream_provider_id and users.email_verified_at is not null
       and users.xmin = pg_current_xact_id()::xid and coalesce(current_setting('postern.brings_proofs', true), '') <> 'yes';
    return null;
end $$;
create trigger identities_vouch after insert on identities
    for each row when (new.upstream_provider_id is not null) execute function vouch_for_address();

create table preauthentications (                       -- first proof given, second factor awaited
    id          uuid        primary key,                -- the pre-auth token's jti
    user_id     uuid        not null references users on delete cascade,
    device_id   uuid        references devices on delete set null,
    organization_id uuid    references all_organizations on delete cascade,
    service_id  uuid        references all_services on delete cascade,
    failures    smallint    not null default 0,
    created_at  timestamptz not null,
    expires_at  timestamptz not null,
    consumed_at timestamptz,
    provider    text        not null default 'password',
    authenticated_by text[] not null default '{pwd}',
    directory_visit jsonb,                              -- of a sign-in by SAML, for the session
    stated_at       timestamptz,                        -- as in sessions
    refuses_applications boolean not null default false,
    identity_id uuid        references identities on delete cascade  -- by which they have come in: their sign-in ends with it
);
create index preauthentications_of_user on preauthentications (user_id);
create index preauthentications_of_device on preauthentications (device_id) where device_id is not null;
create index preauthentications_of_organization on preauthentications (organization_id, id) where organization_id is not null;
create index preauthentications_of_service on preauthentications (service_id, id) where service_id is not null;
create index preauthentications_of_identity on preauthentications (identity_id) where identity_id is not null;
create index preauthentications_expiry  on preauthentications (expires_at);

-- Sessions whose credential is a cookie. They have no refresh token.
create table browser_sessions (
    digest              bytea primary key,
    session_id          uuid  not null unique references sessions on delete cascade,
    chosen_organization uuid                            -- whose affairs the person looks after; counts only while they are a member
);

-- What people do in a browser, from the page where they are asked to sign in to the place where they wanted to go.
create table flows (
    id                   uuid        primary key,
    browser_digest       bytea       not null,         -- of the secret that the browser has for all of its flows
    purpose              text        not null check (purpose in ('account', 'authorize', 'device', 'saml', 'saml_logout')),
    service_id           uuid        references all_services on delete cascade,
    request              jsonb       not null,         -- what the purpose goes on with, and only the purpose reads
    wanted               jsonb       not null,         -- of the sign-in, and in which way it was made
    email                text        not null default '',
    user_id              uuid        references users on delete cascade,
    preauthentication_id uuid        references preauthentications on delete set null,
    session_id           uuid        references sessions on delete cascade,
    proof_digest         bytea,                        -- under the browser's secret: recognises a form that is sent twice
    created_at           timestamptz not null,
    expires_at           timestamptz not null,
    signed_in_at         timestamptz,
    completed_at         timestamptz,
    hooks_asked          smallint    not null default 0,  -- how often it has asked
    constraint flows_signed_in check ((signed_in_at is null) = (proof_digest is null) and (session_id is null or signed_in_at is not null))
);
create index flows_expiry on flows (expires_at);
-- Deleting the rows that they refer to must not read all flows.
create index flows_of_user on flows (user_id) where user_id is not null;
create index flows_of_service on flows (service_id, id) where service_id is not null;
create index flows_of_session on flows (session_id) where session_id is not null;
create index flows_of_preauthentication on flows (preauthentication_id) where preauthentication_id is not null;

-- The SAML identity provider of a service: who its service provider is, and what that is sent.
create table saml_configurations (
    service_id             uuid        primary key references all_services on delete cascade,
    enabled                boolean     not null,
    entity_id              text,
    acs_url                text,
    slo_url                text,
    slo_response_url       text,
    slo_binding            text        not null default 'post' check (slo_binding in ('post', 'redirect')),
    name_id_format         text,
    attribute_mapping      jsonb,
    sign_assertions        boolean     not null default true,
    sign_response          boolean     not null default true,
    require_signed_requests boolean    not null default false,
    acs_endpoints          jsonb       not null default '[]',
    signing_certificates   text[]      not null default '{}',
    encryption_certificate text,
    metadata_uploaded_at   timestamptz,
    metadata_fetched_at    timestamptz,
    created_at             timestamptz not null,
    updated_at             timestamptz not null,
    slo_by_hand            boolean     not null default false,  -- after the metadata: nobody has said its binding
    constraint saml_configurations_sign check (sign_assertions or sign_response),
    constraint saml_configurations_whole check (not enabled or (entity_id is not null and acs_url is not null))
);

-- What a service's assertions are signed with: the active certificate, and at most one that is to follow it.
create table saml_certificates (
    id                 uuid        primary key,
    service_id         uuid        not null references all_services on delete cascade,
    state              text        not null check (state in ('active', 'next')),
    certificate        text        not null,
    sealed_private_key bytea       not null,
    valid_from         timestamptz not null,
    valid_until        timestamptz not null,
    created_at         timestamptz not null,
    last_signed_at     timestamptz,
    warned_days        smallint
);
create unique index saml_certificates_one on saml_certificates (service_id, state);
create index saml_certificates_of_service on saml_certificates (service_id, id);
create index saml_certificates_expiry     on saml_certificates (valid_until);

-- Requests that were taken, by a digest of their ids: each is good once. The janitor removes old ones.
create table saml_requests (
    id         uuid        primary key,
    service_id uuid        not null references all_services on delete cascade,
    digest     bytea       not null,
    expires_at timestamptz not null,
    unique (service_id, digest)
);
create index saml_requests_of_service on saml_requests (service_id, id);
create index saml_requests_expiry     on saml_requests (expires_at);

-- The service providers that somebody was sent to in a browser's session. A sign-out tells them. The id is the SessionIndex. `audience` is
-- the entity id of the one that has the name: null where a process that did not keep it has written the row.
create table saml_sessions (
    id             uuid        primary key,
    session_id     uuid        not null references sessions on delete cascade,
    service_id     uuid        not null references all_services on delete cascade,
    name_id        text        not null,
    name_id_format text        not null,
    created_at     timestamptz not null,
    audience       text,
    unique (session_id, service_id)
);
create index saml_sessions_of_service on saml_sessions (service_id, id);
create index saml_sessions_by_name    on saml_sessions (service_id, name_id);

-- What went back and forth: the last fifty of a service, for a week, with the reason of each refusal.
create table saml_exchanges (
    id             uuid        primary key,
    service_id     uuid        not null references all_services on delete cascade,
    kind           text        not null,
    binding        text        not null,
    succeeded      boolean     not null,
    status         text        not null,
    reason         text        not null,
    advice         text        not null,
    message_id     text        not null,
    in_response_to text        not null,
    certificate_id uuid,
    created_at     timestamptz not null
);
create index saml_exchanges_of_service on saml_exchanges (service_id, id);
create index saml_exchanges_oldest     on saml_exchanges (created_at);

-- Applications behind a proxy: docs/decisions/0185-applications-behind-a-proxy.md.

-- What such an application asks of whoever comes, and what it is told. No row: nobody has set anything, and it has no host.
create table proxies (
    service_id   uuid        primary key references all_services on delete cascade,
    rules        text[]      not null,                       -- `/admin role editor`
    headers      text[]      not null,                       -- `Remote-User email`
    idle_minutes integer,                                    -- null: a session lasts as long as the browser's
    updated_at   timestamptz not null
);

-- One host has one application: of two organizations that claim a host, one gets it.
create table proxy_hosts (
    host        text        primary key,
    service_id  uuid        not null references all_services on delete cascade,
    approved_at timestamptz                                  -- a platform owner said so; null: the organization has proved the domain
);
create index proxy_hosts_of_service on proxy_hosts (service_id, host);

-- Random keys of this installation, sealed by the key ring: for digests, which are only compared and could not be sealed again.
create table server_secrets (
    purpose       text        primary key,
    sealed_secret bytea       not null,
    created_at    timestamptz not null
);

create table mfa_events (
    id         uuid        primary key,
    user_id    uuid        not null,                    -- kept when the user is gone
    name       text        not null,
    success    boolean     not null,
    address    inet,
    user_agent text,
    details    jsonb       not null default '{}',
    created_at timestamptz not null
);
create index mfa_events_of_user on mfa_events (user_id, id);
create index mfa_events_by_name on mfa_events (name, created_at);
create index mfa_events_newest  on mfa_events (created_at);      -- the janitor's

create table login_events (
    id              uuid        primary key,
    user_id         uuid,                               -- null: nobody has this address
    organization_id uuid,
    service_id      uuid,
    device_id       uuid,
    provider        text        not null,               -- password, codehost, websuite, officesuite, saml
    success         boolean     not null,
    reason          text,                               -- of a failure, from a closed list
    address         inet,
    user_agent      text,
    risk_score      real        not null default 0,
    risk_factors    text[]      not null default '{}',
    flagged         boolean     not null default false,
    country         text,
    city            text,
    created_at      timestamptz not null,
    salt            uuid        default gen_random_uuid(),  -- of the commitment to its personal part, which may leave for a SIEM
    request_id      uuid,
    decision        jsonb,                              -- which rule for risk decided
    -- Where it came from, in tenths of a degree, as far as the database of places has it: who cannot have travelled.
    spot            smallint[]
) partition by range (id);
create index login_events_of_user on login_events (user_id, id desc);
-- A person's habits are read from these, past any number of strangers' tries between them.
create index login_events_good    on login_events (user_id, id desc) where success and not flagged;
create index login_events_of_organization on login_events (organization_id, id desc) where organization_id is not null;
-- Analytics of one service.
create index login_events_of_service on login_events (service_id, created_at) include (user_id) where service_id is not null and success;
-- For searches among all people: sign-ins and tries of the last hours.
create index login_events_newest on login_events (created_at);

-- The installation's own rules for risk. One row, or none before the first change. Each sign-in looks at it.
create table installation_risk_policies (
    is_only      boolean     primary key default true check (is_only),
    policies     jsonb       not null default '[]',
    exceptions   jsonb       not null default '[]',
    counts_since timestamptz                                -- null: no rule counts
);

-- Decisions are rare, and sign-ins are many: whoever lists the decisions reads no others.
create table risk_decisions (
    id              uuid        primary key default gen_random_uuid(),
    login_event_id  uuid        not null,
    organization_id uuid,                                   -- null: a rule of the installation decided
    decided         jsonb       not null,
    created_at      timestamptz not null
);
create index risk_decisions_of_organization on risk_decisions (organization_id, login_event_id desc);
create index risk_decisions_newest on risk_decisions (created_at);   -- the janitor's

-- Successful sign-ins by hour, of each organization and altogether. They outlive their rows.
create table login_counts (
    org_id     uuid        not null references all_organizations on delete cascade,
    hour       timestamptz not null,
    service_id uuid        not null,                    -- the nil id: to no service; kept when the service is gone
    provider   text        not null,
    logins     bigint      not null,
    primary key (org_id, hour, service_id, provider)
) with (fillfactor = 80);

create table platform_login_counts (
    hour     timestamptz not null,
    provider text        not null,
    logins   bigint      not null,
    primary key (hour, provider)
) with (fillfactor = 80);

-- Sign-ins that no count has yet. The transaction that counts one takes it away from here, so each is counted once, in whatever order they
-- are committed; and whoever adds these to the counts is exact at any moment. The table holds the sign-ins of a few seconds: whoever asks for
-- those of one organization reads them all.
create table uncounted_logins (
    id              uuid        primary key,
    organization_id uuid,
    service_id      uuid,
    provider        text        not null,
    hour            timestamptz not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);

-- A statement logs one sign-in: its row needs no table of new rows around it, and a failed try no call.
create function queue_login() returns trigger language plpgsql as $$
begin
    insert into uncounted_logins (id, organization_id, service_id, provider, hour)
    values (new.id, new.organization_id, new.service_id, new.provider, date_trunc('hour', new.created_at, 'UTC'));
    return null;
end $$;
create trigger logins_added after insert on login_events for each row when (new.success) execute function queue_login();

create table impersonations (
    id              uuid        primary key,
    impersonator_id uuid        not null references users on delete cascade,
    user_id         uuid        not null references users on delete cascade,
    reason          text        not null,
    session_id      uuid        not null,               -- kept when the session is gone
    created_at      timestamptz not null,
    expires_at      timestamptz not null
);
create index impersonations_of_impersonator on impersonations (impersonator_id);
create index impersonations_of_user         on impersonations (user_id);

create table signing_keys (
    id                 text        primary key,        -- the `kid`
    purpose            text        not null,
    state              text        not null,
    public_jwk         jsonb       not null,
    sealed_private_key bytea       not null,
    created_at         timestamptz not null,
    activated_at       timestamptz,
    retires_at         timestamptz,
    constraint signing_keys_state_check check (state in ('next', 'current', 'outgoing'))
);
create unique index signing_keys_one_current on signing_keys (purpose) where state = 'current';
create unique index signing_keys_one_next    on signing_keys (purpose) where state = 'next';
-- Not valid, as in every database that came here from before: nobody has read all rows for it.
alter table signing_keys add constraint signing_keys_purpose_check
    check (purpose in ('access', 'access_rs256', 'id', 'id_es256')) not valid;

create table jobs (
    id             uuid        primary key,
    kind           text        not null,
    payload        json,                               -- in the clear; json and not jsonb, which refuses some strings (\u0000)
    sealed_payload bytea,                              -- or encrypted
    state          text        not null default 'waiting' check (state in ('waiting', 'dead')),
    priority       smallint    not null default 0 check (priority between -1 and 1),
    attempts       integer     not null default 0,
    run_at         timestamptz not null,
    lease          uuid,                               -- who holds it: a new one at each claim
    leased_until   timestamptz,
    last_error     text,
    created_at     timestamptz not null default now(),
    died_at        timestamptz,
    request_id     uuid,                               -- from which the job follows, over any number of jobs between
    constraint jobs_one_payload check ((payload is null) <> (sealed_payload is null)),
    constraint jobs_dead_or_not check ((state = 'dead') = (died_at is not null))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
-- A claim asks for one kind and priority after the other, so that neither a long backlog nor a crowd of later jobs slows it down.
create index jobs_due  on jobs (kind, priority, run_at) where state = 'waiting';
create index jobs_dead on jobs (died_at) where state = 'dead';

create table events (
    id              uuid        primary key,
    name            text        not null,
    organization_id uuid,
    actor_id        uuid,
    impersonator_id uuid,
    target_type     text        not null,
    target_id       text        not null,
    details         jsonb       not null,
    personal        jsonb,                             -- the part that identifies a person; the janitor empties it in time
    occurred_at     timestamptz not null,
    request_id      uuid                               -- from which the event follows; null: no request's, or an older process wrote the row
) partition by range (id);
create index events_of_organization on events (organization_id, id);
create index events_personal on events (occurred_at) where personal is not null;
-- What to forget of a person.
create index events_personal_of_actor on events (actor_id) where personal is not null;
create index events_personal_about on events (target_id) where personal is not null;

-- Where an organization's own mails are handed in. It has a new id with each change, so that what an earlier one did is not told of it.
create table mail_servers (
    id              uuid        primary key,
    org_id          uuid        not null unique references all_organizations on delete cascade,
    host            text        not null,
    port            integer     not null check (port between 1 and 65535),
    username        text        not null,
    sealed_password bytea       not null,
    from_email      text        not null,
    from_name       text,
    failing_since   timestamptz,
    rests_until     timestamptz,                          -- after a failure
    fallen_back_at  timestamptz,                          -- since then the installation's server does its work
    created_at      timestamptz not null,
    updated_at      timestamptz not null,
    constraint mail_servers_fallen check (fallen_back_at is null or failing_since is not null)
);

-- What was fetched from where `logo_url` points. Pages show this, and nothing of another's address.
create table logos (
    id         uuid        primary key,
    org_id     uuid        not null unique references all_organizations on delete cascade,
    digest     text        not null,
    media_type text        not null,
    content    bytea       not null,
    created_at timestamptz not null
);
create index logos_by_digest on logos (digest);

-- The pictures that `look` of the organization names, beside the logo.
create table look_pictures (
    id         uuid        primary key,
    org_id     uuid        not null references all_organizations on delete cascade,
    kind       text        not null check (kind in ('dark_logo', 'favicon', 'background')),
    digest     text        not null,
    media_type text        not null,
    content    bytea       not null,
    created_at timestamptz not null,
    unique (org_id, kind)
);
create index look_pictures_by_digest on look_pictures (digest);

-- The picture of an application, which `logo_digest` of the service names.
create table service_logos (
    id         uuid        primary key,
    service_id uuid        not null unique references all_services on delete cascade,
    digest     text        not null,
    media_type text        not null,
    content    bytea       not null,
    created_at timestamptz not null
);
create index service_logos_by_digest on service_logos (digest);

-- Texts of organizations and of the installation in place of ours.
create table organization_texts (
    id            uuid        primary key,
    org_id        uuid        references all_organizations on delete cascade,           -- null: the installation's
    key           text        not null check (key ~ '^[a-z0-9_.]{1,80}$'),              -- one of the open list
    language      text        not null check (language ~ '^[a-z]{2,8}$'),
    text          text        not null check (length(text) between 1 and 4000),
    based_on      text        not null,                                                 -- ours, as it was then; empty: we had none
    unlinked      boolean     not null default false,                                   -- a link leads to a domain that is proved no more
    updated_at    timestamptz not null,
    outdated      boolean     not null default false,                                   -- ours has changed since
    compared_with text        not null default ''                                       -- the version of ours that says so; empty: none yet
);
-- PostgreSQL 14 cannot treat nulls as one in an index.
create unique index organization_texts_of_organization on organization_texts (org_id, key, language) where org_id is not null;
create unique index organization_texts_of_installation on organization_texts (key, language) where org_id is null;
-- After a release that changes our texts, an actor compares the own ones with them, some at a time. It finds them by this index, so that a batch
-- costs the same however many texts there are.
create index organization_texts_to_compare on organization_texts (language, compared_with);

-- What tells the texts of the installation from all others. No row: there are none.
create table installation_texts (
    only_row boolean primary key default true check (only_row),
    digest   text    not null check (digest ~ '^[0-9a-f]{64}$')
);

-- Where texts of organizations wait for a platform owner's yes. One row, or none before the first change.
create table text_approval_rules (
    is_only boolean primary key default true check (is_only),
    mails   boolean not null default true,
    pages   boolean not null default false
);

-- The domain that an organization says is its own. It has a new id with each domain, as the mail server.
create table domains (
    id            uuid        primary key,
    org_id        uuid        not null unique references all_organizations on delete cascade,
    domain        text        not null,
    token         text        not null,                   -- what proves it is published
    verified_at   timestamptz,
    checked_at    timestamptz,
    next_check_at timestamptz,
    misses        smallint    not null default 0,         -- checks in a row that found no proof
    created_at    timestamptz not null,
    updated_at    timestamptz not null,
    constraint domains_checked check ((verified_at is null) = (next_check_at is null))
);
create unique index domains_verified on domains (domain) where verified_at is not null;
create index domains_due on domains (next_check_at) where next_check_at is not null;

-- A directory's answer, read and checked, waits for the browser that began the sign-in: for a minute. The row stays as long as the assertion
-- could come again, so that it counts once.
create table connection_answers (
    id                   uuid        primary key,
    upstream_provider_id uuid        not null references upstream_providers on delete cascade,
    code_digest          bytea       not null constraint connection_answers_code unique,
    assertion_digest     bytea,
    sealed_answer        bytea,
    waits_until          timestamptz not null,
    expires_at           timestamptz not null,
    constraint connection_answers_once unique (upstream_provider_id, assertion_digest)
);
create index connection_answers_expired on connection_answers (expires_at);
create index connection_answers_of_provider on connection_answers (upstream_provider_id, id);

-- Accepted assertions, each once. Without a foreign key to the session: an assertion must not be accepted again because its session has gone.
create table identity_assertions (
    id                   uuid        primary key,         -- of the session that it opened
    upstream_provider_id uuid        not null references upstream_providers on delete cascade,
    digest               bytea       not null,            -- of the assertion's `jti`
    expires_at           timestamptz not null,            -- of the assertion or the session, whichever is later
    unique (upstream_provider_id, digest)
);

-- A test of a provider's settings, in one browser. What came is kept sealed for an hour.
create table connection_tests (
    id                   uuid        primary key,
    upstream_provider_id uuid        not null references upstream_providers on delete cascade,
    digest               bytea       not null constraint connection_tests_digest unique,
    browser_digest       bytea,
    settings_digest      bytea       not null,
    succeeded            boolean,
    sealed_result        bytea,
    created_at           timestamptz not null,
    begun_at             timestamptz,
    finished_at          timestamptz,
    expires_at           timestamptz not null,
    -- Who has started it: it ends with their session, key or link, and with their right. No references: what is gone lets nobody go on.
    session_id           uuid,
    management_key_id    uuid,
    setup_link_id        uuid
);
create index connection_tests_expired on connection_tests (expires_at);
create index connection_tests_of_provider on connection_tests (upstream_provider_id, id);

-- The last fifty exchanges with a provider, for a week, and beside them one entry of each kind for what anybody may send.
create table connection_exchanges (
    id                   uuid        primary key,
    upstream_provider_id uuid        not null references upstream_providers on delete cascade,
    kind                 text        not null,
    succeeded            boolean     not null,
    fault                text        not null,
    reason               text        not null,
    advice               text        not null,
    checks               jsonb       not null,
    certificate          text        not null,
    message_id           text        not null,
    in_response_to       text        not null,
    created_at           timestamptz not null,
    times                integer     not null default 1,
    last_at              timestamptz                       -- of what is counted in one entry
);
create index connection_exchanges_of_provider on connection_exchanges (upstream_provider_id, id);
create index connection_exchanges_oldest on connection_exchanges (created_at);

-- Sessions that a directory opened by SAML, so that its sign-out can end them.
create table directory_sessions (
    session_id           uuid        primary key references sessions on delete cascade,
    upstream_provider_id uuid        not null references upstream_providers on delete cascade,
    name_digest          bytea       not null,
    session_index        text        not null,
    context_class        text        not null,
    created_at           timestamptz not null,
    issued_at            timestamptz                    -- of the assertion, by the directory's clock
);
create index directory_sessions_by_name on directory_sessions (upstream_provider_id, name_digest);

-- When each certificate of a directory last signed an answer.
create table connection_certificates (
    upstream_provider_id uuid        not null references upstream_providers on delete cascade,
    fingerprint          text        not null,
    signed_at            timestamptz not null,
    primary key (upstream_provider_id, fingerprint)
);

-- The last warning of each end: owners get each warning once.
create table connection_warnings (
    upstream_provider_id uuid        not null references upstream_providers on delete cascade,
    ending               text        not null,
    ends_at              timestamptz not null,
    days                 smallint    not null,
    primary key (upstream_provider_id, ending)
);

-- Wrong passwords that a directory got from us, by whom they were about: so that nobody locks people out of their directory by us. The id is
-- derived from the provider and the person's identity there.
create table directory_failures (
    id                   uuid        primary key,
    upstream_provider_id uuid        not null references upstream_providers on delete cascade,
    failures             integer     not null,
    under_way            integer     not null,            -- passwords that the directory has not judged yet
    expires_at           timestamptz not null             -- from then on the directory counts anew
);
create index directory_failures_expired on directory_failures (expires_at);
create index directory_failures_of_provider on directory_failures (upstream_provider_id, id);

-- Keeping in step with directories that speak LDAP: docs/decisions/0193-keeping-in-step-with-a-directory.md.

-- How far each connection has come. Whoever makes a run holds the row's lease, and each part of the run takes the row again.
create table directory_steps (
    connection_id uuid        primary key references upstream_providers on delete cascade,
    org_id        uuid        not null references all_organizations on delete cascade,
    next_at       timestamptz,                           -- null: nothing until somebody starts a run
    wants_whole   boolean     not null default false,
    holder        uuid        not null,                  -- whose run it is or was
    leased_until  timestamptz,                           -- null: no run is under way
    runs          integer     not null default 0,
    whole_at      timestamptz,
    marks         jsonb,                                 -- how far the directory was read
    agreed_digest bytea,                                 -- the settings for which an owner let the first run go on
    agreed_run    uuid,                                  -- the run that an owner let go on, until a run has carried it out
    held_digest   bytea,                                 -- of those whom the last run that stopped would have ended
    held_since    timestamptz,
    held_run      uuid                                   -- the run that names them
);
create index directory_steps_of_organization on directory_steps (org_id);

create table directory_runs (
    id              uuid        primary key,
    org_id          uuid        not null references all_organizations on delete cascade,
    connection_id   uuid        not null references upstream_providers on delete cascade,
    kind            text        not null check (kind in ('plan', 'whole', 'changes', 'identities')),
    state           text        not null check (state in ('running', 'done', 'failed', 'waiting', 'agreed', 'left', 'over')),
    started_at      timestamptz not null,
    ended_at        timestamptz,
    counts          jsonb       not null,
    fault           text        not null default '',
    settings_digest bytea       not null,
    digest          bytea                                -- of names and what happens, for a run that waits for an owner
);
create index directory_runs_of_connection on directory_runs (connection_id, id desc);
create index directory_runs_of_organization on directory_runs (org_id, id);
create index directory_runs_old on directory_runs (started_at);
create unique index directory_runs_one_at_a_time on directory_runs (connection_id) where state = 'running';
create unique index directory_runs_one_waits on directory_runs (connection_id) where state = 'waiting';

-- Whom a run names: those whom it would end, those whom it has left out, and in a first plan who comes.
create table directory_run_people (
    run_id      uuid    not null references directory_runs on delete cascade,
    org_id      uuid    not null references all_organizations on delete cascade,
    place       integer not null,
    what        text    not null,
    reason      text    not null,
    named       text    not null,                        -- the address, or the name in the directory
    user_id     uuid    references users on delete cascade,
    external_id bytea,
    primary key (run_id, place)
);
create index directory_run_people_of_organization on directory_run_people (org_id);
create index directory_run_people_of_user on directory_run_people (user_id) where user_id is not null;
-- Not valid, as in every database that came here from before: nobody has read all rows for it.
alter table directory_run_people
  add constraint directory_run_people_what_check check (what in ('end', 'left_out', 'comes')) not valid;

-- Whom a connection lists. A person has one directory in an organization, and is one identity at a connection.
create table directory_people (
    connection_id uuid        not null references upstream_providers on delete cascade,
    external_id   bytea       not null,                  -- the identity, as a sign-in keeps it
    org_id        uuid        not null references all_organizations on delete cascade,
    user_id       uuid        not null references users on delete cascade,
    digest        bytea       not null,                  -- of what the directory said last
    is_active     boolean     not null,
    ended_at      timestamptz,
    -- An owner has decided that the person is the organization's own member, whatever this directory says, as long as they are a member.
    is_kept       boolean     not null default false,
    primary key (connection_id, external_id),
    constraint directory_people_one_identity unique (connection_id, user_id)
);
create unique index directory_people_one_directory on directory_people (org_id, user_id) where is_active;
create index directory_people_of_organization on directory_people (org_id, user_id);
create index directory_people_of_user on directory_people (user_id);
create index directory_people_ended on directory_people (connection_id, ended_at) where ended_at is not null;

create table directory_groups (
    connection_id uuid  not null references upstream_providers on delete cascade,
    external_id   bytea not null,
    team_id       uuid  not null unique references teams on delete cascade,
    digest        bytea not null,                        -- of its name and members
    primary key (connection_id, external_id)
);

-- `domain`, `token` and what follows `verified_at` are the proof, as in `domains`.
create table domain_routes (
    id              uuid        primary key,
    org_id          uuid        not null references all_organizations on delete cascade,
    domain          text        not null,
    token           text        not null,
    verified_at     timestamptz,
    checked_at      timestamptz,
    next_check_at   timestamptz,
    misses          smallint    not null default 0,      -- checks in a row that found no proof
    shared_provider text        check (shared_provider in ('codehost', 'websuite', 'officesuite')),
    own_provider    uuid        references upstream_providers,  -- one of the organization's own
    login_policy    text        not null check (
        login_policy in ('password_allowed', 'upstream_only', 'password_fallback_if_provider_unavailable')
    ),
    join_policy     text        not null check (join_policy in ('off', 'ask', 'on')),
    created_at      timestamptz not null,
    updated_at      timestamptz not null,
    unique (org_id, domain),
    constraint domain_routes_checked check ((verified_at is null) = (next_check_at is null)),
    constraint domain_routes_one_provider check (shared_provider is null or own_provider is null),
    constraint domain_routes_lead_somewhere check (
        login_policy = 'password_allowed' or shared_provider is not null or own_provider is not null
    )
);
create unique index domain_routes_verified on domain_routes (domain) where verified_at is not null;
create index domain_routes_due on domain_routes (next_check_at) where next_check_at is not null;
create index domain_routes_by_provider on domain_routes (own_provider) where own_provider is not null;

-- When a call to an upstream provider failed last. A call that succeeds removes the row.
create table provider_outages (
    provider  text        primary key,
    failed_at timestamptz not null
);

-- People of a proved domain who would like to be members. One of each, so that nobody asks twice.
create table join_requests (
    id         uuid        primary key,
    org_id     uuid        not null references all_organizations on delete cascade,
    user_id    uuid        not null references users on delete cascade,
    email      text        not null,
    status     text        not null check (status in ('pending', 'approved', 'declined')),
    created_at timestamptz not null,
    decided_at timestamptz,
    decided_by uuid        references users on delete set null,
    unique (org_id, user_id),
    constraint join_requests_decided check ((status = 'pending') = (decided_at is null))
);
create index join_requests_by_organization on join_requests (org_id, id);
create index join_requests_pending on join_requests (org_id, id) where status = 'pending';
create index join_requests_by_user on join_requests (user_id);
create index join_requests_by_decider on join_requests (decided_by);

-- Whom an organization has removed. They do not become members again by their domain.
create table former_members (
    org_id     uuid        not null references all_organizations on delete cascade,
    user_id    uuid        not null references users on delete cascade,
    removed_at timestamptz not null,
    primary key (org_id, user_id)
);
create index former_members_by_user on former_members (user_id);

-- By whatever way somebody becomes a member or leaves: what they asked for need not be answered any more, and they do not come back by their
-- domain. Nothing is remembered of what goes with its account or its organization.
create function follow_members() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' then
        update join_requests set status = 'approved', decided_at = now()
          from rows
         where join_requests.org_id = rows.org_id and join_requests.user_id = rows.user_id and join_requests.status = 'pending';
    else
        insert into former_members (org_id, user_id, removed_at)
        select rows.org_id, rows.user_id, now()
          from rows
          join users on users.id = rows.user_id
          join all_organizations on all_organizations.id = rows.org_id and all_organizations.deleted_at is null
            on conflict do nothing;
    end if;
    return null;
end $$;
create trigger members_joined after insert on memberships referencing new table as rows for each statement execute function follow_members();
create trigger members_left after delete on memberships referencing old table as rows for each statement execute function follow_members();

-- What an organization's sign-in through a provider is done with.
create table oauth_credentials (
    id                   uuid        primary key,
    org_id               uuid        not null references all_organizations on delete cascade,
    provider             text        not null check (provider in ('codehost', 'websuite', 'officesuite')),
    client_id            text        not null,
    sealed_client_secret bytea       not null,
    created_at           timestamptz not null,
    updated_at           timestamptz not null,
    unique (org_id, provider)
);

-- Further providers of the installation, besides the three. A draft is never enabled.
create table further_providers (
    id                   uuid        primary key,
    key                  text        not null constraint further_providers_key unique,  -- the short name in addresses and identities
    preset               text        not null,
    name                 text        not null,
    settings             jsonb       not null,
    client_id            text        not null,
    sealed_client_secret bytea       not null,
    enabled              boolean     not null,
    position             integer     not null,
    organizations        uuid[],                              -- on whose pages it is offered; null: everywhere
    logo_digest          text,
    logo_media_type      text,
    logo                 bytea,
    secret_set_at        timestamptz not null,
    created_at           timestamptz not null,
    updated_at           timestamptz not null,
    state                text        not null default 'active' check (state in ('draft', 'active')),
    tested_digest        bytea,  -- the settings that the last successful test was about; null: none
    tested_at            timestamptz,
    -- What ids meant under issuers of before, while people hang on them: by issuer, the address of the profile and the path of the id.
    namings              jsonb       not null default '{}' check (jsonb_typeof(namings) = 'object'),
    constraint further_providers_drafts_are_off check (state = 'active' or not enabled)
);

-- The word of a further provider about somebody who is not connected, until a mailed code shows an address of theirs.
create table newcomers (
    flow_id     uuid        primary key references flows on delete cascade,
    provider    text        not null,
    sealed_word bytea       not null,
    email       text        not null default '',             -- the address that the last code went to
    code_digest bytea,
    codes       integer     not null default 0,
    tries       integer     not null default 0,
    created_at  timestamptz not null,
    expires_at  timestamptz not null
);
create index newcomers_expired on newcomers (expires_at);

-- Answers that a provider has sent by a form, without our cookies, until their browser comes back with a code of ours.
create table posted_answers (
    id            uuid        primary key,
    code_digest   bytea       not null constraint posted_answers_code unique,
    provider      text        not null,
    state_digest  bytea       not null constraint posted_answers_state unique,  -- of the state that the answer brings; one waits for each
    sealed_answer bytea       not null,
    expires_at    timestamptz not null
);
create index posted_answers_expired on posted_answers (expires_at);

-- Used up by getting another digest, by which only the same browser finds them until they expire.
create table oauth_states (
    digest          bytea       primary key,
    browser_digest  bytea       not null,
    provider        text        not null,                 -- a word, or the id of an organization's own
    flow_id         uuid        references flows on delete cascade,
    user_id         uuid        references users on delete cascade,  -- who connects an identity; null: somebody signs in
    session_id      uuid,                                 -- in which they went there
    client_id       text        not null,
    realm_id        uuid,                                 -- the organization that leads people of its domain there
    asked_in        uuid,                                 -- the session in which they asked for it, where it is another
    used_at         timestamptz,                          -- when somebody came back with it
    led_to          text,                                 -- where whoever came back to connect an identity went on to
    asked_consent   boolean     not null default false,   -- the provider was to ask the person what the service may do there
    created_at      timestamptz not null,
    expires_at      timestamptz not null,
    tests           boolean     not null default false,   -- a platform owner tests a provider: nobody signs in, and nothing is connected
    constraint oauth_states_purpose check ((flow_id is null) = (user_id is not null and session_id is not null))
);
create index oauth_states_by_flow on oauth_states (flow_id);
create index oauth_states_by_user on oauth_states (user_id);
create index oauth_states_expired on oauth_states (expires_at);

create table identity_grants (
    id                   uuid        primary key,
    identity_id          uuid        not null references identities on delete cascade,
    service_id           uuid        not null references all_services on delete cascade,
    client_id            text        not null,
    scopes               text[]      not null,
    sealed_access_token  bytea,
    sealed_refresh_token bytea,
    expires_at           timestamptz,
    refreshing_until     timestamptz,
    updated_at           timestamptz not null,
    unique (identity_id, service_id)
);
create index identity_grants_by_service on identity_grants (service_id, id);

-- Where an organization wants to hear of its events. The row is also what a dispatcher claims: the destination.
create table webhooks (
    id                     uuid        primary key,
    org_id                 uuid        not null references all_organizations on delete cascade,
    name                   text        not null,
    url                    text        not null,
    events                 text[]      not null,       -- the types that it subscribes to
    is_active              boolean     not null default true,
    paused_at              timestamptz,                -- we have disabled it, since it failed for days
    sealed_secret          bytea       not null,
    previous_sealed_secret bytea,                      -- signs as well, until `previous_until`
    previous_until         timestamptz,
    failing_since          timestamptz,                -- the first failure after the last success; null: the last attempt succeeded
    rests_until            timestamptz,                -- the receiver has asked for it
    lease                  uuid,
    leased_until           timestamptz,
    created_at             timestamptz not null,
    updated_at             timestamptz not null,
    unique (org_id, name),
    constraint webhooks_subscribe check (cardinality(events) > 0),
    constraint webhooks_paused check (paused_at is null or not is_active)
) with (fillfactor = 70);

-- An event on its way to a webhook, written by the statement that publishes the event. What is sent is made from the event at each attempt.
create table webhook_deliveries (
    id            uuid        not null,
    webhook_id    uuid        not null,                -- no reference: an event does not wait for its webhook; the janitor removes what is left
    event_id      uuid        not null,                -- no reference: it would cost an index, and events go with their organization
    event_name    text        not null,
    attempts      smallint    not null default 0,
    next_at       timestamptz,                         -- null: delivered, or given up
    delivered_at  timestamptz,
    status_code   smallint,                            -- of the last answer
    response_body text,                                -- its beginning
    error         text,
    created_at    timestamptz not null,
    updated_at    timestamptz not null,
    request_id    uuid,                                -- the event's, or that of a replay
    -- `signal`: `webhook_id` names a stream. Without a check: the parts of months to come are made without one.
    kind          text        not null default 'webhook',
    primary key (id, event_id),
    unique (webhook_id, event_id)
) partition by range (event_id);
create index webhook_deliveries_due    on webhook_deliveries (webhook_id, next_at) where next_at is not null;
create index webhook_deliveries_oldest on webhook_deliveries (created_at);       -- the janitor's

-- Where an organization has its audit log and its sign-ins sent. The row is also what a forwarder claims. Its id names the export: each has
-- chains of its own, which begin at its first entry.
create table siem_configurations (
    id                 uuid        primary key,
    org_id             uuid        not null unique references all_organizations on delete cascade,
    name               text        not null,
    provider_type      text        not null check (provider_type in ('splunk_hec', 'datadog', 'elastic', 'generic')),
    endpoint_url       text        not null,
    sealed_credentials bytea,                          -- null: none
    batch_size         smallint    not null check (batch_size between 1 and 1000),
    is_active          boolean     not null default true,
    sign_ins           bigint      not null default 0, -- how many have got a number in `sign_in_links`
    audit_sequence     bigint      not null default 0, -- the last entry that was received, and the digest of the chain there
    audit_digest       bytea       not null default '\x0000000000000000000000000000000000000000000000000000000000000000',
    sign_in_sequence   bigint      not null default 0,
    sign_in_digest     bytea       not null default '\x0000000000000000000000000000000000000000000000000000000000000000',
    last_delivered_at  timestamptz,
    last_error         text,                           -- null: the last attempt succeeded
    failures           integer     not null default 0, -- since the last success
    next_at            timestamptz not null default now(),
    lease              uuid,
    leased_until       timestamptz,
    created_at         timestamptz not null,
    updated_at         timestamptz not null
) with (fillfactor = 70);

-- Hooks before a sign-in (docs/decisions/0239-hooks-before-a-sign-in.md).
create table hooks (
    id                     uuid        primary key,
    org_id                 uuid        references all_organizations on delete cascade,   -- null: the installation's
    point                  text        not null check (point in ('sign_in')),
    address                text        not null,
    silence                text        not null check (silence in ('go_on', 'refuse')),
    seconds                smallint    not null check (seconds between 1 and 5),
    sealed_secret          bytea,                         -- null for one that has arrived from elsewhere: it is not asked
    previous_sealed_secret bytea,
    previous_until         timestamptz,
    secret_made_at         timestamptz,
    counts_as              uuid        unique,            -- new each time that an owner lets it count; null: in shadow
    since                  timestamptz not null,          -- since when it stands exactly as it is
    created_at             timestamptz not null,
    updated_at             timestamptz not null,
    -- what the report shows, since then
    asked                  integer     not null default 0,
    silent                 integer     not null default 0,
    refused                integer     not null default 0,
    factors                integer     not null default 0,
    milliseconds           bigint      not null default 0,
    slowest                integer     not null default 0
) with (fillfactor = 50);
-- Two, because the oldest server has no "nulls not distinct".
create unique index hooks_of_organization on hooks (org_id, point) where org_id is not null;
create unique index hooks_of_installation on hooks (point) where org_id is null;

-- The last fifty questions and answers, with every text masked: nobody is named here.
create table hook_exchanges (
    id           uuid        primary key,
    hook_id      uuid        not null references hooks on delete cascade,
    at           timestamptz not null,
    milliseconds integer     not null,
    outcome      text        not null,
    why          text        not null default '',
    counted      boolean     not null,
    is_test      boolean     not null default false,
    sent         text        not null,
    answered     text        not null default ''
);
create index hook_exchanges_of_hook on hook_exchanges (hook_id, at desc);
create index hook_exchanges_newest on hook_exchanges (at);        -- the janitor's

-- Links with which a customer's administrator sets an organization up without an account, and what they have set up that is not active yet.
create table setup_links (
    id             uuid        primary key,
    org_id         uuid        not null references all_organizations on delete cascade,
    name           text        not null,
    prefix         text        not null unique,
    digest         bytea       not null unique,
    purposes       text[]      not null,
    activates      boolean     not null,
    by_platform    boolean     not null,
    mailed_to      text,
    expires_at     timestamptz not null,
    created_by     uuid        not null,                 -- kept when the user is gone
    created_at     timestamptz not null,
    -- The browser that owns the link. All of it goes when somebody releases the browser.
    browser_digest bytea,
    used_by        text,
    used_at        timestamptz,
    used_from      inet,
    used_with      text,
    finished_at    timestamptz,
    revoked_at     timestamptz,
    constraint setup_links_used check ((browser_digest is null) = (used_at is null) and (browser_digest is null) = (used_by is null))
) with (fillfactor = 80);
create index setup_links_of_organization on setup_links (org_id, created_at desc, id desc);
create index setup_links_due on setup_links (expires_at);

create table setup_drafts (
    id                   uuid        primary key,
    link_id              uuid        not null references setup_links on delete cascade,
    org_id               uuid        not null references all_organizations on delete cascade,
    purpose              text        not null check (purpose in ('domain', 'connection', 'scim', 'siem')),
    subject              text        not null,
    settings             jsonb       not null,
    sealed_credentials   bytea,                          -- of a SIEM; null: none
    digest               bytea       unique,             -- of a directory's token
    upstream_provider_id uuid        references upstream_providers on delete cascade,
    state                text        not null default 'draft' check (state in ('draft', 'tested', 'waiting', 'active')),
    came                 text        not null default '',
    tested_at            timestamptz,
    first_request_at     timestamptz,
    waiting_since        timestamptz,
    activated_at         timestamptz,
    created_at           timestamptz not null,
    updated_at           timestamptz not null,
    constraint setup_drafts_active check ((state = 'active') = (activated_at is not null))
) with (fillfactor = 80);
create unique index setup_drafts_of_link on setup_drafts (link_id, purpose, subject);
create unique index setup_drafts_single on setup_drafts (link_id, purpose) where purpose <> 'domain';
create index setup_drafts_of_organization on setup_drafts (org_id, id);
create index setup_drafts_of_provider on setup_drafts (upstream_provider_id) where upstream_provider_id is not null;
create index setup_drafts_waiting on setup_drafts (org_id) where state = 'waiting';

-- Sign-ins that wait for their number in an export, which they get within a second or so, once they are committed. No references: a sign-in
-- would have to lock what every other one locks. The janitor removes what belongs to no export any more.
create table sign_in_pending (
    event_id  uuid primary key,
    export_id uuid not null
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, vacuum_index_cleanup = on);

-- Numbered sign-ins, until they have been received. What may be forgotten stands in `login_events`; this is what remains of it.
create table sign_in_links (
    export_id  uuid   not null,
    sequence   bigint not null check (sequence > 0),
    event_id   uuid   not null,
    content    jsonb  not null,
    commitment bytea  not null,                        -- to the personal part: its salted digest
    created_at timestamptz not null,
    primary key (export_id, sequence)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);

-- The audit log is append-only: entries and links are never changed or deleted. The personal part of an entry stands apart, so that it can be
-- forgotten; the entry keeps a salted digest of it.
create table audit_entries (
    id              uuid        primary key,
    organization_id uuid,                              -- null: about the platform or about a person
    actor_id        uuid,                              -- null: the system
    impersonator_id uuid,
    action          text        not null,
    target_type     text        not null,
    target_id       text        not null,
    success         boolean     not null,
    details         jsonb       not null,
    personal_digest bytea,                             -- null: nothing stands apart
    created_at      timestamptz not null,
    request_id      uuid                               -- from which the entry follows; not in the chain
);
create index audit_entries_newest    on audit_entries (organization_id, created_at desc, id desc);
create index audit_entries_by_action on audit_entries (organization_id, action, created_at desc, id desc);
create index audit_entries_by_target on audit_entries (organization_id, target_type, created_at desc, id desc);
create index audit_entries_of_target on audit_entries (organization_id, target_type, target_id, created_at desc, id desc);
create index audit_entries_of_actor  on audit_entries (organization_id, actor_id, created_at desc, id desc);
create index audit_entries_failed    on audit_entries (organization_id, created_at desc, id desc) where not success;
-- Finds what to forget of a person, in every log. The planner cannot choose a hash index for any other question.
create index audit_entries_about     on audit_entries using hash (target_id) where target_type = 'user';

create table audit_personal (
    entry_id   uuid  primary key references audit_entries,
    actor_id   uuid,
    address    inet,
    user_agent text,
    details    jsonb not null default '{}',
    salt       bytea not null
);
create index audit_personal_of_actor on audit_personal (actor_id) where actor_id is not null;

-- The chain of each organization, and with the nil id that of the platform: each link's digest covers its entry and the link before. Entries
-- wait in `audit_pending` until they are linked, within a second or so, in the order in which they are found there.
create table audit_links (
    chain_id uuid   not null,                            -- the organization; kept when it is gone
    sequence bigint not null check (sequence > 0),
    entry_id uuid   not null unique references audit_entries,
    digest   bytea  not null,
    primary key (chain_id, sequence)
);
-- These settings clean up early, so that the table gets short again after many have waited: every list counts what waits.
create table audit_pending (
    entry_id uuid primary key references audit_entries,
    chain_id uuid not null
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, vacuum_index_cleanup = on);
create index audit_pending_of_chain on audit_pending (chain_id, entry_id desc);

-- People who are to be forgotten, and were. While a request is open, no read shows what is still there of the person.
create table privacy_requests (
    id           uuid        primary key,
    user_id      uuid        not null unique,           -- kept when the account is gone
    requested_by uuid,                                  -- null: an operator, or a service's server
    email_keys   text[]      not null,                  -- to look for; empty when it is done
    requested_at timestamptz not null,
    completed_at timestamptz
);
create index privacy_requests_open on privacy_requests (user_id) where completed_at is null;

-- The proved addresses that a person had, by their keys and as they were written. What was sent there until then was sent to them; later
-- somebody else may have the address. Kept when the account is gone, until the request is done.
create table former_addresses (
    user_id    uuid        not null,
    email_key  text        not null,
    held_until timestamptz not null,
    primary key (user_id, email_key)
);
create index former_addresses_by_email on former_addresses (email_key);

-- Whoever replaces an address, or takes back that it is proved. Mails that tell of it are queued in the same transaction, at `now()`. What the
-- person has asked for by the address goes with it.
create function remember_address() returns trigger language plpgsql as $$
begin
    if new.email = old.email and new.email_verified_at is not null then
        return null;  -- only its key is made in another way
    end if;
    insert into former_addresses (user_id, email_key, held_until)
    select old.id, key, greatest(new.updated_at, now()) from (select old.email_key union select lower(old.email)) as written (key)
        on conflict (user_id, email_key) do update set held_until = excluded.held_until;
    delete from join_requests where user_id = old.id and status = 'pending';
    return null;
end $$;
create trigger users_address_given_up after update of email_key, email_verified_at on users
    for each row
    when (
        old.email_verified_at is not null
        and (new.email_key <> old.email_key or new.email_verified_at is null and new.address_vouched_by is null)
        and new.anonymized_at is null
    )
    execute function remember_address();

-- Terms of the installation and of organizations, and who has accepted which.

-- A version stays when the next one follows it: acceptances are of a version.
create table terms (
    id              uuid        primary key default gen_random_uuid(),
    organization_id uuid        references all_organizations (id),     -- null: the installation's
    version         text        not null check (version <> ''),
    address         text        not null check (address like 'https://%'),
    due_at          timestamptz not null,
    set_at          timestamptz not null,
    set_by          uuid        references users (id) on delete set null,
    ended_at        timestamptz                                        -- null: the version in force
);
-- A version is used once, and one is in force at most. Each counts nulls as one, whatever the release of PostgreSQL.
create unique index terms_once on terms (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), version);
create unique index terms_in_force on terms (coalesce(organization_id, '00000000-0000-0000-0000-000000000000')) where ended_at is null;
create index terms_of_organization on terms (organization_id);
create index terms_set_by on terms (set_by);

-- Without a foreign key to sessions: the acceptance outlives the session that it came from.
create table terms_acceptances (
    id              uuid        primary key default gen_random_uuid(),
    user_id         uuid        not null references users (id) on delete cascade,
    terms_id        uuid        not null references terms (id) on delete cascade,
    organization_id uuid        references all_organizations (id),
    accepted_at     timestamptz not null,
    session_id      uuid,
    unique (user_id, terms_id)
);
create index terms_acceptances_of_terms on terms_acceptances (terms_id);
create index terms_acceptances_of_organization on terms_acceptances (organization_id);

-- An organization that is made, or arrives, while the installation has terms. Whoever sets those holds the table until they are written.
create function ask_terms_of_installation() returns trigger language plpgsql as $$
begin
    if exists (select from terms where organization_id is null and ended_at is null) then
        new.asks_terms := true;
    end if;
    return new;
end $$;
create trigger organizations_ask_terms before insert on all_organizations for each row execute function ask_terms_of_installation();

-- Unlogged: losing it in a crash of the database opens the buckets once, and each taken token costs no write-ahead log.
-- No index but the key: the columns change with every request, and only unindexed ones are updated within their page.
create unlogged table rate_limit_buckets (
    limit_name text             not null,
    key        text             not null,
    tokens     double precision not null,
    at         timestamptz      not null,
    wait       double precision not null,              -- seconds that the last taker has to wait; 0 when there was a token
    full_at    timestamptz      not null,              -- from then on the row says nothing that its absence does not
    primary key (limit_name, key)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);

-- How many mails strangers have asked for in an hour, by where they ask from and whom they name.
-- Unlogged: losing it in a crash of the database opens the budgets once, ends the exceptions, and costs no write-ahead log. Only what counts
-- makes rows, so an hour has four for each mail of the installation's budget, however many networks ask.
create unlogged table mail_budgets (
    id           uuid        not null default gen_random_uuid() unique,
    lane         text        not null check (lane in ('open', 'reserve', 'solved')),
    scope        text        not null check (scope in ('network', 'mail_domain', 'organization', 'installation')),
    key          text        not null,                     -- a network, a domain, an organization's id; empty for the installation
    hour         timestamptz not null,                     -- the counts are of the hour that begins then
    size         integer     not null,                     -- the budget of an hour, when something last counted
    taken        integer     not null,                     -- in this hour
    waiting      integer     not null,                     -- for the hours after it
    held         integer     not null default 0,           -- how often the budget has said no, since
    held_since   timestamptz,
    held_at      timestamptz,                              -- and the last time
    exempt_until timestamptz,                              -- a platform owner has lifted the budget until then
    primary key (lane, scope, key)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);
create index mail_budgets_hour on mail_budgets (hour);

-- Counts of sign-ins that failed, of one hour each. A count has one of 65 536 rows of its kind, so no flood makes more. The slot of a
-- password's row is 16 bits of its digest under a key of the hour, and nothing else of a password stands anywhere. Unlogged: neither a
-- write-ahead log nor a backup has them.
create unlogged table guess_counts (
    kind     text        not null check (kind in ('account', 'network', 'password', 'wide')),
    slot     integer     not null check (slot between 0 and 65535),
    -- What the slot belongs to in this hour.
    key      text        not null,
    hour     timestamptz not null,
    -- Names the count in its alert, which outlives it.
    id       uuid        not null default gen_random_uuid() unique,
    -- Without a foreign key, here and below: nobody's account waits for a guesser, and the rows are gone within hours.
    user_id  uuid,
    network  text,
    family   text,
    failures integer     not null,
    -- 64 marks: of accounts, and in an account's row of passwords.
    seen     bigint      not null,
    first_at timestamptz not null,
    last_at  timestamptz not null,
    primary key (kind, slot)
);
create index guess_counts_by_hour on guess_counts (hour);

-- Counts that were no coincidence, for a day. Nothing of a password is in them.
create unlogged table guess_alerts (
    id       uuid        primary key,
    type     text        not null,
    user_id  uuid,
    network  text,
    family   text,
    marks    integer     not null,
    failures integer     not null,
    first_at timestamptz not null,
    last_at  timestamptz not null
);
create index guess_alerts_by_time on guess_alerts (last_at);

-- The puzzles of pages that somebody has solved and used, until they count no more anyway. Unlogged: after a crash of the database, a puzzle
-- of the last five minutes could be used once more.
create unlogged table used_puzzles (
    id         uuid        primary key,
    expires_at timestamptz not null
);
create index used_puzzles_by_expiry on used_puzzles (expires_at);

-- The proofs that were used, until they count no more anyway. Unlogged: after a crash of the database, a proof of the last minute could be
-- used once more.
create unlogged table used_key_proofs (
    digest     bytea       primary key,
    expires_at timestamptz not null
);
create index used_key_proofs_by_expiry on used_key_proofs (expires_at);

-- The objects that a configuration document manages.
create table managed_objects (
    org_id          uuid        references all_organizations on delete cascade,  -- null: the installation's
    service         text        not null,                -- the slug; empty outside a service
    kind            text        not null,
    name            text        not null,                -- in documents; empty for an object that is alone of its kind
    object_id       text        not null,                -- by which endpoints name it
    document        text        not null,                -- the digest of the document
    named           text[]      not null,                -- the fields that the document sets
    fields_digest   text        not null,                -- of these fields, as they were then
    managed_at      timestamptz not null,
    managed_by      uuid        references users on delete set null,
    managed_by_key  uuid                                 -- kept when the management key is gone
);
create unique index managed_objects_of_organization on managed_objects (org_id, service, kind, name) where org_id is not null;
create unique index managed_objects_of_installation on managed_objects (service, kind, name) where org_id is null;
create index managed_objects_by_person on managed_objects (managed_by) where managed_by is not null;

-- For ten minutes, what settings were before a page changed them. Secrets are not in it.
create table changed_settings (
    id              uuid        primary key,
    entry_id        uuid        not null,               -- of `audit_entries`
    organization_id uuid        references all_organizations on delete cascade,   -- null: a setting of the installation
    place           text        not null check (char_length(place) between 1 and 1000),
    section         text        not null check (char_length(section) between 1 and 100),
    before          jsonb       not null,               -- the texts of the form
    after           jsonb       not null,
    earlier         integer     not null,               -- entries about the same thing, ten minutes before and since
    changed_at      timestamptz not null
);
create index changed_settings_by_place on changed_settings (place, changed_at desc);
create index changed_settings_of_organization on changed_settings (organization_id, id) where organization_id is not null;
create index changed_settings_of_entry on changed_settings (entry_id);
create index changed_settings_oldest on changed_settings (changed_at);

-- Proposals: docs/decisions/0191-a-program-proposes-an-owner-applies.md.
create table proposals (
    id              uuid        primary key,
    org_id          uuid        not null references all_organizations on delete cascade,
    document_digest text        not null,
    plan_digest     text        not null,
    sealed_document bytea,                                   -- null once it is applied
    created_by      uuid        not null,                    -- kept when the user is gone
    key_id          uuid        references management_keys on delete cascade,   -- null: the person proposed it
    created_at      timestamptz not null,
    expires_at      timestamptz not null,
    enacted_at      timestamptz
);
create index proposals_of_organization on proposals (org_id, created_at desc, id desc);
create index proposals_of_key on proposals (key_id) where key_id is not null;
create index proposals_due on proposals (expires_at);

-- How large each table was on each day, so that operators see what grows and how fast. A table in parts is one table here.
create table storage_samples (
    day   date   not null,
    name  text   not null,
    bytes bigint not null,
    primary key (day, name)
);

-- People arrive in the systems of applications, by SCIM: docs/decisions/0238-people-arrive-in-other-systems.md.

create table provisioning_connections (
    id                  uuid        primary key,
    org_id              uuid        not null references all_organizations on delete cascade,
    service_id          uuid        not null unique references all_services on delete cascade,
    preset              text        not null,
    base_url            text        not null,
    sealed_token        bytea,                               -- null: none, or emptied with another host
    token_set_at        timestamptz,
    mapping             jsonb       not null,
    attributes_left_out text[]      not null default '{}',
    sends_groups        boolean     not null default false,
    team_ids            uuid[],                              -- null: everybody whom the application admits
    state               text        not null check (state in ('draft', 'active', 'stopped', 'ending')),
    stopped_why         text,
    active_digest       bytea,                               -- of the settings that an owner has activated
    people_url          text,                                -- the address where the people of this connection are known
    made_by             uuid,
    made_at             timestamptz not null default now(),
    changed_at          timestamptz not null default now(),
    -- what the worker keeps
    whole_due_at        timestamptz,                         -- when everybody is looked at next; null: not before somebody wants it
    whole_at            timestamptz,
    holder              uuid,
    leased_until        timestamptz,
    again_at            timestamptz,                         -- the other system has asked for time, or fails
    failing_since       timestamptz,
    mailed_at           timestamptz,
    agreed_digest       bytea,                               -- the settings for which an owner let the plan go on
    agreed_run          uuid,
    held_run            uuid,                                -- the run that names whom a stop holds
    held_digest         bytea,
    held_since          timestamptz,
    taken               uuid[]      not null default '{}'    -- people whose marks were taken, until they are done
) with (fillfactor = 70);
create index provisioning_connections_active on provisioning_connections (org_id) where state in ('active', 'ending');
create index provisioning_connections_of_organization on provisioning_connections (org_id);

create table provisioned_people (
    connection_id uuid        not null references provisioning_connections on delete cascade,
    user_id       uuid        references users on delete set null,   -- null: forgotten or deleted here, and not yet there
    far_id        text,
    sent_digest   bytea,
    active        boolean     not null,
    state         text        not null check (state in ('sent', 'left_out', 'refused', 'to_end', 'to_delete')),
    why           text,
    user_name     text,
    tries         integer     not null default 0,
    delete_at     timestamptz,
    came_at       timestamptz,                          -- null: by a run that an owner let go on
    ended_at      timestamptz,
    changed_at    timestamptz not null,
    constraint provisioned_people_one unique (connection_id, user_id),
    constraint provisioned_people_one_there unique (connection_id, far_id)
) with (fillfactor = 80);
create index provisioned_people_of_user on provisioned_people (user_id);
create index provisioned_people_to_delete on provisioned_people (connection_id) where state = 'to_delete';
create index provisioned_people_ended on provisioned_people (connection_id, ended_at) where ended_at is not null;

-- Who is to be looked at. Without a reference to people: who is gone is looked at, too.
create table provisioning_marks (
    connection_id uuid        not null references provisioning_connections on delete cascade,
    user_id       uuid        not null,
    marked_at     timestamptz not null,
    primary key (connection_id, user_id)
);

create table provisioning_runs (
    id              uuid        primary key,
    connection_id   uuid        not null references provisioning_connections on delete cascade,
    kind            text        not null check (kind in ('plan', 'whole', 'changes')),
    state           text        not null check (state in ('running', 'done', 'failed', 'waiting', 'agreed', 'left', 'over')),
    begun_at        timestamptz not null,
    ended_at        timestamptz,
    made            integer     not null default 0,
    matched         integer     not null default 0,
    changed         integer     not null default 0,
    overwritten     integer     not null default 0,
    ended           integer     not null default 0,
    left_out        integer     not null default 0,
    unchanged       integer     not null default 0,
    held_back       integer     not null default 0,
    why             text,
    settings_digest bytea       not null,
    digest          bytea
);
create index provisioning_runs_of_connection on provisioning_runs (connection_id, id desc);
create index provisioning_runs_old on provisioning_runs (begun_at);
create unique index provisioning_runs_one_at_a_time on provisioning_runs (connection_id) where state = 'running';
create unique index provisioning_runs_one_waits on provisioning_runs (connection_id) where state = 'waiting';

create table provisioning_run_people (
    run_id     uuid    not null references provisioning_runs on delete cascade,
    place      integer not null,
    what       text    not null check (what in ('made', 'matched', 'changed', 'ended', 'left_out', 'overwritten')),
    why        text,
    user_id    uuid    references users on delete cascade,
    far_id     text,
    attributes text[],
    primary key (run_id, place)
);
create index provisioning_run_people_of_user on provisioning_run_people (user_id) where user_id is not null;

create table provisioning_exchanges (
    id            uuid        primary key default gen_random_uuid(),
    connection_id uuid        not null references provisioning_connections on delete cascade,
    at            timestamptz not null,
    place         integer     not null default 0,      -- among those that were noted at once
    method        text        not null,
    path          text        not null,
    status        integer,
    scim_type     text,
    said          text        not null,
    has_failed    boolean     not null
);
create index provisioning_exchanges_of_connection on provisioning_exchanges (connection_id, has_failed, at desc, place desc);
create index provisioning_exchanges_old on provisioning_exchanges (at);

-- Marks. Each trigger says `when` something differs that a mapping reads, and marks where the organization has an active connection. A mark
-- that is there is written again: whoever takes marks passes over those that are being written, and so reads no state of before. Conditions
-- name each column: PostgreSQL keeps a comparison of rows in another form after a restore, and `backup check` would call it a damage.

create function mark_person_there(person uuid, organization uuid) returns void language sql as $$
    insert into provisioning_marks (connection_id, user_id, marked_at)
    select connections.id, person, now()
      from provisioning_connections as connections
     where connections.org_id = organization and connections.state = 'active'
     order by connections.id
        on conflict (connection_id, user_id) do update set marked_at = excluded.marked_at
$$;

create function mark_person_everywhere(person uuid) returns void language sql as $$
    insert into provisioning_marks (connection_id, user_id, marked_at)
    select connections.id, person, now()
      from memberships
      join provisioning_connections as connections on connections.org_id = memberships.org_id and connections.state = 'active'
     where memberships.user_id = person
     order by connections.id
        on conflict (connection_id, user_id) do update set marked_at = excluded.marked_at
$$;

-- What concerns many: everybody is looked at. Not before an owner has let the first run go on.
create function mark_connections_there(organization uuid, service uuid) returns void language sql as $$
    update provisioning_connections
       set whole_due_at = now()
     where org_id = organization and (service is null or service_id = service) and state = 'active' and agreed_digest = active_digest
       and (whole_due_at is null or whole_due_at > now())
$$;

create function mark_users_there() returns trigger language plpgsql as $$
begin
    perform mark_person_everywhere(new.id);
    return null;
end $$;
create trigger users_marked_there
    after update of email, email_verified_at, address_vouched_by, name, given_name, family_name, username, zoneinfo, language, deactivated_at,
                    deactivated_by_org_id, locked_at on users
    for each row
    when (
           new.email is distinct from old.email
        or new.email_verified_at is distinct from old.email_verified_at
        or new.address_vouched_by is distinct from old.address_vouched_by
        or new.name is distinct from old.name
        or new.given_name is distinct from old.given_name
        or new.family_name is distinct from old.family_name
        or new.username is distinct from old.username
        or new.zoneinfo is distinct from old.zoneinfo
        or new.language is distinct from old.language
        or new.deactivated_at is distinct from old.deactivated_at
        or new.deactivated_by_org_id is distinct from old.deactivated_by_org_id
        or new.locked_at is distinct from old.locked_at
    )
    execute function mark_users_there();

-- Whoever was forgotten here is deleted there, by an id that leads to nobody here.
create function forget_people_there() returns trigger language plpgsql as $$
begin
    update provisioned_people set user_id = null where user_id = new.id;
    return null;
end $$;
create trigger users_forgotten_there after update of anonymized_at on users
    for each row when (old.anonymized_at is null and new.anonymized_at is not null) execute function forget_people_there();

create function forget_person_there() returns trigger language plpgsql as $$
begin
    new.state := 'to_delete';
    new.user_name := null;
    new.sent_digest := null;
    new.why := null;
    new.delete_at := null;
    return new;
end $$;
create trigger people_forgotten_there before update of user_id on provisioned_people
    for each row when (new.user_id is null and old.user_id is not null) execute function forget_person_there();

create function drop_person_there() returns trigger language plpgsql as $$
begin
    delete from provisioned_people where connection_id = new.connection_id and user_id is null and far_id is null;
    return null;
end $$;
create trigger people_dropped_there after update of user_id on provisioned_people
    for each row when (new.user_id is null and new.far_id is null) execute function drop_person_there();

-- Many members may come and go in one statement. In the order of their ids, two of these do not wait for each other.
create function mark_rows_there() returns trigger language plpgsql as $$
begin
    if exists (select from provisioning_connections where state = 'active') then
        insert into provisioning_marks (connection_id, user_id, marked_at)
        select distinct connections.id, rows.user_id, now()
          from rows
          join provisioning_connections as connections on connections.org_id = rows.org_id and connections.state = 'active'
         order by connections.id, rows.user_id
            on conflict (connection_id, user_id) do update set marked_at = excluded.marked_at;
    end if;
    return null;
end $$;
create trigger members_marked_there_when_added after insert on memberships
    referencing new table as rows for each statement execute function mark_rows_there();
create trigger members_marked_there_when_removed after delete on memberships
    referencing old table as rows for each statement execute function mark_rows_there();
create trigger team_members_marked_there_when_added after insert on team_members
    referencing new table as rows for each statement execute function mark_rows_there();
create trigger team_members_marked_there_when_removed after delete on team_members
    referencing old table as rows for each statement execute function mark_rows_there();

create function mark_members_there() returns trigger language plpgsql as $$
begin
    perform mark_person_there(new.user_id, new.org_id);
    return null;
end $$;
create trigger members_marked_there after update of role, role_id, own_since on memberships
    for each row when (
           new.role is distinct from old.role
        or new.role_id is distinct from old.role_id
        or new.own_since is distinct from old.own_since
    )
    execute function mark_members_there();
create trigger provisioned_users_marked_there after update of given_name, family_name, display_name on provisioned_users
    for each row
    when (
           new.given_name is distinct from old.given_name
        or new.family_name is distinct from old.family_name
        or new.display_name is distinct from old.display_name
    )
    execute function mark_members_there();
create trigger provisioned_users_marked_there_when_added after insert on provisioned_users
    for each row when (num_nonnulls(new.given_name, new.family_name, new.display_name) > 0) execute function mark_members_there();

-- Values of the organization's fields, and of the person's own.
create function mark_values_there() returns trigger language plpgsql as $$
begin
    if new.org_id is null then
        perform mark_person_everywhere(new.user_id);
    else
        perform mark_person_there(new.user_id, new.org_id);
    end if;
    return null;
end $$;
create trigger profile_values_marked_there after update of values on profile_values
    for each row when (new.values is distinct from old.values) execute function mark_values_there();
create trigger profile_values_marked_there_when_added after insert on profile_values
    for each row when (new.values <> '{}') execute function mark_values_there();

create function mark_consents_there() returns trigger language plpgsql as $$
begin
    insert into provisioning_marks (connection_id, user_id, marked_at)
    select connections.id, coalesce(new.user_id, old.user_id), now()
      from provisioning_connections as connections
     where connections.service_id = coalesce(new.service_id, old.service_id) and connections.state = 'active'
        on conflict (connection_id, user_id) do update set marked_at = excluded.marked_at;
    return null;
end $$;
create trigger consents_marked_there after update of scopes on consents
    for each row when (new.scopes is distinct from old.scopes) execute function mark_consents_there();
create trigger consents_marked_there_when_added after insert on consents
    for each row when (new.scopes is not null) execute function mark_consents_there();
create trigger consents_marked_there_when_removed after delete on consents
    for each row when (old.scopes is not null) execute function mark_consents_there();

-- Roles of the application: of one person, or of all who have a role or are in a team.
create function mark_assignments_there() returns trigger language plpgsql as $$
declare
    assigned relations := coalesce(new, old);
begin
    if assigned.user_id is null then
        perform mark_connections_there(assigned.organization_id, assigned.service_id);
    else
        perform mark_person_there(assigned.user_id, assigned.organization_id);
    end if;
    return null;
end $$;
create trigger assignments_marked_there_when_added after insert on relations
    for each row when (new.object_type = 'service_role') execute function mark_assignments_there();
create trigger assignments_marked_there_when_removed after delete on relations
    for each row when (old.object_type = 'service_role') execute function mark_assignments_there();

create function mark_teams_there() returns trigger language plpgsql as $$
begin
    perform mark_connections_there(new.org_id, null);
    return null;
end $$;
create trigger teams_marked_there after update of slug, role, role_id on teams
    for each row when (
           new.slug is distinct from old.slug
        or new.role is distinct from old.role
        or new.role_id is distinct from old.role_id
    )
    execute function mark_teams_there();
create trigger profile_fields_marked_there after update of deleted_at, scope, key on all_profile_fields
    for each row
    when (
        new.org_id is not null
        and (
               new.deleted_at is distinct from old.deleted_at
            or new.scope is distinct from old.scope
            or new.key is distinct from old.key
        )
    )
    execute function mark_teams_there();

create function mark_services_there() returns trigger language plpgsql as $$
begin
    perform mark_connections_there(new.org_id, new.id);
    return null;
end $$;
create trigger services_marked_there after update of sign_in_policy on all_services
    for each row when (new.sign_in_policy is distinct from old.sign_in_policy) execute function mark_services_there();

-- Three tables are cut by time: by the month in which an id was made. The parts stand in a schema of their own, which nobody but the functions
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
