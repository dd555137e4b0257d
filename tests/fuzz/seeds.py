"""Small valid files of every format that is read, which the mutators damage. All of them are
synthetic."""

import json
from collections.abc import Sequence
from typing import Any

# File name → content. The first one is what a reader is given, unless it takes the folder.
Files = dict[str, bytes]


def files(**named: str) -> Files:
    """`files(a_txt="x")` → {"a.txt": b"x"}; the last underscore is the dot."""
    return {".".join(name.rsplit("_", 1)): text.encode("utf8") for name, text in named.items()}


def json_lines(*records: Any) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def table(*rows: Sequence[str]) -> str:
    return "".join("\t".join(row) + "\n" for row in rows)


# Ontologies

MEDIC = (
    "D006073|300323||Gout|Podagra|Gouty arthritis\n"
    "D009103||Multiple sclerosis|MS|Disseminated sclerosis\n"
    "145250||Melanosis&apos;s kind|Sjögren spots\n"
    "D005334|D000001|OMIM:1||Fever\n",
    "D1||A\nD2||B|b\n",
)
CTD = (
    "# Diseases of a test\n#\n"
    "# Fields:\n"
    "# DiseaseName\tDiseaseID\tAltDiseaseIDs\tDefinition\tParentIDs\tTreeNumbers\t"
    "ParentTreeNumbers\tSlimMappings\tSynonyms\n#\n"
    "Gout\tMESH:D006073\tDO:DOID:13189|OMIM:300323\tUrate crystals.\tMESH:D1\tC05.550|C16\tC05\tx\t"
    "Podagra|Tophi\n"
    "Fever\tMESH:D005334\t\t\tMESH:C\tC23.888\tC23\t\tPyrexia\n"
    "Diseases\tMESH:C\t\t\t\tC\t\t\t\n",
    "# ChemicalName,ChemicalID,CasRN,Definition,ParentIDs,TreeNumbers,ParentTreeNumbers,Synonyms,"
    "DrugBankIDs\n"
    'Colchicine,MESH:D003078,64-86-8,"From the ""autumn"" crocus, '
    'mostly.",MESH:D1,D03.132,D03,Colchisol|x,DB01394\n'
    "Urea,MESH:D014508,57-13-6,,MESH:D,D02.948,D02,Carbamide,DB03904\n",
)
OBO = (
    "format-version: 1.2\ndefault-namespace: test\nontology: tst\n\n"
    "[Term]\nid: TST:0000001\nname: neuron\nalt_id: TST:0000009\n"
    'def: "A cell that \\"fires\\"." [TST:x]\nsynonym: "nerve cell" EXACT [TST:x]\n'
    'synonym: "big one" BROAD []\n'
    "xref: FMA:54527 ! neuron\nis_a: TST:0000002 ! cell\n\n"
    "[Typedef]\nid: part_of\nname: part of\n\n"
    "[Term]\nid: TST:0000002\nname: cell\nnamespace: other\n\n"
    "[Term]\nid: TST:0000003\nname: gone\nis_obsolete: true\n",
    "[Term]\nid: CVCL_0030\nname: HeLa\nxref: NCBI_TaxID:9606 ! Homo sapiens\n",
)
OBO_SPECIES = (
    "format-version: 1.2\n\n[Term]\nid: CVCL_0030\nname: HeLa\n"
    "xref: NCBI_TaxID:9606 ! Homo sapiens (Human)\n"
    'xref: NCBI_TaxID:10090 ! Mus musculus\nsynonym: "He La" RELATED []\n\n'
    "[Term]\nid: CVCL_0031\nname: L929\nxref: NCBI_TaxID:10090\n",
)
OBOGRAPHS = tuple(
    json.dumps(graph, indent=indent) + "\n"
    for indent, graph in (
        (
            1,
            {
                "graphs": [
                    {
                        "id": "http://example.org/tst.json",
                        "nodes": [
                            {
                                "id": "http://example.org/TST_0000001",
                                "lbl": "neuron",
                                "type": "CLASS",
                                "meta": {
                                    "definition": {"val": "A cell that fires."},
                                    "synonyms": [
                                        {"pred": "hasExactSynonym", "val": "nerve cell"},
                                        {"pred": "hasBroadSynonym", "val": "cell"},
                                    ],
                                    "xrefs": [
                                        {"val": "FMA:54527"},
                                        {"val": "NCBI_TaxID:9606 ! Homo sapiens"},
                                    ],
                                    "basicPropertyValues": [
                                        {
                                            "pred": "http://x.org/oboInOwl#hasOBONamespace",
                                            "val": "test",
                                        },
                                        {
                                            "pred": "http://x.org/oboInOwl#hasAlternativeId",
                                            "val": "TST:9",
                                        },
                                    ],
                                },
                            },
                            {"id": "http://example.org/TST_0000002", "lbl": "cell"},
                            {"id": "http://example.org/TST_0000003"},
                            {"id": "http://example.org/p", "lbl": "part of", "type": "PROPERTY"},
                            {
                                "id": "http://example.org/TST_4",
                                "lbl": "old",
                                "meta": {"deprecated": True},
                            },
                        ],
                        "edges": [{"sub": "a", "pred": "is_a", "obj": "b"}],
                    }
                ]
            },
        ),
        (None, {"graphs": [{"nodes": [{"id": "TST:1", "lbl": "é"}]}]}),
    )
)
OWL = (
    '<?xml version="1.0"?>\n'
    '<rdf:RDF xmlns="http://example.org/tst.owl#" xml:base="http://example.org/tst.owl"\n'
    '     xmlns:obo="http://purl.obolibrary.org/obo/" xmlns:owl="http://www.w3.org/2002/07/owl#"\n'
    '     xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
    'xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#"\n'
    '     xmlns:oboInOwl="http://www.geneontology.org/formats/oboInOwl#">\n'
    '  <owl:Ontology rdf:about="http://example.org/tst.owl"/>\n'
    '  <owl:Class rdf:about="http://example.org/TST_0000001">\n'
    '    <rdfs:subClassOf rdf:resource="http://example.org/TST_0000002"/>\n'
    "    <obo:IAO_0000115>A cell that fires.</obo:IAO_0000115>\n"
    "    <oboInOwl:hasDbXref>FMA:54527</oboInOwl:hasDbXref>\n"
    '    <oboInOwl:hasExactSynonym xml:lang="en">nerve cell</oboInOwl:hasExactSynonym>\n'
    "    <rdfs:label>neuron é</rdfs:label>\n  </owl:Class>\n"
    "  <owl:Class "
    'rdf:about="http://example.org/TST_0000002"><rdfs:label>cell</rdfs:label></owl:Class>\n'
    '  <owl:Class rdf:about="http://example.org/TST_0000003"><rdfs:label>old</rdfs:label>\n'
    "    <obo:IAO_0100001 "
    'rdf:resource="http://example.org/TST_0000002"/><owl:deprecated>true</owl:deprecated>\n'
    "  </owl:Class>\n</rdf:RDF>\n",
    "@prefix owl: <http://www.w3.org/2002/07/owl#> .\n"
    "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
    "@prefix ex: <http://example.org/> .\n\n<http://example.org/tst.owl> a owl:Ontology .\n"
    'ex:TST_1 a owl:Class ; rdfs:label "neuron é"@en ; rdfs:subClassOf ex:TST_2 .\n'
    'ex:TST_2 a owl:Class ; rdfs:label "cell" .\n',
)
SKOS = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"\n'
    '     xmlns:skos="http://www.w3.org/2004/02/skos/core#">\n'
    '  <skos:Concept rdf:about="http://example.org/t/1"><skos:prefLabel xml:lang="en">Gout '
    "é</skos:prefLabel>\n"
    '    <skos:altLabel xml:lang="en">Podagra</skos:altLabel><skos:broader '
    'rdf:resource="http://example.org/t/2"/>\n'
    '  </skos:Concept>\n  <rdf:Description rdf:about="http://example.org/t/2">\n'
    "    <rdf:type "
    'rdf:resource="http://www.w3.org/2004/02/skos/core#Concept"/><skos:prefLabel>Arthritis\n'
    "    </skos:prefLabel></rdf:Description>\n</rdf:RDF>\n",
    "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n"
    "@prefix ex: <http://example.org/t/> .\n\n"
    "ex:scheme a skos:ConceptScheme ; skos:hasTopConcept ex:2 .\n"
    'ex:1 a skos:Concept ; skos:prefLabel "Gout é"@en , "Gicht"@de ;\n'
    '    skos:altLabel "Podagra"@en ;\n'
    '    skos:notation "M10" ; skos:broader ex:2 ; skos:inScheme ex:scheme ; skos:exactMatch '
    "<http://x.org/y/1> .\n"
    'ex:2 a skos:Concept ; skos:prefLabel """Arthritis""" ; skos:narrower ex:1 .\n',
)
FHIR = (
    json.dumps(
        {
            "resourceType": "CodeSystem",
            "url": "http://example.org/codes",
            "version": "1",
            "name": "Codes",
            "language": "en",
            "concept": [
                {
                    "code": "A",
                    "display": "Arthritis é",
                    "definition": "Of a joint.",
                    "designation": [
                        {"language": "en", "value": "Joint pain"},
                        {"language": "de", "value": "Gicht"},
                    ],
                    "property": [
                        {"code": "parent", "valueCode": "C"},
                        {"code": "inactive", "valueBoolean": False},
                    ],
                    "concept": [
                        {
                            "code": "B",
                            "display": "Gout",
                            "concept": [{"code": "D", "display": "Acute gout"}],
                        }
                    ],
                },
                {"code": "C", "display": "Disease"},
                {
                    "code": "E",
                    "display": "Old",
                    "property": [{"code": "status", "valueCode": "retired"}],
                },
            ],
        },
        indent=1,
    )
    + "\n",
)
ICD10CM = (
    '<?xml version="1.0" encoding="utf-8"?>\n<ICD10CM.tabular>\n<version>2026</version>\n'
    "<chapter>\n<name>1</name>\n"
    "<desc>Infectious diseases (A00-B99)</desc>\n<includes><note>many</note></includes>\n"
    '<section id="A00-A09">\n<desc>Intestinal diseases (A00-A09)</desc>\n'
    "<diag><name>A00</name><desc>Cholera é</desc><includes><note>rice water</note></includes>\n"
    "<diag><name>A00.0</name><desc>Cholera due to Vibrio cholerae 01</desc>\n"
    "<inclusionTerm><note>Classical cholera</note></inclusionTerm></diag>\n</diag>\n"
    "<diag><name>A01</name><desc>Typhoid fever</desc></diag>\n</section>\n</chapter>\n"
    "</ICD10CM.tabular>\n",
)
JSONL = (
    json_lines(
        {
            "concept_id": "C0018099",
            "canonical_name": "Gout",
            "aliases": ["Podagra", "Gouty arthritis"],
            "types": ["T047"],
            "definition": "Urate crystals in joints.",
            "tree_numbers": ["C05.550"],
            "xrefs": ["MESH:D006073"],
            "alt_ids": ["C0000001"],
        },
        {
            "concept_id": "C0015967",
            "canonical_name": "Fever",
            "aliases": ["pyrexia — fièvre"],
            "types": ["T184"],
        },
        {"concept_id": "C1", "canonical_name": "A", "species": "9606", "source": "X", "unknown": 1},
    ),
    json_lines({"concept_id": "1", "canonical_name": "b"}),
)
MESH = (
    table(
        ("DescriptorUI", "TermName", "RecordPreferredTermYN", "more"),
        ("D006073", "Podagra", "N", ""),
        ("D006073", "Gout", "Y", "x"),
        ("D005334", "Fever", "Y", ""),
        ("D005334", "Fièvre", "N", ""),
    ),
)
MESH_TREE = (
    table(
        ("DescriptorUI", "DescriptorName", "tree_location"),
        ("D006073", "Gout", "C05.550.354.500"),
        ("D006073", "Gout", "C16.320.565"),
        ("D005334", "Fever", "C23.888.119.344"),
        ("D000001", "Odd", "Q1"),
    ),
)
_HEAD = (
    '<?xml version="1.0"?>\n<!DOCTYPE {root} SYSTEM "https://example.org/x.dtd">\n'
    '<{root} LanguageCode="eng">\n'
)
MESH_XML = (
    _HEAD.replace("{root}", "DescriptorRecordSet")
    + (
        '<DescriptorRecord DescriptorClass="1">\n <DescriptorUI>D006073</DescriptorUI>\n'
        " <DescriptorName><String>Gout</String></DescriptorName>\n"
        " <TreeNumberList><TreeNumber>C05.550</TreeNumber><TreeNumber>C16</TreeNumber>"
        "</TreeNumberList>\n"
        ' <ConceptList><Concept PreferredConceptYN="Y"><ScopeNote>Crystals &amp; '
        "pain.</ScopeNote>\n"
        "  <TermList><Term><String>Gout</String></Term><Term><String>Podagra é</String></Term>"
        "</TermList></Concept></ConceptList>\n</DescriptorRecord>\n"
        "<DescriptorRecord><DescriptorUI>D1</DescriptorUI><DescriptorName><String>A</String>"
        "</DescriptorName></DescriptorRecord>\n</DescriptorRecordSet>\n"
    ),
    _HEAD.replace("{root}", "SupplementalRecordSet")
    + (
        '<SupplementalRecord SCRClass="3">\n <SupplementalRecordUI>C536280</SupplementalRecordUI>\n'
        " <SupplementalRecordName><String>Gout, rare</String></SupplementalRecordName>\n"
        " <Note>A note.</Note>\n"
        " <ConceptList><Concept><TermList><Term><String>Rare "
        "gout</String></Term></TermList></Concept></ConceptList>\n</SupplementalRecord>\n"
        "</SupplementalRecordSet>\n"
    ),
)
_DESCRIPTIONS = (
    "id effectiveTime active moduleId conceptId languageCode typeId term caseSignificanceId".split()
)
UMLS: tuple[dict[str, str], ...] = (
    {
        "MRCONSO.RRF": "C0000001|ENG|S|L2|PF|S2|Y|A2||||MSH|ET|D01|Knee ache|0|N||\n"
        "C0000001|ENG|P|L1|PF|S3|Y|A3||||SNOMEDCT_US|PT|99|Knee pain|9|N|256|\n"
        "C0000001|SPA|P|L4|PF|S5|Y|A6||||MSHSPA|MH|D01|Dolor de rodilla|3|N||\n"
        "C0000003|ENG|P|L5|PF|S6|Y|A7||||NCI|PT|C1|Gout|0|N||\n"
        "C0000009|ENG|S|L8|PF|S9|Y|AA||||HPO|PT|HP:1|Fièvre|0|N||\n",
        "MRSTY.RRF": "C0000001|T184|A2.2.2|Sign or Symptom|AT1|256|\n"
        "C0000003|T047|B2.2.1.2.1|Disease or Syndrome|AT4||\n"
        "C0000009|T033|A2.2|Finding|AT5||\n",
        "MRDEF.RRF": "C0000001|A2|AT6||HPO|An ache.|N||\nC0000003|A7|ATA||XYZ|Crystals.|N||\n",
        "MRCUI.RRF": "C0000002|2016AA|SY|||C0000001|Y|\nC0000004|2016AA|RB|||C0000001|Y|\n",
        "MRREL.RRF": "C0000001|A2|AUI|RL|C0000003|A7|AUI||R1||MSH|MSH|||N||\n",
        "MRSAB.RRF": (
            "C1|C2|MSH2026|MSH|MeSH|MSH|2026||||||a;b|0|3|4|FULL|PT|x|ENG|UTF-8|Y|Y|MeSH|x|\n"
        ),
        "release.dat": "umls.release.name=2026AA\numls.release.description=x\n",
    },
    {"MRCONSO.RRF": "C0000003|ENG|P|L5|PF|S6|Y|A7||||NCI|PT|C1|Gout|0|N||\n"},
)
SNOMED: tuple[dict[str, str], ...] = (
    {
        "Terminology/sct2_Concept_Snapshot_INT_20260101.txt": table(
            ("id", "effectiveTime", "active", "moduleId", "definitionStatusId"),
            *(
                (id_, "20020131", active, "9", "9")
                for id_, active in (("1001", "1"), ("1002", "1"), ("1003", "0"))
            ),
        ),
        "Terminology/sct2_Description_Snapshot-en_INT_20260101.txt": table(
            _DESCRIPTIONS,
            (
                "11",
                "20020131",
                "1",
                "9",
                "1001",
                "en",
                "900000000000003001",
                "Gout (disorder)",
                "9",
            ),
            ("12", "20020131", "1", "9", "1001", "en", "900000000000013009", "Gout", "9"),
            ("13", "20020131", "1", "9", "1001", "en", "900000000000013009", 'Podagra "é"', "9"),
            (
                "14",
                "20020131",
                "1",
                "9",
                "1002",
                "en",
                "900000000000003001",
                "Disease (disorder)",
                "9",
            ),
            ("15", "20020131", "0", "9", "1002", "en", "900000000000013009", "Illness", "9"),
        ),
        "Terminology/sct2_Relationship_Snapshot_INT_20260101.txt": table(
            ("id", "active", "sourceId", "destinationId", "typeId"),
            ("21", "1", "1001", "1002", "116680003"),
            ("22", "1", "1002", "1001", "363698007"),
        ),
        "Terminology/sct2_TextDefinition_Snapshot-en_INT_20260101.txt": table(
            _DESCRIPTIONS,
            ("16", "20020131", "1", "9", "1001", "en", "900000000000550004", "Crystals.", "9"),
        ),
        "Refset/Language/der2_cRefset_LanguageSnapshot-en_INT_20260101.txt": table(
            ("id", "active", "refsetId", "referencedComponentId", "acceptabilityId"),
            ("a-1", "1", "900000000000509007", "12", "900000000000548007"),
            ("a-2", "1", "900000000000509007", "13", "900000000000549004"),
        ),
    },
)
RXNORM: tuple[dict[str, str], ...] = (
    {
        "RXNCONSO.RRF": "2683|ENG||||||10||2683||RXNORM|IN|2683|colchicine||N|4096|\n"
        "2683|ENG||||||11|7|M1|D003078|MSH|MH|D003078|Colchicine||N||\n"
        "2683|ENG||||||12||2683||RXNORM|SY|2683|kolchizin é||N||\n"
        "197541|ENG||||||13||197541||RXNORM|PSN|197541|colchicine 0.6 MG Oral Tablet||N||\n"
        "197541|ENG||||||14||197541||RXNORM|SCD|197541|colchicine 0.6 MG Oral Tablet||O||\n",
        "RXNSAB.RRF": (
            "C1|C2|RXNORM2026|RXNORM|RxNorm|RXNORM|2026||||||a;b|0|3|4|FULL|PT|ENG|UTF-8|Y|Y|"
            "RxNorm|x|y|\n"
        ),
    },
)
OMOP: tuple[dict[str, str], ...] = (
    {
        "CONCEPT.csv": table(
            "concept_id concept_name domain_id vocabulary_id concept_class_id standard_concept "
            "concept_code valid_start_date valid_end_date invalid_reason".split(),
            (
                "31",
                "Gout",
                "Condition",
                "SNOMED",
                "Disorder",
                "S",
                "1001",
                "20020131",
                "20991231",
                "",
            ),
            (
                "32",
                'The "Gouty" disease',
                "Condition",
                "MeSH",
                "Main",
                "",
                "D006073",
                "19700101",
                "20991231",
                "",
            ),
            ("33", "Old", "Drug", "RxNorm", "Ingredient", "", "7", "19700101", "20200101", "U"),
        ),
        "CONCEPT_SYNONYM.csv": table(
            ("concept_id", "concept_synonym_name", "language_concept_id"),
            ("31", "Podagra é", "4180186"),
            ("31", "Gota", "4182511"),
            ("32", "Gouty arthritis", "4180186"),
        ),
        "CONCEPT_RELATIONSHIP.csv": table(
            ("concept_id_1", "concept_id_2", "relationship_id", "invalid_reason"),
            ("31", "32", "Is a", ""),
            ("32", "31", "Subsumes", ""),
        ),
        "VOCABULARY.csv": table(
            ("vocabulary_id", "vocabulary_version"),
            ("SNOMED", "2026"),
            ("None", "v5.0 01-JAN-26"),
            ("Domain", ""),
        ),
    },
)
_GENE_COLUMNS = (
    "#tax_id GeneID Symbol LocusTag Synonyms dbXrefs chromosome map_location description "
    "type_of_gene Symbol_from_nomenclature_authority Full_name_from_nomenclature_authority "
    "Nomenclature_status Other_designations Modification_date Feature_type"
).split()
GENE_INFO = (
    table(
        _GENE_COLUMNS,
        (
            "9606 1 A1BG - A1B|ABG HGNC:5|MIM:138670 19 19q13 one protein-coding A1BG glyco O "
            "alpha|beta 2026 -"
        ).split(),
        (
            "10090 11287 Pzp - A1m|A2m MGI:87854 6 6F1 zone-protein protein-coding Pzp PZP O é "
            "2026 -"
        ).split(),
        "9606 2 NEWENTRY - - - - - Record - - - - - 2026 -".split(),
    ),
)
TAXONOMY: tuple[dict[str, str], ...] = (
    {
        "names.dmp": "".join(
            "\t|\t".join(row) + "\t|\n"
            for row in (
                ("9606", "Homo sapiens", "", "scientific name"),
                ("9606", "human", "", "genbank common name"),
                ("9606", "Homo sapiens Linné, 1758", "", "authority"),
                ("10090", "Mus musculus", "", "scientific name"),
                ("10090", "mouse", "mouse <Mus>", "common name"),
            )
        ),
        "merged.dmp": "12\t|\t9606\t|\n30\t|\t10090\t|\n",
    },
)
CELLOSAURUS = (
    "----\n A test's cell lines\n----\n\n"
    "ID   HeLa\nAC   CVCL_0030\nAS   CVCL_9999\nSY   HELA; Hela; He La\nDR   ATCC; CCL-2\n"
    "DR   BTO; BTO:0000567\n"
    "RX   PubMed=1;\nOX   NCBI_TaxID=9606; ! Homo sapiens (Human)\nSX   Female\n//\n"
    "ID   Hybrid é\nAC   CVCL_A1B2\nOX   NCBI_TaxID=9606; ! Homo sapiens (Human)\n"
    "OX   NCBI_TaxID=10090; ! Mus musculus (Mouse)\n//\n",
)
CELLOSAURUS_TSV = (
    table(
        ("HeLa", "CVCL_0030", "Homo sapiens"),
        ("HELA", "CVCL_0030", "Homo sapiens"),
        ("L929", "CVCL_0462", "Mus musculus"),
        ("Zwölf", "CVCL_ZZZZ", ""),
    ),
)
ZESHEL_WORLD = (
    json_lines(
        {
            "document_id": "0A",
            "title": "Batmobile",
            "text": "The  Batmobile ( 7784 ) is n't Batman 's car .",
        },
        {"document_id": "0B", "title": "Batman", "text": "Batman is é ."},
    ),
)
TABLE = (
    (
        'id,name,synonyms,definition,parents\nX:1,Gout,Podagra|"Arthritis, gouty",,\n'
        'X:2,Fièvre,,"A ""high"" one.",X:1\n'
    ),
    table(
        ("Class ID", "Preferred Label", "Obsolete"),
        ("http://a.org/b#C_1", "Pain", "false"),
        ("D2", "Ague", "true"),
    ),
)
MEDCAT = (
    (
        "cui,name,ontologies,name_status,type_ids,description\nC1,fits,HPO,A,T1|T2,\n"
        "C1,seizure,HPO,P,T1,An event\n"
    ),
)
BABELON = (
    table(
        ("subject_id", "predicate_id", "source_value", "translation_value", "translation_status"),
        ("HP:0002648", "rdfs:label", "Odd skull", "Crâne anormal", "OFFICIAL"),
        ("HP:0002648", "IAO:0000115", "A rare form.", "Une forme rare.", "CANDIDATE"),
        ("HP:0000001", "oboInOwl:hasExactSynonym", "All", "Tous", "OFFICIAL"),
        ("HP:0000002", "rdfs:label", "Stature", "", "NOT_TRANSLATED"),
    ),
    table(
        ("subject_id", "translation_value", "comment"),
        ("ID", "AL oboInOwl:hasExactSynonym@fr", ""),
        ("HP:0000001", "Tous", "CANDIDATE"),
    ),
)
SSSLM = (
    table(
        ("text", "curie", "name", "predicate", "source"),
        ("ALK1", "g:1", "ALK", "oboInOwl:hasExactSynonym", "g"),
        ("kinase", "g:1", "ALK", "oboInOwl:hasBroadSynonym", "g"),
    ),
)
PHRASES = (
    table(
        ("22253000", "Pain", "it hurts"),
        ("22253000", "Pain", "so sore"),
        ("386661006", "Fever", "hot & cold"),
        ("84229001", "Fatigue", "très tired"),
    ),
)
LAY_NAMES = (
    table(
        ("term", "label", "lay"),
        (
            "<http://example.org/obo/HP_0002648>",
            "Abnormality of calvarial morphology",
            "Odd skull shape",
        ),
        ("HP:0001945", '"Fever"', "running hot"),
        ("HP:0001945", "Fever", "fièvre"),
    ),
)

