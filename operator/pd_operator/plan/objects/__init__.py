"""Builders of child objects, one module per kind. Pure: the same input gives the same object."""
