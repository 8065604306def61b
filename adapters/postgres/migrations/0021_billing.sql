-- additive
-- Billing: what the payment provider says, and what we ask of it.

alter table subscriptions
    add column managed       boolean not null default false,
    add column overridden_at timestamptz;

-- Who pays, as the payment provider knows the organization. `id` marks the customer there, so that one whose making was never answered is
-- found again.
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
