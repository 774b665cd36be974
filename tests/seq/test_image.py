"""An image is a value: steps in order, checked when written, nothing built."""

import pytest

import seq


def test_steps_keep_their_order_and_never_merge():
    """The wire's steps are the author's, one for one."""
    image = (
        seq.Image.debian_slim(python="3.12")
        .apt_install("git")
        .uv_pip_install("numpy==1.26.4", "scipy")
        .uv_pip_install("torch")
        .run_commands("make", secrets=[seq.Secret.from_name("gh")])
        .env({"B": "2", "A": "1"})
    )

    assert image.spec().wire() == {
        "base": "debian:12-slim",
        "python": "3.12",
        "steps": [
            {"apt_install": ["git"]},
            {"uv_pip_install": ["numpy==1.26.4", "scipy"]},
            {"uv_pip_install": ["torch"]},
            {"run_commands": ["make"], "secrets": [{"name": "gh"}]},
            {"env": {"A": "1", "B": "2"}},
        ],
    }


def test_every_method_answers_a_new_image():
    """The image that was extended is what it was."""
    base = seq.Image.debian_slim()

    assert base.apt_install("git") != base
    assert base.spec().steps == []


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda i: i.apt_install(), "got nothing"),
        (lambda i: i.uv_pip_install(["numpy"]), "separate arguments"),
        (lambda i: i.uv_pip_install(" "), "separate arguments"),
        (lambda i: i.run_commands("x", secrets=["gh"]), "Secret.from_name"),
        (lambda i: i.env({"PORT": "1"}), "set by the platform"),
        (lambda i: i.env({"SEQ_X": "1"}), "set by the platform"),
        (lambda i: i.env({"PYTHONPATH": "/x"}), "set by the platform"),
        (lambda i: i.env({"A": 1}), "write '1'"),
        (lambda i: i.env({"A": seq.Secret.from_name("x")}), "secrets="),
        (lambda i: i.env({"A-B": "1"}), "letters, digits"),
        (lambda i: i.env({}), "takes a dict"),
        (lambda i: i.add_local_file("a", "b"), "absolute"),
        (lambda i: i.add_local_dir("a", "/b/../c"), "absolute"),
        (lambda i: i.add_local_python_source("a-b"), "module names"),
        (lambda _: seq.Image().apt_install("git"), "no base"),
        (lambda _: seq.Image().spec(), "no base"),
        (lambda _: seq.Image.debian_slim(python="3.9"), "3.13"),
        (lambda _: seq.Image.from_registry(""), "image reference"),
        (lambda _: seq.Image.from_registry("a b"), "image reference"),
        (lambda _: seq.Image.from_registry("python:3.11-slim", python="3.12"), "its own Python"),
        (lambda _: seq.Image.from_registry("docker.io/library/python:3", python="3.12"), "its own Python"),
        (lambda _: seq.Image.from_dockerfile("nowhere"), "not a file"),
    ],
)
def test_a_step_that_could_not_be_built_is_refused(make, says):
    """What is wrong is said where it is written."""
    with pytest.raises(seq.SeqAuthoringError) as refused:
        make(seq.Image.debian_slim())

    assert says in str(refused.value)


def test_an_official_python_may_keep_its_own():
    """`python="image"` on python:* is what it brings anyway; another base's tag is no Python image."""
    assert seq.Image.from_registry("python:3.12", python="image").spec().base == "python:3.12"
    assert seq.Image.from_registry("acme/python:3", python="3.12").spec().python == "3.12"


def test_a_dockerfile_is_read_now_from_beside_the_calling_file(write, monkeypatch, tmp_path):
    """Its text travels; an empty one, an oversized one and a context that is no folder are refused."""
    source = "import seq\nimage = seq.Image.from_dockerfile('Dockerfile', context='.')\n"
    write("Dockerfile", "FROM debian:12\n")
    scope = {"__file__": str(write("mine.py", source)), "__name__": "mine"}

    exec(source, scope)

    assert scope["image"].spec().wire() == {"dockerfile": "FROM debian:12\n", "steps": []}
    assert scope["image"].context == tmp_path
    write("Dockerfile", "")
    with pytest.raises(seq.PolicyDefinitionError, match="empty"):
        exec(source, scope)
    write("Dockerfile", "#" * (1 << 20) + "\n")
    with pytest.raises(seq.PolicyDefinitionError, match="1 MiB"):
        exec(source, scope)
    with pytest.raises(seq.PolicyDefinitionError, match="not a folder"):
        exec(source.replace("'.'", "'gone'").replace("Dockerfile", "mine.py"), scope)


def test_on_a_worker_a_missing_dockerfile_is_no_error(monkeypatch):
    """The image is built already and its Dockerfile is not shipped, so importing the policy must work."""
    monkeypatch.setenv("SEQ_MANIFEST", "1")

    assert seq.Image.from_dockerfile("nowhere", context="gone").dockerfile
