"""The publishers' own files, where they are at hand: detected, read, and as many entities as they
have."""

import warnings

import pytest
from tiers import nightly

from spacy_krissel.ontology.readers import detect_format, read_ontology

FILES = [
    ("hp_2017-04-13.obo.gz", "obo", 12226),
    ("hp_2023-01-27.json.gz", "obographs", 16874),
    ("doid_2016-09-01.obo", "obo", 6971),
    ("cl-basic_2022-12-15.obo", "obo", 2644),
    ("taxslim_2022-10-06.obo", "obo", 14907),
    ("mesh_descriptor_terms.tsv.gz", "mesh", 30764),
    ("medic_06Jul2012.txt", "medic", 11915),
    ("Cellosaurus.tsv.gz", "cellosaurus-tsv", 64234),
    ("gene_info/Homo_sapiens.gene_info.gz", "gene-info", 63353),
    ("gene_info/Saccharomyces_cerevisiae.gene_info.gz", "gene-info", 6480),
    ("gene_info/Rattus_norvegicus.derived.gene_info.gz", "gene-info", 20577),
    ("obo-db-ingest/hgnc.genegroup.obo.gz", "obo", 1981),
    ("obo-db-ingest/hgnc.genegroup.synonyms.tsv", "ssslm", 1980),
    ("obo-db-ingest/civic.gid.obo", "obo", 913),
    ("obo-db-ingest/civic.gid.synonyms.tsv", "ssslm", 915),
    ("obo-db-ingest/depmap.obo", "obo", 1814),
    ("obo-db-ingest/sgd.obo.gz", "obo", 6600),
    ("obo-db-ingest/sgd.synonyms.tsv.gz", "ssslm", 6600),
]
# The smallest of each format, and the others nightly.
FIRST = {format: (name, n) for name, format, n in sorted(FILES, key=lambda each: -each[2])}
ROWS = [
    (pytest.param if FIRST[format] == (name, n) else nightly)(name, format, n, id=name)
    for name, format, n in FILES
]


@pytest.mark.data
@pytest.mark.parametrize("name, format, n", ROWS)
def test_publishers_file_is_detected_and_read_completely(data_dir, name, format, n):
    path = data_dir / "ontologies" / name
    assert detect_format(path) == format
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ids = [entity.id for entity in read_ontology(path)]
    assert len(set(ids)) == n
