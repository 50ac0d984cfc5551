"""Medians and Markdown."""

import statistics


def median(values):
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def number(value, digits=None):
    if value is None:
        return ""
    if digits is None:
        digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def spread(values):
    """The median, and the range of the rounds."""
    if not values:
        return ""
    text = number(median(values))
    return text if len(values) == 1 else f"{text} ({number(min(values))} to {number(max(values))})"


def times(value):
    return "" if value is None else f"{value:.2f}x"


def ratio(numbers, others):
    """The median of the ratios per round: a slow phase of the machine cancels out."""
    return median([a / b for a, b in zip(numbers, others) if b])


def table(head, rows):
    """The first column is text, the others are numbers."""
    lines = ["| " + " | ".join(head) + " |",
             "|---|" + "---:|" * (len(head) - 1)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)
