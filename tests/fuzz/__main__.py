"""Fuzz the readers from the command line.

    python -m tests.fuzz --minutes 30              inputs of all targets, by turns, and a table of what came of them
    python -m tests.fuzz --inputs 5000 --seed 7    so many inputs, always the same
    python -m tests.fuzz --target 'onto:*'         some of the targets
    python -m tests.fuzz --target T --index I      one input again, with its traceback
    python -m tests.fuzz --target T --repro PATH   a saved input (a file, or the folder that --keep wrote)
    python -m tests.fuzz truncation                files cut at every record and at 200 other places; CR line ends
    python -m tests.fuzz bombs                     files that unpack to 400 MB, headers that lie, deep nesting

The exit status is 1 if an input ended in an uncoded exception, a hang, more than 1 GiB of memory or
a crash; if a cut went unnoticed; if a bomb did harm.
"""  # noqa: E501

import argparse
import sys
import tempfile
import traceback
from pathlib import Path


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "what", nargs="?", choices=("inputs", "truncation", "bombs"), default="inputs"
    )
    parser.add_argument("--minutes", type=float, help="stop after so long")
    parser.add_argument(
        "--inputs", type=int, help="stop after so many inputs of all targets together"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", help="a pattern, such as 'corp:*'")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="write inputs that fail below this folder")
    parser.add_argument("--index", type=int, help="try this input of the target alone")
    parser.add_argument("--repro", type=Path, help="try a saved input of the target")
    parser.add_argument("--small", action="store_true", help="no bombs that unpack to 400 MB")
    args = parser.parse_args(arguments)
    if args.what == "truncation":
        from .truncation import try_truncation

        return try_truncation(args.target, args.seed)
    if args.what == "bombs":
        from .bombs import try_bombs

        return try_bombs(args.target, small=args.small)
    if args.index is not None or args.repro is not None:
        return _again(args)
    return _fuzz(args)


def _fuzz(args: argparse.Namespace) -> int:
    from .run import Fuzzer
    from .targets import select

    fuzzer = Fuzzer(select(args.target), args.seed, jobs=args.jobs, keep=args.keep)
    if args.minutes is None and args.inputs is None:
        args.minutes = 1.0
    fuzzer.run(args.inputs, args.minutes)
    print(fuzzer.table())
    rate = fuzzer.n_inputs() / fuzzer.seconds
    print(
        "\n"
        f"Seed {args.seed}: {fuzzer.n_inputs():,} inputs in {fuzzer.seconds:.0f} s, {rate:.0f} a "
        "second."
    )
    for warning, n in fuzzer.warned.most_common(10):
        print(f"other warning {n}x: {warning}")
    if fuzzer.failures:
        print(
            f"\n{fuzzer.n_failures():,} failures of {len(fuzzer.failures)} causes:\n"
            f"{fuzzer.causes()}"
        )
    return 1 if fuzzer.n_failures() else 0


def _again(args: argparse.Namespace) -> int:
    """One input, in this process and without limits but those of time, so that its traceback is
    seen."""
    from .attempt import write_files
    from .targets import make_case, select

    targets = select(args.target)
    if len(targets) > 1:
        raise SystemExit("Name one target: --target")
    target = targets[0]
    with tempfile.TemporaryDirectory() as folder:
        if args.repro is None:
            case = make_case(target, args.seed, args.index)
            files, kinds = case.files, [case.thorough]
        else:
            files, kinds = (
                _saved(args.repro, list(target.seeds[0]) if target.seeds else []),
                [False, True],
            )
        path = write_files(Path(folder) / "input", files)
        for thorough in kinds:
            print(f"{target.name}, {'in full' if thorough else 'read alone'}: {', '.join(files)}")
            try:
                target.read(path, thorough)
            except Exception:
                traceback.print_exc(file=sys.stdout)
            else:
                print("read to its end")
    return 0


def _saved(path: Path, names: list[str]) -> dict:
    """A file under the name that the target has for it, or the files of a folder, the one that is
    read first."""
    if path.is_file():
        return {names[0] if names else path.name: path.read_bytes()}
    found = {
        each.relative_to(path).as_posix(): each.read_bytes()
        for each in sorted(path.rglob("*"))
        if each.is_file()
    }
    first = [name for name in names[:1] if name in found]
    return {name: found[name] for name in dict.fromkeys((*first, *found))}


if __name__ == "__main__":
    sys.exit(main())
