"""`decide`: typed questions about a state (sdk.md 9.2)."""

import httpx
import pytest

import sequence_ai
from sequence_ai import InternalError, InvalidRequest, Unavailable
from sequence_ai.testing import error

QUESTIONS = {
    "done": {"type": "noul", "instructions": "Is the cup on the shelf?", "criteria": {"true": "it is", "false": "no"}},
    "next": {"type": "choice", "instructions": "What now?", "criteria": {"pick": "take it", "wait": "do nothing"}},
    "mess": {"type": "score", "instructions": "How messy?", "criteria": ["tidy", "fair", "messy"]},
}
ANSWERS = {
    "done": {"type": "noul", "noul": 0.9},
    "next": {"type": "choice", "choice": "pick", "probabilities": {"pick": 0.8, "wait": 0.2}, "confidence": 0.8},
    "mess": {"type": "score", "score": 1, "legend": ["tidy", "fair", "messy"], "probabilities": [0, 1, 0]},
}


@pytest.fixture(autouse=True)
def _served(platform, monkeypatch):
    monkeypatch.setenv("SEQUENCES_BASE_URL", platform.url)
    monkeypatch.setenv("SEQUENCES_API_KEY", platform.key)
    rows = [{"id": "a/s/models/judge", "endpoint": "decide"}, {"id": "a/s/models/brain", "endpoint": "chat"}]
    platform.documents["/v1/models"] = {"data": rows}
    platform.documents["/v1/decide"] = {
        "id": "d-1",
        "model": "a/s/models/judge",
        "answers": ANSWERS,
        "usage": {"total_tokens": 5},
        "provider": "p",
        "cost_usd": 0.001,
    }


def test_questions_are_sent_and_answers_come_back_by_key(platform):
    """State and questions travel as given; the result holds the answers, the cost and the provider."""
    result = sequence_ai.decide("judge", {"cups": [1, 2]}, QUESTIONS)
    assert platform.to("/v1/decide")[0].body == {
        "model": "a/s/models/judge",
        "state": {"cups": [1, 2]},
        "questions": QUESTIONS,
    }
    assert (result.id, result.answers, result.cost_usd, result.provider) == ("d-1", ANSWERS, 0.001, "p")
    assert (result.usage, result.perf, result.warnings) == ({"total_tokens": 5}, {}, [])


@pytest.mark.parametrize("questions", [{}, None, [QUESTIONS["done"]]])
def test_no_questions_are_refused_here(platform, questions):
    """Without a question nothing is sent."""
    with pytest.raises(InvalidRequest, match="no questions"):
        sequence_ai.decide("judge", {}, questions)
    assert platform.sent == []


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ({"type": "bool", "instructions": "x"}, "noul"),
        ({"type": "noul", "instructions": " "}, "instructions"),
        ({"type": "noul", "instructions": "x", "criteria": {"maybe": "x"}}, "true"),
        ({"type": "choice", "instructions": "x", "criteria": {}}, "one option"),
        ({"type": "choice", "instructions": "x", "criteria": ["a"]}, "option"),
        ({"type": "choice", "instructions": "x"}, "option"),
        ({"type": "score", "instructions": "x", "criteria": []}, "labels"),
        ({"type": "score", "instructions": "x", "criteria": {"a": "b"}}, "ordered list"),
        ("is it done?", "type"),
    ],
)
def test_a_question_that_cannot_be_right_is_refused_here(platform, question, told):
    """Each type needs its own criteria; the refusal names the question and says what would be right."""
    with pytest.raises(InvalidRequest, match=f"'q'.*{told}"):
        sequence_ai.decide("judge", {}, {"q": question})
    assert platform.sent == []


def test_criteria_of_a_noul_may_be_left_out(platform):
    """Criteria that are None are not sent."""
    sequence_ai.decide("judge", None, {"q": {"type": "noul", "instructions": "x", "criteria": None}})
    assert platform.to("/v1/decide")[0].body["questions"] == {"q": {"type": "noul", "instructions": "x"}}


def test_a_chat_model_is_not_asked_to_decide(platform):
    """A model of another endpoint is refused before anything is asked of it."""
    with pytest.raises(InvalidRequest, match=r"brain.*chat.*judge"):
        sequence_ai.decide("brain", {}, QUESTIONS)
    assert platform.to("/v1/decide") == []


def test_errors_are_raised_as_they_come_and_not_retried(platform):
    """The provider's rejection, its failure and its silence each have their class, after one request."""
    platform.answer_next("/v1/decide", error(400, "invalid_request", "no such thing"), error(502, "upstream_error"))
    with pytest.raises(InvalidRequest, match="no such thing"):
        sequence_ai.decide("judge", {}, QUESTIONS)
    with pytest.raises(Unavailable):
        sequence_ai.decide("judge", {}, QUESTIONS)
    platform.answer_next("/v1/decide", httpx.ReadTimeout("late"))
    with pytest.raises(Unavailable, match=r"0\.5 s") as late:
        sequence_ai.decide("judge", {}, QUESTIONS, timeout_s=0.5)
    assert late.value.code == "timeout"
    assert len(platform.to("/v1/decide")) == 3


def test_an_answer_without_answers_is_the_platforms_fault(platform):
    """A malformed answer is InternalError."""
    platform.documents["/v1/decide"] = {"id": "d-1"}
    with pytest.raises(InternalError, match="malformed"):
        sequence_ai.decide("judge", {}, QUESTIONS)
