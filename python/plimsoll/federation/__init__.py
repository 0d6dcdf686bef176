"""Clusters that learn together: each trains on its own recordings, and only the weights of networks leave it.

    plimsoll.federation.simulate(["a.toml", "b.toml", "c.toml"], "federated", rounds=8)

With Flower (`pip install 'plimsoll[federation]'`) clusters take part from where they are: `plimsoll.federation.flower`.
"""

from .arithmetic import average, clipped, norm
from .member import Member
from .simulation import simulate

__all__ = ["Member", "average", "clipped", "norm", "simulate"]
