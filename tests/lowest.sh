#!/usr/bin/env bash
# The tests of tests/quick.txt with the lowest version of every direct dependency that setup.cfg
# declares, in a new environment:
#
#     tests/lowest.sh [FOLDER]        PYTHON=3.10 by default, or a path; needs uv
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder="${1:-.venv-lowest}"
uv venv --quiet --clear --python "${PYTHON:-3.10}" "$folder"
uv pip install --quiet --python "$folder/bin/python" --resolution lowest-direct ".[cpu,serve,tests]"
# shellcheck disable=SC2046 # A line is a file.
"$folder/bin/pytest" -q $(cat tests/quick.txt)
