-- additive
-- Ownership that came to somebody by others: from a transfer, or with an organization that was moved here.
create table ownerships (
    org_id               uuid        primary key references all_organizations on delete cascade,
    membership_id        uuid        not null references memberships on delete cascade,
    former_membership_id uuid        references memberships on delete set null,
    former_role          text        not null,
    former_role_id       uuid        references roles on delete set null,
    since                timestamptz not null,
    confirmed_at         timestamptz
);
create index ownerships_of_member on ownerships (membership_id);
create index ownerships_of_former_owner on ownerships (former_membership_id) where former_membership_id is not null;
create index ownerships_of_role on ownerships (former_role_id) where former_role_id is not null;
