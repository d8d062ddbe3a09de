"""The position in the data: which batch of which epoch comes next, in the same order as before."""

from outlast.checkpoint.position.epochs import Phase
from outlast.checkpoint.position.tracking import Position

__all__ = ["Phase", "Position"]
