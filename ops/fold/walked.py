"""Compares the database that walk.sh has led here with a new one on the same server. Run in the worktree, after walk.sh."""
import os, sys, time
sys.path.insert(0, os.getcwd())
from pathlib import Path
import psycopg, trio
from adapters.postgres import migrate
from adapters.postgres.embedded import EmbeddedPostgres
from tests.adapters.postgres.migrating.test_came_over import described, different
with EmbeddedPostgres(Path("ops/fold/walk/data")) as server:
    print(server.application_url)
    with psycopg.connect(server.url("postgres"), autocommit=True) as c:
        print([r[0] for r in c.execute("select datname from pg_database")])
        c.execute("drop database if exists anew"); 
        name = psycopg.conninfo.conninfo_to_dict(server.application_url)["dbname"]
        c.execute(f"create database anew template template0 encoding 'UTF8' owner {psycopg.conninfo.conninfo_to_dict(server.application_url)['user']}")
    new = psycopg.conninfo.make_conninfo(server.application_url, dbname="anew")
    t = time.time(); trio.run(migrate.migrate, new, print); print(f"{time.time() - t:.2f} s")
    a, b = described(server.application_url), described(new)
    found = [one for one in different(a, b) if not one.startswith("rows of")]
    print(len(found), "differences"); print("\n".join(found[:60])); [print(k, n, a[k].get(n), b[k].get(n)) for k, n in (o.split(": ", 1) for o in found) if k in ("constraints", "relations")]
