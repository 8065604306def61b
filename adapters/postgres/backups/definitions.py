"""Statements that tell how the parts of the schema are defined, and whom they belong to.

The texts are PostgreSQL's own, printed under one `search_path`. Versions of PostgreSQL print some of them in different ways.
"""

import hashlib
from typing import Final

_LENGTH: Final = 16


def digest_of(definition: str) -> str:
    """A schema is no secret, so its digests need no key."""
    return hashlib.sha256(definition.encode()).hexdigest()[:_LENGTH]


DEFINITIONS: Final = """
    select 'r' || attrelid as object, 'default of ' || attname as part, attgenerated::text || pg_get_expr(adbin, adrelid) as text
      from pg_attrdef
      join pg_attribute on attrelid = adrelid and attnum = adnum
     where adrelid in (select oid from pg_class where relnamespace = 'public'::regnamespace)
     union all
    select 'r' || conrelid, 'constraint ' || conname, pg_get_constraintdef(oid)
      from pg_constraint
     where connamespace = 'public'::regnamespace and conrelid <> 0 and contype in ('p', 'u', 'f', 'c', 'x')
     union all
    select 'r' || indrelid, 'index ' || relname, pg_get_indexdef(indexrelid)
      from pg_index
      join pg_class on pg_class.oid = indexrelid
     where relnamespace = 'public'::regnamespace
     union all
    select 'r' || tgrelid, 'trigger ' || tgname,
           case when tgenabled in ('A', 'R') then tgenabled::text else '' end || pg_get_triggerdef(pg_trigger.oid)
      from pg_trigger
      join pg_class on pg_class.oid = tgrelid
     where relnamespace = 'public'::regnamespace and not tgisinternal
     union all
    select 'r' || oid, 'query', pg_get_viewdef(oid)
      from pg_class
     where relnamespace = 'public'::regnamespace and relkind = 'v'
     union all
    select 'r' || oid, 'row security', concat_ws(' ', relrowsecurity, relforcerowsecurity)
      from pg_class
     where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')
     union all
    select 'r' || polrelid, 'policy ' || polname,
           concat_ws(' ', polcmd, polpermissive, pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid))
      from pg_policy
      join pg_class on pg_class.oid = polrelid
     where relnamespace = 'public'::regnamespace
     union all
    select 'r' || ev_class, 'rule ' || rulename, pg_get_ruledef(pg_rewrite.oid)
      from pg_rewrite
      join pg_class on pg_class.oid = ev_class
     where relnamespace = 'public'::regnamespace and rulename <> '_RETURN'
"""

# Functions of extensions are their extension's.
ROUTINES: Final = """
    select 'f' || pg_proc.oid as object, proname || '(' || pg_get_function_identity_arguments(pg_proc.oid) || ')' as name,
           concat_ws(' ', lanname, prosecdef, proleakproof, proisstrict, provolatile, pg_get_function_result(pg_proc.oid), proconfig,
                     prosrc, pg_get_expr(prosqlbody, 0)) as text
      from pg_proc
      join pg_language on pg_language.oid = prolang
     where pronamespace = 'public'::regnamespace
       and not exists (select from pg_depend where classid = 'pg_proc'::regclass and objid = pg_proc.oid and deptype = 'e')
"""

# The owner's own rights, and those that PostgreSQL gives everybody, are not listed. The schema of a new database belongs to whoever owns
# the database, or to the server's first role; both count as nobody. Rights to what is made later are the schema's.
OWNERSHIP: Final = """
      with objects as (
               select 'r' || oid as object, relowner as owner, relacl as acl, acldefault('r', relowner) as usual
                 from pg_class
                where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v')
                union all
               select 'f' || oid, proowner, proacl, acldefault('f', proowner)
                 from pg_proc
                where pronamespace = 'public'::regnamespace
                union all
               select 'schema', nspowner, nspacl,
                      (select initprivs from pg_init_privs where classoid = 'pg_namespace'::regclass and objoid = pg_namespace.oid)
                 from pg_namespace
                where nspname = 'public'
           ),
           granted as (
               (select object, grantee,
                       case privilege_type when 'USAGE' then 'use' else lower(privilege_type) end
                           || case when is_grantable then ' with grant option' else '' end as granted
                  from objects
                 cross join lateral aclexplode(acl)
                 where grantee <> owner
                except
                select object, grantee, case privilege_type when 'USAGE' then 'use' else lower(privilege_type) end
                  from objects
                 cross join lateral aclexplode(usual))
                union all
               select 'r' || attrelid, grantee, lower(privilege_type) || ' of ' || attname
                 from pg_attribute
                 join pg_class on pg_class.oid = attrelid
                cross join lateral aclexplode(attacl)
                where relnamespace = 'public'::regnamespace and grantee <> relowner
                union all
               select distinct 'schema', grantee, lower(privilege_type) || ' of later ' || kind.name
                 from pg_default_acl
                 join (
                          values ('r', 'tables', null), ('S', 'sequences', null), ('f', 'functions', 'EXECUTE'), ('T', 'types', 'USAGE')
                      ) as kind (letter, name, usual) on kind.letter = defaclobjtype::text
                cross join lateral aclexplode(defaclacl)
                where defaclnamespace in (0, 'public'::regnamespace) and grantee <> defaclrole
                  and not (grantee = 0 and privilege_type = coalesce(kind.usual, ''))
           )
    select object,
           case when object = 'schema' and owner in (10, 'pg_database_owner'::regrole)
                then ''
                else pg_get_userbyid(owner)::text
           end as owner,
           case when grantee = 0 then 'public' else pg_get_userbyid(grantee)::text end as role, granted
      from objects
      left join granted using (object)
     order by object, role, granted
"""
