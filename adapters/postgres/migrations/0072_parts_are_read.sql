-- additive
-- A program that dumps the database reads each part by itself. So whoever may read all three tables may read their parts, those of later
-- months, too. Before, `postern backup create` failed for the role that serves.
do $$
declare
    reader text;
begin
    if not has_schema_privilege('partitions', 'usage with grant option') then
        return;
    end if;
    for reader in
        select quote_ident(pg_get_userbyid(grantee))
          from pg_class
         cross join aclexplode(relacl)
         where relnamespace = 'public'::regnamespace and relname in ('login_events', 'events', 'webhook_deliveries')
           and privilege_type = 'SELECT' and grantee <> relowner and grantee <> 0
         group by grantee
        having count(distinct relname) = 3
    loop
        execute format('grant usage on schema partitions to %s', reader);
        execute format('grant select on all tables in schema partitions to %s', reader);
        execute format('alter default privileges in schema partitions grant select on tables to %s', reader);
    end loop;
end $$;
