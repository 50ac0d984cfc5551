"""Logs of `python -m mainspring`: as text or JSON lines."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

FIELDS = (
    "job", "queue", "kind", "attempt", "took_ms", "worker", "queues", "server", "slots", "running"
)


def shown(value: Any) -> str:
    return ",".join(value) if isinstance(value, list) else str(value)


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the job's fields."""

    def format(self, record: logging.LogRecord) -> str:
        out: dict[str, Any] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in FIELDS:
            if hasattr(record, name):
                out[name] = getattr(record, name)
        if record.exc_info:
            out["exception"] = self.formatException(record.exc_info)
        return json.dumps(out, ensure_ascii=False, default=str)


class TextLines(logging.Formatter):
    """The same for people: fields as name=value at the end."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        more = [
            f"{name}={shown(getattr(record, name))}" for name in FIELDS if hasattr(record, name)
        ]
        first, newline, rest = text.partition("\n")
        return " ".join([first, *more]) + newline + rest


def set_up_logs(how: str, level: str) -> None:
    handler = logging.StreamHandler()
    text = TextLines("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if how == "json" else text)
    logging.basicConfig(level=level.upper(), handlers=[handler])
