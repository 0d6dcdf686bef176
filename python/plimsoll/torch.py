"""The network that the scheduler itself runs, for PyTorch: what is trained with it can be stored as a model."""

import numpy as np
import torch
from torch import nn

from ._common import Engine


class Head(nn.Module):
    """Joins what is known of a node, of the pod and of the cluster."""

    def __init__(self, node_width: int, tower: int, hidden: int) -> None:
        super().__init__()
        for name, inputs in [("node", tower), ("direct", node_width), ("pod", tower), ("context", tower)]:
            weight = nn.Parameter(torch.empty(hidden, inputs))
            nn.init.kaiming_uniform_(weight, a=5**0.5)
            self.register_parameter(name, weight)
        self.bias = nn.Parameter(torch.zeros(hidden))


class Out(nn.Module):
    """From the units of the head to a score."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(hidden).uniform_(-(hidden**-0.5), hidden**-0.5))
        self.bias = nn.Parameter(torch.zeros(1))


class Factored(nn.Module):
    """A score for each node, whatever their number and order.

    `e = relu(T x' + t)` over the features `x'` of a node that change only with it, `p = relu(P y + q)` over the pod's, `c` the mean of `e` over all nodes, and
    `score = w . relu(A e + D x + B p + C c + b) + o`. The scheduler remembers `A e` until the node changes.
    """

    def __init__(self, node_width: int, pod_width: int, tower_inputs: int, tower: int = 32, hidden: int = 32) -> None:
        super().__init__()
        if not (1 <= tower <= 64 and 1 <= hidden <= 64):
            raise ValueError(f"towers and heads have 1 to 64 units; it has {tower} and {hidden}")
        self.tower_inputs = tower_inputs
        self.tower = nn.Linear(tower_inputs, tower)
        self.pod = nn.Linear(pod_width, tower)
        self.head = Head(node_width, tower, hidden)
        self.out = Out(hidden)

    @classmethod
    def of(cls, environment: Engine, tower: int = 32, hidden: int = 32) -> "Factored":
        """A network over what an environment, or a vector of them, shows."""
        engine = environment.engine
        if engine.tower_inputs == 0:
            raise ValueError('the scheduler runs this network over features by name; give the environment observation={"nodes": [...], "pods": [...]}')
        return cls(len(engine.node_features), len(engine.pod_features), engine.tower_inputs, tower, hidden)

    def both(self, nodes: torch.Tensor, pod: torch.Tensor, present: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The scores, and what is known of the cluster and the pod as a whole, for a value."""
        e = torch.relu(self.tower(nodes[..., : self.tower_inputs]))
        p = torch.relu(self.pod(pod))
        count = present.sum(dim=1, keepdim=True).clamp(min=1.0)
        c = (e * present.unsqueeze(2)).sum(dim=1) / count
        head = self.head
        common = p @ head.pod.T + c @ head.context.T + head.bias
        units = torch.relu(e @ head.node.T + nodes @ head.direct.T + common.unsqueeze(1))
        return units @ self.out.weight + self.out.bias, torch.cat((c, p), dim=1)

    def forward(self, nodes: torch.Tensor, pod: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        """The scores."""
        return self.both(nodes, pod, present)[0]

    def weights(self) -> dict[str, np.ndarray]:
        """The weights, as `save_model` takes them."""
        return {name: value.detach().cpu().numpy() for name, value in self.state_dict().items()}
