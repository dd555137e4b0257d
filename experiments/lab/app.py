"""Command line of the experiments, `python ../lab …`, in addition to `python -m spacy krissel`."""

from spacy_krissel.cli.app import CodedApp

lab = CodedApp(
    name="lab", help="Data sets, ablations and baselines of the papers.", no_args_is_help=True
)
