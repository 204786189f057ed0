#!/bin/sh
# Installs what the tests use from outside Python: a browser and a PostgreSQL server.
# As root on Debian they are system packages; elsewhere the browser is Playwright's own, and
# PostgreSQL must be there already (its initdb is looked for by the tests).
set -eu
bin=$1

has() { command -v "$1" >/dev/null 2>&1; }
has_postgres() { has initdb || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; }

if has apt-get && [ "$(id -u)" = 0 ]; then
    wanted=""
    has chromium || wanted="$wanted chromium"
    has_postgres || wanted="$wanted postgresql"
    if [ -n "$wanted" ]; then
        apt-get update -qq
        # shellcheck disable=SC2086
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $wanted
    fi
else
    has chromium || "$bin/playwright" install chromium
    has_postgres || {
        echo "The tests need PostgreSQL 13 or newer: install it with your system's package manager." >&2
        exit 1
    }
fi
