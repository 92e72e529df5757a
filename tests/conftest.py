"""What holds for all tests: neither how fast a machine is nor how wide its terminal decides whether they pass."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("cotenant", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("cotenant")
os.environ.pop("COLUMNS", None)  # pytest-xdist tells its workers the width of the terminal that it was started in
os.environ["COTENANT_QUIET"] = "1"  # no lines of progress on stderr, which come after a second
