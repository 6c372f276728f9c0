"""Optional packages, imported at first use."""

from __future__ import annotations

import importlib
from typing import Any

from retrieve_cli.errors import Unavailable

_EXTRAS = {
    "onnx": "pip install onnx",
    "onnxruntime": "pip install onnxruntime",
    "tokenizers": "pip install tokenizers",
    "openvino": "pip install 'retrieve-cli[openvino]'",
    "torch": "pip install torch",
    "transformers": "pip install transformers",
    "sentence_transformers": "pip install sentence-transformers",
    "huggingface_hub": "pip install huggingface_hub",
}


def require(name: str) -> Any:
    """Import a package that only some settings need.

    Raises:
        Unavailable: it is not installed, or it cannot be loaded.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Unavailable(
            f"The package {name} cannot be imported: {error}.", hint=_EXTRAS.get(name, f"pip install {name}")
        ) from error
