"""Pairs of HPO, MeSH and biomappings with planted faults: all are found, and none is invented."""

import csv
import gzip
import json
import os
import random
import time
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from spacy_krissel.ontology.build import build_ontology
from spacy_krissel.pairs.files import open_pairs
from spacy_krissel.pairs.judge import judge

opened = partial(open_pairs, format="auto")

pytestmark = pytest.mark.data
N_FAULTS = 20
SYNONYMS = ("hasExactSynonym", "hasRelatedSynonym")
ENDINGS = (".csv", ".tsv", ".jsonl", ".json", ".yaml", ".md")


@pytest.fixture(scope="module")
def folder():
    return Path(os.environ["KRISSEL_DATA"]) / "ontologies"


@pytest.fixture(scope="module")
def stores(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("stores")
    files = {"hp": "hp_2023-01-27.json.gz", "mesh": "mesh_descriptor_terms.tsv.gz"}
    return [build_ontology(folder / file_, path / name) for name, file_ in files.items()]


@pytest.fixture(scope="module")
def source(folder):
    """The names of each entity and the replaced ids, read without this package."""
    with gzip.open(folder / "hp_2023-01-27.json.gz") as file_:
        nodes = json.load(file_)["graphs"][0]["nodes"]
    names, replaced = {}, {}
    for node in nodes:
        id_, meta = node["id"].rpartition("/")[2].replace("_", ":"), node.get("meta", {})
        if id_.startswith("HP:") and not meta.get("deprecated"):
            # Broad and narrow synonyms are names of other concepts.
            synonyms = [
                each["val"] for each in meta.get("synonyms", ()) if each["pred"] in SYNONYMS
            ]
            names[id_] = [node["lbl"], *synonyms]
        for each in meta.get("basicPropertyValues", ()):
            if meta.get("deprecated") and each["pred"].endswith("IAO_0100001"):
                replaced[id_] = each["val"].rpartition("/")[2].replace("_", ":")
    with gzip.open(folder / "mesh_descriptor_terms.tsv.gz", "rt", encoding="utf8") as file_:
        for row in csv.reader(file_, delimiter="\t"):
            if row[0].startswith("D") and row[0][1:].isdigit():
                names.setdefault(f"MESH:{row[0]}", [row[1]]).append(row[4])
    return names, {old: new for old, new in replaced.items() if new in names}


def pairs_with_faults(source, folder, seed):
    """500 pairs, and by the number of each faulty one its kind, status and entity."""
    (names, replaced), rng = source, random.Random(seed)
    with gzip.open(folder / "biomappings_positive.sssom.tsv.gz", "rt", encoding="utf8") as file_:
        lines = [line for line in file_ if not line.startswith("#")]
    mapped = []
    for row in csv.DictReader(lines, delimiter="\t"):
        for side in ("subject", "object"):
            id_, label = row[f"{side}_id"].upper(), row[f"{side}_label"]
            if label in names.get(id_, ()):
                mapped.append((id_, label))
    by_prefix = {
        prefix: sorted(each for each in names if each.startswith(prefix))
        for prefix in ("HP:", "MESH:")
    }
    pairs = rng.sample(sorted(set(mapped)), 150)
    for prefix, number in (("HP:", 200), ("MESH:", 150)):
        pairs += [(id_, rng.choice(names[id_])) for id_ in rng.sample(by_prefix[prefix], number)]
    rng.shuffle(pairs)
    known = {name.lower() for own in names.values() for name in own}
    planted = {}
    chosen = iter(rng.sample(range(len(pairs)), 5 * N_FAULTS))
    for kind in ("other label", "no name", "other id", "unknown id", "retired"):
        for number in [next(chosen) for _ in range(N_FAULTS)]:
            id_, label = pairs[number]
            prefix, own = f"{id_.partition(':')[0]}:", {each.lower() for each in names[id_]}
            status = "wrong_label"
            if kind == "other label":
                other = rng.choice(by_prefix[prefix])
                label = names[other][0]
            elif kind == "no name":
                # A longer text before an id may be a sentence.
                label = f"{label if len(label.split()) <= 10 else 'Syndrome'} of cake"
                assert label.lower() not in known
            elif kind == "other id":
                id_ = rng.choice(by_prefix[prefix])
            elif kind == "unknown id":
                status, id_ = "unknown_id", f"{id_[:-1]}{9 - int(id_[-1])}9"
            else:
                status, id_ = "retired", rng.choice(sorted(replaced))
                label = names[replaced[id_]][0]
            if kind in ("other label", "other id"):
                # Names that entities share are no fault.
                own = {each.lower() for each in names[id_]}
                assert label.lower() not in own
            pairs[number], planted[number] = (id_, label), status
    return pairs, planted


def write_pairs(pairs, path):
    """Write pairs in the layout of a format."""
    rows = [{"id": id_, "label": label, "n": number} for number, (id_, label) in enumerate(pairs)]
    if path.suffix in (".csv", ".tsv"):
        with path.open("w", encoding="utf8", newline="") as file_:
            delimiter = "\t" if path.suffix == ".tsv" else ","
            table = csv.DictWriter(file_, ["n", "id", "label"], delimiter=delimiter)
            table.writeheader()
            table.writerows(rows)
    elif path.suffix == ".json":
        path.write_text(json.dumps({"nodes": rows}, indent=1), encoding="utf8")
    elif path.suffix == ".md":
        path.write_text("".join(f"- {label} ({id_})\n" for id_, label in pairs), encoding="utf8")
    else:
        begin = "- " if path.suffix == ".yaml" else ""
        path.write_text("".join(f"{begin}{json.dumps(row)}\n" for row in rows), encoding="utf8")


@pytest.mark.parametrize("seed", range(3))
def test_all_planted_faults_are_found_and_none_is_invented(source, stores, folder, tmp_path, seed):
    pairs, planted = pairs_with_faults(source, folder, seed)
    assert len(pairs) == 500 and len(planted) == 100
    for ending in ENDINGS:
        write_pairs(pairs, tmp_path / f"pairs{ending}")
        judged = [*judge(opened(tmp_path / f"pairs{ending}"), stores)]
        assert [each.verdict.id for each in judged] == [id_ for id_, _ in pairs]
        found = {n: each.verdict.status for n, each in enumerate(judged) if each.verdict.is_finding}
        assert found == planted, ending
    for first, second in pairwise(judged):
        assert first.pair.id.start < second.pair.id.start


def test_ten_thousand_pairs_take_less_than_ten_seconds(source, stores, tmp_path):
    names, _ = source
    pairs = [(id_, name) for id_, own in names.items() for name in own][:10_000]
    pairs = [(id_, pairs[i - 7][1] if i % 5 else name) for i, (id_, name) in enumerate(pairs)]
    write_pairs(pairs, tmp_path / "pairs.tsv")
    start = time.perf_counter()
    judged = [*judge(opened(tmp_path / "pairs.tsv"), stores)]
    assert len(judged) == 10_000 and time.perf_counter() - start < 10
