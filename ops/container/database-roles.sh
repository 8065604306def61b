#!/bin/sh
# Runs once, when the database's container makes its cluster. It makes two roles, neither of them a superuser: postern_owner owns the tables and
# migrates; postern_app serves, and can neither change a table nor read another database (docs/operations/database.md, "Database roles").
set -eu

psql --no-psqlrc --set=ON_ERROR_STOP=1 --username="${POSTGRES_USER:-postgres}" --dbname=postgres <<'SQL'
\getenv owner_password DATABASE_OWNER_PASSWORD
\getenv app_password DATABASE_APP_PASSWORD
create role postern_owner login password :'owner_password';
create role postern_app login password :'app_password' connection limit 100;
create database postern owner postern_owner encoding 'UTF8' template template0;
revoke all on database postern from public;
grant connect on database postern to postern_app;
\connect postern
revoke all on schema public from public;
grant usage, create on schema public to postern_owner;
grant usage on schema public to postern_app;
alter default privileges for role postern_owner in schema public grant select, insert, update, delete on tables to postern_app;
alter default privileges for role postern_owner in schema public grant usage on sequences to postern_app;
alter role postern_app set statement_timeout = '30s';
alter role postern_app set idle_in_transaction_session_timeout = '30s';
SQL
