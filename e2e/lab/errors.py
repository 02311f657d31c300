"""Errors for the person at the keyboard: they name the thing, its value and the fix, and print without a trace."""


class LabError(Exception):
    """The lab cannot do what was asked."""
