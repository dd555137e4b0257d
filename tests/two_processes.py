"""Two processes that train together, for tests: they are started once, and do what they are
told."""

import os
import socket
import traceback
from multiprocessing import get_context


class TwoProcesses:
    """Calls module-level functions in both processes at once, joined as a launcher's are. Without
    arguments that cannot be pickled."""

    def __init__(self):
        context = get_context("spawn")
        self._ends, self._processes = [], []
        for number in range(2):
            end, other = context.Pipe()
            process = context.Process(target=_work, args=(number, other), daemon=True)
            process.start()
            self._ends.append(end)
            self._processes.append(process)

    def __call__(self, function, *args, timeout=1.0, joined=True):
        """Return what `function(*args)` returns in each process, or the text of its exception."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        for end in self._ends:
            end.send((function, args, port, timeout, joined))
        found = []
        for end in self._ends:
            assert end.poll(120), "no answer"
            found.append(end.recv())
        return found

    def close(self):
        for process in self._processes:
            process.terminate()
            process.join()


def _work(number, end):
    import torch
    from torch import distributed

    from spacy_krissel.distributed.processes import process_group
    from spacy_krissel.errors import KrisselError

    torch.set_num_threads(1)
    os.environ.update(
        RANK=str(number), LOCAL_RANK=str(number), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1"
    )
    while True:
        function, args, port, timeout, to_join = end.recv()
        os.environ["MASTER_PORT"] = str(port)
        try:
            if to_join:
                with process_group(-1, timeout):
                    answer = function(*args)
            else:
                answer = function(*args)
        except KrisselError as error:
            answer = str(error)
        except Exception:
            answer = traceback.format_exc()
        finally:
            # As if a process that failed had ended.
            if distributed.is_initialized():
                distributed.destroy_process_group()
        end.send(answer)
