"""`make simulate SEEDS=2000`, or `make simulate SEED=1234` for the story of one."""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.history import History, told
from tests.simulation.violation import Violation
from tests.simulation.visits import Visits


def main() -> int:
    parser = argparse.ArgumentParser(prog="make simulate")
    parser.add_argument("--seeds", type=int, default=2000, help="how many histories")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="this one alone, with its story")
    asked = parser.parse_args()
    if asked.seed is not None:
        story, violation = told(asked.seed)
        print("\n".join(story.lines))
        print(f"\nseed {asked.seed}: {violation or 'every promise was kept'}")
        return violation is not None
    visits, failed, begun = Visits(), [], time.process_time()
    for seed in range(asked.first, asked.first + asked.seeds):
        try:
            visits.add(History(seed).run())
        except Violation as violation:
            failed.append(seed)
            print(f"seed {seed}: {violation}", flush=True)
    took = time.process_time() - begun
    print(f"{asked.seeds} histories, {visits.steps} steps, {took:.0f} s, {len(failed)} failed: {failed[:20]}")
    print(visits.report())
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
