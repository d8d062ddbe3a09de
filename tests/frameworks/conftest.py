"""The environment with the oldest supported releases has only the frameworks that need a range."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("jax") else ["test_jax_states.py"]
