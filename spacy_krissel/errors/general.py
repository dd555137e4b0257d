"""Exception classes, and the messages that all packages (K0xx) and the commands (K8xx) share."""

import re

_CODE = re.compile(r"\[(KW?\d{3})\] ")


class _Coded(Exception):
    @property
    def code(self) -> str:
        """Code at the head of the message, such as "K006"; empty for a message without one."""
        found = _CODE.match(str(self))
        return found[1] if found else ""


class KrisselError(_Coded, ValueError):
    """Anything this package refuses to do; the message starts with its `code`."""


class KrisselWarning(_Coded, UserWarning):
    """Something was left out or replaced; the message starts with its `code` and counts it."""


class GeneralErrors:
    K001 = "[K001] There is no {what} at '{path}'. Expected {expected}. Check the path, or create it with: {make}"
    K002 = (
        "[K002] '{path}' holds no {kind}: its manifest.json {problem}. Expected a directory written by spacy-krissel; "
        "create it again with: {make}"
    )
    K003 = (
        "[K003] '{path}' holds a {kind} of format version {found}, but this version of spacy-krissel reads version "
        "{expected}. Create it again with: {make}"
    )
    K004 = (
        "[K004] '{file}' in '{path}' is damaged: {problem}. The directory was changed or truncated after it was "
        "written; create it again with: {make}"
    )
    K005 = "[K005] '{path}' exists and holds no {kind}. Choose another path, or remove it."
    K006 = "[K006] Setting '{setting}' is {found!r}. Expected {expected}."
    K007 = (
        "[K007] '{path}' is truncated or malformed XML: line {line}: {problem}. Expected {kind} up to `</{root}>`; "
        "download or copy it again."
    )
    K008 = (
        "[K008] '{path}' is not {kind}: its root element, at line {line}, is <{found}>. Expected <{root}>. Check the "
        "file, or state its format."
    )
    K009 = (
        "[K009] '{path}' was not read beyond line {line}: {problem}. Entity declarations are refused, because they "
        "can exhaust memory or read other files. Expected XML without them; remove them."
    )
    K020 = (
        "[K020] Process {number} of {count} waited too long for the others: {problem}. One of them ended or hangs: "
        "look for its own message, and start all of them again."
    )
    K021 = (
        "[K021] The processes of this training have different batches at the same step. Expected the same batch in "
        "each, which is then divided: use the same files on each machine, and readers, batchers and callbacks whose "
        "random numbers depend on a fixed seed or on Python's `random` only."
    )
    K022 = (
        "[K022] {count} processes cannot train one model: {problem}. Expected processes started by a launcher, with a "
        "GPU for each or for none: torchrun --nproc-per-node N -m spacy krissel train CONFIG --gpu-id 0 (or without "
        "--gpu-id)."
    )
    K023 = (
        "[K023] Ray is not installed. Expected it on every machine of the cluster: install spacy-krissel[ray], or use "
        "local processes (n_process)."
    )
    K024 = (
        "[K024] There is no Ray cluster at '{address}': {problem}. Expected the address of a running one (host:port, "
        "or 'auto' on one of its machines); start it with `ray start --head`, or give no address to use this machine "
        "only."
    )
    K025 = (
        "[K025] Ray failed on a part of the work, after {retries} retries ({problem}), most often because memory ran "
        "out. Finished work is kept: run the command again to resume, with fewer workers per machine."
    )
    K026 = "[K026] '{path}' could not be read or written: {problem}. {advice}."
    K027 = (
        "[K027] There is something at '{path}' already: {held}. Expected another output, or the option --force (in "
        "Python force=True), which keeps it as {backup} beside the new one."
    )
    K028 = (
        "[K028] '{path}' holds a {kind}, and {n} file(s) that are no part of it, such as '{first}'. The "
        "folder is replaced as a whole: move them elsewhere, or choose another path."
    )
    K045 = (
        "[K045] Another run is working in '{path}' and writes the same output. Expected one run per output: wait for "
        "it, stop it, or choose another output."
    )
    K053 = (
        "[K053] '{path}' could not be read: {place} failed with {problem}. Expected a complete file of its format. "
        "Check that place, or copy the file again; if it is correct, this is a bug of spacy-krissel: report it with "
        "the traceback."
    )
    K054 = (
        "[K054] '{path}' could not be read: {place} is nested too deeply. Expected JSON or XML with at most a few "
        "hundred levels; check how the file was made."
    )
    K055 = (
        "[K055] '{path}' was not read further: {place} has {found} MiB or more. Expected at most {limit} MiB, a limit "
        "that protects memory and disk. If the file is correct, raise it: set the environment variable {variable} to a "
        "number of MiB."
    )
    K056 = (
        "[K056] '{path}' is not UTF-8 text: it starts like {found}. Expected UTF-8; convert it: iconv -f {found} -t "
        "UTF-8."
    )
    K057 = (
        "[K057] '{path}' has {count} carriage return(s) and no line feed, as in files of old Macs. Expected lines "
        "that end in a line feed; convert it: tr '\\r' '\\n'."
    )
    K058 = (
        "[K058] '{path}' is in the encoding {found!r}, which cannot be read ({problem}). Expected XML in UTF-8, "
        "UTF-16 or an encoding with one byte per character; convert it, with its first line: iconv -f {found} -t "
        "UTF-8."
    )
    K059 = (
        "[K059] '{path}' was not read further: line {line} is the last of {count} consecutive blank lines. Expected "
        "records; check how the file was made."
    )
    K060 = "[K060] '{path}' is not text: it is {found}. Expected a text file, plain or gzipped. {advice}."
    K061 = (
        "[K061] Plugin '{name}' of the distribution '{distribution}' cannot be used: {problem}. Expected "
        "an entry point of the group {group} that can be imported, is of the group's type, and has a name "
        "of its own. Update or uninstall the distribution."
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
        "{corrected} mentions were read with the links of doc.ents, and {elsewhere} linked entities of doc.ents that "
        "are not in the group were skipped. Expected the same in both: correct or remove doc.spans['krissel'], or "
        "name the group with spans_key."
    )
    KW031 = (
        "[KW031] numba is installed and cannot be imported ({problem}), so linking takes longer. Expected "
        "a version that goes with NumPy's: pip install --upgrade numba."
    )
    KW034 = (
        "[KW034] There is no predicted {what} in any of {docs} document(s) with {mentions} gold mention(s), so "
        "linking has no score. Expected a component before the linker that finds mentions, or documents with "
        "mentions: `python -m spacy krissel evaluate` gives a linker the gold mentions."
    )
    KW035 = "[KW035] A plugin was left out. {problem}"
