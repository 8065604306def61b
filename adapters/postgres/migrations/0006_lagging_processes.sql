-- additive
-- `schema_migrations.needs` says who may run beside a migration. `migrate.py` keeps that table, and adds the column wherever it is missing.

-- What is purged in batches is found by an index that ends with the id; else each batch steps over those before it.
drop index preauthentications_of_organization, preauthentications_of_service;
create index preauthentications_of_organization on preauthentications (organization_id, id) where organization_id is not null;
create index preauthentications_of_service on preauthentications (service_id, id) where service_id is not null;
