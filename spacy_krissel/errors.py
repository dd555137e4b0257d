"""The catalogue of all error and warning messages.

Every message has a code, and says what was expected, what was found and what to do. Codes are
stable: tests and users may search for them. `K…` are errors, `KW…` are warnings.
"""

import re
from pathlib import PurePath
from typing import Any

_CODE = re.compile(r"\[(KW?\d{3})\] ")


class _Coded(Exception):
    @property
    def code(self) -> str:
        """Return the code at the start of the message, such as "K006"; empty for a message without
        one.
        """
        found = _CODE.match(str(self))
        return found[1] if found else ""


class KrisselError(_Coded, ValueError):
    """Any error raised by this package; the message starts with its `code`."""


class KrisselWarning(_Coded, UserWarning):
    """A warning that something was left out or replaced; the message starts with its `code`."""


class Errors:
    """All error messages; `Errors.K101.format(...)`."""

    # Shared by all packages (K0xx), and of commands (K8xx).
    K001 = (
        "[K001] There is no {what} at '{path}'. Expected {expected}. Check the path, or create it "
        "with: {make}"
    )
    K002 = (
        "[K002] '{path}' holds no {kind}: its manifest.json {problem}. Expected a directory "
        "written by spacy-krissel; create it again with: {make}"
    )
    K003 = (
        "[K003] '{path}' holds a {kind} of format version {found}, but this version of "
        "spacy-krissel reads version {expected}. Create it again with: {make}"
    )
    K004 = (
        "[K004] '{file}' in '{path}' is damaged: {problem}. The directory was changed or truncated "
        "after it was written; create it again with: {make}"
    )
    K005 = "[K005] '{path}' exists and holds no {kind}. Choose another path, or remove it."
    K006 = "[K006] Setting '{setting}' is {found!r}. Expected {expected}."
    K007 = (
        "[K007] '{path}' is truncated or malformed XML: line {line}: {problem}. Expected {kind} up "
        "to `</{root}>`; download or copy it again."
    )
    K008 = (
        "[K008] '{path}' is not {kind}: its root element, at line {line}, is <{found}>. Expected "
        "<{root}>. Check the file, or state its format."
    )
    K009 = (
        "[K009] '{path}' was not read beyond line {line}: {problem}. Entity declarations are "
        "refused, because they can exhaust memory or read other files. Expected XML without them; "
        "remove them."
    )
    K020 = (
        "[K020] Process {number} of {count} waited too long for the others: {problem}. One of them "
        "ended or hangs: look for its own message, and start all of them again."
    )
    K021 = (
        "[K021] The processes of this training have different batches at the same step. Expected "
        "the same batch in each, which is then divided. Use the same files on each machine, and "
        "readers, batchers and callbacks whose random numbers depend on a fixed seed or on "
        "Python's `random` only."
    )
    K022 = (
        "[K022] {count} processes cannot train one model: {problem}. Expected processes started by "
        "a launcher, with a GPU for each or for none: torchrun --nproc-per-node N -m spacy krissel "
        "train CONFIG --gpu-id 0 (or without --gpu-id)."
    )
    K023 = (
        "[K023] Ray is not installed. Expected it on every machine of the cluster: install "
        "spacy-krissel[ray], or use local processes (n_process)."
    )
    K024 = (
        "[K024] There is no Ray cluster at '{address}': {problem}. Expected the address of a "
        "running one (host:port, or 'auto' on one of its machines); start it with `ray start "
        "--head`, or give no address to use this machine only."
    )
    K025 = (
        "[K025] Ray failed on a part of the work, after {retries} retries ({problem}), most often "
        "because memory ran out. Finished work is kept: run the command again to resume, with "
        "fewer workers per machine."
    )
    K026 = "[K026] '{path}' could not be read or written: {problem}. {advice}."
    K027 = (
        "[K027] '{path}' already exists: {held}. Expected another output, or the option --force "
        "(in Python force=True), which keeps the old one next to it as {backup}."
    )
    K028 = (
        "[K028] '{path}' holds a {kind}, and {n} file(s) that are not part of it, such as "
        "'{first}'. The folder is replaced as a whole: move these files elsewhere, or choose "
        "another path."
    )
    K029 = (
        "[K029] Ray's process of this machine (raylet) ended, and this run with it. Finished work "
        "is kept: run the command again to resume. If memory ran out, use fewer workers."
    )
    K045 = (
        "[K045] Another run is working in '{path}' and writes the same output. Expected one run "
        "per output: wait for it, stop it, or choose another output."
    )
    K053 = (
        "[K053] '{path}' could not be read: {position} failed with {problem}. Expected a complete "
        "file of its format. Check that part, or copy the file again; if it is correct, this is a "
        "bug of spacy-krissel: report it with the traceback."
    )
    K054 = (
        "[K054] '{path}' could not be read: {position} is nested too deeply. Expected JSON or XML "
        "with at most a few hundred levels; check how the file was made."
    )
    K055 = (
        "[K055] '{path}' was not read further: {position} has {found} MiB or more. Expected at "
        "most {limit} MiB, a limit that protects memory and disk. If the file is correct, raise "
        "the limit: set the environment variable {variable} to a number of MiB."
    )
    K056 = (
        "[K056] '{path}' is not UTF-8 text: it starts like {found}. Expected UTF-8; convert it: "
        "iconv -f {found} -t UTF-8."
    )
    K057 = (
        "[K057] '{path}' has {count} carriage return(s) and no line feed, as in files of old Macs. "
        "Expected lines that end in a line feed; convert it: tr '\\r' '\\n'."
    )
    K058 = (
        "[K058] '{path}' is in the encoding {found!r}, which cannot be read ({problem}). Expected "
        "XML in UTF-8, UTF-16 or an encoding with one byte per character; convert it, with its "
        "first line: iconv -f {found} -t UTF-8."
    )
    K059 = (
        "[K059] '{path}' was not read further: line {line} is the last of {count} consecutive "
        "blank lines. Expected records; check how the file was made."
    )
    K060 = (
        "[K060] '{path}' is not text: it is {found}. Expected a text file, plain or gzipped. "
        "{advice}."
    )
    K061 = (
        "[K061] Plugin '{name}' of the distribution '{distribution}' cannot be used: {problem}. "
        "Expected an entry point of the group {group} that can be imported, is of the group's "
        "type, and has a name of its own. Update or uninstall the distribution."
    )
    K801 = (
        "[K801] Interrupted. An earlier result is unchanged. Run the same command again: mine, "
        "prototypes and link --format resume where they stopped, other commands start over."
    )
    K802 = (
        "[K802] Out of memory ({problem}). Nothing is damaged, and an earlier result is unchanged. "
        "Use smaller batches, fewer processes or fewer candidates, free memory, or use a machine "
        "with more."
    )
    K803 = (
        "[K803] numba cannot be imported ({problem}). Expected a version that goes with NumPy's: "
        "pip install --upgrade numba."
    )

    # Package `ontology` (K1xx, KW1xx).
    K101 = (
        "[K101] There is no ontology file at '{path}'. Expected {expected}. Check it, or see "
        "`krissel vocabularies`."
    )
    K102 = (
        "[K102] '{path}' is truncated or damaged at line {line}: {problem}. Expected a complete "
        "file; download it again from its publisher."
    )
    K103 = (
        "[K103] '{path}' is not in the {format} format: line {line} {problem}. Expected "
        "{expected}. Check the path, or name the format with `format`."
    )
    K104 = (
        "[K104] Cannot tell the format of '{path}': its first line is {found!r}. Expected one of "
        "{formats}; name it with `format`, or convert the file to JSON lines (`concept_id`, "
        "`canonical_name`, `aliases`, `types`, `definition`)."
    )
    K106 = (
        "[K106] The ontology store '{path}' has no entity with the id {id!r}. Check the id, or ask "
        "with `resolve`."
    )
    K107 = "[K107] The ontology store '{path}' has no row {row}. Expected a row from 0 to {last}."
    K108 = (
        "[K108] Entity {number} (id {id!r}, name {name!r}) cannot be stored: {problem}. Expected "
        "{expected}."
    )
    K109 = (
        "[K109] '{file}' of the ontology store '{path}' is damaged: {problem}. Write the store "
        "again with: python -m spacy krissel ontology"
    )
    K110 = "[K110] The {format} format has no option {found!r}. Expected one of {expected}."
    K111 = "[K111] Cannot enrich the field {found!r}. Expected one of {expected}."
    K112 = (
        "[K112] The ontology store would hold no entity: {why}. Nothing was written. Expected at "
        "least one entity."
    )
    K113 = (
        "[K113] Cannot find the entities below {id!r}: {problem}. Expected ids of the sources, "
        "and entities with parents or tree numbers."
    )
    K114 = (
        "[K114] SKOS, '{path}', is read by rdflib, which is not installed: pip install "
        "'spacy-krissel[rdf]'"
    )
    K116 = (
        "[K116] '{name}' ({title}) is not downloaded: it needs a licence or a login ({licence}, "
        "{terms}). Get it at {address}, unpack it, and read its folder with: {command}"
    )
    K117 = (
        "[K117] The vocabulary '{name}' could not be downloaded from {address}: {problem}. Run "
        "the command again to continue the download, or put the file by hand into the folder "
        "'{folder}', without a download.json there."
    )
    K118 = (
        "[K118] Cannot tell which column of '{path}' has the {missing}: its first line names "
        "{columns}. Expected usual names, such as 'id' and 'name'; name the columns with "
        "--id-column and --name-column (`id_column`, `name_column`), or rename them. If another "
        "source has other columns, make a store of this one first (`krissel ontology`)."
    )
    K119 = (
        "[K119] '{path}' is in {syntax}, which is not supported. Expected OWL in RDF/XML or "
        "Turtle, or another format of `krissel ontology`; convert it: {command}"
    )
    K120 = (
        "[K120] '{path}' is a list of names, one per line, such as {first!r}. Expected an id for "
        "each entity: a table with the columns id and name, and synonyms where there are any. To "
        "map a list of terms to an ontology, use `krissel map`."
    )
    K130 = (
        "[K130] '{path}' has no gene of the species {species}. Expected some; check the setting "
        "'species' against the first column of the file."
    )
    K131 = (
        "[K131] '{path}' is not sorted by CUI: {found} at line {line} comes after {last}. Expected "
        "UMLS's files as they are shipped or as MetamorphoSys writes them; sort it by its first "
        "column (LC_ALL=C sort)."
    )
    K132 = (
        "[K132] '{path}' has {found} at line {line}, which is not supported. Expected GraphML with "
        "one graph of nodes and edges; save the graphs separately."
    )

    # Package `corpora` (K2xx, KW2xx).
    K201 = "[K201] There is no file at '{path}'. Expected {expected}. Check the path."
    K202 = (
        "[K202] '{path}' is truncated or damaged: the compressed data is wrong at line {line} "
        "({problem}). Expected a complete .gz file; download or copy it again."
    )
    K203 = (
        "[K203] '{path}' cannot be read as text: line {line} is {problem}. Expected UTF-8; convert "
        "the file, or decompress it first if it is an archive."
    )
    K204 = "[K204] '{path}' has {line} line(s), but no {what}. Expected {expected}."
    K205 = (
        "[K205] '{path}' is not a PubTator file: line {line} is {found!r}. Expected a title line, "
        "`ID|t|title`. Check the file, or name its format."
    )
    K206 = (
        "[K206] '{path}' is truncated: its last line, {line}, is incomplete ({problem}) and has no "
        "line end. Expected a complete file; download or copy it again."
    )
    K209 = (
        "[K209] '{path}' is not JSONL: line {line} is {found!r}. Expected one JSON object per "
        'line with "text" and, optionally, "title" and "id".'
    )
    K210 = (
        "[K210] The format of '{path}' cannot be detected from its name. Expected a text stream "
        "ending in {expected}, or a folder of such files. Rename the file or convert it."
    )
    K211 = (
        "[K211] '{path}' is a damaged archive: {problem} (after '{member}'). Expected a complete "
        ".tar.gz; copy it again."
    )
    K212 = (
        "[K212] '{path}' cannot be read as a corpus of docs: {problem}. Expected a .spacy file "
        "written by `DocBin` or `python -m spacy krissel convert`; write it again."
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
        "[K227] '{path}' is not a file of BRAT's annotations: line {line} is {found!r}. Expected "
        "`T1 TAB Label 0 4;10 14 TAB text`, or another record with an id. Check the file, or name "
        "its format."
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
        "[K237] '{path}' is not a table of COMETA: line {line} is {found!r} ({problem}). Expected "
        "the columns Term, General SNOMED ID, Specific SNOMED ID and Example. Check the file, or "
        "name its format."
    )
    K243 = (
        "[K243] '{path}' is not the expected table of mentions: line {line} is {found!r} "
        "({problem}). Expected the published tags.tsv of Linnaeus, S800.tsv of S800 or "
        "annotations.csv of BioID. Check the file, or name its format."
    )
    K244 = (
        "[K244] '{path}' is not a BioC JSON file: {problem}. Expected objects with \"passages\", "
        'in a list under "documents" or "PubTator3", in a list, or one per line; copy it again, or '
        "name its format."
    )
    K245 = (
        "[K245] '{path}' is not a corpus of BELB: line {line} is {found!r} ({problem}). Expected "
        "one JSON object per line with id, text and annotations, each with start, end, text, type "
        "and ids. Check the file, or name its format."
    )
    K247 = (
        "[K247] dkpro-cassis is not installed. Expected it for UIMA CAS: pip install "
        "spacy-krissel[serve]"
    )
    K248 = (
        "[K248] '{path}' cannot be unpacked: {problem}. Expected a complete ZIP, not encrypted, as "
        "INCEpTION and WebAnno export it; export it again."
    )
    K249 = (
        "[K249] '{path}' has no annotations in a known format: its first line begins with "
        "{found!r}. Expected .spacy, or a gold corpus in one of the formats that `krissel convert "
        "--help` lists at --format; name it if it is not detected, and link texts without "
        "annotations with `krissel link`."
    )
    K250 = (
        "[K250] '{path}' cannot be evaluated directly: {problem}. Expected a .spacy file, or one "
        "file with texts and annotations; convert it first: krissel convert {path} {options} "
        "--output gold.spacy"
    )
    K246 = (
        "[K246] '{path}' is not an export of Label Studio: {problem}. Expected its JSON, a list of "
        'tasks with "data" and "annotations"; export it again as JSON, or name another --format '
        "(`krissel convert --help` lists them)."
    )

    # Package `mining` (K3xx, KW3xx).
    K301 = (
        "[K301] The ontology '{path}' has no name to search for: it has {entities} entities, and "
        "of their names {skipped}. Expected at least one name of exactly one entity. Check the "
        "file the ontology was made from."
    )
    K302 = (
        "[K302] An interrupted mining run in '{path}' was started with other input: {difference}. "
        "Expected the same settings, ontology and texts. Use the same arguments to resume it, or "
        "start over with restart=True (--restart)."
    )
    K303 = (
        "[K303] A mining process died ({problem}), most often because memory ran out. Finished "
        "work is kept: run the command again to resume, with fewer processes (n_process is "
        "{n_process})."
    )

    # Package `encoding` (K4xx, KW4xx).
    K401 = (
        "[K401] There is no transformer at '{name}'. Expected the name of a model on the Hugging "
        "Face hub, or a directory with its config.json, tokenizer and weights; found: {problem}. "
        "Check the name, or the network if it is a hub name."
    )
    K402 = (
        "[K402] '{name}' is not a complete transformer. Expected a directory with config.json, "
        "tokenizer files and model.safetensors, as save_pretrained writes it; found: {problem}. "
        "Download or write it again."
    )
    K403 = (
        "[K403] The tokenizer of '{name}' has no {missing}. Expected a fast tokenizer "
        "(tokenizer.json) of an encoder such as BERT, with [CLS], [SEP] and padding tokens. Choose "
        "another model, or correct 'tokenizer_config'."
    )
    K404 = (
        "[K404] Setting 'window' is {window}, but the transformer reads at most {limit} pieces. "
        "Set 'window' to at most {limit}, or choose another transformer."
    )
    K405 = (
        "[K405] The transformer encoder has no weights. Expected an initialized or loaded encoder. "
        "Call nlp.initialize() or model.initialize(), or load a saved pipeline."
    )
    K406 = (
        "[K406] The saved transformer cannot be read: {problem}. Expected config, tokenizer and "
        "weights as spacy-krissel saves them; the pipeline's model file was truncated, changed, or "
        "written by another architecture. Save it again."
    )
    K407 = (
        "[K407] A mention is masked, but the transformer's tokenizer has no mask token. Expected "
        "one; switch masking off (p_mask = 0), or set 'mask_token' in 'tokenizer_config'."
    )
    K408 = (
        "[K408] The saved table of the small encoder has (rows, width) {found}, but the config "
        "says {expected}. Set 'rows', 'context_rows' and 'width' as in its training, or train it "
        "again."
    )
    K409 = (
        "[K409] The tables of the small encoder are trained row by row, which only Adam supports. "
        "Expected 'Adam.v1' with beta1 and beta2 above 0, found {found}. Change "
        "[training.optimizer], or the optimizer given as `sgd`."
    )
    K410 = (
        "[K410] The encoders of mentions and of references have different widths ({found}). "
        "Expected one width, since their vectors are compared and added: set the same 'width', or "
        "choose transformers of one size."
    )
    K411 = (
        "[K411] The small encoder to start from has (width, hidden) {found}, but the config says "
        "{expected}. Set the same 'width' and 'hidden'."
    )
    K413 = (
        "[K413] The weights of '{name}' cannot be averaged with the encoder's: {problem}. Expected "
        "the transformer that the encoder was trained from."
    )
    K415 = (
        "[K415] The transformer {name} needs Python code of its own (auto_map in its config or its "
        "tokenizer's), which is never run, whatever `trust_remote_code` says. Expected an "
        "architecture of the transformers library, such as BERT; choose another encoder."
    )
    K416 = (
        "[K416] The transformer's tokenizer has no token '{marker}'. Expected both tokens of "
        "setting 'markers': set the markers that the encoder was initialized with."
    )
    K417 = (
        "[K417] A transformer in 8-bit integers needs ONNX Runtime, which is not installed. "
        "Install it: pip install 'spacy-krissel[onnx]'."
    )
    K418 = (
        "[K418] The transformer cannot be quantized: {problem}. Expected one that torch exports "
        "to ONNX, such as BERT, on the CPU; its architecture, or this version of torch, is not "
        "supported. Link without `krissel quantize`."
    )
    K419 = (
        "[K419] The transformer is quantized and cannot be trained. Train the pipeline that it "
        "was made from, then quantize the result."
    )

    # Packages `index` and `kb` (K5xx, KW5xx).
    # Index.
    K501 = (
        "[K501] The '{kind}' index needs FAISS, which is not installed. Install one of the extras, "
        "never both: pip install 'spacy-krissel[cpu]' or pip install 'spacy-krissel[gpu]'. Without "
        "FAISS, use spacy-krissel.ExactIndex.v1."
    )
    K502 = (
        "[K502] Index setting 'device' is '{device}', but {problem}. Set it to 'cpu', or run where "
        "the device is and its library is installed ({library})."
    )
    K503 = (
        "[K503] Expected {what} as a float array of shape ({rows}, {width}), found {found}. Use "
        "the encoder that the vectors in the index were made with."
    )
    K504 = (
        "[K504] {count} of {total} {what} have values that are not finite (first: row {first}). "
        "Expected finite vectors; check the encoder's weights, which are NaN or infinite after a "
        "diverged training."
    )
    K505 = (
        "[K505] Expected the 'allowed' mask as a boolean array of shape ({n},), one value per "
        "{what}, found {found}. Create it with kb.entity_mask(...)."
    )
    K506 = (
        "[K506] The index in '{path}' cannot be used: {problem}. Expected an index of {rows} "
        "vectors of width {width}. Create the knowledge base again with: python -m spacy krissel "
        "prototypes"
    )
    K507 = (
        "[K507] The knowledge base was saved with an index of kind '{kind}', and no installed "
        "package has that kind (found: {known}). Install the package that adds it, by convention "
        "spacy-krissel-{kind}; or set another index "
        "([components.krissel_linker.generate_empty_kb.index]), or read it with from_disk(path, "
        "exclude=['index'])."
    )
    K508 = (
        "[K508] The index is empty. Expected vectors; call build() before searching or saving it."
    )
    K509 = (
        "[K509] FAISS is installed but cannot be loaded: {problem}. Install the libraries that it "
        "names (faiss-gpu needs those of its CUDA version), or replace it: pip uninstall "
        "faiss-gpu, then pip install 'spacy-krissel[cpu]'. Without FAISS, use "
        "spacy-krissel.ExactIndex.v1."
    )
    # Knowledge base: its content.
    K510 = (
        "[K510] {count} of {total} prototypes name an entity that the knowledge base does not have "
        "(first: '{entity}', number {first}). Add all entities with set_entities(...) first, or "
        "drop these prototypes."
    )
    K511 = (
        "[K511] Expected one vector per prototype, found {prototypes} prototypes and {vectors} "
        "vectors."
    )
    K512 = (
        "[K512] Prototype {first} (entity '{entity}') is of kind '{kind}'. Expected one of: "
        "{known}."
    )
    K513 = (
        "[K513] {count} entity ids occur more than once (first: '{entity}'). Expected unique ids; "
        "merge the records, or read them through an ontology store, which merges them."
    )
    K514 = (
        "[K514] Entity number {first} ('{name}') has an empty id. Expected an id for every entity."
    )
    K515 = (
        "[K515] {count} entities that have prototypes are missing from the new entities (first: "
        "'{entity}'). Keep them, or start from an empty knowledge base."
    )
    # Knowledge base: its use.
    K520 = (
        "[K520] The knowledge base is empty ({entities} entities, {prototypes} prototypes), so "
        "nothing can be linked. Build one with: python -m spacy krissel prototypes, then load it "
        "with kb.from_disk(path) or name its path in the linker's config."
    )
    K521 = (
        "[K521] The knowledge base has no encoder to search with. Attach one with "
        "kb.attach_encoder(encode), where encode takes a list of views and returns their vectors "
        "(krissel_linker does this), or use kb.search(vectors, k)."
    )
    K522 = (
        "[K522] The knowledge base was created with encoder {expected}, but this encoder is "
        "{found}: their vectors cannot be compared. Use the encoder it was created with, or create "
        "it again with: python -m spacy krissel prototypes"
    )
    K523 = (
        "[K523] The knowledge base in '{path}' has vectors of width {found}, expected {expected} "
        "as the encoder gives. Use the encoder it was created with, or create it again with: "
        "python -m spacy krissel prototypes"
    )
    K524 = (
        "[K524] The knowledge base in '{path}' is damaged: {problem}. Create it again with: python "
        "-m spacy krissel prototypes"
    )
    K525 = (
        "[K525] {count} of the given {what} are not in the knowledge base (first: '{first}'). It "
        "has {total}, such as: {known}."
    )
    K526 = (
        "[K526] The knowledge base was sent to this process as the folder '{path}', but that "
        "folder {problem} since. Leave the folder alone while processes use it."
    )
    K527 = (
        "[K527] Expected the bytes of a knowledge base (made by PrototypeKB.to_bytes), but they "
        "{problem}."
    )
    K528 = (
        "[K528] The knowledge base has vectors of width {expected}, but the encoder gives width "
        "{found}. Use the encoder that made it, or make the knowledge base again with: python -m "
        "spacy krissel prototypes"
    )
    K529 = (
        "[K529] An interrupted run left vectors in '{path}' from other input: {difference}. "
        "Expected the same pipeline, ontology, mentions and settings. Use the same arguments to "
        "resume it, or start over with restart=True (--restart)."
    )
    # Knowledge base: references.
    K531 = (
        "[K531] Expected one vector per reference, found {entities} entities and {vectors} vectors."
    )
    K532 = (
        "[K532] {count} of {total} references are of entities missing from the knowledge base "
        "(first: '{entity}'). Add all entities with set_entities(...) first, or drop these "
        "references."
    )
    K533 = (
        "[K533] {count} of {total} annotated mentions have an id that the knowledge base lacks "
        "(first: {examples}), so none was added. Check the ids, or leave these mentions out with "
        "skip_unknown=True."
    )
    K534 = (
        "[K534] No entity of the knowledge base has the id or name {found!r}. Expected an id in "
        "any usual spelling, or a name. Similar names: {similar}."
    )
    K535 = (
        "[K535] Verdict {first} cannot be kept: {problem}. Expected a mention, and ids of the "
        "entities that it is (`right`) or is not (`rejected`), or `no_entity`."
    )
    K560 = (
        "[K560] The re-ranker's table of candidates was sent to this process as the folder "
        "'{path}', but that folder {problem} since. Leave the folder alone while processes use it, "
        "or pickle the pipeline again."
    )

    # Pipes, objectives and training (K6xx, KW6xx).
    K601 = (
        "[K601] A loss got {found}. Expected scores, positives and negatives of one shape, "
        "(queries, keys), with at least one query, and no pair both positive and negative."
    )
    K603 = (
        "[K603] '{name}' has no knowledge base to link to. Add prototypes with `python -m spacy "
        "krissel prototypes`, set `kb_path`, or give `dev_kb` in [initialize.components.{name}] "
        "for training."
    )
    K604 = (
        "[K604] '{name}' is not initialized: its encoder has no weights. Make a linker with "
        "`krissel build`, train one with `spacy train`, or load one with `spacy.load` and add it "
        "with `source=`. `nlp.initialize()` gives it untrained weights, but resets every other "
        "component too: call it in a blank pipeline only."
    )
    K605 = (
        "[K605] '{name}' cannot be loaded from {source}: {problem}. Expected what nlp.to_disk or "
        "nlp.to_bytes wrote, whole, and a config with the encoder it was saved with. Save the "
        "pipeline again, or undo the config's overrides in [components.{name}.model]."
    )
    K606 = (
        "[K606] '{name}' has no names to find: {problem}. Expected the linker whose knowledge base "
        "has the names (the setting `linker`), or names: nlp.get_pipe('{name}').set_names([(name, "
        "id), …])"
    )
    K607 = (
        "[K607] '{name}' has no setting '{setting}'. Settings that can be changed on a loaded "
        "pipeline are: {known}."
    )
    K608 = (
        "[K608] The training corpus found no linked mention in split '{split}' of '{path}'. {todo}"
    )
    K610 = (
        "[K610] The pipeline has no krissel_linker called '{name}'; it has: {found}. Give the "
        "component's name, or add one with nlp.add_pipe('krissel_linker')."
    )
    K611 = (
        "[K611] No pipeline can be loaded from '{path}': {problem}. Expected a directory as `spacy "
        "train` or nlp.to_disk writes it, or the name of an installed pipeline package."
    )
    K614 = (
        "[K614] {problem}. Expected an ontology (--ontology), to create a knowledge base; or gold "
        "mentions (--gold) only, to add them to the pipeline's knowledge base."
    )
    K615 = (
        "[K615] '{name}' is not initialized: it has no candidate texts and no temperature. Train "
        "it with `spacy train`, load a trained pipeline with `spacy.load`, or call "
        "`nlp.initialize()`."
    )
    K616 = (
        "[K616] '{name}' has no ontology to describe candidates. Set `ontology` in "
        "[initialize.components.{name}], with `@misc = spacy-krissel.OntologyFromDisk.v1`."
    )
    K617 = (
        "[K617] '{name}' is trained on the candidates of '{linker}', which has no knowledge base. "
        "Source a linker that has one (`python -m spacy krissel prototypes`), freeze it, and name "
        "it in `linker`."
    )
    K618 = (
        "[K618] '{name}' has lost the pipeline with its linker '{linker}': it was copied, or its "
        "pipeline was deleted. Call nlp.get_pipe('{name}').learn_from(nlp) before training."
    )
    K619 = (
        "[K619] Gold mentions of '{path}' cannot be added under the source '{source}': {problem}. "
        "Expected each file once, under its name without suffix. {todo}."
    )
    K620 = (
        "[K620] The pipeline has no krissel_finder for '{linker}'; it has: {found}. Expected one, "
        "which finds names: build the pipeline with --find auto, or add one "
        "with nlp.add_pipe('krissel_finder', before='{linker}')."
    )
    K621 = (
        "[K621] '{name}' cannot learn names from {n_docs} doc(s): none has a gold mention with an "
        "id that the knowledge base has. Expected docs in which all mentions are annotated, as "
        "`krissel convert` writes them."
    )
    K632 = (
        "[K632] The encoder of '{name}' cannot be exported as a transformer: {problem}. Expected a "
        "trained pipeline whose linker has a transformer; {todo}."
    )
    K633 = (
        "[K633] The linker of '{name}' has another kind of encoder than the one initialized from "
        "it. Expected a transformer for a transformer, a small encoder for a small one. Choose "
        "another pipeline, or change [components.krissel_linker.model]."
    )
    K634 = (
        "[K634] No batch could be made of {found} {what} pairs. Expected pairs of at least two "
        "entities that share no name, each with two {what}s. Check the ontology, the corpus, and "
        "`pairs` in [training.batcher]."
    )
    K636 = (
        "[K636] The objective compares mentions with references, and the model encodes mentions "
        "alone. Use the architecture 'spacy-krissel.ReferencedEncoder.v1' in "
        "[components.krissel_linker.model], or, to train on mentions alone, "
        "'spacy-krissel.ContrastiveObjective.v1' without a `reference_loss`."
    )
    K637 = (
        "[K637] Adversarial examples need the input embeddings of a transformer, and the model "
        "that reads entities has none. Use 'spacy-krissel.TransformerEncoder.v1' (`reference` of a "
        "linker's model) or 'spacy-krissel.CrossEncoder.v1' (a re-ranker's), or set `fgsm_weight` "
        "to 0."
    )
    K639 = (
        "[K639] The objective has no entities to compare mentions with: {problem}. Expected an "
        "ontology with the entity of each linked mention. {todo}."
    )
    K641 = (
        "[K641] An encoding process died ({problem}), most often because memory ran out. Finished "
        "work is kept: run the command again to resume, with fewer processes (n_process is "
        "{n_process})."
    )
    K642 = (
        "[K642] The knowledge base in '{path}' was being replaced when the process was killed. Run "
        "the command again, or rename the backup folder '{aside}' there to 'kb'."
    )
    K645 = (
        "[K645] The process that reads the corpus ahead ended, most often because memory ran out. "
        "Expected memory for one more process and, in your own script, training code under `if "
        "__name__ == '__main__':`. See its message above, or set `read_ahead` of the corpus to 0."
    )
    K646 = (
        "[K646] A worker that links ended {count} times at {part}, most often because memory ran "
        "out. Finished parts are kept: run the command again to resume, with fewer processes."
    )
    K647 = (
        "[K647] '{path}' is of a run of link with other input: {difference}. Expected the same "
        "settings, pipeline and texts. Use the same arguments, choose another output, or start "
        "over with restart=True (--restart)."
    )
    K648 = (
        "[K648] Nothing of the corpus could be read. {examples}. Check the files, or their names "
        "and formats."
    )
    K649 = (
        "[K649] The pipeline '{path}' changed while it links a corpus. Finished parts are those of "
        "the earlier one: put it back and run the command again to resume, or start over with "
        "restart=True (--restart)."
    )
    K651 = (
        "[K651] {count} processes cannot train '{name}': it is not a component of spacy-krissel, "
        "so each process would train its own copy. Train it in one process, and name it in "
        "training.frozen_components here."
    )
    K652 = (
        "[K652] {count} processes cannot train one model without a seed. Expected a number for "
        "training.seed (or system.seed), so that all draw the same batches."
    )
    K653 = (
        "[K653] The {count} processes of this training start with different weights of '{name}'. "
        "Expected the same: use the same encoder, ontology and corpus on each machine, and seeded "
        "initial weights."
    )
    K660 = (
        "[K660] '{name}' has a knowledge base that is not the one in its kb_path, '{path}': it was "
        "changed after loading, comes from elsewhere, or the folder is gone. The pipeline saves "
        "the path only, so it would be lost. Save it first: "
        "nlp.get_pipe('{name}').kb.to_disk('{path}')"
    )
    K661 = (
        "[K661] Setting '{setting}' of '{name}' cannot be removed. Expected a value: set "
        "cfg['{setting}'] to another one."
    )
    K662 = (
        "[K662] '{name}' cannot have the term '{term}': {problem}. Expected, in "
        "[components.{name}.terms.{term}], an object of a subclass of spacy_krissel.Term, under a "
        "name that candidates do not have yet."
    )
    K663 = "[K663] The term '{term}' {what} {found}. Expected {expected}. Correct the term's class."
    K680 = (
        "[K680] '{path}' holds the work of another build: {difference}. Expected the same "
        "arguments: use them to continue that build, or discard its work (--restart)."
    )
    K681 = (
        "[K681] '{path}' cannot hold corrections: {problem}. Expected a new file, or one written "
        "by `krissel serve` that no other service uses."
    )
    K682 = (
        "[K682] {what} {problem}. Expected texts, mentions and settings as described in "
        "/openapi.json of the service."
    )
    K683 = (
        "[K683] The service would accept requests from other machines on {host} without "
        "authentication. Expected an API key in the environment variable {variable}, or a "
        "loopback address (--host 127.0.0.1), with a proxy in front of it for other machines."
    )
    K684 = (
        "[K684] {what} is not installed. Expected the extra of the service: pip install "
        "spacy-krissel[{extra}]"
    )
    K685 = (
        "[K685] A linking process ended, most often because memory ran out, and could not be "
        "replaced: {problem}. Expected a process that loads the pipeline, as at the start. With "
        "`--corrections`, accepted corrections are kept: start the service again."
    )
    K675 = (
        "[K675] GPU {gpu_id} cannot be used: {problem}. Expected the number of a GPU that PyTorch "
        "and CuPy see, or -1 for the CPU."
    )
    K676 = (
        "[K676] No component of this pipeline finds mentions in text, so nothing would be linked: "
        "it has {found}. Expected one that sets {where} (such as ner or entity_ruler) and is "
        "enabled, or docs with mentions (.spacy)."
    )
    K677 = (
        "[K677] '{path}' is not a config for training: {problem}. Expected a complete one, as "
        "`spacy init fill-config` writes it, and data at its paths."
    )
    K678 = (
        "[K678] There is nothing to review in '{path}': none of the {n_mentions} mention(s) in its "
        "{n_docs} doc(s) is linked to an entity. Expected links: check the texts, the component "
        "that finds mentions, and the linker's settings for NIL."
    )
    K679 = (
        "[K679] There is no name to review in '{path}': no krissel_finder found a mention in its "
        "{n_docs} doc(s). Expected a pipeline with a finder, as `krissel build` makes it. "
        "It finds nothing in texts that have mentions."
    )
    K686 = (
        "[K686] {n} prototypes of '{name}' are references, which a small encoder cannot read. "
        "Expected names and mentions alone: make the knowledge base without "
        "`--reference-prototypes` and `--mentions-only`."
    )
    K687 = (
        "[K687] '{reranker}' was trained on the scores of '{name}', which another encoder would "
        "change. Expected a linker without a re-ranker: distill it, then train a re-ranker on its "
        "scores."
    )
    K688 = (
        "[K688] The linker '{name}' has no transformer to quantize. Expected one: a small encoder "
        "is fast without quantization."
    )
    K691 = (
        "[K691] There is nothing to render: the document has no `doc.spans['{key}']`; its keys "
        "are: {keys}. Name one of them, or run the component that writes it."
    )
    K692 = (
        "[K692] The request has {n:,} {what}, but the limit is {limit:,} ({setting}). Expected "
        "fewer: split the request, or start the service with a higher limit."
    )
    K693 = (
        "[K693] The service cannot listen on {host}, port {port}: {problem}. Expected a free "
        "port, and an address of this machine: choose others (--port, --host), or stop the "
        "program that uses the port."
    )
    K694 = (
        "[K694] Only {kept:,} of the {total:,} entities of {source} ({share:.1%}) are in the new "
        "ontology, by their ids or alternative ids. Expected {least:.0%} or more, as in a new "
        "release of the same vocabulary. Give all sources of the linker; if as many entities were "
        "retired, lower `min_kept` (--min-kept)."
    )
    K695 = "[K695] The linker '{name}' cannot be updated: {problem}. Expected {expected}."
    K696 = (
        "[K696] Only {n:,} of the {total:,} entities with an id of the linker ({share:.1%}) have a "
        "name there that they had before. Expected {least:.0%} or more: ids that stand for the "
        "same concepts. Check that they were not assigned again, such as the numbers of rows; if "
        "the release is in another language, lower `min_kept` (--min-kept)."
    )

    # Package `evaluation` (K7xx, KW7xx).
    K701 = (
        "[K701] There is nothing to evaluate: {source} holds {n_docs} document(s) and no mention "
        "with a gold id{detail}. Expected entities (or spans of the key that is evaluated) that "
        "carry a `kb_id_`. Check the file, `spans_key` and `labels`."
    )
    K703 = (
        "[K703] The pipeline has no component that writes links (found: {pipes}). Expected one "
        "that assigns `token.ent_kb_id`, such as 'krissel_linker'. Add it, or load a pipeline that "
        "has it."
    )
    K704 = (
        "[K704] '{path}', line {line}, is not a link record: {problem}. Expected one JSON object "
        "per line, as written with the report; create the file again with: python -m spacy "
        "krissel evaluate"
    )
    K705 = (
        "[K705] '{name}' cannot be compared with the evaluated system: {n_missing} of {n} "
        "mentions are missing from it, the first is {first}. Expected the same documents and the "
        "same kind of mentions (gold or predicted) for both."
    )
    K706 = (
        "[K706] None of the ids of {n} gold mentions is in {where} (first: {first}), so no link "
        "could be correct. Expected the ontology that the corpus was annotated with; check both."
    )
    K711 = (
        "[K711] No threshold for NIL can be fitted: none of the {n} mentions is NIL. Expected some "
        "whose gold id is 'NIL', '-1' or '-'. Annotate them so, or create the corpus with `python "
        "-m spacy krissel convert --unknown-as-nil` and an ontology that lacks their entities."
    )
    K712 = (
        "[K712] No threshold for NIL can be fitted: all {n} mentions are NIL. Expected some with "
        "an entity; use a corpus with both, in about the proportion of later texts."
    )
    K713 = (
        "[K713] No threshold reaches a precision of NIL of {wanted}. The highest is {highest}, at "
        "a recall of {recall}. Give that or less, or omit the precision to fit the best F1."
    )
    K714 = (
        "[K714] The top score of {n} of {total} mentions {what}, so no threshold can be fitted. "
        "Expected scores for some mentions at least, all of them numbers. Check the knowledge "
        "base, and `types` and `types_by_label` of the linker."
    )
    K715 = (
        "[K715] The confidence of '{name}' cannot be fitted: its knowledge base has no names and "
        "no mentions, but {kinds}. Expected prototypes of these kinds; make it with names "
        "(`krissel prototypes`)."
    )
    K721 = (
        "[K721] No entity is seen in {source}: it has {n_docs} document(s) and no mention with a "
        "gold id. Expected the gold documents used in training, with `kb_id_`. Check the file and "
        "`spans_key`."
    )


