"""The subjects that measure a whole platform, in small: each row they promise a figure for is there."""

import pytest

from bench import acts, handover, start


@pytest.mark.e2e
@pytest.mark.filterwarnings("ignore:.*does not act yet:UserWarning")
@pytest.mark.parametrize("subject", [acts, handover, start])
def test_a_small_run_yields_what_is_promised(subject):
    """Every promise is about a figure that was measured."""
    rows = {row.what: row.figures for row in subject.run(subject.TINY)}
    assert all(promise.figure in rows[promise.what] for promise in subject.PROMISES)
