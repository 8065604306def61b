-- additive
--
-- Proposals: docs/decisions/0191-a-program-proposes-an-owner-applies.md. A process of the release before knows nothing of them.

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
