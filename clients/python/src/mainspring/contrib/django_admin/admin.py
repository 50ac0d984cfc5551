"""The pages: a list of jobs, and one job."""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.module_loading import import_string

from ..._client import Mainspring
from ..._wire import query
from ...errors import Expired, MainspringError, NotFound
from .models import Job

FILTERS = ("queue", "kind", "state")
STATES = (
    "available", "scheduled", "waiting", "running", "retryable", "completed", "cancelled", "dead"
)
PAGE = 100
_from_environment: list[Mainspring] = []


def client() -> Mainspring:
    """The client that the settings name."""
    name = getattr(settings, "MAINSPRING_CLIENT", None)
    if name:
        found: Mainspring = import_string(name)
        return found
    if getattr(settings, "TASKS", {}).get("default"):
        from django.tasks import task_backends

        backend = task_backends["default"]
        if isinstance(getattr(backend, "ms", None), Mainspring):
            found = backend.ms
            return found
    if not _from_environment:
        _from_environment.append(Mainspring())
    return _from_environment[0]


@admin.register(Job)
class JobAdmin(admin.ModelAdmin):  # type: ignore[misc]
    def has_add_permission(self, request: Any) -> bool:
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def get_urls(self) -> list[Any]:
        """Those of the two pages: the others need a table."""
        page = self.admin_site.admin_view
        return [
            path("", page(self.changelist_view), name="mainspring_job_changelist"),
            path("<int:job>/", page(self.job_view), name="mainspring_job_change"),
        ]

    def _page(self, request: Any, template: str, **context: Any) -> Any:
        whole = {**self.admin_site.each_context(request), "opts": self.model._meta, **context}
        return TemplateResponse(request, f"mainspring/{template}.html", whole)

    def _check(self, request: Any) -> None:
        if not self.has_view_permission(request):
            raise PermissionDenied

    def changelist_view(self, request: Any, extra_context: Any = None) -> Any:
        self._check(request)
        chosen = {name: request.GET[name] for name in FILTERS if request.GET.get(name)}
        where = {**chosen, "limit": PAGE, "cursor": request.GET.get("cursor")}
        found: dict[str, Any] = {}
        problem = ""
        try:
            found = client().request("GET", "/v1/jobs" + query(where))
        except MainspringError as error:
            problem = str(error)
        next_cursor = found.get("next_cursor")
        return self._page(
            request,
            "jobs",
            title="Jobs",
            jobs=found.get("jobs", []),
            problem=problem,
            filters=[(name, chosen.get(name, "")) for name in ("queue", "kind")],
            state=chosen.get("state", ""),
            states=STATES,
            more=query({**chosen, "cursor": next_cursor}) if next_cursor else "",
        )

    def job_view(self, request: Any, job: int) -> Any:
        self._check(request)
        record: Any = {}
        problem = ""
        try:
            record = client().request("GET", f"/v1/jobs/{job}")
        except (NotFound, Expired) as error:
            raise Http404(str(error)) from error
        except MainspringError as error:
            problem = str(error)
        fields = [
            (name, value if isinstance(value, str) else json.dumps(value, indent=2, default=str))
            for name, value in record.items()
        ]
        return self._page(request, "job", title=f"Job {job}", fields=fields, problem=problem)
