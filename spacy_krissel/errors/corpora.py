"""Messages of `corpora` (K2xx, KW2xx)."""


class CorporaErrors:
    K201 = "[K201] There is no file at '{path}'. Expected {expected}. Check the path."
    K202 = (
        "[K202] '{path}' is truncated or damaged: the compressed data is wrong at line {line} ({problem}). Expected a"
        " complete .gz file; download or copy it again."
    )
    K203 = (
        "[K203] '{path}' cannot be read as text: line {line} is {problem}. Expected UTF-8; convert the file, or "
        "decompress it first if it is an archive."
    )
    K204 = "[K204] '{path}' holds no {what}: it has {line} line(s) and not one of them. Expected {expected}."
    K205 = (
        "[K205] '{path}' is not a PubTator file: line {line} is {found!r}. Expected a title line, `ID|t|title`. Check"
        " the file, or name its format."
    )
    K206 = (
        "[K206] '{path}' is truncated: its last line, {line}, is incomplete ({problem}) and has no line end. Expected"
        " a complete file; download or copy it again."
    )
    K209 = (
        "[K209] '{path}' is not JSONL: line {line} is {found!r}. Expected one JSON object a line with \"text\" and, "
        'if there is one, "title" and "id".'
    )
    K210 = (
        "[K210] The format of '{path}' cannot be detected from its name. Expected a text stream ending in {expected},"
        " or a folder of such files. Rename the file or convert it."
    )
    K211 = (
        "[K211] '{path}' is a damaged archive: {problem} (after '{member}'). Expected a complete .tar.gz; copy it "
        "again."
    )
    K212 = (
        "[K212] '{path}' cannot be read as a corpus of docs: {problem}. Expected a .spacy file written by `DocBin` or"
        " `python -m spacy krissel convert`; write it again."
    )
    K213 = (
        "[K213] '{path}' cannot be read as a Parquet file of texts: {problem}. Expected a complete file with a "
        'column "text" and, if there are any, "title" and "id"; copy it again, or rename its columns.'
    )
    K224 = (
        "[K224] '{path}' is not a file of ZESHEL mentions: line {line} is {found!r} ({problem}). Expected one JSON "
        "object a line with context_document_id, start_index, end_index, text, label_document_id and corpus. Check "
        "the file (documents go to the setting 'documents'), or name its format."
    )
    K226 = (
        "[K226] There is no text for the annotations '{path}': they are of '{name}', which is not in any of: "
        "{places}. Put the text there, or name its folder (setting 'documents')."
    )
    K227 = (
        "[K227] '{path}' is not a file of BRAT's annotations: line {line} is {found!r}. Expected `T1 TAB Label 0 4;10"
        " 14 TAB text`, or another record with an id. Check the file, or name its format."
    )
    K228 = (
        "[K228] The format of '{path}' cannot be detected: it has {found}. Expected a folder or an archive with files"
        " ending in {expected}, of one kind. Name the format, or the folder with the files of one."
    )
    K236 = (
        "[K236] '{path}' is not a file of annotations of clinical notes: line {line} is {found!r}. Expected "
        "`note|0-4,10-14|C0231749|…` (SemEval), `note.txt||Disease_Disorder||C0231749||0||4` (ShARe) or "
        "`N000||C0231749||0||4` (n2c2) a line. Check the file, or name its format."
    )
    K237 = (
        "[K237] '{path}' is not a table of COMETA: line {line} is {found!r} ({problem}). Expected the columns Term, "
        "General SNOMED ID, Specific SNOMED ID and Example. Check the file, or name its format."
    )
    K243 = (
        "[K243] '{path}' is not the expected table of mentions: line {line} is {found!r} ({problem}). Expected the "
        "published tags.tsv of Linnaeus, S800.tsv of S800 or annotations.csv of BioID. Check the file, or name its "
        "format."
    )
    K244 = (
        "[K244] '{path}' is not a BioC JSON file: {problem}. Expected objects with \"passages\", in a list under "
        '"documents" or "PubTator3", in a list, or one a line; copy it again, or name its format.'
    )
    K245 = (
        "[K245] '{path}' is not a corpus of BELB: line {line} is {found!r} ({problem}). Expected a JSON object a line "
        "with id, text and annotations, each with start, end, text, type and ids. Check the file, or name its format."
    )
    K247 = "[K247] dkpro-cassis is not installed. Expected it for UIMA CAS: pip install spacy-krissel[serve]"
    K248 = (
        "[K248] '{path}' cannot be unpacked: {problem}. Expected a complete ZIP, not encrypted, as INCEpTION and "
        "WebAnno export it; export it again."
    )
    K249 = (
        "[K249] '{path}' has no annotations that are known: its first line begins with {found!r}. Expected a gold "
        "corpus in one of the formats of `krissel convert`, or .spacy; link texts without annotations with `krissel "
        "link`."
    )
    K250 = (
        "[K250] '{path}' cannot be measured as it is: {problem}. Expected a .spacy file, or one file with texts and "
        "annotations; convert it first: krissel convert {path} {options} --output gold.spacy"
    )
    K246 = (
        "[K246] '{path}' is not an export of Label Studio: {problem}. Expected its JSON, a list of tasks with \"data\" "
        'and "annotations"; export it again as JSON, or name its format.'
    )


