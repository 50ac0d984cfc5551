"""Two clients of one program with the same kinds."""

from __future__ import annotations

import os
from typing import Any

from mainspring import Context, Definition, Mainspring

left, right = Mainspring(), Mainspring()
QUEUE = os.environ.get("HELPER_QUEUE", "helper")


@left.job("send", queue=f"{QUEUE}-left")
def send(ctx: Context) -> str:
    return "left"


left_send: Definition[Any, Any] = send


@right.job("send", queue=f"{QUEUE}-right")  # type: ignore[no-redef]
def send(ctx: Context) -> str:
    return "right"