# Corpora

PUBTATOR = (
    "1|t|Gout in the knee.\n1|a|Podagra is painful – very.\n1\t0\t4\tGout\tDisease\tD006073\n"
    "1\t18\t25\tPodagra\tDisease\tMESH:D006073|D1\n1\tCID\tD003078\tD006073\n\n"
    "2|t|Fever\n2|a|\n2\t0\t5\tFever\tDisease\t-1\n\n",
    "7|t|No mention (at all)\n7|a|Nothing.\n",
)
BIOC = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE collection SYSTEM "BioC.dtd">\n'
    "<collection><source>x</source><date>1</date><key>k</key>\n<document><id>1</id>\n"
    '<passage><infon key="type">title</infon><offset>0</offset><text>Gout in the knee.</text>\n'
    '<annotation id="T1"><infon key="type">Disease</infon><infon key="MESH">D006073</infon>'
    '<location offset="0" length="4"/><text>Gout</text></annotation></passage>\n'
    "<passage><offset>18</offset><sentence><offset>18</offset><text>Podagra é.</text>"
    '<annotation id="T2"><infon key="identifier">D1</infon><location offset="18" length="4"/>'
    '<location offset="26" length="1"/><text>Poda é</text></annotation></sentence></passage>\n'
    '<relation id="R1"/></document>\n'
    "<document><id>2</id><passage><offset>0</offset><text>Fever</text></passage></document>\n"
    "</collection>\n",
)


