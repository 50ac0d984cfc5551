"""A worker for Django tasks, by the settings of DJANGO_SETTINGS_MODULE:

    export DJANGO_SETTINGS_MODULE=mysite.settings
    python -m mainspring work mainspring.contrib.django_worker
"""

from __future__ import annotations

import django

from .django import worker_client

django.setup()
ms = worker_client()
