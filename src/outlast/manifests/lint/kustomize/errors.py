"""Why a part of an overlay could not be built."""


class CannotBuild(Exception):
    """Something that Kustomize itself would refuse, or that is not supported here."""
