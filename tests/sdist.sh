#!/usr/bin/env bash
# Build the sdist, install it alone, and run the tests of tests/quick.txt on its files, with the
# dependencies of a Python that has the extra `tests`:
#
#     tests/sdist.sh [PYTHON]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python="$(realpath -s "$(command -v "${1:-python3}")")"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
# From a copy: building leaves files next to the sources.
git ls-files -z | xargs -0 cp --parents -t "$work"
mkdir "$work/sdist"
(cd "$work" && "$python" -m build --sdist --no-isolation --outdir sdist . >/dev/null)
tar -xzf "$work"/sdist/*.tar.gz -C "$work/sdist"
# The folder of the sdist has one more level.
unpacked="$(echo "$work"/sdist/*/)"
missing="$(git ls-files | while read -r file; do [ -e "$unpacked$file" ] || echo "$file"; done)"
[ -z "$missing" ] || { echo "The sdist lacks: $missing"; exit 1; }
"$python" -m pip install --quiet --no-deps --no-build-isolation --target "$work/site" "$work"/sdist/*.tar.gz
cd "$unpacked"
# shellcheck disable=SC2046 # A line is a file.
PYTHONPATH="$work/site" "$(dirname "$python")/pytest" -q -n 2 --dist worksteal -p no:cacheprovider $(cat tests/quick.txt)
