#!/usr/bin/env bash
# Sets up the environment, then runs the checkers and the tests. Arguments go to pytest:
#
#   scripts/test.sh                  everything but the long attacks
#   scripts/test.sh --quick          without the tests that are marked slow; at most three minutes on two cores
#   scripts/test.sh --attacks        tests/attacks alone, the long attacks included; an hour
#   scripts/test.sh -k csan -x       only the tests that match, and stop at the first failure
set -euo pipefail

case "${1:-}" in
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p;}' "$0"; exit 0 ;;
esac
chosen=()
case "${1:-}" in
    --quick) chosen=(-m "not slow"); shift ;;
    --attacks) chosen=(--attacks tests/attacks); shift ;;
esac

cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/setup.sh
PY=${LOCALATTN_VENV:-.venv}/bin/python
# One thread a process: two workers with several threads each are slower than two with one.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

echo "[test] ruff"
"$PY" -m ruff check .
"$PY" -m ruff format --check .
echo "[test] mypy"
"$PY" -m mypy
echo "[test] pytest"
# loadgroup keeps the tests of one xdist_group, which share an expensive fixture, in one worker.
exec "$PY" -m pytest --numprocesses "${LOCALATTN_TEST_WORKERS:-2}" --dist loadgroup ${chosen[@]+"${chosen[@]}"} "$@"
