#!/bin/bash
# 0.1.0 -> ccde58add6e9 -> the stepping stone -> here, by the trees of history and the libraries of this worktree.
# Usage: walk.sh WORKTREE STONE ; makes trees below ops/fold/walk. Data: the embedded PostgreSQL in one data directory.
set -u
W=$1; STONE=$2; OUT=ops/fold/walk; PY=$W/.venv/bin/python
cd $W
for c in a31e6622a ccde58add6e9 $STONE; do
  [ -d $OUT/$c ] || { mkdir -p $OUT/$c; git archive $c core ports adapters actors entrypoints pyproject.toml docs/decisions | tar -x -C $OUT/$c; }
done
rm -rf $OUT/data; mkdir -p $OUT/data; chmod 711 $OUT/data
run() { tree=$1; shift; echo "--- $(basename $tree): postern $*"; (cd $tree && POSTERN_DATA_DIR=$OUT/data POSTERN_OWNER_EMAIL=ada@example.com POSTERN_OWNER_PASSWORD=correct-horse-battery nice -n 5 $PY -m entrypoints.cli.main "$@" 2>&1 | tail -${TAIL:-4}); }
serve() { tree=$1; echo "--- $(basename $tree): postern serve, and a sign-in"; cd $tree
  POSTERN_DATA_DIR=$OUT/data POSTERN_BIND=127.0.0.1:18765 POSTERN_OWNER_EMAIL=ada@example.com POSTERN_OWNER_PASSWORD=correct-horse-battery nice -n 5 $PY -m entrypoints.cli.main serve > $OUT/serve.log 2>&1 & pid=$!
  for i in $(seq 120); do curl -sf http://127.0.0.1:18765/health/ready > /dev/null && break; sleep 1; done
  curl -s -X POST -H 'Content-Type: application/json' -d '{"email":"ada@example.com","password":"correct-horse-battery"}' http://127.0.0.1:18765/api/auth/login | head -c 60; echo
  kill $pid; wait $pid; echo "exit $?"; grep -v '^{' $OUT/serve.log | tail -3; cd $W; }
serve $OUT/a31e6622a
run $W migrate --plan
run $W migrate
run $OUT/ccde58add6e9 migrate
run $W migrate
run $OUT/$STONE migrate
TAIL=12 run $W migrate --plan
TAIL=12 run $W migrate
run $W migrate --plan
TAIL=12 run $W doctor
serve $W
serve $OUT/$STONE
