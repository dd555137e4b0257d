"""What reading a damaged file raises, as a coded error; what is not damage passes."""

import errno
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Iterator

from ..errors import KrisselError
from .disk import disk_error


@contextmanager
def damage(path: Path, coded: Callable[[object], KrisselError]) -> Iterator[None]:
    """Turn whatever a library raises over the content of the file `path` into the error that `coded` makes of it.

    Out of memory is not damage: it stays a MemoryError. What the disk refuses is KrisselError K026.
    """
    try:
        yield
    except (KrisselError, MemoryError):
        raise
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise MemoryError(f"{path}: {error}") from error
        # Arrow calls a file that ends too early an OSError too, without a number.
        raise (disk_error(error, path) if error.errno else coded(error)) from error
    except Exception as error:  # Of damaged bytes, each library and version raises something else.
        raise coded(error) from error
