"""The bridge between a benchmark's values and the policy's."""

import io

import numpy as np
import pytest
from PIL import Image

from runner.engine.bridge import Bridge, BridgeError


class Halving:
    """An adapter that renames and halves."""

    steps_per_query = 2

    def obs(self, value):
        return {"state": value["arm_x"]}

    def action(self, value):
        return np.asarray(value) / 2


def test_without_an_adapter_an_observation_goes_as_it_is() -> None:
    """A dict without images is opaque input; arrays stay arrays, numbers of numpy's become plain ones."""
    body = Bridge().ask({"x": np.float32(1.5), "v": np.array([1.0]), "t": (1.0, 2.0)}, "reach")
    assert body["inputs"]["x"] == 1.5
    assert type(body["inputs"]["x"]) is float
    assert body["inputs"]["v"].tolist() == [1.0]
    assert body["inputs"]["t"] == [1.0, 2.0]


def test_images_make_a_robot_arm_observation() -> None:
    """Keywords of `sequence_ai.observation` become the wire's form; the task stands in for a missing instruction."""
    red = np.zeros((8, 8, 3), np.uint8)
    red[..., 0] = 255
    body = Bridge().ask({"images": {"front": red}, "joints": [0.0] * 7, "state": {"cube": [1.0, 2.0, 3.0]}}, "lift")
    wire = body["observation"]
    assert wire["instruction"] == "lift"
    assert wire["state"] == {"cube": [1.0, 2.0, 3.0]}
    seen = np.asarray(Image.open(io.BytesIO(wire["images"][0]["data"])))
    assert seen[4, 4, 0] > 240
    assert seen[4, 4, 2] < 20


def test_an_instruction_is_not_replaced() -> None:
    """The author's sentence wins over the task's name."""
    body = Bridge().ask({"images": {}, "joints": [0.0], "instruction": "go"}, "lift")
    assert body["observation"]["instruction"] == "go"


def test_the_adapter_sees_rows_and_answers_rows() -> None:
    """For a robot-arm policy `action()` gets the chunk as (rows, dim)."""
    rows = Bridge(adapter=Halving()).rows({"steps": [[2.0, 4.0], [6.0, 8.0], [1.0, 1.0]]})
    np.testing.assert_array_equal(rows, [[1.0, 2.0], [3.0, 4.0]])


def test_the_own_form_passes_infers_value_untouched() -> None:
    """With `policy_io = "own"` the adapter gets exactly what `infer` returned."""
    seen = []

    class Own(Halving):
        steps_per_query = 1

        def action(self, value):
            seen.append(value)
            return [[value["steps"][0]]]

    assert Bridge(adapter=Own(), policy_io="own").rows({"steps": [7]}).tolist() == [[7.0]]
    assert seen == [{"steps": [7]}]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"steps": [[1.0, float("nan")]]}, "row 0, dimension 1 of the answer is nan"),
        ({"steps": [[1.0, 2.0, 3.0]]}, "takes rows of 2 numbers and got 3"),
        ({"steps": []}, "no row to play|shape"),
        ({"steps": [[1.0, 2.0], [3.0]]}, "equally many numbers"),
        ({"steps": "abc"}, "rows of equally many numbers"),
    ],
)
def test_rows_that_cannot_be_played_are_refused(answer, says) -> None:
    """NaN, a wrong length, nothing, ragged rows: one sentence that names the place."""
    with pytest.raises(BridgeError, match=says):
        Bridge(action_dim=2).rows(answer)


def test_only_the_open_loop_horizon_is_played() -> None:
    """A chunk that asks to be replanned after 2 of 3 rows gives 2; an explicit interval wins; too long is an error."""
    chunk = {"steps": [[1.0], [2.0], [3.0]], "open_loop_horizon": 2}
    assert len(Bridge().rows(chunk)) == 2
    assert len(Bridge(steps_per_query=1).rows(chunk)) == 1
    with pytest.raises(BridgeError, match="use at most 3"):
        Bridge(steps_per_query=4).rows(chunk)


def test_an_adapter_that_raises_is_named_with_its_own_frames() -> None:
    """The error names the adapter and the traceback shows the author's line, not ours."""

    class Broken:
        def obs(self, value):
            raise KeyError("arm_x")

    with pytest.raises(BridgeError, match=r"Broken\.obs\(\) failed: KeyError") as caught:
        Bridge(adapter=Broken()).ask({}, "t")
    assert "engine/bridge.py" not in caught.value.traceback.replace("test_bridge.py", "")
    assert 'raise KeyError("arm_x")' in caught.value.traceback


@pytest.mark.parametrize("wanted", [0, -1, True, "two", 1.5])
def test_an_interval_that_cannot_be_is_refused(wanted) -> None:
    """`steps_per_query` of an adapter must be a whole number of at least 1: 0 would ask for ever."""

    class Odd(Halving):
        steps_per_query = wanted

    with pytest.raises(BridgeError, match="at least 1"):
        Bridge(adapter=Odd()).rows({"steps": [[1.0]]})


@pytest.mark.parametrize(
    ("observation", "says"),
    [
        ({"v": np.array([[1.0, np.inf]])}, r"\['v'\]\[0, 1\] is inf"),
        (
            {"images": {}, "joints": [0.0], "state": {"cube": [float("inf")]}},
            r"\['cube'\] holds NaN or infinity at \[0\]",
        ),
        ({"v": object()}, "cannot be sent to the policy"),
    ],
)
def test_what_no_act_can_carry_is_named(observation, says) -> None:
    """Infinity in an array, in a robot's state, and what is no data."""
    with pytest.raises(BridgeError, match=says):
        Bridge().ask(observation, "t")


def test_a_number_that_json_cannot_carry_is_named() -> None:
    """NaN in an observation is the episode's error, with the place it stands."""
    with pytest.raises(BridgeError, match=r"the observation\['x'\]\[1\] is nan"):
        Bridge().ask({"x": [1.0, float("nan")]}, "t")