class CorporaWarnings:
    KW201 = (
        "[KW201] {count} record(s) were left out because they are not in the expected form: {places}. Expected the "
        "form named in the documentation of the reader; correct or remove them."
    )
    KW202 = (
        "[KW202] {count} document(s) were left out because an earlier document has their id: {places}. Give them "
        "different ids if they are different documents."
    )
    KW203 = (
        "[KW203] {count} mention(s) were left out because the text at their offsets differs from the text that they "
        "state: {places}. Correct the offsets to keep them."
    )
    KW204 = (
        "[KW204] {count} mention(s) state a text that differs from the text at their offsets in punctuation, white "
        "space, case, accents or Greek letters only, and were kept at their offsets: {places}."
    )
    KW205 = (
        "[KW205] {count} mention(s) were left out because their offsets are outside the document or cover no text: "
        "{places}. Correct the offsets to keep them."
    )
    KW206 = "[KW206] {count} mention(s) were left out because they repeat a mention (offsets, label and id): {places}."
    KW208 = (
        "[KW208] {count} mention(s) have an id that the ontology does not have, and were kept: {places}. Check that "
        "the corpus and the ontology belong together."
    )
    KW209 = (
        "[KW209] No mention has the label(s) {missing}. Expected labels of the corpus; found: {found}. Check the "
        "setting 'labels'."
    )
    KW210 = (
        "[KW210] {count} file(s) end in a line without a line end, which may be truncated: {places}. Expected a line "
        "end after the last line; compare the file with its source, or add one."
    )
    KW211 = (
        "[KW211] {count} file(s) end in a document without an abstract, although others have one: {places}. The file "
        "may be truncated there; compare it with its source."
    )
    KW212 = (
        "[KW212] The first line of '{path}', '{header}', was read as the name of the only column, not as a term. If it "
        "is a term, save the list as a text file (.txt), or put 'term' above it."
    )
    KW223 = (
        "[KW223] All {count} mentions were left out, because none has one of the types ({types}) by its label or its "
        "entity. Expected a corpus that states types, or an ontology store with them; check the setting 'types'."
    )
    KW231 = (
        "[KW231] {count} phrase(s) are not in their text in any order or inflection, and were kept without a place: "
        "{places}. Their entities are labels of the texts alone; correct the spelling to give them one."
    )
    KW232 = (
        "[KW232] {count} of the documents that are asked for by id are not in the corpus: {places}. Expected ids as "
        "the corpus has them; check that the list belongs to it."
    )
