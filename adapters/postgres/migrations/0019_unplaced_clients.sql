-- additive
--
-- A client by document has no service before a person has allowed it, so what it pushes names none. Its assertions count once in all
-- organizations, so they name none either. And an identifier of an API with an encoded slash is given once with the one that has the slash.

alter table pushed_requests alter column service_id drop not null;    -- null: of a client that nobody has placed yet
alter table client_assertions alter column service_id drop not null;  -- null: of a client by document
create unique index client_assertions_of_documents on client_assertions (digest) where service_id is null;

insert into resource_identifiers (key, org_id, is_proved, given_at)
select distinct on (decoded) rtrim(replace(key, '%2f', '/'), '/') as decoded, org_id, is_proved, given_at
  from resource_identifiers
 where key like '%!%2f%' escape '!'
 order by decoded, is_proved desc, given_at
    on conflict (key) do nothing;