def _knowtator(text: str) -> str:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<annotations textSource="{text}">\n'
        '<annotation><mention id="m1" /><annotator id="a">A</annotator><span start="0" end="4" />'
        '<span start="12" end="16" /><spannedText>Gout ... knee</spannedText></annotation>\n'
        '<annotation><mention id="m2" /><span start="12" end="16" /></annotation>\n'
        '<classMention id="m1"><mentionClass id="CL:0000540">neuron</mentionClass></classMention>\n'
        '<classMention id="m2"><mentionClass id="UBERON:1">knee</mentionClass></classMention>\n'
        "</annotations>\n"
    )


TEXT = "Gout in the knee (left).\nFièvre, too.\n"
KNOWTATOR: tuple[dict[str, str], ...] = (
    {"7.txt.knowtator.xml": _knowtator("7.txt"), "7.txt": TEXT},
    {"a/8.txt.knowtator.xml": _knowtator("8.txt"), "corpus/8.txt": TEXT},
)
BRAT: tuple[dict[str, str], ...] = (
    {
        "7.ann": (
            "T1\tFinding 0 4;12 16\tGout knee\nN1\tReference T1 MESH:D10\tGout\n"
            "T2\tCL:0000540 12 16\tknee\nR1\tPart-of Arg1:T1 Arg2:T2\nA1\tSevere T1\n"
            "#1\tAnnotatorNotes T1\tSo\nT3\tPlace 18 22\tleft\n"
        ),
        "7.txt": TEXT,
    },
)
SEMEVAL: tuple[dict[str, str], ...] = (
    {
        "7.pipe": (
            "7.text|0-4,12-16|C0231749|no|*NULL*|patient\n7.text|12-16|CUI-less\n"
            "7.text|18-22|C1|no\n"
        ),
        "7.text": TEXT,
    },
)
SHARE: tuple[dict[str, str], ...] = (
    {
        "7.pipe.txt": (
            "7.txt||Disease_Disorder||C0231749||0||4||12||16\n"
            "7.txt||Disease_Disorder||CUI-less||12||16\n7.txt||Disease_Disorder||C1||18||22\n"
        ),
        "7.txt": TEXT,
    },
)
N2C2: tuple[dict[str, str], ...] = (
    {
        "7.norm": "N000||C0231749||0||4||12||16\nN001||CUI-less||12||16\nN002||C1||18||22\n",
        "7.txt": TEXT,
    },
)
COMETA = (
    "ID\tTerm\tGeneral SNOMED Label\tGeneral SNOMED ID\tSpecific SNOMED Label\tSpecific SNOMED ID\t"
    "Example\n"
    "1\tgout\tGout\t90560007\tAcute gout\t190828008\tMy Gout is bad\n"
    '2\tknee  ache\tPain\t1\tPain\t2\t"The ""knee ache"" again"\n'
    "3\tache\tPain\t3\tPain\t4\tNothing\n",
    'Term,General SNOMED ID,Specific SNOMED ID,Example\ngout,1,2,"Gout, again"\n',
)
LINNAEUS: tuple[dict[str, str], ...] = (
    {
        "tags.tsv": table(
            ("#species id", "document", "start", "end", "text", "code"),
            ("species:ncbi:9606", "pmcA1", "0", "5", "Human", ""),
            ("species:ncbi:9606|species:ncbi:10090", "pmcA1", "10", "14", "mice", "4"),
            ("species:ncbi:0", "pmcA2", "0", "5", "Mules", "0"),
        ),
        "txt/pmcA1.txt": "Human and mice é.\n",
        "txt/pmcA2.txt": "Mules\n",
    },
)
S800: tuple[dict[str, str], ...] = (
    {
        "S800.tsv": table(
            ("9606", "med1:7", "0", "4", "Human"), ("9606|10090", "med1:7", "10", "13", "mice")
        ),
        "abstracts/med1.txt": "Human and mice é.\n",
    },
)
BIOID: tuple[dict[str, str], ...] = (
    {
        "annotations.csv": (
            "thomas_article,don_article,figure,first left,last right,text,obj,overlap\n"
            "sd1,7,Figure_1-A,0,4,HeLa,CVCL_0030,\n"
            "sd1,7,Figure_1-A,6,9,p53,NCBI gene:7157|NCBI gene:22059,yes\n"
            'sd1,7,Figure_1-B,0,7,"GFP, é.",protein:GFP,\n'
        ),
        "caption_bioc/7.xml": (
            "<collection><document><id>7 Figure_1-A</id><infon "
            "key='pmc_id'>7</infon><passage><offset>0</offset><text>HeLa, p53.</text><annotation "
            "id='1'><infon key='type'>CVCL_0030</infon><location offset='0' "
            "length='4'/><text>HeLa</text></annotation></passage></document><document><id>7 "
            "Figure_1-B</id><passage><offset>0</offset><text>GFP, "
            "é.</text></passage></document></collection>\n"
        ),
    },
)
BIOC_JSON = tuple(
    json.dumps(
        {
            "source": "",
            "infons": {},
            "documents": [
                {
                    "id": "1",
                    "infons": {},
                    "passages": [
                        {
                            "offset": 0,
                            "infons": {"id": 0, "type": "title"},
                            "text": "Gout in the knee é.",
                            "sentences": [],
                            "annotations": [
                                {
                                    "id": "0",
                                    "infons": {
                                        "type": "disease",
                                        "identifier": "D006073;D1",
                                        "foreign": False,
                                    },
                                    "text": "Gout",
                                    "locations": [{"offset": 0, "length": 4}],
                                },
                                {
                                    "infons": {"type": "species", "foreign": True},
                                    "locations": [],
                                    "text": "x",
                                },
                            ],
                            "relations": [{}],
                        },
                        {"offset": 20, "sentences": [{"offset": 20, "text": "Fever."}]},
                    ],
                }
            ],
        },
        indent=indent,
    )
    for indent in (1, None)
)
_ROW = {"type": "DISEASE", "text": "Gout", "start": 0, "end": 4}
BELB = (
    json_lines(
        {
            "id": "1",
            "annotations": [{**_ROW, "ids": ["D006073", "D1"]}],
            "text": "Gout é.",
            "metadata": {},
        },
        {
            "id": "2",
            "text": "Gout",
            "annotations": [{**_ROW, "ids": ["NIL"]}, {**_ROW, "start": -1, "end": -1, "ids": []}],
        },
    ),
)
_REGION = {
    "id": "m0",
    "to_name": "text",
    "value": {"start": 0, "end": 4, "text": "Gout", "labels": ["Disease"]},
}
_REGION_ID = {**_REGION, "value": {"start": 0, "end": 4, "text": ["MESH:D006073"]}}
LABEL_STUDIO = (
    json.dumps(
        [
            {
                "id": 1,
                "data": {"text": "Gout é.", "doc": "a"},
                "annotations": [
                    {"result": [], "was_cancelled": True},
                    {
                        "result": [
                            {**_REGION, "from_name": "label", "type": "labels"},
                            {**_REGION_ID, "from_name": "entity", "type": "textarea"},
                        ]
                    },
                ],
            },
            {"id": 2, "data": {"text": "none"}, "predictions": [], "annotations": []},
        ],
        ensure_ascii=False,
    ),
)
PRODIGY = (
    json_lines(
        {
            "_input_hash": 1,
            "text": "Gout é.",
            "spans": [{"start": 0, "end": 4, "label": "Disease"}],
            "options": [{"id": "D1", "text": "Gout (D1)"}, {"id": "NIL", "text": "none of these"}],
            "accept": ["D1"],
            "answer": "accept",
            "meta": {"doc": "a", "score": 0.5},
        },
        {"_input_hash": 2, "text": "Gout", "spans": [], "answer": "reject"},
        {
            "_input_hash": 3,
            "text": "Fever",
            "spans": [{"start": 0, "end": 5, "label": "X"}],
            "answer": "accept",
        },
    ),
)
_NORMALIZED = [{"db_name": "MESH", "db_id": "D006073"}, {"db_name": "", "db_id": "D1"}]
BIGBIO = (
    json_lines(
        {
            "id": "0",
            "document_id": "a",
            "passages": [
                {"id": "0_t", "type": "title", "text": ["Gout é."], "offsets": [[0, 7]]},
                {"id": "0_a", "type": "abstract", "text": ["Fever."], "offsets": [[8, 14]]},
            ],
            "entities": [
                {
                    "id": "T",
                    "type": "Disease",
                    "text": ["Gout"],
                    "offsets": [[0, 4]],
                    "normalized": _NORMALIZED,
                },
                {
                    "id": "U",
                    "type": "Disease",
                    "text": ["Fever"],
                    "offsets": [[8, 13]],
                    "normalized": [],
                },
            ],
            "events": [],
        },
    ),
)
_FEATURES = "".join(
    f"<featureDescription><name>{name}</name><description/>"
    f"<rangeTypeName>uima.cas.{kind}</rangeTypeName></featureDescription>"
    for name, kind in (
        ("value", "String"),
        ("identifier", "String"),
        ("inception_internal_predicted", "Boolean"),
    )
)
CAS: tuple[dict[str, str], ...] = (
    {
        "1.xmi": (
            '<xmi:XMI xmlns:xmi="http://www.omg.org/XMI" xmlns:cas="http:///uima/cas.ecore" '
            'xmlns:custom="http:///custom.ecore" xmi:version="2.0"><cas:NULL xmi:id="0"/>\n'
            '<custom:Entity xmi:id="2" sofa="1" begin="0" end="4" value="Disease" '
            'identifier="MESH:D006073"/>\n'
            '<custom:Entity xmi:id="3" sofa="1" begin="5" end="6" identifier="D1" '
            'inception_internal_predicted="true"/>\n'
            '<cas:Sofa xmi:id="1" sofaNum="1" sofaID="_InitialView" mimeType="text/plain" '
            'sofaString="Gout é."/>\n<cas:View sofa="1" members="2 3"/></xmi:XMI>\n'
        ),
        "TypeSystem.xml": (
            '<typeSystemDescription xmlns="http://uima.apache.org/resourceSpecifier">'
            "<types><typeDescription><name>custom.Entity</name><description/>"
            f"<supertypeName>uima.tcas.Annotation</supertypeName><features>{_FEATURES}</features>"
            "</typeDescription></types></typeSystemDescription>\n"
        ),
    },
)
_MENTION = {
    "mention_id": "M",
    "category": "LOW_OVERLAP",
    "corpus": "lego",
    "label_document_id": "0B",
}
ZESHEL: tuple[dict[str, str], ...] = (
    {
        "mentions.json": json_lines(
            {
                **_MENTION,
                "context_document_id": "0A",
                "start_index": 1,
                "end_index": 1,
                "text": "Batmobile",
            },
            {
                **_MENTION,
                "context_document_id": "0A",
                "start_index": 7,
                "end_index": 8,
                "text": "Batman 's",
            },
            {
                **_MENTION,
                "context_document_id": "0B",
                "start_index": 0,
                "end_index": 0,
                "text": "Batman",
            },
        ),
        "documents/lego.json": ZESHEL_WORLD[0],
    },
)
TEXT_LABELS = (
    json_lines(
        {
            "id": "t1",
            "text": "Gout in the knee.",
            "entities": [
                {"id": "C1", "label": "ADR", "spans": [[0, 4], [12, 16]]},
                {"id": "C2", "spans": [[12, 16]]},
            ],
        },
        {"text": "Fièvre (bad)", "entities": [{"id": "C3"}]},
        {"id": 3, "text": "Nothing."},
    ),
)

