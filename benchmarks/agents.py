"""Time of each tool of `krissel mcp`, and names a second that `ground` gives ids to.

    python benchmarks/agents.py PIPELINE

The official client calls each tool over standard input and output, one call at a time, with
names of the knowledge base or parts of them; the first call of each is left out, as at the start
the process has answered one of each kind. Then `ground` gets names as the knowledge base has
them, and with a letter missing in half or all of them, each with and without a context, in this
process on one thread.
Times and rates are by the clock, and by the processor's time of all threads and processes ("core"),
which others on the machine change less. Needs Linux (/proc). Prints both tables.
"""

import asyncio
import json
import os
import random
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

# Before the libraries that read it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import spacy
import typer
from attack_service import processes
from mcp import Client, StdioServerParameters

from spacy_krissel import ground
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.pipeline.pipeline_io import find_linker

RESULT = Path(__file__).parent / "results" / "agents.json"
CONTEXT = (
    "The patient had {} since early childhood, which was confirmed by imaging. Family history was "
    "unremarkable, and the parents were not related."
)


def main(
    pipeline: Annotated[Path, typer.Argument(help="A pipeline with a linker")],
    calls: Annotated[int, typer.Option(help="Calls of each tool")] = 100,
    names: Annotated[int, typer.Option(help="Names to ground")] = 10_000,
    output: Annotated[Path, typer.Option(help="Result (JSON)")] = RESULT,
) -> None:
    """Time the tools and `ground`."""
    nlp = spacy.load(pipeline)
    kb = find_linker(nlp).kb
    rng = random.Random(0)
    ids = rng.choices([*kb.entity_ids], k=calls)
    result: dict[str, Any] = {
        "tools_ms": asyncio.run(time_tools(pipeline, requests(kb, ids))),
        "names_per_second": rates(nlp, kb, names, rng),
        "setup": {"pipeline": pipeline.name, "entities": kb.n_entities, "cpus": os.cpu_count()},
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf8")
    print("tool: p50, p99, max in ms, mean on one core")
    for name, times in result["tools_ms"].items():
        print(f"{name}: {', '.join(f'{each:.0f}' for each in times.values())}")
    print("names: per second by the clock, of one core")
    for name, found in result["names_per_second"].items():
        print(f"{name}: {found['clock']:,.0f}, {found['core']:,.0f}")


def requests(kb: PrototypeKB, ids: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the arguments of each tool's calls."""
    labels = [kb[each].name for each in ids]
    texts = [
        f"The boy had {first.lower()}, but no {second.lower()}. {CONTEXT.format(first)}"
        for first, second in zip(labels, reversed(labels), strict=True)
    ]
    of_id = [{"id": each} for each in ids]
    return {
        "annotate": [{"text": each} for each in texts],
        "ground": [
            {"term": each, "context": CONTEXT.format(each)} if number % 2 else {"term": each}
            for number, each in enumerate(labels)
        ],
        "candidates": [{"term": each[1:]} for each in labels],
        "search": [{"query": each[: len(each) // 2 + 1]} for each in labels],
        "verify": [{"id": each, "label": label} for each, label in zip(ids, labels, strict=True)],
        "entity": of_id,
        "children": of_id,
        "parents": of_id,
    }


async def time_tools(
    pipeline: Path, asked: dict[str, list[dict[str, Any]]]
) -> dict[str, dict[str, float]]:
    """Return the times of each tool's calls, without the first."""
    server = StdioServerParameters(
        command=sys.executable,
        args=[
            "-m",
            "spacy_krissel.cli.alone",
            "commands.serve_agents:mcp",
            json.dumps({"pipelines": [str(pipeline)]}),
        ],
        env=dict(os.environ),
    )
    found = {}
    async with Client(server) as client:
        for name, each in asked.items():
            times, spent = [], 0.0
            for number, values in enumerate(each):
                if number == 1:
                    spent = server_seconds()
                start = time.perf_counter()
                answered = await client.call_tool(name, values)
                times.append(1000 * (time.perf_counter() - start))
                if answered.is_error:
                    raise RuntimeError(f"{name} {values}: {answered.content}")
            p50, p99 = np.percentile(times[1:], [50, 99]).tolist()
            core = 1000 * (server_seconds() - spent) / (len(times) - 1)
            found[name] = {"p50": p50, "p99": p99, "max": max(times[1:]), "core": core}
    return found


def server_seconds() -> float:
    """Return the processor's time of all processes that this one has started."""
    ticks = 0
    for pid in processes(os.getpid())[1:]:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def rates(nlp: Any, kb: PrototypeKB, n: int, rng: random.Random) -> dict[str, dict[str, float]]:
    """Return the names per second of `ground`, of other names each time: it keeps what it read."""
    some = rng.sample([*kb.entity_ids], kb.n_entities)
    names = [*islice((name for each in some for name in kb[each].names), 6 * n)]
    rng.shuffle(names)
    n = len(names) // 6
    found = {}
    ground(nlp, [*names[:100], *(each[1:] for each in names[:100])])
    kinds = {"listed": 0.0, "half of them with a letter missing": 0.5, "with a letter missing": 1.0}
    for number, (title, fraction) in enumerate(kinds.items()):
        for in_context in (False, True):
            start = (2 * number + in_context) * n
            asked = [
                without_letter(each, rng) if rng.random() < fraction else each
                for each in names[start : start + n]
            ]
            contexts = [CONTEXT.format(each) for each in asked] if in_context else None
            begin, spent = time.perf_counter(), time.process_time()
            ground(nlp, asked, contexts)
            clock, core = time.perf_counter() - begin, time.process_time() - spent
            more = ", in a context" if in_context else ""
            found[f"{title}{more}"] = {"clock": n / clock, "core": n / core}
    return found


def without_letter(name: str, rng: random.Random) -> str:
    index = rng.randrange(len(name))
    return name[:index] + name[index + 1 :]


if __name__ == "__main__":
    typer.run(main)
