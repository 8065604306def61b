"""Two databases: one by the former migrations and the edition, one by the new file and the edition. Says every difference.
Run in the worktree: .venv/bin/python ops/fold/compare.py FORMER_FOLDER FORMER_REPLACEABLE NEW_FOLDER NEW_REPLACEABLE [--oldest]"""
import re, subprocess, sys, tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
import os
import psycopg, trio
sys.path.insert(0, os.getcwd())
from adapters.postgres import migrate
from adapters.postgres.backups.snapshots import DEFINITIONS, ROUTINES, OWNERSHIP, OBJECTS

# Names of the parts of months differ only by when they were made; those of their indexes by in which way.
CATALOGUE = {
"columns": """
  select c.relnamespace::regnamespace || '.' || c.relname || '.' || attname,
         concat_ws(' ', format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated, attcollation, attstorage, attcompression,
                   attstattarget, attoptions, attacl, pg_get_expr(adbin, adrelid), attislocal and not relispartition)
    from pg_attribute join pg_class c on c.oid = attrelid left join pg_attrdef on adrelid = attrelid and adnum = attnum
   where relnamespace in ('public'::regnamespace, 'partitions'::regnamespace) and relkind in ('r','p','v','c') and attnum > 0 and not attisdropped""",
"constraints": """
  select conrelid::regclass || '.' || case when relispartition or contype = 'n' then contype::text || pg_get_constraintdef(o.oid) else conname end,
         concat_ws(' ', contype, pg_get_constraintdef(o.oid), convalidated, condeferrable, condeferred, conislocal and not relispartition, connoinherit, confupdtype, confdeltype, confmatchtype)
    from pg_constraint o join pg_class c on c.oid = conrelid where connamespace in ('public'::regnamespace, 'partitions'::regnamespace)""",
"indexes": """
  select indrelid::regclass || '.' || case when t.relispartition then regexp_replace(pg_get_indexdef(indexrelid), 'INDEX [^ ]+ ON', 'INDEX ON') else c.relname end,
         concat_ws(' ', case when t.relispartition then '' else pg_get_indexdef(indexrelid) end, indisunique, indisprimary, indisexclusion, indimmediate, indisclustered, indisvalid, indisready, indislive, indisreplident, c.reloptions, c.relpersistence, c.relkind)
    from pg_index join pg_class c on c.oid = indexrelid join pg_class t on t.oid = indrelid
   where c.relnamespace in ('public'::regnamespace, 'partitions'::regnamespace)""",
"statistics columns of indexes": """
  select c.relname || '.' || attname, concat_ws(' ', attstattarget, attoptions, format_type(atttypid, atttypmod)) from pg_attribute join pg_class c on c.oid = attrelid
   where relnamespace = 'public'::regnamespace and relkind in ('i','I')""",
"relations": """
  select c.relnamespace::regnamespace || '.' || relname, concat_ws(' ', relkind, relpersistence, reloptions, relacl, relowner, relrowsecurity, relforcerowsecurity, relreplident, relispartition,
         relhastriggers, relhasrules, reltablespace, relam, pg_get_partkeydef(c.oid), pg_get_expr(relpartbound, c.oid), tr.reloptions_)
    from pg_class c left join lateral (select t.reloptions as reloptions_ from pg_class t where t.oid = c.reltoastrelid) tr on true
   where relnamespace in ('public'::regnamespace, 'partitions'::regnamespace) and relkind not in ('i','I')""",
"views": "select relname::text, pg_get_viewdef(oid) || (select string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' order by attnum) from pg_attribute where attrelid = c.oid and attnum > 0) from pg_class c where relnamespace = 'public'::regnamespace and relkind = 'v'",
"triggers": "select tgrelid::regclass || '.' || tgname, pg_get_triggerdef(oid) || tgenabled::text from pg_trigger where not tgisinternal",
"internal triggers": "select tgrelid::regclass || ' ' || tgfoid::regproc || ' ' || coalesce(tgconstrrelid::regclass::text,'') || ' ' || tgtype, count(*)::text || min(tgenabled::text) || max(tgenabled::text) from pg_trigger where tgisinternal group by 1",
"functions": "select oid::regprocedure::text, pg_get_functiondef(oid) || coalesce(proacl::text, '') || proowner || coalesce(proconfig::text, '') || procost || prorows || proparallel::text || provolatile::text from pg_proc where pronamespace in ('public'::regnamespace, 'partitions'::regnamespace)",
"types": "select typnamespace::regnamespace || '.' || typname, concat_ws(' ', typtype, typcategory, typnotnull, typacl, typowner) from pg_type where typnamespace in ('public'::regnamespace, 'partitions'::regnamespace)",
"schemas": "select nspname::text, concat_ws(' ', nspowner, nspacl) from pg_namespace where nspname !~ '^pg_(toast_)?temp'",
"default rights": "select oid::text, defaclacl::text from pg_default_acl",
"comments": "select pg_describe_object(classoid, objoid, objsubid), description from pg_description where objoid >= 16384",
"extensions": "select extname::text, extversion from pg_extension",
"sequences": "select relname::text, '' from pg_class where relkind = 'S' and relnamespace = 'public'::regnamespace",
"inheritance": "select inhrelid::regclass::text, inhparent::regclass::text from pg_inherits join pg_class c on c.oid = inhrelid where relkind in ('r','p')",
"rules": "select ev_class::regclass || '.' || rulename, pg_get_ruledef(oid) from pg_rewrite where ev_class >= 16384 and rulename <> '_RETURN'",
"policies": "select polrelid::regclass || polname, '' from pg_policy",
"extended statistics": "select stxrelid::regclass || stxname, pg_get_statisticsobjdef(oid) from pg_statistic_ext",
"database settings": "select setdatabase::text || setrole, setconfig::text from pg_db_role_setting where setdatabase = (select oid from pg_database where datname = current_database())",
}
FORMER_EDITION = ("schema_edition()",)

