import sys


def operations(call):
    """Count the interpreter's operations in `mentions` while `call` runs."""
    n = 0

    def count(frame, event, what):
        nonlocal n
        n += event == "opcode"
        return count

    def trace(frame, event, what):
        if "mentions" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return count

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return n
