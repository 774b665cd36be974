"""The public names."""

import types

import sequence_ai

PUBLISHED = """
connect models account gpus billing usage fleet scale chat Conversation image cached decide observation encode
DEFAULT_JPEG_QUALITY Policy Observation ImageFrame Proprioception ActionChunk Prediction RunOutcome Model ChatResult
ChatStream DecideResult SequencesError InvalidRequest AuthError PermissionDenied OutOfCredit NotFound Conflict Gone
Unavailable PolicyError InternalError CertPinError ChunkExhausted from_response DEFAULT_BASE_URL
"""


def test_all_names_are_exactly_the_public_ones():
    """`__all__` lists every public name of the package and nothing else."""
    public = {
        name
        for name, value in vars(sequence_ai).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public == set(sequence_ai.__all__)


def test_every_published_name_is_there():
    """A file written for the published client finds every name it may import."""
    assert set(PUBLISHED.split()) <= set(sequence_ai.__all__)


def test_all_is_sorted_and_without_doubles():
    """`__all__` reads in order: constants, classes, functions, each sorted."""
    assert sequence_ai.__all__ == sorted(set(sequence_ai.__all__), key=_reading_order)


def test_version_is_told():
    """The package tells its version."""
    assert sequence_ai.__version__.count(".") >= 1


def _reading_order(name):
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)