def silent(_): pass

def build(url, folder, replaceable):
    migrations = migrate.shipped(Path(folder))
    trio.run(partial(migrate.migrate, url, silent, migrations, replaceable=migrate.shipped_views_and_functions(Path(replaceable))))

def read(url):
    out = {}
    with psycopg.connect(url) as c:
        c.execute("set search_path = pg_catalog, public")
        for kind, statement in CATALOGUE.items():
            rows = c.execute(statement).fetchall()
            out[kind] = {}
            for n, d in rows:
                n, d = str(n), str(d)
                k = n; i = 1
                while k in out[kind]: i += 1; k = f"{n} #{i}"
                out[kind][k] = d
        # As a backup sees it.
        names = {("r" + str(o)): n for o, n in c.execute("select oid, relname from pg_class")} | {"f" + str(o): n for o, n in c.execute("select oid, oid::regprocedure::text from pg_proc")}
        for kind, st in (("definitions of backups", DEFINITIONS), ("routines of backups", ROUTINES)):
            out[kind] = {f"{names.get(r[0], r[0])} {r[1]}": r[2] for r in c.execute(st)}
        out["ownership of backups"] = {f"{names.get(r[0], r[0])} {r[2]} {r[3]}": r[1] for r in c.execute(OWNERSHIP)}
        out["objects of backups"] = {r[0]: "" for r in c.execute(OBJECTS)}
        # Rows that migrations wrote. A column of a random value or of the time is left out where both differ.
        tables = [r[0] for r in c.execute("select relname from pg_class where relnamespace='public'::regnamespace and relkind in ('r','p') and not relispartition")]
        for t in tables:
            if t == "schema_migrations": continue
            cols = [r[0] for r in c.execute("select attname from pg_attribute where attrelid = %s::regclass and attnum > 0 and not attisdropped order by attname", (t,))]
            rows = c.execute("select " + ", ".join(f'"{x}"::text' for x in cols if x != "created_at") + f' from "{t}"').fetchall()
            out[f"rows of {t}"] = {str(r): "" for r in rows}
            out.setdefault("counts of rows", {})[t] = str(len(rows))
    return out

def differences(one, two):
    n = 0
    for kind in one.keys() | two.keys():
        a, b = one.get(kind, {}), two.get(kind, {})
        for k in sorted(a.keys() | b.keys()):
            if a.get(k) != b.get(k):
                if "schema_edition()" in k: continue
                n += 1
                print(f"{kind}: {k}\n   before: {a.get(k)}\n   after:  {b.get(k)}")
    return n

def dumped(url, pg_dump):
    """What pg_dump says, as a set of lines in each object: order of columns aside, and names of indexes of parts."""
    text = subprocess.run([pg_dump, "--schema-only", "--schema=public", url], check=True, capture_output=True, text=True).stdout
    # A "not null" has a name since PostgreSQL 18, which a table keeps when it is renamed: signing_keys was.
    text = re.sub(r"CONSTRAINT \w+_not_null NOT NULL", "NOT NULL", text)
    blocks = re.split(r"\n--\n-- Name: ", text)
    return sorted(tuple(sorted(l.strip().rstrip(",") for l in b.splitlines() if l.strip() and "restrict" not in l)) for b in blocks if "schema_edition" not in b)

@contextmanager
def embedded():
    from adapters.postgres.embedded import BINARIES, EmbeddedPostgres
    d = Path(tempfile.mkdtemp()); d.chmod(0o711)
    p = EmbeddedPostgres(d, settings={"fsync": "off"})
    p.start()
    try: yield p.url("postgres"), "pg_dump" if not (BINARIES / "pg_dump").exists() else str(BINARIES / "pg_dump")
    finally: p.stop()

@contextmanager
def oldest():
    from tests.adapters.postgres.oldest.server import old_server
    with old_server() as s:
        yield s.url("postgres") if hasattr(s, "url") else s.address("postgres"), str(s.programs / "pg_dump")

if __name__ == "__main__":
    former, former_rep, new, new_rep = sys.argv[1:5]
    with (oldest if "--oldest" in sys.argv else embedded)() as (url, pg_dump):
        with psycopg.connect(url, autocommit=True) as c:
            print(c.execute("select version()").fetchone()[0][:40])
            for n in ("former", "folded"): c.execute(f"create database {n} encoding 'UTF8' template template0")
        of = lambda n: psycopg.conninfo.make_conninfo(url, dbname=n)
        build(of("former"), former, former_rep); build(of("folded"), new, new_rep)
        a, b = read(of("former")), read(of("folded"))
        n = differences(a, b)
        print({k: len(v) for k, v in b.items() if not k.startswith("rows of") and len(v)})
        try:
            x, y = dumped(of("former"), pg_dump), dumped(of("folded"), pg_dump)
            only = [b for b in x if b not in y], [b for b in y if b not in x]
            print("pg_dump:", len(x), "objects; differing", len(only[0]), len(only[1])); n += len(only[0]) + len(only[1])
            for o in only[0][:5] + only[1][:5]: print("   ", o)
        except FileNotFoundError: print("no pg_dump")
        print("DIFFERENCES:", n)
        sys.exit(bool(n))
