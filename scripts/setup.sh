#!/usr/bin/env bash
# Creates .venv and installs torch, fairseq and this package into it. Safe to run again: a second run only checks.
#
#   scripts/setup.sh [-h]
#
#   PYTHON           interpreter to build on (default: the first of python3.11, 3.12, 3.13 and python3 that will do)
#   LOCALATTN_VENV   where the environment goes, relative to the repository (default: .venv)
#
# torch: the one that the interpreter already has is kept; else the build with CUDA where nvidia-smi finds a GPU, and
# the CPU build where it does not. Everything that pip says goes to setup.log in the environment.
set -euo pipefail

case "${1:-}" in
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p;}' "$0"; exit 0 ;;
    "") ;;
    *) echo "setup: unknown argument '$1'; see scripts/setup.sh -h" >&2; exit 2 ;;
esac

cd "$(dirname "${BASH_SOURCE[0]}")/.."
REPO=$(pwd -P)
VENV=${LOCALATTN_VENV:-$REPO/.venv}
mkdir -p "$(dirname "$VENV")"
VENV=$(cd "$(dirname "$VENV")" && pwd -P)/$(basename "$VENV")
LOG=$VENV/setup.log
STAMP=$VENV/setup.stamp
CONSTRAINTS=$VENV/constraints.txt
PY=$VENV/bin/python

# Settings of the user's that would lead pip, or fairseq's build, elsewhere. fairseq builds CUDA extensions that it
# does not need when CUDA_HOME is set.
unset CUDA_HOME PYTHONHOME PIP_CONSTRAINT PIP_BUILD_CONSTRAINT PIP_REQUIREMENT PIP_TARGET PIP_PREFIX
export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PYTHONNOUSERSITE=1
# fairseq's few extensions build in a fraction of the time, and none of them is on a hot path.
export CFLAGS="-O1 -g0"

say() { printf '[setup %3d s] %s\n' "$SECONDS" "$*"; }
die() { printf '[setup %3d s] error: %s\n' "$SECONDS" "$*" >&2; exit 1; }

# step MESSAGE COMMAND...: run it with its output in the log; on failure show the end of the log and stop.
step() {
    say "$1"
    try "${@:2}" && return
    tail -n 15 "$LOG" | sed 's/^/    /' >&2
    die "failed: $1 (whole log: $LOG)"
}

try() {
    printf '\n### %s\n' "$*" >>"$LOG"
    "$@" >>"$LOG" 2>&1
}

supported() { # a shim of a version manager may be on PATH and still not run: try it
    "$1" -c 'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1
}

find_python() {
    local candidate
    if [[ -n ${PYTHON:-} ]]; then
        supported "$PYTHON" || die "PYTHON=$PYTHON is not a working Python 3.11, 3.12 or 3.13 with venv"
        return
    fi
    for candidate in python3.11 python3.12 python3.13 python3; do
        if supported "$candidate"; then PYTHON=$candidate; return; fi
    done
    die "no working Python 3.11, 3.12 or 3.13 (with venv) on PATH; install one, or set PYTHON=/path/to/python3.11"
}

# torch_version PYTHON: prints the version of a torch in the range of setup.py that this interpreter can import.
torch_version() {
    "$1" - 2>/dev/null <<'EOF'
import importlib.metadata, re, sys
import torch
version = importlib.metadata.version("torch")  # as pip reads it
low, high = re.search(r'"torch>=([\d.]+),<([\d.]+)"', open("setup.py").read()).groups()
key = lambda v: [int(n) for n in re.match(r"\d+(\.\d+)*", v).group().split(".")]
if not key(low) <= key(version) < key(high):
    sys.exit(1)
print(version)
EOF
}

# The interpreter of one of pip's scripts: in its first line or, where the path is long or has a space, in its second.
interpreter_of() {
    sed -nE "1s/^#!(.*python[0-9.]*)\$/\1/p; 2s/^'''exec' \"?([^\"]*python[0-9.]*)\"? .*/\1/p" "$1" 2>/dev/null
}

# The environment works and has not been moved here from another directory (its scripts name their interpreter).
venv_is_whole() {
    [[ -f $VENV/pyvenv.cfg ]] && supported "$PY" && "$PY" -m pip --version >/dev/null 2>&1 &&
        [[ $(dirname "$(interpreter_of "$VENV/bin/pip")") -ef $VENV/bin ]]
}

make_venv() {
    if [[ -e $VENV && ! -f $VENV/pyvenv.cfg && -n $(ls -A "$VENV") ]]; then
        die "$VENV is there and is no virtual environment; move it away, or set LOCALATTN_VENV"
    fi
    # Without -q, with which grep may end before compgen has written all.
    if [[ ! -f $LOG ]] && compgen -G "$VENV/lib/python3*/site-packages/*.dist-info" | grep -vE '/(pip|setuptools)-' >/dev/null; then
        die "$VENV was not made by this script, and lacks pip or a supported Python; move it away, or set LOCALATTN_VENV"
    fi
    find_python
    say "creating $VENV with $("$PYTHON" --version)"
    local have=""
    # A virtual environment on top of another sees the packages of the interpreter below, not those of the other.
    if "$PYTHON" -c 'import sys; sys.exit(sys.prefix != sys.base_prefix)'; then
        have=$(torch_version "$PYTHON") || have=""
    fi
    "$PYTHON" -m venv --clear ${have:+--system-site-packages} "$VENV" || die "could not create $VENV with $PYTHON"
    : >"$LOG"
}

