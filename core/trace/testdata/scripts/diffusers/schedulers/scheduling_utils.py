"""As much of the library as sampled.py needs."""


class SchedulerMixin:
    pass
