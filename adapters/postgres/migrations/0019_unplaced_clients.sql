-- additive
--
-- A client by document has no service before a person has allowed it, so what it pushes names none. Its assertions count once in all
-- organizations, so they name none either.

alter table pushed_requests alter column service_id drop not null;    -- null: of a client that nobody has placed yet
alter table client_assertions alter column service_id drop not null;  -- null: of a client by document
