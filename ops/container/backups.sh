#!/bin/sh
# Makes a backup at two o'clock every night, and proves the newest one on Sundays. Times are UTC. A failure is on standard error, and the next
# night tries again; the alert PosternBackupUnproved knows of it.
set -u
trap 'exit 0' TERM INT

while :; do
    now=$(date +%s)
    sleep "$((86400 - (now - 7200) % 86400))" &
    wait $!
    if postern backup create --to /backups; then
        find /backups -mindepth 1 -maxdepth 1 -type d -name '20*Z-*' -mtime +"${KEEP_DAYS:-35}" -exec rm -r {} +
    fi
    if [ "$(date -u +%u)" = 7 ]; then
        postern backup check --in /backups --scratch "$SCRATCH_URL"
    fi
done
