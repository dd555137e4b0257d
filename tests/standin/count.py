"""Print what each config copies between host and device, and waits for, in a step and in a batch.

    python tests/standin/count.py            # a row per config
    python tests/standin/count.py small      # of these configs also a row per function

The table is of `tests/gpu_standin`, whose expected numbers are to be changed with it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from traffic import KINDS, LIBRARY

TEST = Path(__file__).parents[1] / "gpu_standin" / "test_configs_on_a_device.py"


def main(names: list[str]) -> None:
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-m",
            "",
            TEST,
            "-k",
            "trains and belhd",
        ]
        subprocess.run(command, check=True, env={**os.environ, "STANDIN_REPORT": str(report)})
        configs = json.loads(report.read_text())["configs"]
    columns = [*KINDS, LIBRARY]
    print(f"Of a training step, then of four docs linked at once: {', '.join(columns)}")
    for name, found in configs.items():
        if "error" in found:
            print(f"{name:20}{found['error'].splitlines()[-1]}")
            continue
        step, batch = (
            "".join(f"{found[part][column]:10}" for column in columns) for part in ("step", "batch")
        )
        print(f"{name:20}{step}  {batch}")
        for part in ("step", "batch"):
            for function, n in found[f"{part} by function"].items() if name in names else ():
                print(f"    {part:6}{n:6}  {function}")


if __name__ == "__main__":
    main(sys.argv[1:])
