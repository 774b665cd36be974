"""An episode's video: raw frames piped to the platform's ffmpeg, H.264 in yuv420p, whole or not there at all."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from seq.contract.benchmarks import RenderSpec


class RecordError(Exception):
    """The recording failed; the message says why. The episode's score is not touched by it."""


class Recorder:
    """Writes `path` as frames come: to a `.part` beside it, renamed by `finish`.

    Frames are (H, W, 3) uint8 RGB arrays; `spec.flip` turns what is recorded, never what the policy sees.
    """

    def __init__(self, path: Path, ffmpeg: str, spec: RenderSpec) -> None:
        self._path = path
        self._part = path.with_suffix(".part.mp4")
        self._ffmpeg = ffmpeg
        self._spec = spec
        self._process: subprocess.Popen[bytes] | None = None
        self._shape: tuple[int, ...] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the encoder

    def add(self, frame: Any) -> None:
        """Append one frame; raises RecordError and removes what was written."""
        try:
            pixels = _turned(as_frame(frame, self._spec.camera), self._spec.flip)
            if self._shape not in (None, pixels.shape):
                raise RecordError(f"camera {self._spec.camera!r} gave a frame of {pixels.shape} after {self._shape}")
        except RecordError:
            self.drop()
            raise
        self._shape = pixels.shape
        try:
            if self._process is None:
                self._process = self._start(pixels.shape[1], pixels.shape[0])
            assert self._process.stdin is not None  # noqa: S101  a pipe was asked for
            self._process.stdin.write(np.ascontiguousarray(pixels).data)
        except OSError as failed:
            raise self._failure(failed) from failed

    def finish(self) -> None:
        """Make the video visible under its name; raises RecordError."""
        if self._process is None:
            self.drop()
            raise RecordError("no frame was recorded")
        try:
            self._process.communicate(timeout=60)
            if self._process.returncode != 0:
                raise self._failure(None)
            self._part.replace(self._path)
        except (OSError, subprocess.TimeoutExpired) as failed:
            raise self._failure(failed) from failed

    def drop(self) -> None:
        """Stop and leave nothing behind."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._part.unlink(missing_ok=True)

    def _start(self, width: int, height: int) -> subprocess.Popen[bytes]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        source = [
            "-f",
            "rawvideo",
            "-pix_fmt",
            "rgb24",
            "-s",
            f"{width}x{height}",
            "-r",
            f"{self._spec.fps:g}",
            "-i",
            "-",
        ]
        # yuv420p halves the colour planes, so both sides must be even: an odd one gets one more line.
        even = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2"]
        target = ["-an", "-c:v", "libx264", "-preset", "veryfast", "-crf", "20", "-pix_fmt", "yuv420p"]
        quiet = ["-y", "-loglevel", "error", "-threads", "1"]
        command = [self._ffmpeg, *quiet, *source, *even, *target, "-movflags", "+faststart", str(self._part)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self._errors)

    def _failure(self, cause: Exception | None) -> RecordError:
        self.drop()
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip().splitlines()
        reason = said[-1] if said else str(cause) if cause else "the encoder ended with an error"
        full = next((line for line in said if "No space left" in line), None)
        return RecordError("the disk is full (No space left on device)" if full else reason)


def as_frame(frame: Any, camera: str) -> np.ndarray[Any, Any]:
    """The frame as an (H, W, 3) uint8 array with at least one pixel; raises RecordError."""
    pixels = np.asarray(frame)
    if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8 or not pixels.size:
        raise RecordError(f"a frame must be (H, W, 3) uint8; camera {camera!r} gave {pixels.shape} {pixels.dtype}")
    return pixels


def _turned(frame: np.ndarray[Any, Any], flip: str | None) -> np.ndarray[Any, Any]:
    if flip in ("vertical", "both"):
        frame = frame[::-1]
    return frame[:, ::-1] if flip in ("horizontal", "both") else frame
