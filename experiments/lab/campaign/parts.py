"""A trained pipeline in files that are small enough to bring home, and the pipeline again from
them."""

import io
import json
import lzma
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors
from spacy.language import Language

from spacy_krissel.layers.hf.shim import TransformerShim
from spacy_krissel.pipeline.pipeline_io import (
    check_pipeline_output,
    find_linker,
    load_pipeline,
    save_whole,
)
from spacy_krissel.util.atomic import commit_folder, temporary_folder
from spacy_krissel.util.disk import coded_damage
from spacy_krissel.util.hashing import sha256_file
from spacy_krissel.util.inputs import coded_reading
from spacy_krissel.util.settings import PositiveInt

from ..errors import Errors, KrisselError
from .weights import grow, shrink

MANIFEST, PIPELINE = "parts.json", "pipeline"
# Less than 16 MB each; all parts, with 4 MiB to spare for what else comes home.
PART_BYTES, MAX_BYTES = 15_900_000, 60 * 2**20
# The encoder that links in 16 bits, one that is read only when a knowledge base is made in 8.
FIRST_BITS, OTHER_BITS = 16, 8
# Low bytes of floats do not compress: more effort gains nothing.
PRESET = 0


def write_parts(
    pipeline: Path,
    output: Path,
    *,
    part_bytes: PositiveInt = PART_BYTES,
    max_bytes: PositiveInt = MAX_BYTES,
) -> dict[str, Any]:
    """Write the weights of a pipeline in parts: float16, and 8 bits for an encoder of references.

    pipeline: trained pipeline without a knowledge base
    output: folder of the parts, which replace earlier ones; its other files stay
    part_bytes: maximum size of a part in bytes
    max_bytes: maximum size of all parts in bytes

    RETURNS: the manifest, with the parts and their SHA-256.
    Raises KrisselError K293 (too large), K610, K611 (no such pipeline or linker).
    """
    nlp = load_pipeline(pipeline)
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for number, shim in enumerate(_shims(nlp)):
            weights = {
                name: _array(tensor) for name, tensor in shim.transformer.state_dict().items()
            }
            stored = shrink(weights, bits=OTHER_BITS if number else FIRST_BITS)
            _add(archive, f"{number}.safetensors", save_tensors(stored))
            with torch.no_grad():
                # What is left compresses to nothing.
                for tensor in shim.transformer.state_dict().values():
                    tensor.zero_()
        with temporary_folder(output.with_name(f"{output.name}.{PIPELINE}")) as folder:
            nlp.to_disk(folder / PIPELINE)
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                _add(archive, path.relative_to(folder).as_posix(), path.read_bytes())
    content = lzma.compress(stream.getvalue(), preset=PRESET)
    if len(content) > max_bytes:
        raise KrisselError(Errors.K293.format(path=pipeline, size=len(content), limit=max_bytes))
    starts = range(0, len(content), part_bytes)
    with temporary_folder(output) as folder:
        parts = []
        for number, start in enumerate(starts):
            path = folder / f"weights-{number}.part"
            path.write_bytes(content[start : start + part_bytes])
            parts.append(
                {"file": path.name, "bytes": path.stat().st_size, "sha256": sha256_file(path)}
            )
        manifest = {
            "pipeline": pipeline.as_posix(),
            "bits": [FIRST_BITS, OTHER_BITS],
            "parts": parts,
        }
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf8")
        # What a run wrote beside the parts.
        for path in output.glob("*") if output.is_dir() else ():
            if path.is_file() and path.suffix != ".part" and path.name != MANIFEST:
                shutil.copy2(path, folder / path.name)
        commit_folder(folder, output)
    return manifest


def show_write_parts(manifest: dict[str, Any], output: Path) -> str:
    parts = manifest["parts"]
    return f"{len(parts)} parts, {sum(part['bytes'] for part in parts) / 1e6:.1f} MB in {output}"


def assemble_parts(parts: Path, output: Path) -> None:
    """Assemble a pipeline from its parts; its weights are as exact as their bits.

    parts: folder by `campaign-collect`
    output: folder of the pipeline to write

    Raises KrisselError K294 for parts that are damaged or of something else, K026 for missing ones,
    K005 and K026 as `check_pipeline_output`.
    """
    check_pipeline_output(output)
    with coded_damage(
        parts, lambda error: KrisselError(Errors.K294.format(path=parts, problem=error))
    ):
        manifest = json.loads((parts / MANIFEST).read_text(encoding="utf8"))
        content = b"".join(
            _verified(parts / part["file"], part["sha256"]) for part in manifest["parts"]
        )
        archive = tarfile.open(fileobj=io.BytesIO(lzma.decompress(content)))  # noqa: SIM115
    with (
        archive,
        temporary_folder(output.with_name(f"{output.name}.{PIPELINE}")) as folder,
        coded_reading(parts),
    ):
        stored = {}
        for member in archive.getmembers():
            data = archive.extractfile(member).read()  # type: ignore[union-attr]
            if member.name.startswith(f"{PIPELINE}/"):
                path = folder / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            else:
                stored[int(Path(member.name).stem)] = load_tensors(data)
        nlp = load_pipeline(folder / PIPELINE)
        for number, shim in enumerate(_shims(nlp)):
            weights = {
                name: torch.from_numpy(values) for name, values in grow(stored[number]).items()
            }
            shim.transformer.load_state_dict(weights)
        save_whole(nlp.to_disk, output)


def show_assemble_parts(_: None, output: Path) -> str:
    return f"Pipeline written to {output}"


def _shims(nlp: Language) -> Iterator[TransformerShim]:
    for node in find_linker(nlp).model.walk():
        yield from (shim for shim in node.shims if isinstance(shim, TransformerShim))


def _array(tensor: torch.Tensor) -> np.ndarray:
    # A copy: the tensor is emptied next.
    return tensor.detach().cpu().numpy().copy()


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def _verified(path: Path, sha256: str) -> bytes:
    if sha256_file(path) != sha256:
        raise ValueError(f"'{path.name}' is damaged")
    return path.read_bytes()
