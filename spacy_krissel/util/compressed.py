"""What gzip files begin with, and what reading a truncated or damaged one raises."""

import gzip
import zlib

GZIP_MAGIC = b"\x1f\x8b"
DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile)
