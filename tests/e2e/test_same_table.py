"""The same inputs and seeds give the same table, whatever the layout."""

from tests.e2e.harness import ROOT, Platform, eval_id_of

PANDA = (
    "panda-expert",
    "--benchmark",
    "panda-tabletop",
    "--adapter",
    "panda-joints",
    "--trials",
    "3",
    "--record",
    "none",
)
RANDOM = (
    "panda-random",
    "--benchmark",
    "panda-tabletop",
    "--adapter",
    "panda-joints",
    "--trials",
    "1",
    "--record",
    "none",
)


def table(platform: Platform, *flags: str) -> str:
    """The CSV of one run: per-episode results, steps and metrics, every bit of them."""
    out = platform.seq("eval", "run", *flags, timeout=1200)
    return platform.seq("eval", "report", eval_id_of(out), "--csv", "-")


def test_one_and_eight_environments_and_a_second_run_agree_bit_for_bit(shared: Platform) -> None:
    """Results depend on task, seed and variant alone; both surfaces, metrics in full precision."""
    alone = table(shared, *PANDA, "--envs", "1")
    assert len(alone.splitlines()) == 1 + 4 * 2 * 3
    assert table(shared, *PANDA, "--envs", "8") == alone
    assert table(shared, *PANDA, "--envs", "8") == alone


def test_a_random_policy_is_repeatable_too(shared: Platform) -> None:
    """Every act carries the seed of its episode and number, so even chance is the same twice, in any layout."""
    assert table(shared, *RANDOM, "--envs", "1") == table(shared, *RANDOM, "--envs", "5")


def test_a_batched_benchmark_gives_the_same_table_with_any_number_of_slots(shared: Platform) -> None:
    """One process steps all its slots in one call; results are those of one slot, and of the single form."""
    shared.seq("deploy", f"{ROOT}/tests/supports/steady.py:SteadyPolicy")
    for name in ("Lines", "Line"):
        shared.seq("deploy", f"{ROOT}/tests/supports/line_benchmark.py:{name}")
    one = table(shared, "steady-policy", "--benchmark", "lines", "--envs", "1")
    assert table(shared, "steady-policy", "--benchmark", "lines", "--envs", "4") == one
    assert [line.split(",")[5] for line in one.splitlines()[1:]] == ["1", "2", "3", "4"]
    single = table(shared, "steady-policy", "--benchmark", "line", "--tasks", "go", "--envs", "3")
    assert [line.split(",")[5] for line in single.splitlines()[1:]] == ["1", "2", "3", "4"]
