-- additive
-- Sessions of browsers, whose credential is a cookie; what people do in a browser until they have signed in and gone on; and links that sign
-- somebody in.

create table browser_sessions (
    digest              bytea primary key,
    session_id          uuid  not null unique references sessions on delete cascade,
    chosen_organization uuid
);

create table flows (
    id                   uuid        primary key,
    browser_digest       bytea       not null,
    purpose              text        not null check (purpose in ('account', 'authorize', 'device')),
    service_id           uuid        references all_services on delete cascade,
    request              jsonb       not null,
    wanted               jsonb       not null,
    email                text        not null default '',
    user_id              uuid        references users on delete cascade,
    preauthentication_id uuid        references preauthentications on delete set null,
    session_id           uuid        references sessions on delete cascade,
    proof_digest         bytea,
    created_at           timestamptz not null,
    expires_at           timestamptz not null,
    signed_in_at         timestamptz,
    completed_at         timestamptz,
    constraint flows_signed_in check ((signed_in_at is null) = (proof_digest is null) and (session_id is null or signed_in_at is not null))
);
create index flows_expiry on flows (expires_at);
create index flows_of_user on flows (user_id) where user_id is not null;
create index flows_of_service on flows (service_id, id) where service_id is not null;
create index flows_of_session on flows (session_id) where session_id is not null;
create index flows_of_preauthentication on flows (preauthentication_id) where preauthentication_id is not null;

alter table mailed_tokens
    drop constraint mailed_tokens_purpose_check,
    add constraint mailed_tokens_purpose_check
        check (purpose in ('verify_email', 'reset_password', 'set_password', 'change_email', 'sign_in'));
