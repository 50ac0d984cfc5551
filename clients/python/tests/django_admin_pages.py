"""A Django project with the admin page. Prints what its pages have. Run by test_django_admin.py."""

from __future__ import annotations

import json
import sys

import django
from django.conf import settings

settings.configure(
    SECRET_KEY="test",
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    USE_TZ=True,
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    INSTALLED_APPS=[
        "django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes",
        "django.contrib.sessions", "django.contrib.messages", "mainspring.contrib.django_admin",
    ],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    TEMPLATES=[{
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {"context_processors": [
            "django.template.context_processors.request",
            "django.contrib.auth.context_processors.auth",
            "django.contrib.messages.context_processors.messages",
        ]},
    }],
)  # fmt: skip
django.setup()

from django.contrib import admin  # noqa: E402
from django.contrib.auth.models import Permission, User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.test import Client  # noqa: E402
from django.urls import path  # noqa: E402

urlpatterns = [path("admin/", admin.site.urls)]


def pages(user: User, paths: list[str]) -> list[tuple[int, str]]:
    client = Client()
    client.force_login(user)
    return [(got.status_code, got.content.decode()) for got in map(client.get, paths)]


if __name__ == "__main__":
    call_command("migrate", verbosity=0)
    reader = User.objects.create_user("reader", password="x", is_staff=True)
    reader.user_permissions.add(Permission.objects.get(codename="view_job"))
    stranger = User.objects.create_user("stranger", password="x", is_staff=True)
    paths = sys.argv[1:]
    found = {"reader": pages(reader, paths), "stranger": pages(stranger, paths)}
    anonymous = [Client().get(one).status_code for one in paths]
    print(json.dumps({**found, "anonymous": anonymous}))
