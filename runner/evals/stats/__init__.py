"""The numbers of a report: means with 95 % intervals, paired differences, and how many episodes they need. Pure.

Everything takes numpy arrays with one value an episode, in the order of the episodes' indices, so equal runs give equal
numbers to the last bit. docs/statistics.md says which method is used where, and how well each keeps its 95 %.
"""

from runner.evals.stats.interval import Interval, interval, is_rate, macro
from runner.evals.stats.paired import Difference, difference, holm
from runner.evals.stats.power import enough_episodes, episodes, highest_bar, pairs, pass_chance, planning
from runner.evals.stats.summary import Grouping, Summary, summarize

__all__ = [
    "Difference",
    "Grouping",
    "Interval",
    "Summary",
    "difference",
    "enough_episodes",
    "episodes",
    "highest_bar",
    "holm",
    "interval",
    "is_rate",
    "macro",
    "pairs",
    "pass_chance",
    "planning",
    "summarize",
]
