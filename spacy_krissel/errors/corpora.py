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
    K204 = "[K204] '{path}' has {line} line(s), but no {what}. Expected {expected}."
    K205 = (
        "[K205] '{path}' is not a PubTator file: line {line} is {found!r}. Expected a title line, `ID|t|title`. Check"
        " the file, or name its format."
    )
    K206 = (
        "[K206] '{path}' is truncated: its last line, {line}, is incomplete ({problem}) and has no line end. Expected"
        " a complete file; download or copy it again."
    )
    K209 = (
        "[K209] '{path}' is not JSONL: line {line} is {found!r}. Expected one JSON object per "
        'line with "text" and, optionally, "title" and "id".'
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
        "[K213] '{path}' cannot be read as a Parquet file of texts: {problem}. Expected a "
        'complete file with a column "text" and, optionally, "title" and "id"; copy it again, or '
        "rename its columns."
    )
    K224 = (
        "[K224] '{path}' is not a file of ZESHEL mentions: line {line} is {found!r} ({problem}). "
        "Expected one JSON object per line with context_document_id, start_index, end_index, "
        "text, label_document_id and corpus. Check the file (documents go to the setting "
        "'documents'), or name its format."
    )
    K226 = (
        "[K226] The text of the annotations '{path}' is missing: '{name}' is in none of: "
        "{folders}. Put the text there, or name its folder (setting 'documents')."
    )
    K227 = (
        "[K227] '{path}' is not a file of BRAT's annotations: line {line} is {found!r}. Expected `T1 TAB Label 0 4;10"
        " 14 TAB text`, or another record with an id. Check the file, or name its format."
    )
    K228 = (
        "[K228] The format of '{path}' cannot be detected: it has {found}. Expected a folder or "
        "an archive with files of one kind, ending in {expected}. Name the format, or the folder "
        "with files of one format."
    )
    K236 = (
        "[K236] '{path}' does not hold annotations of clinical notes: line {line} is {found!r}. "
        "Expected `note|0-4,10-14|C0231749|…` (SemEval), "
        "`note.txt||Disease_Disorder||C0231749||0||4` (ShARe) or `N000||C0231749||0||4` (n2c2) "
        "per line. Check the file, or name its format."
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
        "[K244] '{path}' is not a BioC JSON file: {problem}. Expected objects with \"passages\", in "
        'a list under "documents" or "PubTator3", in a list, or one per line; copy it again, or '
        "name its format."
    )
    K245 = (
        "[K245] '{path}' is not a corpus of BELB: line {line} is {found!r} ({problem}). Expected "
        "one JSON object per line with id, text and annotations, each with start, end, text, type "
        "and ids. Check the file, or name its format."
    )
    K247 = "[K247] dkpro-cassis is not installed. Expected it for UIMA CAS: pip install spacy-krissel[serve]"
    K248 = (
        "[K248] '{path}' cannot be unpacked: {problem}. Expected a complete ZIP, not encrypted, as INCEpTION and "
        "WebAnno export it; export it again."
    )
    K249 = (
        "[K249] '{path}' has no annotations in a known format: its first line begins with "
        "{found!r}. Expected a gold corpus in one of the formats of `krissel convert`, or .spacy; "
        "link texts without annotations with `krissel link`."
    )
    K250 = (
        "[K250] '{path}' cannot be evaluated directly: {problem}. Expected a .spacy file, or one "
        "file with texts and annotations; convert it first: krissel convert {path} {options} "
        "--output gold.spacy"
    )
    K246 = (
        "[K246] '{path}' is not an export of Label Studio: {problem}. Expected its JSON, a list of tasks with \"data\" "
        'and "annotations"; export it again as JSON, or name its format.'
    )


class CorporaWarnings:
    KW201 = (
        "[KW201] {count} record(s) were left out because they are not in the expected form: "
        "{examples}. Expected the form named in the documentation of the reader; correct or "
        "remove them."
    )
    KW202 = (
        "[KW202] {count} document(s) were left out because an earlier document has the same id: "
        "{examples}. Give them different ids if they are different documents."
    )
    KW203 = (
        "[KW203] {count} mention(s) were left out because their stated text differs from the text "
        "at their offsets: {examples}. Correct the offsets to keep them."
    )
    KW204 = (
        "[KW204] {count} mention(s) state a text that differs from the text at their offsets only "
        "in punctuation, white space, case, accents or Greek letters, and were kept at their "
        "offsets: {examples}."
    )
    KW205 = (
        "[KW205] {count} mention(s) were left out because their offsets are outside the document "
        "or cover no text: {examples}. Correct the offsets to keep them."
    )
    KW206 = (
        "[KW206] {count} mention(s) were left out because they repeat a mention (offsets, label and id): {examples}."
    )
    KW208 = (
        "[KW208] {count} mention(s) have an id that is not in the ontology, and were kept: "
        "{examples}. Check that the corpus and the ontology belong together."
    )
    KW209 = (
        "[KW209] No mention has the label(s) {missing}. Expected labels of the corpus; found: {found}. Check the "
        "setting 'labels'."
    )
    KW210 = (
        "[KW210] {count} file(s) end in a line without a line end, which may be truncated: "
        "{examples}. Expected a line end after the last line; compare the file with its source, "
        "or add one."
    )
    KW211 = (
        "[KW211] {count} file(s) end in a document without an abstract, although others have one: "
        "{examples}. The file may be truncated there; compare it with its source."
    )
    KW212 = (
        "[KW212] The first line of '{path}', '{header}', was read as the name of the only column, not as a term. If it "
        "is a term, save the list as a text file (.txt), or put 'term' above it."
    )
    KW223 = (
        "[KW223] All {count} mentions were left out, because neither their label nor their entity "
        "has one of the types ({types}). Expected a corpus that states types, or an ontology "
        "store with them; check the setting 'types'."
    )
    KW231 = (
        "[KW231] {count} phrase(s) do not occur in their text in any order or inflection, and "
        "were kept without offsets: {examples}. Their entities only label the text; correct the "
        "spelling to locate the phrases."
    )
    KW232 = (
        "[KW232] {count} of the requested documents are not in the corpus: {examples}. Expected "
        "ids as in the corpus; check that the list of ids belongs to it."
    )
