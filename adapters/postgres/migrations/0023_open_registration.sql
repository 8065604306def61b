-- additive
--
-- Open clients: programs on people's own devices that have registered themselves. Nothing of it is used before the operator, an organization
-- and one of its APIs let such clients in; a process of the release before lets none of them in.

alter table all_organizations add column registered_clients text not null default 'off' check (registered_clients in ('off', 'on'));
alter table resource_servers add column registered_clients text not null default 'off' check (registered_clients in ('off', 'on'));

-- The client id of an open client is all that it has said of itself. Behind it stands the organization's id, as behind an address.
alter table all_services drop constraint all_services_kept_client_id;
alter table all_services add constraint all_services_kept_client_id check (
    case
        when service_type = 'metadata'
        then deleted_at is not null
          or kept_client_id is not null
         and (kept_client_id like 'https://%#' || org_id and length(kept_client_id) <= 540
              or kept_client_id like 'open:%#' || org_id and length(kept_client_id) <= 1061)
        else kept_client_id ~ '^[A-Za-z0-9._~-]{8,80}$' and kept_client_id !~ '^-*([0-9A-Fa-f]-*){32}$'
    end
);