# A killed pip can leave a package that looks installed: its directory of metadata is there, its RECORD is not.
drop_half_installed() {
    local info
    for info in "$VENV"/lib/python3.*/site-packages/*.dist-info; do
        if [[ -d $info && ! -s $info/RECORD ]]; then rm -rf "$info"; fi
    done
    for info in "$VENV"/lib/python3.*/site-packages/~*; do # what pip had moved aside
        if [[ -e $info ]]; then rm -rf "$info"; fi
    done
}

pip_install() { "$PY" -m pip install --constraint "$CONSTRAINTS" "$@"; }

torch_by_uv() {
    pip_install uv
    "$PY" -m uv pip install --python "$PY" --torch-backend cpu --constraints "$CONSTRAINTS" "torch==$1"
}

install_torch() {
    local wanted have triton
    wanted=$(sed -n 's/^torch==//p' constraints.txt)
    if have=$(torch_version "$PY"); then
        say "torch $have is there: kept"
    elif [[ $(uname) == Darwin ]]; then
        step "installing torch $wanted" pip_install "torch==$wanted"
    elif nvidia-smi >/dev/null 2>&1; then
        step "installing torch $wanted with CUDA (there is a GPU; about 3 GB)" pip_install "torch==$wanted"
    else
        say "installing the CPU build of torch $wanted (no GPU)"
        # First where pip is told to look; it fails within seconds where nobody has set that up. uv knows where the
        # CPU builds are.
        try pip_install "torch==$wanted+cpu" || try torch_by_uv "$wanted" || {
            tail -n 15 "$LOG" | sed 's/^/    /' >&2
            die "no CPU build of torch $wanted found (log: $LOG); install torch into $VENV by hand" \
                "($PY -m pip install torch ...) and run this again: it will be kept"
        }
    fi
    have=$(torch_version "$PY") || die "the torch in $VENV cannot be imported, or is out of setup.py's range"
    # From here on no other torch may come in by way of a dependency, and no other Triton than that of a torch with CUDA.
    triton=$("$PY" -c 'import importlib.metadata; print(importlib.metadata.version("triton"))' 2>>"$LOG") ||
        triton=$(sed -n 's/^triton==//p' constraints.txt)
    sed -e "s/^torch==.*/torch==$have/" -e "s/^triton==.*/triton==$triton/" constraints.txt >"$CONSTRAINTS.new"
    mv "$CONSTRAINTS.new" "$CONSTRAINTS"
}

fingerprint() { # of everything that decides what is installed
    {
        cat constraints.txt setup.py pyproject.toml scripts/setup.sh
        grep __version__ fairseq_localattn/__init__.py
        "$PY" --version
        echo "$REPO"
    } | "$PY" -c 'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())'
}

# check find_spec: everything is in its place (at once); check import_module: and can be imported (seconds).
check() {
    (cd "$VENV" && "$PY" - "$1" "$REPO/fairseq_localattn" "$(sed -n 's/^torch==//p' "$CONSTRAINTS")") <<'EOF'
import importlib, importlib.metadata, importlib.util, os, sys
look = {"find_spec": importlib.util.find_spec, "import_module": importlib.import_module}[sys.argv[1]]
names = """torch fairseq numpy scipy tqdm rouge_score sacrebleu sacremoses sentencepiece stanza subword_nmt yaml pytest
xdist hypothesis importlinter mkdocs mkdocstrings mkdocstrings_handlers.python"""
for name in names.split():
    assert look(name), f"{name} is missing"
here = os.path.dirname(importlib.util.find_spec("fairseq_localattn").origin)
assert os.path.samefile(here, sys.argv[2]), f"fairseq_localattn is found in {here}"
torch = importlib.metadata.version("torch")
assert torch == sys.argv[3], f"torch is {torch}, was {sys.argv[3]}"
EOF
}

# Two set-ups of one checkout at a time would spoil each other; flock is missing on macOS only.
if command -v flock >/dev/null; then
    exec 9<scripts/setup.sh
    flock -n 9 || { say "waiting for another set-up of this checkout"; flock 9; }
fi

if ! venv_is_whole; then
    make_venv
elif [[ -f $STAMP && $(<"$STAMP") == "$(fingerprint)" ]] && try check find_spec; then
    say "ready: $VENV is up to date"
    exit 0
else
    say "completing $VENV"
fi
rm -f "$STAMP"
drop_half_installed
grep -v '^triton==' constraints.txt >"$CONSTRAINTS" # a torch with CUDA brings the version it was built with
install_torch
step "installing what builds need (setuptools, wheel, cython, numpy)" pip_install "setuptools<82" wheel cython numpy
# Without build isolation: fairseq's set-up imports torch, and isolation would download a second one, with CUDA.
step "building and installing fairseq and its dependencies (a minute or two; with a C++ compiler and Python's headers)" \
    pip_install --no-build-isolation "$(sed -n 's/.*"\(fairseq-fixed==[^"]*\)".*/\1/p' setup.py)"
step "installing fairseq_localattn and the tools of its tests" \
    pip_install --no-build-isolation --editable ".[test,docs,plot,parse,ja,zh,rouge]"
step "checking that everything can be imported" check import_module
fingerprint >"$STAMP"
say "ready: $VENV"
