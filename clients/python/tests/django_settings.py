"""Settings of a Django project for tests. TEST_QUEUES: the queues of the backend; none: all."""

import os

SECRET_KEY = "test"
USE_TZ = True
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
TASKS = {
    "default": {
        "BACKEND": "mainspring.contrib.django.MainspringBackend",
        "QUEUES": [name for name in os.environ.get("TEST_QUEUES", "").split(",") if name],
        "OPTIONS": {
            "url": os.environ.get("MAINSPRING_SERVER", "http://127.0.0.1:1"),
            "token": "",
            "job": {"max_attempts": 2},
            "modules": ["django_jobs"],
        },
    }
}
