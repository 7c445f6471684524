# What every finding begins with: a temporary folder that goes with the script, and a virtual environment in it.

set -euo pipefail
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
cd "$temporary"
"${PYTHON:-python3}" -m venv venv
export PATH=$PWD/venv/bin:$PATH OMP_NUM_THREADS=1 PYTHONWARNINGS=ignore

# install PACKAGE==VERSION...: into the environment. A PyTorch for CUDA serves as well as one for CPUs.
install() { pip install --quiet --disable-pip-version-check --no-compile "$@"; }

# install_fairseq: fairseq's main branch, made importable on today's Python; built by the PyTorch that is installed first.
install_fairseq() {
  install torch==2.13.0 numpy==2.3.5 "setuptools<82" wheel cython
  env -u CUDA_HOME CFLAGS="-O1 -g0" pip install --quiet --disable-pip-version-check --no-compile --no-build-isolation fairseq-fixed==0.12.3.1
}

# seen TEXT: prints what stands on the standard input, and fails where it is not TEXT.
seen() {
  local expected=$1 output
  output=$(cat)
  printf '%s\n' "$output"
  [[ $output == "$expected" ]] || { printf '%s: changed; it was\n%s\n' "$0" "$expected" >&2 && exit 1; }
}
