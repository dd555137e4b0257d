"""Messages of `ontology` (K1xx, KW1xx)."""


class OntologyErrors:
    K101 = "[K101] There is no ontology file at '{path}'. Expected {expected}. Check it, or see `krissel vocabularies`."
    K102 = (
        "[K102] '{path}' is truncated or damaged at line {line}: {problem}. Expected a complete file; download it "
        "again from its publisher."
    )
    K103 = (
        "[K103] '{path}' is not in the {format} format: line {line} {problem}. Expected {expected}. Check the path, "
        "or name the format with `format`."
    )
    K104 = (
        "[K104] Cannot tell the format of '{path}': its first line is {found!r}. Expected one of {formats}; name it "
        "with `format`, or convert the file to JSON lines (`concept_id`, `canonical_name`, `aliases`, `types`, "
        "`definition`)."
    )
    K106 = "[K106] The ontology store '{path}' has no entity with the id {id!r}. Check the id, or ask with `resolve`."
    K107 = "[K107] The ontology store '{path}' has no row {row}. Expected a row from 0 to {last}."
    K108 = "[K108] Entity {number} (id {id!r}, name {name!r}) cannot be stored: {problem}. Expected {expected}."
    K109 = (
        "[K109] '{file}' of the ontology store '{path}' is damaged: {problem}. Write the store again with: python -m "
        "spacy krissel ontology"
    )
    K110 = "[K110] The {format} format has no option {found!r}. Expected one of {expected}."
    K111 = "[K111] Cannot enrich the field {found!r}. Expected one of {expected}."
    K112 = "[K112] The ontology store would hold no entity: {why}. Nothing was written. Expected at least one entity."
    K113 = (
        "[K113] Cannot tell what is below {id!r}: {problem}. Expected ids of the sources, and entities with parents or "
        "tree numbers."
    )
    K114 = "[K114] SKOS, '{path}', is read by rdflib, which is not installed: pip install 'spacy-krissel[rdf]'"
    K116 = (
        "[K116] '{name}' ({title}) is not downloaded: it needs a licence or a login ({licence}, {terms}). Get it at "
        "{address}, unpack it, and read its folder with: {command}"
    )
    K117 = (
        "[K117] The vocabulary '{name}' could not be downloaded from {address}: {problem}. Run it again, which "
        "continues the download; or put the file by hand into the folder '{folder}', without a download.json there."
    )
    K118 = (
        "[K118] Cannot tell which column of '{path}' has the {missing}: its first line names {columns}. Expected usual "
        "names, such as 'id' and 'name'; name the columns with --id-column and --name-column (`id_column`, "
        "`name_column`), or rename them. If another source has other columns, make a store of this one first "
        "(`krissel ontology`)."
    )
    K119 = (
        "[K119] '{path}' is in {syntax}, which is not read. Expected OWL in RDF/XML or Turtle, or another format of "
        "`krissel ontology`; convert it: {command}"
    )
    K120 = (
        "[K120] '{path}' is a list of names, one per line, such as {first!r}. Expected an id for each entity: a table "
        "with the columns id and name, and synonyms where there are any. To map a list of terms to an ontology, use "
        "`krissel map`."
    )
    K130 = (
        "[K130] '{path}' has no gene of the species {species}. Expected some; check the setting 'species' against the"
        " first column of the file."
    )
    K131 = (
        "[K131] '{path}' is not sorted by CUI: {found} at line {line} comes after {last}. Expected UMLS's files as "
        "they are shipped or as MetamorphoSys writes them; sort it by its first column (LC_ALL=C sort)."
    )


class OntologyWarnings:
    KW101 = "[KW101] Left out {count} of {total} records of '{path}'. The first: {places}. Correct or remove them."
    KW102 = (
        "[KW102] Left out {count} entities whose id an earlier entity has; the first is kept. The first such ids: "
        "{ids}. Give each entity its own id."
    )
    KW103 = (
        "[KW103] {count} alternative ids belong to more than one entity; each stands for the entity whose primary id "
        "it is, or else for the first. The first such ids: {ids}. Remove them where that is wrong."
    )
    KW104 = (
        "[KW104] Ignored {count} values of '{path}' under unknown keys: {keys}. Known keys: {known}. Rename them if "
        "they were meant to be read."
    )
    KW105 = (
        "[KW105] The last line of '{path}', {line}, has no line end and may be truncated. Expected a line end after "
        "the last line; compare the file with its source, or add one."
    )
    KW106 = (
        "[KW106] '{where}' states {found} of UMLS, and the preset {name} is of {expected}: some of its concepts will "
        "be missing, and others are new. Use the files of that release to compare results."
    )
    KW107 = "[KW107] '{path}' has no names of {sources}: no id of it is found. Check the abbreviation, such as MSH."
    KW108 = (
        "[KW108] {count} obsolete ids of '{path}' state a replacement, but lead to no entity of it: "
        "{places}. Expected `replaced_by`, or one `consider`, with an id of the file. Where you know "
        "better, give the entity the id as an alternative one."
    )
    KW109 = (
        "[KW109] {count} entities of '{path}' have no label in the language '{language}', and are "
        "named in another: {found}. The first: {ids}. Expected labels in it; ask for another language "
        "with `language`, or add a table of translations."
    )
    KW110 = (
        "[KW110] No entity has an id of the translations in {paths}: none was used. Expected the ids "
        "of the sources, such as HP:0001250."
    )
    KW111 = (
        "[KW111] {count} of {total} cells in column {column!r} of '{path}' were split at {mark!r}, such as {first!r}. "
        "Expected {mark!r} between values; otherwise state what separates them with --separator (`separator`), or "
        "that nothing does: --separator ''."
    )
    KW112 = (
        "[KW112] The cells in column {column!r} of '{path}' were read as one value each, but {count} of {total} hold "
        "{mark!r}, such as {first!r}. If it separates values, state it: --separator {mark!r} (`separator`); otherwise "
        "state that nothing does: --separator ''."
    )
    KW121 = (
        "[KW121] No name for {count} species of entities in '{path}'; names are expanded with their ids. The first: "
        "{ids}. Use a taxonomy that has them."
    )
    KW130 = (
        "[KW130] '{path}' has no gene of the species {species}; others were found. Correct the setting 'species' if "
        "they are misspelt."
    )
