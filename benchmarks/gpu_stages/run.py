"""Run one stage in this process, as `gpu.py` does.

    python -m gpu_stages.run MODULE:FUNCTION FILE HEAD

FILE: the JSON that the stage writes. HEAD: the facts that `gpu.py` gives it, as JSON.
"""

import json
import signal
import sys
import traceback
from importlib import import_module
from pathlib import Path

from gpu_stages.report import MAX_TEXT, Report, Skipped


def run(call: str, path: Path, head: str) -> None:
    """Call the function of a stage, and record how it ended."""
    # A signal ends the process by an exception, which removes its temporary folders.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    report = Report(path, json.loads(head))
    module, _, function = call.partition(":")
    try:
        getattr(import_module(module), function)(report)
    except Skipped as reason:
        report.found["reason"] = str(reason)
        report.finish("skipped")
    except Exception:
        report.found["errors"]["stage"] = traceback.format_exc()[-MAX_TEXT:]
        report.finish("failed")
    else:
        report.finish("failed" if report.found["errors"] else "done")


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
