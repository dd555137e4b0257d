import sys


def operations(call, within="spacy_krissel"):
    """Count the interpreter's operations in files whose path has `within`, while `call` runs."""
    n = 0

    def count(frame, event, what):
        nonlocal n
        n += event == "opcode"
        return count

    def trace(frame, event, what):
        if within not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return count

    # That of coverage, where it is measured.
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return n