class Warnings:
    """All warning messages; `Warnings.KW101.format(...)`."""

    # Shared by all packages (K0xx), and of commands (K8xx).
    KW030 = (
        "[KW030] In {docs} documents doc.ents and doc.spans['krissel'] hold different links "
        "(first: {first}). {corrected} mentions were read with the links of doc.ents, and "
        "{elsewhere} linked entities of doc.ents that are not in the group were skipped. Expected "
        "the same in both: correct or remove doc.spans['krissel'], or name the group with "
        "spans_key."
    )
    KW034 = (
        "[KW034] There is no predicted {what} in any of {docs} document(s) with {mentions} gold "
        "mention(s), so linking has no score. Expected a component before the linker that finds "
        "mentions, or documents with mentions: `python -m spacy krissel evaluate` gives a linker "
        "the gold mentions."
    )
    KW035 = "[KW035] A plugin was left out. {problem}"

    # Package `ontology` (K1xx, KW1xx).
    KW101 = (
        "[KW101] Left out {count} of {total} records of '{path}'. The first: {examples}. Correct "
        "or remove them."
    )
    KW102 = (
        "[KW102] {count} entities were left out, because an earlier entity has the same id. The "
        "first ids: {ids}. Give each entity its own id."
    )
    KW103 = (
        "[KW103] Alternative ids of more than one entity: {count}. Each resolves to the "
        "entity with that primary id, or else to the first entity. The first such ids: {ids}. "
        "Remove them where that is wrong."
    )
    KW104 = (
        "[KW104] Ignored {count} values of '{path}' under unknown keys: {keys}. Known keys: "
        "{known}. Rename them if they were meant to be read."
    )
    KW105 = (
        "[KW105] The last line of '{path}', {line}, has no line end and may be truncated. Expected "
        "a line end after the last line; compare the file with its source, or add one."
    )
    KW106 = (
        "[KW106] '{where}' states {found} of UMLS, but the preset {name} is of {expected}: some "
        "concepts will be missing, and others new. Use the files of that release to compare "
        "results."
    )
    KW107 = (
        "[KW107] '{path}' has no names of {sources}, so none of its ids is found. Check the "
        "abbreviation, such as MSH."
    )
    KW108 = (
        "[KW108] Obsolete ids of '{path}' whose replacement leads to no single entity of the file: "
        "{count}. The first: {examples}. Expected `replaced_by`, or one `consider`, with an id of "
        "the file. If you know the entity, add the obsolete id to its alternative ids."
    )
    KW109 = (
        "[KW109] {count} entities of '{path}' have no label in the language '{language}', and are "
        "named in another: {found}. The first: {ids}. Expected labels in that language; choose "
        "another with `language`, or add a table of translations."
    )
    KW110 = (
        "[KW110] No translation in {paths} was used, because no entity has one of their ids. "
        "Expected the ids of the sources, such as HP:0001250."
    )
    KW111 = (
        "[KW111] {count} of {total} cells in column {column!r} of '{path}' were split at "
        "{mark!r}, such as {first!r}. Expected {mark!r} between values; otherwise set the "
        "separator with --separator (`separator`), or --separator '' for none."
    )
    KW112 = (
        "[KW112] The cells in column {column!r} of '{path}' were read as one value each, but "
        "{count} of {total} contain {mark!r}, such as {first!r}. If it separates values, set "
        "--separator {mark!r} (`separator`); otherwise set --separator '' for none."
    )
    KW121 = (
        "[KW121] No name was found for {count} species of entities in '{path}'; names are "
        "expanded with their ids. The first: {ids}. Use a taxonomy that has them."
    )
    KW130 = (
        "[KW130] '{path}' has no gene of the species {species}; others were found. Correct the "
        "setting 'species' if they are misspelt."
    )

    # Package `corpora` (K2xx, KW2xx).
    KW201 = (
        "[KW201] {count} record(s) were left out because they are not in the expected form: "
        "{examples}. Correct them, as their format has it (docs/formats.md; docs/correct.md for "
        "tables of links), or remove them."
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
        "[KW206] {count} mention(s) were left out because they repeat a mention (offsets, label "
        "and id): {examples}."
    )
    KW208 = (
        "[KW208] {count} mention(s) have an id that is not in the ontology, and were kept: "
        "{examples}. Check that the corpus and the ontology belong together, and that ids have "
        "their prefix (`krissel convert --prefix`)."
    )
    KW209 = (
        "[KW209] No mention has the label(s) {missing}. Expected labels of the corpus; found: "
        "{found}. Check the setting 'labels'."
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
        "[KW212] The first line of '{path}', '{header}', was read as the name of the only column, "
        "not as a term. If it is a term, save the list as a text file (.txt), or put 'term' above "
        "it."
    )
    KW213 = (
        "[KW213] '{path}' has no id of the vocabulary, so nothing in it was verified. Expected ids "
        "such as HP:0001677; check the file, or name its format or columns."
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
    KW235 = (
        "[KW235] {count} file(s) of the corpus could not be read, or not to their end; what "
        "precedes the damage was used: {examples}. All are listed in the manifest; copy them "
        "again, and link them by themselves."
    )

    # Package `mining` (K3xx, KW3xx).
    KW301 = (
        "[KW301] None of the {names} names of the ontology '{ontology}' was found in {texts} "
        "texts: '{path}' has no mention. Check that the texts fit the ontology's field and "
        "language, or try case='fold'."
    )
    KW302 = (
        "[KW302] {count} of {texts} texts were skipped, because their id was read before or "
        "deleted by PubMed (first: {first})."
    )

    # Package `encoding` (K4xx, KW4xx).
    KW401 = (
        "[KW401] The optimizer averages weights, except those of the small encoder's tables, so an "
        "evaluated or saved encoder would be a mixture. Set training.optimizer.use_averages = "
        "false (in code: Adam(..., use_averages=False))."
    )

    # Packages `index` and `kb` (K5xx, KW5xx).
    KW501 = (
        "[KW501] {count} of {total} annotated mentions were left out, because the knowledge base "
        "lacks their id (first: {examples}). Check that the corpus and the "
        "ontology use the same ids."
    )
    KW502 = (
        "[KW502] None of the {spans} gold mentions has an id, so no prototype was added. Expected "
        "`span.kb_id_` on the mentions of docs, in doc.ents or in doc.spans[spans_key]."
    )
    KW503 = (
        "[KW503] Index setting 'device' is '{device}', but {problem}: the index searches on the "
        "CPU. Expected a device that this machine and its libraries offer. Set 'device' to 'cpu' "
        "to silence this warning."
    )

    # Pipes, objectives and training (K6xx, KW6xx).
    KW601 = (
        "[KW601] The encoder of '{name}' has new weights, so its knowledge base of {entities} "
        "entities no longer fits and was dropped. Create it again with `python -m spacy krissel "
        "prototypes` after training."
    )
    KW602 = (
        "[KW602] {alone} of the {found} examples of a training batch have an entity that occurs "
        "only once in the batch, and are skipped. Expected two mentions of each entity: leave "
        "training.accumulate_gradient at 1, since a divided batch loses pairs, and use "
        "'spacy-krissel.PairBatcher.v1' in [training.batcher]. Shown once."
    )
    KW603 = (
        "[KW603] {count} of {total} linked mentions of '{path}' have an id that is not in the "
        "ontology, and are treated as unlinked. Check that the corpus and the ontology use the "
        "same ids."
    )
    KW613 = (
        "[KW613] {count} of {total} entries of `doc._.abbreviations` cannot be read and are "
        "skipped (first: {first}). Expected what scispaCy's abbreviation_detector writes: spans "
        "with `span._.long_form`, or dictionaries with 'short_text' and 'long_text'. If another "
        "component uses the name, set `use_abbreviations = false` to read no abbreviations at all."
    )
    KW614 = (
        "[KW614] '{name}' has nothing to re-rank in doc.{own}: the linker '{linker}' writes its "
        "candidates to doc.{other}. Set the same `spans_key` for both."
    )
    KW615 = (
        "[KW615] '{name}' re-ranks up to {wanted} candidates of a mention, and mentions have "
        "{found} at most. Set `n_candidates` of '{linker}' to {wanted}."
    )
    KW620 = (
        "[KW620] {count} of {total} texts are longer than the pipeline's limit of {limit} "
        "characters and were skipped (first: {first}). Split them, or raise `nlp.max_length` where "
        "memory allows."
    )
    KW621 = (
        "[KW621] No mention was found, so nothing was linked (docs: {n_docs}). `krissel show "
        "PIPELINE TEXT --variants` says why a name is not found, `krissel show PIPELINE NAME` "
        "lists similar ones. If no text ever has a mention in {where}, check the component that "
        "sets them (the pipeline holds {found})."
    )
    KW622 = (
        "[KW622] '{name}' got a document without mentions, and no component has set {where}, so "
        "nothing is linked. Expected a component before it that finds mentions (such as ner or "
        "entity_ruler). Shown once."
    )
    KW625 = (
        "[KW625] {skipped} of {batches} training batches so far had no {missing}, and were skipped "
        "with a loss of 0. {todo}. Shown at 1, 10, 100 and so on."
    )
    KW626 = (
        "[KW626] p_replace is {found}, but there is no ontology whose names could replace "
        "mentions: none is replaced. Set `ontology` in [initialize.components], or p_replace = 0."
    )
    KW627 = (
        "[KW627] '{name}' comes after '{linker}' in the pipeline, so the mentions that it finds "
        "are not linked. Add it with nlp.add_pipe('krissel_finder', before='{linker}')."
    )
    KW628 = (
        "[KW628] '{name}' does not find {n} of its {total} `added_names`, since the knowledge base "
        "lacks their entities, or has split them: {names}. They are kept, and found again with a "
        "release that has these; or add them with other ids."
    )
    KW629 = (
        "[KW629] {n} of {total} corrections do not apply to texts: the finder does not find their "
        "mentions. Add them as names with `krissel correct`, by a table with the columns text and "
        "right_id. The first mentions: {names}."
    )
    KW681 = (
        "[KW681] The last line of '{path}' was cut off: its {n} bytes were written by a service "
        "that was stopped before it accepted the correction."
    )
    KW682 = (
        "[KW682] {n} of {total} corrections are ignored, because the knowledge base lacks their "
        "entities, or several entities replace one. The first such entity: {first}. They stay in "
        "the file, and can be undone."
    )
    KW683 = (
        "[KW683] '{path}' was moved or removed while the service ran. It was written again, with "
        "all corrections that the service accepted. Stop the service before you move the file."
    )
    KW684 = (
        "[KW684] '{path}' cannot hold the vectors of corrections: {problem}. The service encodes "
        "them again. Free disk space, or remove the file; the next start writes it again."
    )
    KW680 = (
        "[KW680] {n} mentions were mined, fewer than {fewest}, so the encoder is not trained on "
        "them. Give more text, or text that mentions entities of the ontology."
    )

    # Package `evaluation` (K7xx, KW7xx).
    KW701 = (
        "[KW701] {n} of {total} gold mentions were no longer in the documents after the pipeline "
        "ran, so they count as missing (first: {examples}). A component changes the entities; "
        "name it in `disable`."
    )
    KW702 = (
        "[KW702] {n} of {total} gold mentions have an id that is not in the ontology, so no "
        "prediction can be correct (first: {examples}). Use the "
        "same ids in both, or make unknown ids NIL (krissel convert --unknown-as-nil)."
    )
    KW703 = (
        "[KW703] {count} gold prototypes were not used to evaluate these {n_docs} documents, "
        "because they are from the same documents: a mention must not be linked by its own "
        "annotation. The knowledge base keeps them."
    )
    KW704 = (
        "[KW704] `added_names` and `stop_names` of the finder ({count}) are used to evaluate these "
        "{n_docs} documents, whose gold mentions the knowledge base has. If they were learned from "
        "the same documents, the result is too good: evaluate other documents."
    )
    KW711 = (
        "[KW711] {n} of {total} gold mentions have an id that is not in the knowledge base "
        "(first: {examples}). They count as mentions with an entity, for which no link is "
        "correct, not as NIL. Replace such ids by 'NIL' (`python -m spacy krissel convert "
        "--unknown-as-nil`) if they are NIL."
    )
    KW712 = (
        "[KW712] The best threshold makes all {n} mentions NIL: scores of mentions with and "
        "without an entity do not differ enough. Give a precision, or train the encoder further."
    )
    KW720 = (
        "[KW720] None of {n} mentions was linked by {pipes}, so all of them count as missing "
        "predictions. Check that these components have a knowledge base, and that their "
        "`spans_key`, `types` and `labels` fit the mentions."
    )
    KW721 = (
        "[KW721] No link was predicted in {n} documents by the pipeline (components: {pipes}), so "
        "all gold links count as missed. Expected a component that sets mentions, and after it a "
        "linker with a knowledge base, whose `spans_key`, `types` and `labels` fit the mentions."
    )


class _NotSet:
    """Value in messages for None, which users of the command line do not know."""

    def __repr__(self) -> str:
        return "not set"


def wrong_setting(setting: str, found: Any, expected: str) -> KrisselError:
    """Return the error K006. found: None is shown as not set, and a path as typed. expected: in
    words."""
    shown = _NotSet() if found is None else str(found) if isinstance(found, PurePath) else found
    return KrisselError(Errors.K006.format(setting=setting, found=shown, expected=expected))