# Texts

TEXTS_JSONL = (
    json_lines(
        {"id": "1", "title": "Gout", "text": "Crystals in a joint."},
        {"text": "Fièvre (bad)."},
        {"id": 3, "title": "Only a title"},
    ),
)
PLAIN = ("Gout in the knee.\n\n  Fièvre (bad).  \nThe last line.\n",)
PUBMED = (
    '<?xml version="1.0" encoding="utf-8"?>\n'
    '<!DOCTYPE PubmedArticleSet SYSTEM "https://example.org/pubmed.dtd">\n'
    "<PubmedArticleSet>\n"
    '<PubmedArticle><MedlineCitation><PMID Version="1">11</PMID><Article><ArticleTitle>Gout &amp; '
    '<i>knees</i>.</ArticleTitle><Abstract><AbstractText Label="METHODS">We looked.</AbstractText>'
    "<AbstractText>Fièvre.</AbstractText></Abstract><OtherAbstract>"
    "<AbstractText>Rien.</AbstractText></OtherAbstract></Article><CommentsCorrections>"
    "<PMID>12</PMID></CommentsCorrections></MedlineCitation></PubmedArticle>\n"
    "<PubmedArticle><MedlineCitation><PMID>13</PMID><Article><ArticleTitle>Fever.</ArticleTitle>"
    "</Article></MedlineCitation></PubmedArticle>\n"
    "<DeleteCitation><PMID>14</PMID></DeleteCitation>\n</PubmedArticleSet>\n",
)

