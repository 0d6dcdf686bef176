"""A DeepSets network of PyTorch, as somebody else would train and export it, with PyTorch's own answers beside it.

It learns a little (prefer the fullest node that is near), is exported to ONNX with a free number of nodes, and leaves three files:
`deepsets.onnx`, `deepsets.safetensors` (the same weights under our names) and `deepsets.json` (inputs, and what PyTorch made of them).

    pip install -r benches/python/requirements-onnx.txt
    python benches/python/export_onnx.py crates/plimsoll-learn/tests/onnx
"""

import argparse
import json
import pathlib

import onnx
import torch
from safetensors.torch import save_file
from torch import nn

# The plain features of Plimsoll: six numbers a node, four a pod.
NODE, POD = 6, 4
FIRST, SECOND = 32, 24
SEED = 7


class Layer(nn.Module):
    """`Lambda(x) - Gamma(max over nodes of x)`."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.lam = nn.Linear(inputs, outputs)
        self.gamma = nn.Linear(inputs, outputs, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lam(x) - self.gamma(x.max(dim=1, keepdim=True).values)


class DeepSets(nn.Module):
    """Three layers; the pod's numbers stand behind those of each node."""

    def __init__(self):
        super().__init__()
        self.layer1 = Layer(NODE + POD, FIRST)
        self.layer2 = Layer(FIRST, SECOND)
        self.layer3 = Layer(SECOND, 1)

    def forward(self, nodes: torch.Tensor, pod: torch.Tensor) -> torch.Tensor:
        pods = pod.unsqueeze(1).expand(-1, nodes.shape[1], -1)
        x = torch.cat([nodes, pods], dim=2)
        x = torch.relu(self.layer1(x))
        x = torch.relu(self.layer2(x))
        return self.layer3(x)


def draw(batch: int, nodes: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.rand(batch, nodes, NODE), torch.rand(batch, POD)


def train(network: DeepSets, steps: int) -> None:
    optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(steps):
        nodes, pod = draw(64, 8)
        wanted = -nodes[..., 0] - nodes[..., 4] * pod[:, None, 2]
        loss = ((network(nodes, pod).squeeze(2) - wanted) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def ours(network: DeepSets) -> dict[str, torch.Tensor]:
    weights = {name.replace(".lam.", ".lambda."): value.detach() for name, value in network.named_parameters()}
    # What a decision is worth: our network has a head for it, this one has not.
    return weights | {"value.weight": torch.zeros(1, SECOND), "value.bias": torch.zeros(1)}


def forget_sources(path: pathlib.Path) -> None:
    """The exporter notes where each operation stood in whose files; nobody else needs that."""
    model = onnx.load(path)
    del model.metadata_props[:], model.graph.metadata_props[:]
    for part in [*model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output, *model.graph.initializer]:
        del part.metadata_props[:]
        part.doc_string = ""
    onnx.save(model, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--legacy", action="store_true", help="the exporter of before torch 2.9, by tracing")
    args = parser.parse_args()
    torch.manual_seed(SEED)
    network = DeepSets()
    train(network, args.steps)
    network.eval()
    args.folder.mkdir(parents=True, exist_ok=True)
    path = args.folder / "deepsets.onnx"
    names = {"input_names": ["nodes", "pod"], "output_names": ["scores"]}
    if args.legacy:
        axes = {"nodes": {1: "count"}, "scores": {1: "count"}}
        torch.onnx.export(network, draw(1, 5), path, dynamic_axes=axes, dynamo=False, **names)
    else:
        shapes = {"nodes": {1: torch.export.Dim("count", min=1)}, "pod": None}
        torch.onnx.export(network, draw(1, 5), path, dynamic_shapes=shapes, external_data=False, dynamo=True, **names)
    forget_sources(path)
    save_file(ours(network), args.folder / "deepsets.safetensors")
    cases = []
    for count in [5, 1, 2, 13]:
        nodes, pod = draw(1, count)
        with torch.no_grad():
            scores = network(nodes, pod)
        cases.append({"nodes": nodes.flatten().tolist(), "pod": pod.flatten().tolist(), "scores": scores.flatten().tolist()})
    text = {"torch": torch.__version__, "node_width": NODE, "pod_width": POD, "first": FIRST, "second": SECOND, "cases": cases}
    (args.folder / "deepsets.json").write_text(json.dumps(text) + "\n")


if __name__ == "__main__":
    main()
