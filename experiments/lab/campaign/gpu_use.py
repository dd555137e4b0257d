"""The use of a card over time, as nvidia-smi reports it."""

import shutil
import subprocess
import threading
import time
from contextlib import suppress

FIELDS = ("utilization.gpu", "memory.used", "power.draw")
NAMES = ("percent", "mib", "watts")
SECONDS = 1.0
SMI_SECONDS = 10


class GpuUse:
    """Samples the first card's use once a second, in a thread, where nvidia-smi exists.

    As a context manager: the thread ends with the block.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._samples: list[tuple[float, list[float]]] = []
        self._over = threading.Event()
        self._began = time.monotonic()
        self._program = shutil.which("nvidia-smi")
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> "GpuUse":
        if self._program:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._program:
            self._thread.join(SMI_SECONDS)

    def samples(self) -> list[dict[str, float]]:
        """Return a sample a second: seconds since the start, percent of use, MiB of memory,
        watts."""
        return [
            {"seconds": round(at - self._began, 1), **dict(zip(NAMES, values, strict=True))}
            for at, values in list(self._samples)
        ]

    def summary(self, since: float) -> dict[str, float]:
        """Return the means of use and power and the highest memory since a time (`time.monotonic`);
        {}: no sample."""
        values = [each for at, each in list(self._samples) if at >= since]
        if not values:
            return {}
        percent, mib, watts = zip(*values, strict=True)
        mean = {"percent": sum(percent) / len(values), "watts": sum(watts) / len(values)}
        return {
            "samples": len(values),
            **{name: round(value, 1) for name, value in mean.items()},
            "mib": max(mib),
        }

    def _sample(self) -> None:
        command = [
            str(self._program),
            f"--query-gpu={','.join(FIELDS)}",
            "--format=csv,noheader,nounits",
        ]
        while not self._over.wait(self._seconds):
            # A card that does not report its power says "[N/A]": no sample.
            with suppress(OSError, ValueError, IndexError, subprocess.SubprocessError):
                found = subprocess.run(command, capture_output=True, text=True, timeout=SMI_SECONDS)
                values = [float(value) for value in found.stdout.splitlines()[0].split(",")]
                if len(values) == len(FIELDS):
                    self._samples.append((time.monotonic(), values))
