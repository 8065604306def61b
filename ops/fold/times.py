"""How long a new database takes: by the former migrations and by the new file, in turn, on one embedded server with its own settings."""
import os, sys, time, tempfile
sys.path.insert(0, os.getcwd())
from functools import partial
from pathlib import Path
import psycopg, trio
from adapters.postgres import migrate
from adapters.postgres.embedded import EmbeddedPostgres
F = Path("ops/fold")
d = Path(tempfile.mkdtemp()); d.chmod(0o711)
with EmbeddedPostgres(d / "data") as server:
    for turn in range(3):
        for name, m, r in (("former", migrate.shipped(F / "former"), migrate.shipped_views_and_functions(F / "former-replaceable.sql")), ("new", migrate.shipped(), migrate.shipped_views_and_functions())):
            with psycopg.connect(server.url("postgres"), autocommit=True) as c: c.execute(f"create database {name}{turn} template template0 encoding 'UTF8'")
            t = time.time(); trio.run(partial(migrate.migrate, server.url(f"{name}{turn}"), lambda _: None, m, replaceable=r)); print(name, f"{time.time() - t:.2f} s", os.getloadavg()[0])
