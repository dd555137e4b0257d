"""Exception classes, and the messages that all packages (K0xx) and the commands (K8xx) share."""


class KrisselError(ValueError):
    """Anything this package refuses to do; the message starts with its code."""


class KrisselWarning(UserWarning):
    """Something was left out or replaced; the message starts with its code and counts it."""


class GeneralErrors:
    K001 = "[K001] There is no {what} at '{path}'. Expected {expected}. Check the path, or make it with: {make}"
    K002 = (
        "[K002] '{path}' is not a {kind}: its manifest.json {problem}. Expected a directory written by "
        "spacy-krissel; write it again with: {make}"
    )
    K003 = (
        "[K003] '{path}' holds a {kind} of format version {found}, but this version of spacy-krissel reads version "
        "{expected}. Write it again with: {make}"
    )
    K004 = (
        "[K004] '{file}' in '{path}' is damaged: {problem}. The directory was changed or cut short after it was "
        "written; write it again with: {make}"
    )
    K005 = "[K005] '{path}' exists already and holds something that is not a {kind}. Choose another path or remove it."
    K006 = "[K006] Setting '{setting}' is {found!r}. Expected {expected}."
    K007 = (
        "[K007] '{path}' is not whole, well-formed XML: line {line}: {problem}. Expected {kind} up to "
        "`</{root}>`; download or copy it again."
    )
    K008 = (
        "[K008] '{path}' is not {kind}: its outermost element, at line {line}, is <{found}>. Expected <{root}>. "
        "Check the file, or name its format."
    )
    K009 = (
        "[K009] '{path}' was not read further than line {line}: {problem}. Entity declarations are refused, because "
        "they can be used to exhaust memory or to read other files. Expected XML without them; remove them."
    )
    K020 = (
        "[K020] Process {number} of {count} waited for the others in vain: {problem}. One of them ended, or came to a "
        "standstill: look for its own message, and start all of them again."
    )
    K021 = (
        "[K021] The processes of this training have different batches at the same step. Expected the same in each, "
        "which is then divided: the same files on each machine, and readers, batchers and callbacks that draw random "
        "numbers by a seed of their own or with Python's `random` alone, in each process alike."
    )
    K022 = (
        "[K022] {count} processes cannot train together: {problem}. Expected a launcher's, and a GPU for each, or none "
        "for any: torchrun --nproc-per-node N -m spacy krissel train CONFIG --gpu-id 0 (or without --gpu-id)."
    )
    K023 = (
        "[K023] Ray is not installed, and work on it was asked for. Expected it on every machine of the cluster: "
        "install spacy-krissel[ray], or use the processes of this machine (n_process)."
    )
    K024 = (
        "[K024] There is no Ray cluster at '{address}' to work on: {problem}. Expected the address of one that runs "
        "(host:port, or 'auto' on one of its machines); start it with `ray start --head`, or name none for this "
        "machine alone."
    )
    K025 = (
        "[K025] Ray could not do a piece of the work, after {retries} retries ({problem}), most often because memory "
        "ran out. What was done so far is kept: run it again to go on, with fewer workers a machine."
    )
    K026 = "[K026] '{path}' could not be read or written: {problem}. {advice}."
    K045 = (
        "[K045] Another run is at work in '{path}', and writes the same output. Expected one run for each output: wait "
        "for the other one, end it, or choose another output."
    )
    K053 = (
        "[K053] '{path}' could not be read: {place} failed with {problem}. Expected a whole file of its format. Look "
        "at that place, and copy the file again; if it is right, this is a fault of spacy-krissel: report it with the "
        "traceback."
    )
    K054 = (
        "[K054] '{path}' could not be read: {place} is nested too deeply. Expected JSON or XML that is nested some "
        "hundred levels at most; check how the file was made."
    )
    K055 = (
        "[K055] '{path}' was not read further: {place} has {found} MiB or more, above the limit of {limit} MiB, which "
        "protects memory. Expected less. If the file is right, raise the limit: set the environment variable "
        "{variable} to a number of MiB."
    )
    K056 = (
        "[K056] '{path}' is not UTF-8 text: it begins as {found} does. Expected UTF-8; convert it: iconv -f {found} -t "
        "UTF-8."
    )
    K057 = (
        "[K057] '{path}' has {count} carriage return(s) and no line feed, as files of old Macs do. Expected lines that "
        "end in a line feed; convert it: tr '\\r' '\\n'."
    )
    K058 = (
        "[K058] '{path}' is in the encoding {found!r}, which cannot be read ({problem}). Expected XML in UTF-8, UTF-16 "
        "or an encoding of one byte a character; convert it, with its first line: iconv -f {found} -t UTF-8."
    )
    K059 = (
        "[K059] '{path}' was not read further: line {line} is the last of {count} blank lines in a row. Expected "
        "records; check how the file was made."
    )
    K801 = (
        "[K801] Interrupted. An earlier result is unchanged. Run the same command again: mine and prototypes resume "
        "where they stopped, other commands start over."
    )
    K802 = (
        "[K802] Out of memory ({problem}). Nothing is damaged, and an earlier result is unchanged. Use smaller "
        "batches, fewer processes or fewer candidates, free memory, or use a machine with more."
    )


class GeneralWarnings:
    KW030 = (
        "[KW030] In {docs} documents doc.ents and doc.spans['krissel'] hold different links (first: {place}): "
        "{corrected} mentions were read as doc.ents link them, and {elsewhere} linked entities of doc.ents that are no "
        "mention of the group were left out. Expected the same in both: correct or remove doc.spans['krissel'], or "
        "name the group that is meant with spans_key."
    )
    KW034 = (
        "[KW034] There is no predicted {what} in any of {docs} document(s) with {mentions} gold mention(s), so that "
        "linking has no score. Expected a component before the linker that finds mentions, or documents that have "
        "them: `python -m spacy krissel evaluate` gives a linker the gold mentions."
    )
