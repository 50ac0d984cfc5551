"""A model without a table: it gives the admin page its name and its permission."""

from __future__ import annotations

from django.db import models


class Job(models.Model):  # type: ignore[misc]
    class Meta:
        managed = False
        default_permissions = ("view",)
        verbose_name = "job"
        verbose_name_plural = "jobs"
