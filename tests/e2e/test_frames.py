"""A policy that reads camera frames: what it is shown is its own episode's and its own step's, in any layout."""

from tests.e2e.harness import ROOT, Platform, eval_id_of


def test_every_frame_is_of_its_own_episode_in_any_layout(shared: Platform) -> None:
    """1, 4 and 16 environments, one instance or two: every frame read right, and the same table."""
    for name in ("MarkedBench", "Reader"):
        shared.seq("deploy", f"{ROOT}/tests/supports/marked.py:{name}")

    def table(*flags: str) -> str:
        run = shared.seq("eval", "run", "reader", "--benchmark", "marked", *flags)
        return shared.seq("eval", "report", eval_id_of(run), "--csv", "-")

    alone = table("--envs", "1")
    rows = [line.split(",") for line in alone.splitlines()]
    success = rows[0].index("success")
    assert len(rows) == 13
    assert all(row[success] == "1.0" for row in rows[1:])
    assert table("--envs", "4", "--policy-instances", "2") == alone
    assert table("--envs", "8", "--benchmark-instances", "2") == alone
    assert table("--envs", "16") == alone
    shared.seq("policy", "rm", "reader")
