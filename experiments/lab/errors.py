"""Error messages of the laboratory, in addition to those of spacy_krissel
(`spacy_krissel.errors`)."""

from spacy_krissel import errors as product
from spacy_krissel.errors import KrisselError, KrisselWarning

__all__ = ["Errors", "KrisselError", "KrisselWarning", "Warnings"]


class Errors(product.Errors):
    K304 = (
        "[K304] A sample of {found} mentions was asked for. Expected a number from 1 to "
        "{available}, the number of mentions in '{path}'."
    )
    K221 = (
        "[K221] No entity of the ontology store '{path}' would be removed (asked for: {asked}). "
        "Expected semantic types or tree numbers that its entities have; enrich it with them, or "
        "give others."
    )
    K222 = (
        "[K222] All {n} entities of the ontology store '{path}' would be removed (asked for: "
        "{asked}). Expected some to be left to link to; give narrower types or sub-trees."
    )
    K223 = (
        "[K223] The split '{split}' is left without a linked mention: it has {found}. Expected at "
        "least one mention of an entity of its own; give it a larger share, another seed, or more "
        "documents."
    )
    K231 = (
        "[K231] '{path}' cannot be read: openpyxl is not installed. Expected a library for .xlsx "
        "files; install spacy-krissel[psytar]."
    )
    K232 = (
        "[K232] '{path}' is not PsyTAR's workbook: {problem}. Expected {expected}; download it "
        "again, or name another format."
    )
    K233 = (
        "[K233] '{path}' holds {texts} text(s) that speak of {entities} entities, too few to "
        "divide. Expected at least two entities, in `doc.cats` or as gold mentions; write it by "
        "`krissel convert`."
    )
    K234 = (
        "[K234] '{path}' is not a table of lay names: line {line} is {found!r}. Expected rows of a "
        "term's address or id, its name and a lay name, tab-separated, as HPO's lay synonyms have "
        "them. Check the file."
    )
    K235 = (
        "[K235] None of the {pairs} pair(s) of '{train}' is of a sentence of '{path}'. Expected "
        "the training set that `lab text-split` made of this workbook's sentences; check the path."
    )
    K242 = (
        "[K242] '{path}' cannot be laid out: {problem}. Expected the publisher's file as it was "
        "downloaded; remove it and run `python -m spacy project assets experiments/sources` again."
    )
    K238 = (
        "[K238] '{path}' is not CTD's table of diseases: line {line} is {found!r}. Expected a "
        "name, an id that begins with MESH: or OMIM:, and six further columns, tab-separated, as "
        "DNorm's CTD_diseases.tsv has them."
    )
    K239 = (
        "[K239] The environment variable KRISSEL_DATA {problem}. Expected the absolute path of a "
        "folder with the source files. To fill one: `python -m spacy project assets "
        "experiments/sources` and `python -m spacy project run all experiments/sources`, then set "
        "KRISSEL_DATA to data/ of the repository (docs/results.md, Data)."
    )
    K240 = (
        "[K240] '{path}' lists no abstracts: line {line} is {found!r}. Expected {expected}, each "
        "once."
    )
    K241 = (
        "[K241] '{address}' did not give the {n} articles from PMID {first} on: {problem}. "
        "Expected PubMed's XML; run the command again later, which keeps what was fetched."
    )
    K291 = (
        "[K291] The archive '{path}' would have {size} MiB. Expected at most {limit}; keep fewer "
        "mentions per entity (cap, now {cap}) or shorter contexts."
    )
    K292 = (
        "[K292] '{path}' is not an archive of a campaign, or is damaged: {problem}. Expected what "
        "`lab campaign-pack` wrote; make it or copy it again."
    )
    K293 = (
        "[K293] The weights of '{path}' would have {size:,} bytes in parts. Expected at most "
        "{limit:,}; collect a pipeline with a smaller encoder."
    )
    K294 = (
        "[K294] '{path}' does not hold the parts of a pipeline: {problem}. Expected parts.json and "
        "the parts that it lists, as `lab campaign-collect` wrote them; copy them again."
    )
    K295 = (
        "[K295] '{path}' is not a table of stages: {problem}. Expected the keys that are explained "
        "in experiments/campaign/configs/stages.yml."
    )
    K732 = (
        "[K732] '{name}' cannot be compared with the first system: {n_missing} of {n} pairs of a "
        "text and an entity are not in it, the first is {first}. Expected the same texts with the "
        "same entities for both."
    )
    K733 = (
        "[K733] System '{name}' can be evaluated neither on spans nor on linking: it is a {found}. "
        "Expected an object with a method `spans(doc, entity_ids)`, a method `scores(docs, "
        "entity_ids)`, or both."
    )
    K734 = (
        "[K734] System '{name}' gives {entity} the pieces {pieces} in document {doc}, which has "
        "{n_tokens} tokens. Expected pairs of a first token and the token after the last."
    )
    K735 = (
        "[K735] The scores of system '{name}' have the shape {found}. Expected {expected}: a row "
        "for each document, and in it a number for each entity, in the order that was asked for."
    )
    K736 = (
        "[K736] There is nothing to evaluate: none of {n_docs} document(s) of {source} says which "
        "entities it speaks of. Expected their ids in `doc.cats`, with the value 1.0, as the "
        "dataset builder writes them."
    )
    K737 = (
        "[K737] Fuzzy matching needs the library rapidfuzz, which is not installed. Install it "
        "with: pip install 'spacy-krissel[fuzzy]'"
    )
    K738 = (
        "[K738] The pipeline '{path}' finds no entities in texts: it holds {found}. Expected one "
        "with a component 'krissel_span_extractor', or with 'krissel_linker' to compare vectors of "
        "texts and names."
    )
    K901 = (
        "[K901] '{path}' does not describe an ablation: {problem}. Expected the keys that are "
        "explained in experiments/lab/ablation/settings.py and shown in "
        "experiments/krissbert/configs/ablation.yml."
    )
    K902 = "[K902] There is no row '{name}' in this ablation. Expected one of: {known}."
    K903 = (
        "[K903] '{path}' was made with other settings or files: {problem}. A row is not made again "
        "where its results are; remove that folder, or choose another output."
    )
    K904 = (
        "[K904] Two rows were measured on other mentions: {n} are in one of them alone, the first "
        "is {first}. Expected the same gold corpus for both; remove the older row's folder and run "
        "the command again."
    )
    K905 = (
        "[K905] {n} entities of '{path}' have {names} names that they share with none. Expected at "
        "least {entities}; ask for fewer entities or names."
    )
    K906 = (
        "[K906] '{path}' holds no calibration: {problem}. Expected the file that `python -m spacy "
        "krissel calibrate --metrics` writes."
    )


class Warnings(product.Warnings):
    KW221 = (
        "[KW221] No entity of the ontology store '{path}' has the type or tree number {unused}. "
        "The others were removed; correct these if they are misspelt."
    )
    KW222 = (
        "[KW222] None of the {n} linked mentions ({splits}) lost its entity, so there is nothing "
        "to find out of the knowledge base. Expected the removed entities to be mentioned; give "
        "other types or sub-trees."
    )
    KW233 = (
        "[KW233] '{path}' is not the file that the documented results were measured on: its MD5 is "
        "{found}, not {md5}. Results will differ from them if its records do."
    )
    KW234 = (
        "[KW234] {count} of {of} listed abstracts were not found (first: {first}); their ids are "
        "in '{path}'. Results will differ a little from the documented ones; what PubMed has "
        "removed stays away."
    )
    KW731 = (
        "[KW731] {n} of {total} pairs name an entity that is not among the {n_entities} that are "
        "looked for (first: {examples}). They count as not found. Check that the corpus and the "
        "ontology use the same ids."
    )
    KW901 = (
        "[KW901] Nothing was drawn: matplotlib is not installed. Install spacy-krissel[plots] and "
        "run the command again (an ablation's values are in ablation.json, and no row is run again "
        "for it)."
    )
