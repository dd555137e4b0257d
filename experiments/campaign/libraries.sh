#!/usr/bin/env bash
# libraries.sh ARCHIVE [PYTHON]: pack spaCy, what it needs and this package's entry points, for a
# machine that has torch, CuPy, transformers, numba, pyarrow and pytest, but no network.
# PYTHON: the version there, by default 3.12. There: tar xJf ARCHIVE -C S; PYTHONPATH=S:checkout.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
archive=$(realpath -m "$1")
python=${2:-3.12}
packages=(
  'spacy>=3.8,<3.9' 'thinc>=8.3,<8.4' annotated-types blis catalogue cloudpathlib confection cymem
  httpcore httpx murmurhash platformdirs pooch preshed pydantic smart-open spacy-legacy
  spacy-loggers srsly typing-inspection wasabi weasel
)
# spaCy imports these, whatever the language of a pipeline is.
languages=(en xx ja ko th vi zh)
platforms=()
for version in 2_28 2_27 2_24 2_17 2014 2010 1; do
  [[ $version == *_* ]] && tag=manylinux_$version || tag=manylinux$version
  platforms+=(--platform "${tag}_x86_64")
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fetch() {
  python3 -m pip download -q --no-deps --only-binary=:all: --python-version "$python" \
    --implementation cp "${platforms[@]}" -d wheels "$@"
}
fetch "${packages[@]}"
# pydantic works with one version of its core alone.
fetch "$(unzip -p wheels/pydantic-[0-9]*.whl '*/METADATA' | sed -n 's/^Requires-Dist: \(pydantic-core==[0-9.]*\).*/\1/p')"
mkdir site
for wheel in wheels/*.whl; do unzip -qo "$wheel" -d site; done
keep=()
for language in "${languages[@]}"; do keep+=(! -name "$language"); done
find site/spacy/lang -mindepth 1 -maxdepth 1 -type d "${keep[@]}" -exec rm -rf {} +
find site -type d \( -name tests -o -name test \) -prune -exec rm -rf {} +
find site -type f \( -name '*.pyx' -o -name '*.c' -o -name '*.cpp' -o -name '*.h' \) -delete
find site -name '*.so' -exec strip --strip-unneeded {} + 2>/dev/null || true
python3 -m pip wheel -q --no-deps -w own "$root"
unzip -qo own/*.whl '*.dist-info/*' -d site
mkdir -p "$(dirname "$archive")"
tar cJf "$archive" -C site .
du -h "$archive"
