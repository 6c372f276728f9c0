"""Settings with which a CPU can encode passages by the configured model, for comparison."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from retrieve_cli.assemble.encoders import encoder_to_build
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Encoder
from retrieve_cli.errors import Unavailable
from retrieve_cli.frozen import Frozen, replace

Precision = Literal["float32", "bfloat16"]

_OTHERS: tuple[tuple[str, Precision], ...] = (("openvino", "float32"), ("openvino", "bfloat16"), ("torch", "bfloat16"))


class Way(Frozen):
    """Values of `encoder.kind` and `encoder.precision`, with the encoder for them; its weights are not loaded."""

    kind: str
    precision: Precision
    encoder: Encoder | None
    missing: str = ""
    """Reason if there is no encoder."""
    hint: str = ""


def ways(settings: Settings) -> Iterator[Way]:
    """Yield the settings with which a CPU can encode passages by the configured model, the default first.

    Raises:
        Unavailable: the model is not on this machine.
        UsageError: the model's folder is not a sentence-transformers model.
    """
    from retrieve_cli.models.runtimes.devices import why_no_bfloat16

    default = _way(settings, "onnx", "float32")
    if default.encoder is None:
        default = Way("torch", "float32", _encoder(settings, "torch", "float32"))
    yield default
    unsupported = why_no_bfloat16()
    for kind, precision in _OTHERS:
        if precision == "bfloat16" and unsupported:
            yield Way(kind, precision, None, unsupported)
        else:
            yield _way(settings, kind, precision)


def configured(settings: Settings, default: Way) -> tuple[str, Precision] | str:
    """Return the kind and precision of the configured encoder on a CPU, or the reason why it has none.

    Raises:
        Unavailable: a GPU is required and missing.
        UsageError: the kind does not compute in the precision.
    """
    from retrieve_cli.models.runtimes.devices import choose

    chosen = settings.encoder
    choice = choose(chosen.device, chosen.kind, precision=chosen.precision)
    if choice.device == "cuda":
        return f"passages are encoded on a GPU ({choice})"
    precision: Precision = "bfloat16" if choice.precision == "bfloat16" else "float32"
    return default.kind if choice.kind == "onnx" else choice.kind, precision


def why_none(settings: Settings) -> str:
    """Return why no model on this machine's CPU encodes passages; empty if one does."""
    if not settings.dense.enabled:
        return "nothing is encoded (dense.enabled: false)"
    if settings.encoder.kind not in ("auto", "onnx", "openvino", "torch"):
        return f"no model of this machine encodes passages (encoder.kind: {settings.encoder.kind})"
    return ""


def _way(settings: Settings, kind: str, precision: Precision) -> Way:
    try:
        return Way(kind, precision, _encoder(settings, kind, precision))
    except Unavailable as error:
        return Way(kind, precision, None, error.message, error.hint)


def _encoder(settings: Settings, kind: str, precision: Precision) -> Encoder:
    chosen = replace(settings.encoder, kind=kind, precision=precision, device="cpu")
    return encoder_to_build(replace(settings, encoder=chosen))