# What the package writes itself

RECORDS = (
    json_lines(
        {
            "doc": "1",
            "start": 0,
            "end": 4,
            "text": "Gout",
            "label": "Disease",
            "gold": ["D1"],
            "ranked": ["D1", "D2"],
            "scores": [0.9, 0.5],
            "ties": [],
            "prediction": "D1",
            "prototype": "Gout",
            "prototype_surface": "Gout",
            "prototype_kind": "name",
            "left": "",
            "right": " in",
            "found": True,
        },
        {
            "doc": "1",
            "start": 12,
            "end": 16,
            "text": "knée",
            "label": "",
            "gold": ["NIL"],
            "ranked": [],
            "scores": [],
            "ties": [],
            "prediction": "",
            "prototype": "",
            "prototype_surface": "",
            "prototype_kind": "",
            "left": "",
            "right": "",
            "found": False,
        },
    ),
)
STATE: dict[str, Any] = {
    "cap": 10,
    "seed": 0,
    "texts": {"a.jsonl": "0" * 64},
    "aliases": True,
    "names": ["x", "y"],
}

# PsyTAR's sheets, as rows of cells.
_KNEE = (
    "C0000001 / Knee Pain / Finding",
    "Pain in knee (finding) [A1/SNOMEDCT_US/FN/1]",
    None,
    None,
)
_HEAD_ROW = ("id", "drug_id", "sentence_index", "x", "UMLS1", "SNOMED-CT", "UMLS2", "SNOMED-CT")
SHEETS: dict[str, list[Sequence[Any]]] = {
    "Sentence_Labeling": [
        ("id", "comment_id", "drug_id", "sentence_index", "sentences"),
        (1, 1, "d.1", 1, "Pain and swelling in knee."),
        (2, 2, "d.1", 2, "No sleep, très bad headaches"),
        (3, 3, "d.2", 1.0, "It worked."),
    ],
    "ADR_Mapped": [
        _HEAD_ROW,
        (1, "d.1", 1, "pain in knee ", *_KNEE),
        (2, "d.1", 2, "headache", "C0000004 / Headache / Finding", None, None, None),
        (3, "d.2", 1, "zaps", "No code", None, *_KNEE[:2]),
    ],
    "WD-Mapped ": [_HEAD_ROW],
    "SSI_Mapped": [_HEAD_ROW, (1, "d.9", 1, "headache", *_KNEE)],
    "DI_Mapped": [_HEAD_ROW, (1, "d.1", 2, "no sleep", *_KNEE)],
}
