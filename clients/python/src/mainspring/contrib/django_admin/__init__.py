"""A read-only page of jobs in Django's admin.

    INSTALLED_APPS = [..., "mainspring.contrib.django_admin"]
    MAINSPRING_CLIENT = "shop.jobs.ms"  # else that of TASKS["default"], else from the environment

Users need the permission `mainspring.view_job`. No table is made.
"""
