"""Runs each kernel of the table with ten seeds and prints what was found: `python3 -m fuzz.tests.common.rows`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context

from fuzz.tests.common.rows.running import ROWS, RowResult, by_name, lines_of, loaded


def main() -> None:
    """Run what is asked for and print it."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--jobs", type=int, default=os.cpu_count())
    asked.add_argument("--seeds", type=int, default=10)
    asked.add_argument("--rows", nargs="*", default=ROWS)
    asked.add_argument("-k", default="", help="only kernels whose name has this")
    asked.add_argument("--json", default="", help="a file for all results, one a line")
    asked.add_argument("--told", default="", help="print the table of such a file, and run nothing")
    given = asked.parse_args()
    if given.told:
        with open(given.told) as file:  # noqa: PTH123
            results = [RowResult(**json.loads(line)) for line in file]
        print("\n".join(lines_of(loaded(given.rows), results)))
        return
    entries = [each for each in loaded(given.rows) if given.k in each.name]
    work = [(each.name, seed) for seed in range(given.seeds) for each in entries if each.drawn or seed == 0]
    results = []
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as workers:
        for done in as_completed([workers.submit(by_name, *each) for each in work]):
            results.append(one := done.result())
            if given.json:
                with open(given.json, "a") as file:  # noqa: PTH123
                    print(json.dumps(asdict(one)), file=file)
            print(
                f"{len(results)}/{len(work)} {one.name} {one.seed} {one.outcome} {one.seconds:.0f} s", file=sys.stderr
            )
    print("\n".join(lines_of(entries, results)))


if __name__ == "__main__":
    os.environ["TRITON_INTERPRET"] = "1"  # before any process imports triton
    main()
