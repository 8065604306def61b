#!/bin/sh
# Starts Patroni, which starts PostgreSQL. The passwords of PostgreSQL's own roles come from the environment.
set -eu
umask 077
mkdir -p "$PATRONI_POSTGRESQL_DATA_DIR"
exec patroni /etc/patroni/patroni.yaml
