"""The extension module. Its names are the package's own business."""

from typing import Any

def __getattr__(name: str) -> Any: ...
