"""Parts of workflows: `step` and `ref`, for `Mainspring.workflows.start`."""

from ._admin import Workflow, ref, step

__all__ = ["Workflow", "ref", "step"]
