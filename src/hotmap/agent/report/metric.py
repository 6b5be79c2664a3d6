"""One metric in Prometheus' text format."""

from __future__ import annotations

from hotmap.core.value import Value

__all__ = ["Metric", "format_metrics"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Metric(Value):
    """A metric; kind: gauge or counter; samples: (labels, value)."""

    name: str
    kind: str
    text: str
    samples: list[tuple[Mapping[str, str], float]]


def format_metrics(metrics: Iterable[Metric]) -> str:
    """Write metrics, each with its help text and type."""
    lines: list[str] = []
    for metric in metrics:
        lines += [f"# HELP {metric.name} {metric.text}", f"# TYPE {metric.name} {metric.kind}"]
        for labels, value in metric.samples:
            inside = ",".join(f'{key}="{_escape(label)}"' for key, label in labels.items())
            name = f"{metric.name}{{{inside}}}" if inside else metric.name
            lines.append(f"{name} {value:.15g}")  # of times, all milliseconds
    return "\n".join([*lines, ""])


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
