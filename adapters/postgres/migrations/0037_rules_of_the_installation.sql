-- additive
--
-- The installation's own rules for risk, and which sign-ins a rule decided about. A process of the release before asks no rule and writes no
-- decision.

-- One row, or none before the first change. Each sign-in looks at it.
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

-- Where a sign-in came from, in tenths of a degree, as far as the database of places has it: who cannot have travelled.
alter table login_events add column spot smallint[];
