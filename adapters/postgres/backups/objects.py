"""The statement that names what a database has besides the tables, views and functions of the schema `public`, one line for each thing.

It names what acts or shows something: a materialized view that copies people, an event trigger, a function in a schema of its own, and the
rights of roles to such things. What belongs to an extension goes with the extension, a part of a table with the table, and the sequence of
a column with the column.
"""

from typing import Final

OBJECTS: Final = """
      with schemas as (
               select oid, case when nspname = 'public' then '' else nspname || '.' end as prefix
                 from pg_namespace
                where nspname <> 'information_schema' and nspname not like 'pg\\_%'
           ),
           relations as (
               select pg_class.oid,
                      case relkind when 'S' then 'sequence ' when 'm' then 'materialized view ' when 'f' then 'foreign table '
                                   when 'v' then 'view ' else 'table ' end || prefix || relname as name,
                      relowner as owner, relacl as acl, acldefault(case relkind when 'S' then 's' else 'r' end::"char", relowner) as usual,
                      relispartition or exists (
                          select
                            from pg_depend
                           where classid = 'pg_class'::regclass and objid = pg_class.oid and refclassid = 'pg_class'::regclass
                             and deptype in ('a', 'i') and relkind = 'S'
                      ) as is_part
                 from pg_class
                 join schemas on schemas.oid = relnamespace
                where relkind in ('S', 'm', 'f') or relkind in ('r', 'p', 'v') and prefix <> ''
           ),
           routines as (
               select pg_proc.oid,
                      'function ' || prefix || proname || '(' || pg_get_function_identity_arguments(pg_proc.oid) || ')' as name,
                      proowner as owner, proacl as acl, acldefault('f', proowner) as usual
                 from pg_proc
                 join schemas on schemas.oid = pronamespace
                where prefix <> ''
           ),
           named (class, oid, name) as (
               select 'pg_class'::regclass, oid, name from relations where not is_part
                union all
               select 'pg_proc'::regclass, oid, name from routines
                union all
               select 'pg_type'::regclass, pg_type.oid, 'type ' || prefix || typname
                 from pg_type
                 join schemas on schemas.oid = typnamespace
                 left join pg_class on pg_class.oid = typrelid
                where typtype in ('d', 'e', 'r') or typtype = 'c' and relkind = 'c' or typtype = 'b' and typcategory <> 'A'
                union all
               select 'pg_operator'::regclass, pg_operator.oid, 'operator ' || prefix || oprname
                 from pg_operator
                 join schemas on schemas.oid = oprnamespace
                union all
               select 'pg_collation'::regclass, pg_collation.oid, 'collation ' || prefix || collname
                 from pg_collation
                 join schemas on schemas.oid = collnamespace
                union all
               select 'pg_namespace'::regclass, oid, 'schema ' || rtrim(prefix, '.') from schemas where prefix <> ''
                union all
               select 'pg_extension'::regclass, oid, 'extension ' || extname from pg_extension
                union all
               select 'pg_event_trigger'::regclass, oid, 'event trigger ' || evtname from pg_event_trigger
                union all
               select 'pg_publication'::regclass, oid, 'publication ' || pubname from pg_publication
                union all
               select 'pg_foreign_server'::regclass, oid, 'foreign server ' || srvname from pg_foreign_server
                union all
               select 'pg_language'::regclass, oid, 'language ' || lanname from pg_language where oid >= 16384
                union all
               select 'pg_cast'::regclass, oid, 'cast of ' || format_type(castsource, null) || ' to ' || format_type(casttarget, null)
                 from pg_cast
                where oid >= 16384
           ),
           granted as (
               select class, oid, name, grantee, privilege_type as granted
                 from (
                          select 'pg_class'::regclass as class, oid, name, owner, acl, usual from relations
                           union all
                          select 'pg_proc'::regclass, oid, name, owner, acl, usual from routines
                           union all
                          select 'pg_namespace'::regclass, pg_namespace.oid, 'schema ' || nspname, nspowner, nspacl,
                                 acldefault('n', nspowner)
                            from pg_namespace
                            join schemas using (oid)
                           where prefix <> ''
                      ) as things
                cross join lateral aclexplode(acl)
                where grantee <> owner
                  and not exists (
                          select
                            from aclexplode(usual) as by_default
                           where (by_default.grantee, by_default.privilege_type) = (aclexplode.grantee, aclexplode.privilege_type)
                      )
                union all
               select 'pg_default_acl'::regclass, pg_default_acl.oid, 'what is made later in ' || nspname, grantee, privilege_type
                 from pg_default_acl
                 join pg_namespace on pg_namespace.oid = defaclnamespace
                cross join lateral aclexplode(defaclacl)
                where nspname <> 'public' and grantee <> defaclrole
           )
    select name
      from named
     where not exists (select from pg_depend where classid = class and objid = named.oid and deptype = 'e')
     union
    select 'the right of ' || case when grantee = 0 then 'public' else pg_get_userbyid(grantee)::text end
               || ' to ' || lower(granted) || ' on ' || name
      from granted
     where not exists (select from pg_depend where classid = class and objid = granted.oid and deptype = 'e')
     order by 1
"""
