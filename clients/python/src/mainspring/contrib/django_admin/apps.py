"""The app of the admin page."""

from __future__ import annotations

from django.apps import AppConfig


class MainspringAdmin(AppConfig):  # type: ignore[misc]
    name = "mainspring.contrib.django_admin"
    label = "mainspring"
    verbose_name = "Mainspring"
