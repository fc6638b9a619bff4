"""Decode and check uplink frames before they are stored.

One frame is 34 bytes, little-endian; see the payload format guide. A frame that cannot be
decoded is refused on its own and never takes the rest of its batch with it (INC-016).
"""

from __future__ import annotations

import enum
import struct
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

FRAME = struct.Struct("<BBHIhHHHHHHBbBBbBh4s")
DEAD_THERMOMETER = -32768
STATUS_OPTODE_SILENT = 0x02


class Flag(enum.IntEnum):
    """Quality flags, the worse the higher, apart from MISSING."""

    GOOD = 1
    NOT_EVALUATED = 2
    SUSPECT = 3
    BAD = 4
    MISSING = 9


class FrameError(ValueError):
    """The frame is refused; the text goes into the list of refusals."""


@dataclass(frozen=True)
class Frame:
    """The part of a decoded frame that the checks look at."""

    buoy_id: int
    seq_no: int
    sample_epoch: int
    water_temp_c: float | None
    do_phase_deg: float | None
    battery_mv: int
    hull_humidity: int
    status: int

    @property
    def dedupe_key(self) -> tuple[int, int, int]:
        """Unique per sample, also across sequence wrap and board swaps."""
        return (self.buoy_id, self.seq_no, self.sample_epoch)

    def to_json(self) -> dict[str, object]:
        """The shape that the public feed uses; keys are camelCase there."""
        return {
            "buoyId": self.buoy_id,
            "seqNo": self.seq_no,
            "sampleEpoch": self.sample_epoch,
            "waterTempC": self.water_temp_c,
            "hullHumidity": self.hull_humidity,
        }


def decode_frame(payload_hex: str) -> Frame:
    """Turn the ``payloadHex`` of a gateway into a :class:`Frame`."""
    try:
        raw = bytes.fromhex(payload_hex)
    except ValueError as exc:
        raise FrameError("payload is not hexadecimal") from exc
    if len(raw) != FRAME.size:
        raise FrameError(f"expected {FRAME.size} bytes, got {len(raw)}")
    parts = FRAME.unpack(raw)
    version, buoy_id, seq_no, epoch, temp = parts[:5]
    if version >> 4 != 3:
        raise FrameError(f"unknown version {version >> 4}")
    phase, status = parts[6], parts[13]
    return Frame(
        buoy_id=buoy_id,
        seq_no=seq_no,
        sample_epoch=epoch,
        water_temp_c=None if temp == DEAD_THERMOMETER else temp / 1000.0,
        do_phase_deg=None if status & STATUS_OPTODE_SILENT else phase / 1000.0,
        battery_mv=parts[10],
        hull_humidity=parts[11],
        status=status,
    )


@dataclass
class SpikeDetector:
    """Compares a sample with the mean of its neighbours, one sample late."""

    limit: float
    window: deque[float] = field(default_factory=lambda: deque(maxlen=3))

    def push(self, value: float) -> Flag:
        """Add the newest value and judge the one before it."""
        self.window.append(value)
        if len(self.window) < 3:
            return Flag.NOT_EVALUATED
        before, middle, after = self.window
        excess = abs(middle - (before + after) / 2.0)
        if excess > 2 * self.limit:
            return Flag.BAD
        return Flag.SUSPECT if excess > self.limit else Flag.GOOD


class FrameValidator:
    """Holds the state of the checks for one buoy."""

    TEMP_BAD = (-2.0, 35.0)
    TEMP_SUSPECT = (1.0, 24.0)

    def __init__(self, spike_limit_c: float = 0.8) -> None:
        self._seen: set[tuple[int, int, int]] = set()
        self._spikes = SpikeDetector(spike_limit_c)

    def is_duplicate(self, frame: Frame) -> bool:
        """True from the second time on that a gateway delivers the sample."""
        if frame.dedupe_key in self._seen:
            return True
        self._seen.add(frame.dedupe_key)
        return False

    def check_range(self, frame: Frame) -> Flag:
        """Judge this sample by what the sensor and the bay can produce."""
        value = frame.water_temp_c
        if value is None:
            return Flag.MISSING
        if not self.TEMP_BAD[0] <= value <= self.TEMP_BAD[1]:
            return Flag.BAD
        in_bay = self.TEMP_SUSPECT[0] <= value <= self.TEMP_SUSPECT[1]
        return Flag.GOOD if in_bay else Flag.SUSPECT

    def check_spike(self, frame: Frame) -> Flag:
        """Judge the sample before this one; it needed this one as a neighbour."""
        if self.check_range(frame) in (Flag.MISSING, Flag.BAD):
            return Flag.NOT_EVALUATED
        return self._spikes.push(frame.water_temp_c or 0.0)


def decode_batch(payloads: Iterable[str]) -> tuple[list[Frame], list[tuple[int, str]]]:
    """Decode what can be decoded; report the rest by position in the batch."""
    frames: list[Frame] = []
    refused: list[tuple[int, str]] = []
    for index, text in enumerate(payloads):
        try:
            frames.append(decode_frame(text))
        except FrameError as exc:
            refused.append((index, str(exc)))
    return frames, refused
