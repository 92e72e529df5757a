"""What holds for all tests: how fast a machine is never decides whether a property holds."""

from hypothesis import HealthCheck, settings

settings.register_profile("cotenant", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("cotenant")
