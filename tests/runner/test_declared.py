"""What is declared at a platform's start, and what a start without it goes on with."""

from __future__ import annotations

import pytest

from runner import declared, main, record
from runner.errors import StartError
from runner.settings import Settings


def running(home, **settings):
    """The note of a platform that runs, or was killed."""
    home.mkdir(exist_ok=True)
    record.note_running(Settings(home=home, port=7, **settings), "instance", secure=False)


def test_a_killed_platform_goes_on_with_what_was_declared(tmp_path):
    """A start that says nothing keeps the pretend cards and the account's limit; saying the same is no change."""
    running(tmp_path, pretend={"L4": 2}, gpus_per_account=16)
    assert declared.pretend_cards(None, tmp_path) == {"L4": 2}
    assert declared.pretend_cards(["L4:2"], tmp_path) == {"L4": 2}
    assert declared.gpus_per_account(None, tmp_path) == 16


@pytest.mark.parametrize("had", [{}, {"L4": 2}])
def test_a_killed_platform_goes_on_with_no_other_cards(tmp_path, had):
    """What it started may still run on the cards it had, so others are a conflict until `seq down`."""
    running(tmp_path, pretend=had)
    with pytest.raises(StartError, match="seq down") as refused:
        declared.pretend_cards(["H100:1"], tmp_path)
    assert refused.value.exit_code == 5


def test_pretend_cards_end_with_their_platform(tmp_path):
    """One that was stopped leaves its address and limit for the next start, and no card."""
    running(tmp_path, pretend={"L4": 2}, gpus_per_account=16)
    record.note_stopped(Settings(home=tmp_path))
    assert declared.pretend_cards(None, tmp_path) == {}
    assert declared.pretend_cards(["H100:16"], tmp_path) == {"H100": 16}
    assert declared.gpus_per_account(None, tmp_path) == 16
    assert record.previous(tmp_path)["port"] == 7


def test_without_a_word_there_is_no_pretend_card_and_eight_an_account(tmp_path):
    """A first start declares nothing."""
    assert (declared.pretend_cards(None, tmp_path), declared.gpus_per_account(None, tmp_path)) == ({}, 8)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--pretend", "L5:2"], "no card is called 'L5'; there are: A100, A100-40GB, B200, H100, L4, RTX-PRO-6000"),
        (["--pretend", "L4:0"], "'L4:0' is no card"),
        (["--pretend", "L4:2", "--pretend", "L4:2"], "named twice"),
        (["--gpus-per-account", "0"], "at least 1"),
    ],
)
def test_what_cannot_be_declared_ends_the_start(tmp_path, capsys, arguments, says):
    """Before anything runs, with 2 and a sentence in the last line."""
    assert main.main(["--home", str(tmp_path), *arguments]) == 2
    assert says in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "ray.json").exists()


def test_real_cards_and_pretend_ones_do_not_mix(tmp_path):
    """On a machine with cards of its own the head that was started is ended, and the start refused with 5."""

    class OneCard:
        stopped = False

        def real_cards(self):
            return {"H100": 1}

        def stop(self):
            self.stopped = True

    cluster = OneCard()
    main._refuse_real_beside_pretend(cluster, {})
    assert not cluster.stopped
    with pytest.raises(StartError, match="H100:1") as refused:
        main._refuse_real_beside_pretend(cluster, {"L4": 2})
    assert (refused.value.exit_code, cluster.stopped) == (5, True)
