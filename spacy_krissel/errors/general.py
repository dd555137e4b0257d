"""Exception classes, and the messages every room shares (K0xx)."""


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


class GeneralWarnings:
    pass
