-- additive
-- Which mail domains an organization has proved, where their people sign in, and how they become its members.

-- `domain`, `token` and what follows `verified_at` are the proof, as in `domains`.
create table domain_routes (
    id              uuid        primary key,
    org_id          uuid        not null references all_organizations on delete cascade,
    domain          text        not null,
    token           text        not null,
    verified_at     timestamptz,
    checked_at      timestamptz,
    next_check_at   timestamptz,
    misses          smallint    not null default 0,
    shared_provider text        check (shared_provider in ('codehost', 'websuite', 'officesuite')),
    own_provider    uuid        references upstream_providers,
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

-- Which organization has led the person to one of the three, for the domain of their address: with its client there.
alter table oauth_states add column realm_id uuid;

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
