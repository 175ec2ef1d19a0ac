"""What all tests share: properties are tried without a clock, for a busy machine is no bug."""

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
