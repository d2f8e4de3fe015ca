#!/usr/bin/env bash
# Migrations up, down and up, and the tests of both applications, on the server of PGHOST and PGPORT.
set -euo pipefail
cd "$(dirname "$0")"
python="${PYTHON:-python3}"
export PGHOST="${PGHOST:-127.0.0.1}" PGPORT="${PGPORT:-5432}"
export PGUSER="${PGUSER:-postgres}" PGDATABASE="${PGDATABASE:-postgres}"
export PYTHONDONTWRITEBYTECODE=1

echo "== library"
(
    cd library
    for step in "upgrade head" "downgrade base" "upgrade head" check; do
        "$python" -m alembic -q $step
    done
    "$python" -m pytest -q -p no:cacheprovider tests
    "$python" -m alembic -q downgrade base
)

echo "== tracker"
(
    cd tracker
    "$python" manage.py migrate -v 0
    "$python" manage.py migrate -v 0 issues zero
    "$python" manage.py migrate -v 0 issues
    "$python" manage.py makemigrations --check --dry-run -v 0
    # In a database that the test runner makes and drops, and in two copies of it.
    "$python" manage.py test --noinput -v 1
    "$python" manage.py test --noinput -v 1 --parallel 2
    "$python" manage.py migrate -v 0 issues zero
)
