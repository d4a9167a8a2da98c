"""Timing two sides that share a machine with other work.

Entries take turns inside rounds. Before and after every round runs an anchor, a matrix product of fixed size; a round
with an anchor below 90% of the best one seen is thrown away and run again.
"""

import statistics
import time
from dataclasses import dataclass, field, replace


@dataclass
class Options:
    rounds: int = 7
    block_seconds: float = 0.15  # an entry runs about this long in each round, in one block
    most_runs: int = 20  # in a block
    long_seconds: float = 0.5  # runs of this length need no warm-up
    pause_seconds: float = 0.01  # between blocks: threads that wait by spinning go to sleep
    slow: float = 0.9  # a round with an anchor below this share of the best is run again
    extra_rounds: int = 10  # at most so many times
    screen_factor: float = 1.25  # entries this much slower than the fastest drop out before the rounds

    def at_most(self, rounds):
        return self if rounds is None else replace(self, rounds=min(rounds, self.rounds))


@dataclass
class Entry:
    name: str
    run: object  # () -> seconds
    keep: bool = False  # stays in whatever it takes
    estimate: float = 0.0  # seconds, from screening
    seconds: list = field(default_factory=list)  # one median for each round

    @property
    def median(self):
        return statistics.median(self.seconds) if self.seconds else self.estimate

    @property
    def spread(self):
        """Half the distance between the quartiles."""
        if len(self.seconds) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.seconds, n=4)
        return (high - low) / 2


class Anchor:
    """The rate of the fixed product, and the best there has been."""

    def __init__(self, measure):
        self.measure, self.best, self.rates = measure, 0.0, []

    def fast_enough(self, slow):
        rate = self.measure()
        self.best = max(self.best, rate)
        if rate < slow * self.best:
            return False
        self.rates.append(rate)
        return True


def run_block(entry, options, pause=time.sleep):
    """The median of a few runs, short ones after one that does not count."""
    pause(options.pause_seconds)
    if entry.estimate < options.long_seconds:
        entry.run()
    runs = max(1, min(options.most_runs, round(options.block_seconds / max(entry.estimate, 1e-6))))
    return statistics.median(entry.run() for _ in range(runs))


def screen(entries, options):
    """Warms everybody up, estimates times, and drops those that cannot be the fastest peer."""
    for entry in entries:
        first = entry.run()
        entry.estimate = entry.run() if first > options.long_seconds else min(entry.run() for _ in range(2))
    rivals = [e.estimate for e in entries if not e.keep]
    limit = options.screen_factor * min(rivals) if rivals else 0.0
    return [e for e in entries if e.keep or e.estimate <= limit]


def race(entries, anchor, options, pause=time.sleep):
    """Fills `seconds` of the entries that pass the screening; returns these and how many rounds were repeated.

    A round counts when the anchors before and after it were fast. On a machine that never gets quiet the last rounds
    count all the same once `extra_rounds` are used up.
    """
    entries = screen(entries, options)
    repeated = 0
    quiet = anchor.fast_enough(options.slow)
    while len(entries[0].seconds) < options.rounds:
        times = [run_block(e, options, pause) for e in entries]
        quiet_before, quiet = quiet, anchor.fast_enough(options.slow)
        if not (quiet_before and quiet) and repeated < options.extra_rounds:
            repeated += 1
            continue
        for entry, seconds in zip(entries, times):
            entry.seconds.append(seconds)
    return entries, repeated
