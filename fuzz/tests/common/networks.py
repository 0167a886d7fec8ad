"""Tasks in the format of KernelBench at the sizes of benchmarks: single layers, blocks and whole networks. Each has an
honest solution, which computes the same in another way, and a change that makes it wrong."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"


@dataclass(frozen=True)
class Network:
    """A task with its solutions."""

    level: int
    """1 for a layer, 2 for a block, 3 for a whole network."""
    reference: str
    """The parts of `Model` and the inputs."""
    inputs: str
    """The tensors of `get_inputs` as a Python list, and before it the numbers at the top of the file."""
    forward: str
    """The body of the honest solution's `forward`, and definitions before it."""
    wrong: tuple[str, str]
    """A part of the honest solution, and what replaces it in the wrong one."""
    made_of: str = "[]"

    def write(self, folder: Path) -> tuple[str, str]:
        """Write the task as `task.py` with the solutions `honest.py` and `wrong.py`, and return the names of these."""
        init, mine = self.reference.strip("\n"), self.forward.strip("\n")
        made = init.partition("    def forward")[0]
        numbers, _, given = self.inputs.rpartition("\n")
        ends = f"def get_inputs():\n    return {given}\n\n\ndef get_init_inputs():\n    return {self.made_of}\n"
        (folder / "task.py").write_text(f"{_HEAD}\n\nclass Model(nn.Module):\n{init}\n\n\n{numbers}\n\n\n{ends}")
        honest = f"{_HEAD}\n\nclass ModelNew(nn.Module):\n{made}{mine}\n"
        (folder / "honest.py").write_text(honest)
        assert self.wrong[0] in honest
        (folder / "wrong.py").write_text(honest.replace(*self.wrong))
        return "honest.py", "wrong.py"


NETWORKS = {
    "conv2d": Network(
        1,
        """
    def __init__(self, inner, outer, size):
        super().__init__()
        self.conv = nn.Conv2d(inner, outer, size, stride=2, padding=1)

    def forward(self, x):
        return self.conv(x)
""",
        "batch_size = 16\nchannels = 16\nwide = 64\n[torch.rand(batch_size, channels, 128, 128)]",
        """
    def forward(self, x):
        size, outer = self.conv.kernel_size[0], self.conv.out_channels
        taken = F.unfold(x, size, padding=1, stride=2)
        y = self.conv.weight.reshape(outer, -1) @ taken + self.conv.bias[:, None]
        height, width = (x.shape[2] + 2 - size) // 2 + 1, (x.shape[3] + 2 - size) // 2 + 1
        return y.reshape(x.shape[0], outer, height, width)
""",
        (" + self.conv.bias[:, None]", ""),
        "[channels, wide, 3]",
    ),
    "conv_transpose": Network(
        1,
        """
    def __init__(self, inner, outer, size):
        super().__init__()
        self.conv = nn.ConvTranspose2d(inner, outer, size, stride=2, padding=1, output_padding=1)

    def forward(self, x):
        return self.conv(x)
""",
        "batch_size = 16\nchannels = 32\nwide = 16\n[torch.rand(batch_size, channels, 64, 64)]",
        """
    def forward(self, x):
        batch, inner, height, width = x.shape
        outer, size = self.conv.out_channels, self.conv.kernel_size[0]
        spread = x.new_zeros(batch, inner, 2 * height, 2 * width)
        spread[:, :, ::2, ::2] = x
        spread = F.pad(spread, (size - 2, size - 2, size - 2, size - 2))
        turned = self.conv.weight.flip(2, 3).transpose(0, 1)
        return F.conv2d(spread, turned, self.conv.bias)
""",
        ("self.conv.weight.flip(2, 3)", "self.conv.weight.flip(3)"),
        "[channels, wide, 3]",
    ),
    "group_norm": Network(
        1,
        """
    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        return self.norm(x)
""",
        "batch_size = 16\nfeatures = 64\nnum_groups = 8\n[torch.rand(batch_size, features, 256, 256)]",
        """
    def forward(self, x):
        groups = x.reshape(x.shape[0], self.norm.num_groups, -1)
        away = groups - groups.mean(-1, keepdim=True)
        y = away * (away.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
        return y.reshape(x.shape) * self.norm.weight[:, None, None] + self.norm.bias[:, None, None]
""",
        ("1e-5", "1e-2"),
        "[num_groups, features]",
    ),
    "layer_norm": Network(
        1,
        """
    def __init__(self, shape):
        super().__init__()
        self.norm = nn.LayerNorm(shape)

    def forward(self, x):
        return self.norm(x)
""",
        "batch_size = 16\nfeatures = 64\ndim1 = 256\ndim2 = 256\n[torch.rand(batch_size, features, dim1, dim2)]",
        """
    def forward(self, x):
        rows = x.reshape(x.shape[0], -1)
        away = rows - rows.mean(-1, keepdim=True)
        y = away / (away.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return y.reshape(x.shape) * self.norm.weight + self.norm.bias
""",
        (" + self.norm.bias", ""),
        "[(features, dim1, dim2)]",
    ),
    "upsample": Network(
        1,
        """
    def forward(self, x):
        return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
""",
        "batch_size = 16\nchannels = 32\n[torch.rand(batch_size, channels, 64, 64)]",
        """
    def forward(self, x):
        for dim in (2, 3):
            n = x.shape[dim]
            at = torch.arange(n)
            before, after = x.index_select(dim, (at - 1).clamp(0)), x.index_select(dim, (at + 1).clamp(max=n - 1))
            x = torch.stack([0.25 * before + 0.75 * x, 0.75 * x + 0.25 * after], dim + 1).flatten(dim, dim + 1)
        return x
""",
        ("clamp(max=n - 1)", "remainder(n)"),
    ),
    "max_pool": Network(
        1,
        """
    def __init__(self, size, step, dilation):
        super().__init__()
        self.pool = nn.MaxPool2d(size, step, 1, dilation)

    def forward(self, x):
        return self.pool(self.pool(self.pool(x)))
""",
        "batch_size = 16\nchannels = 32\n[torch.rand(batch_size, channels, 224, 224)]",
        """
    def forward(self, x):
        pool = self.pool
        for _ in range(3):
            x = F.pad(x, (1, 1, 1, 1), value=float("-inf"))
            for dim in (2, 3):
                count = (x.shape[dim] - pool.dilation * (pool.kernel_size - 1) - 1) // pool.stride + 1
                starts = torch.arange(count) * pool.stride
                parts = [x.index_select(dim, starts + k * pool.dilation) for k in range(pool.kernel_size)]
                x = torch.stack(parts).amax(0)
        return x
""",
        ('value=float("-inf")', "value=0.0"),
        "[4, 2, 3]",
    ),
    "conv_norm_act": Network(
        2,
        """
    def __init__(self, inner, outer, size, groups):
        super().__init__()
        self.conv = nn.Conv2d(inner, outer, size, padding=1)
        self.norm = nn.GroupNorm(groups, outer)

    def forward(self, x):
        return F.hardswish(self.norm(self.conv(x)))
""",
        "batch_size = 16\nchannels = 16\nwide = 32\n[torch.rand(batch_size, channels, 64, 64)]",
        """
    def forward(self, x):
        size = self.conv.kernel_size[0]
        taken = F.unfold(x, size, padding=1)
        y = self.conv.weight.flatten(1) @ taken + self.conv.bias[:, None]
        groups = y.reshape(x.shape[0], self.norm.num_groups, -1)
        away = groups - groups.mean(-1, keepdim=True)
        y = (away / (away.square().mean(-1, keepdim=True) + 1e-5).sqrt()).reshape(y.shape)
        y = y * self.norm.weight[:, None] + self.norm.bias[:, None]
        return (y * (y + 3).clamp(0, 6) / 6).reshape(x.shape[0], -1, *x.shape[2:])
""",
        ("clamp(0, 6)", "clamp(0, 5)"),
        "[channels, wide, 3, 8]",
    ),
    "dense_block": Network(
        2,
        """
    def __init__(self, layers, channels, growth):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(channels + at * growth), nn.ReLU(),
                nn.Conv2d(channels + at * growth, growth, 3, padding=1, bias=False),
            )
            for at in range(layers)
        )

    def forward(self, x):
        found = [x]
        for layer in self.layers:
            found.append(layer(torch.cat(found, 1)))
        return torch.cat(found, 1)
""",
        "batch_size = 10\nchannels = 32\ngrowth = 32\n[torch.rand(batch_size, channels, 32, 32)]",
        """
    def forward(self, x):
        for norm, _, conv in self.layers:
            away = x - x.mean((0, 2, 3), keepdim=True)
            y = away / (away.square().mean((0, 2, 3), keepdim=True) + norm.eps).sqrt()
            y = y * norm.weight[:, None, None] + norm.bias[:, None, None]
            x = torch.cat([x, F.conv2d(y.clamp(0), conv.weight, padding=1)], 1)
        return x
""",
        ("y.clamp(0), conv.weight", "y, conv.weight"),
        "[4, channels, growth]",
    ),
    "lenet": Network(
        3,
        """
    def __init__(self, classes):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(16 * 5 * 5, 120), nn.Linear(120, 84), nn.Linear(84, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2, stride=2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2, stride=2)
        x = x.view(-1, 16 * 5 * 5)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))
""",
        "batch_size = 64\nclasses = 20\n[torch.rand(batch_size, 1, 32, 32)]",
        """
    def forward(self, x):
        for conv in (self.conv1, self.conv2):
            size = x.shape[-1] - 4
            x = (conv.weight.flatten(1) @ F.unfold(x, 5) + conv.bias[:, None]).clamp(0)
            x = x.reshape(x.shape[0], -1, size // 2, 2, size // 2, 2).amax((3, 5))
        x = x.flatten(1)
        for layer in (self.fc1, self.fc2):
            x = (x @ layer.weight.T + layer.bias).clamp(0)
        return x @ self.fc3.weight.T + self.fc3.bias
""",
        ("x @ self.fc3.weight.T + self.fc3.bias", "x @ self.fc3.weight.T"),
        "[classes]",
    ),
    "mlp": Network(
        3,
        """
    def __init__(self, inner, sizes, outer):
        super().__init__()
        layers = []
        for size in sizes:
            layers += [nn.Linear(inner, size), nn.ReLU()]
            inner = size
        self.layers = nn.Sequential(*layers, nn.Linear(inner, outer))

    def forward(self, x):
        return self.layers(x)
""",
        "batch_size = 32\ninner = 1000\nsizes = [400, 800]\nouter = 500\n[torch.randn(batch_size, inner)]",
        """
    def forward(self, x):
        for at, layer in enumerate(self.layers[::2]):
            x = (x @ layer.weight.T + layer.bias).clamp(0) if at < 2 else F.linear(x, layer.weight, layer.bias)
        return x
""",
        (".clamp(0) if", ".clamp(-0.01) if"),
        "[inner, sizes, outer]",
    ),
    "lstm": Network(
        3,
        """
    def __init__(self, inner, hidden, layers, outer):
        super().__init__()
        self.lstm = nn.LSTM(inner, hidden, layers, batch_first=True)
        self.fc = nn.Linear(hidden, outer)

    def forward(self, x):
        y, _ = self.lstm(x)
        return self.fc(y[:, -1])
""",
        "batch_size = 10\nsteps = 128\ninner = 64\nhidden = 96\nouter = 10\n[torch.randn(batch_size, steps, inner)]",
        """
    def forward(self, x):
        lstm = self.lstm
        for layer in range(lstm.num_layers):
            inner, hidden = getattr(lstm, f"weight_ih_l{layer}"), getattr(lstm, f"weight_hh_l{layer}")
            bias = getattr(lstm, f"bias_ih_l{layer}") + getattr(lstm, f"bias_hh_l{layer}")
            h = c = x.new_zeros(x.shape[0], lstm.hidden_size)
            rows = []
            for step in range(x.shape[1]):
                i, f, g, o = (x[:, step] @ inner.T + h @ hidden.T + bias).chunk(4, 1)
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                h = o.sigmoid() * c.tanh()
                rows.append(h)
            x = torch.stack(rows, 1)
        return x[:, -1] @ self.fc.weight.T + self.fc.bias
""",
        ("i, f, g, o =", "f, i, g, o ="),
        "[inner, hidden, 3, outer]",
    ),
    "resnet_block": Network(
        3,
        """
    def __init__(self, inner, outer, step):
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride=step, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outer)
        self.short = nn.Sequential(nn.Conv2d(inner, outer, 1, stride=step, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.short(x))
""",
        "batch_size = 10\ninner = 3\nouter = 64\n[torch.randn(batch_size, inner, 224, 224)]",
        """
    def forward(self, x):
        def normed(y, norm):
            mean, var = y.mean((0, 2, 3)), y.var((0, 2, 3), correction=0)
            scale = norm.weight / (var + norm.eps).sqrt()
            return (y - mean[:, None, None]) * scale[:, None, None] + norm.bias[:, None, None]

        y = normed(self.conv1(x), self.bn1).clamp(0)
        return (normed(self.conv2(y), self.bn2) + normed(self.short[0](x), self.short[1])).clamp(0)
""",
        ("var + norm.eps", "var + 1e-3"),
        "[inner, outer, 1]",
    ),
    "gpt_block": Network(
        3,
        """
    def __init__(self, width, heads, longest):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.register_buffer("mask", torch.tril(torch.ones(longest, longest)))
        self.heads = heads

    def forward(self, x):
        batch, steps, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(width, 2)
        q, k, v = (each.view(batch, steps, self.heads, -1).transpose(1, 2) for each in (q, k, v))
        scores = q @ k.transpose(2, 3) / (width // self.heads) ** 0.5
        scores = scores.masked_fill(self.mask[:steps, :steps] == 0, float("-inf"))
        y = F.softmax(scores, -1) @ v
        x = x + self.out(y.transpose(1, 2).reshape(batch, steps, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))
""",
        "batch_size = 8\nmax_seqlen = 128\nn_embd = 192\nn_head = 8\n[torch.randn(batch_size, max_seqlen, n_embd)]",
        """
    def forward(self, x):
        batch, steps, width = x.shape
        parts = F.layer_norm(x, (width,), self.norm1.weight, self.norm1.bias) @ self.qkv.weight.T + self.qkv.bias
        q, k, v = (each.reshape(batch, steps, self.heads, -1).transpose(1, 2) for each in parts.chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + y @ self.out.weight.T + self.out.bias
        h = F.layer_norm(x, (width,), self.norm2.weight, self.norm2.bias) @ self.up.weight.T + self.up.bias
        h = 0.5 * h * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (h + 0.044715 * h**3)))
        return x + h @ self.down.weight.T + self.down.bias
""",
        ("is_causal=True", "is_causal=False"),
        "[n_embd, n_head, max_seqlen]",
    ),
    "vgg": Network(
        3,
        """
    def __init__(self, classes):
        super().__init__()
        layers, inner = [], 3
        for outer in (16, 32, 64, 64, 64):
            layers += [nn.Conv2d(inner, outer, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2, 2)]
            inner = outer
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(64 * 7 * 7, 256), nn.ReLU(), nn.Dropout(0.0), nn.Linear(256, classes)
        )

    def forward(self, x):
        return self.classifier(torch.flatten(self.features(x), 1))
""",
        "batch_size = 10\nnum_classes = 100\n[torch.rand(batch_size, 3, 224, 224)]",
        """
    def forward(self, x):
        for conv in self.features[::3]:
            y = F.conv2d(x, conv.weight, conv.bias, padding=1)
            x = F.max_pool2d(y, 2).clamp(0)
        first, last = self.classifier[0], self.classifier[3]
        y = (x.flatten(1) @ first.weight.T + first.bias).clamp(0)
        return y @ last.weight.T + last.bias
""",
        ("conv.bias, padding=1", "None, padding=1"),
        "[num_classes]",
    ),
    "gru": Network(
        3,
        """
    def __init__(self, inner, hidden, layers):
        super().__init__()
        self.gru = nn.GRU(inner, hidden, layers, batch_first=True)

    def forward(self, x, h):
        y, last = self.gru(x, h)
        return y, last
""",
        "batch_size = 10\nsteps = 64\ninner = 64\nhidden = 64\nlayers = 2\n"
        "[torch.randn(batch_size, steps, inner), torch.randn(layers, batch_size, hidden)]",
        """
    def forward(self, x, h):
        gru, ends = self.gru, []
        for layer in range(gru.num_layers):
            wi, wh = getattr(gru, f"weight_ih_l{layer}"), getattr(gru, f"weight_hh_l{layer}")
            bi, bh = getattr(gru, f"bias_ih_l{layer}"), getattr(gru, f"bias_hh_l{layer}")
            state, rows, given = h[layer], [], x @ wi.T + bi
            for step in range(x.shape[1]):
                a, b, c = given[:, step].chunk(3, 1)
                p, q, s = (state @ wh.T + bh).chunk(3, 1)
                r, z = (a + p).sigmoid(), (b + q).sigmoid()
                n = (c + r * s).tanh()
                state = n + z * (state - n)
                rows.append(state)
            x = torch.stack(rows, 1)
            ends.append(state)
        return x, torch.stack(ends)
""",
        ("c + r * s", "c + r * (s - bh[-64:]) + bh[-64:]"),
        "[inner, hidden, layers]",
    ),
    "encoder_layer": Network(
        3,
        """
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        x = self.norm1(x + self.attention(x, x, x, need_weights=False)[0])
        return self.norm2(x + self.down(F.relu(self.up(x))))
""",
        "batch_size = 4\nsteps = 64\nwidth = 64\nheads = 4\nhidden = 128\n[torch.randn(steps, batch_size, width)]",
        """
    def forward(self, x):
        steps, batch, width = x.shape
        heads = self.attention.num_heads
        parts = (x @ self.attention.in_proj_weight.T + self.attention.in_proj_bias).chunk(3, -1)
        q, k, v = (each.reshape(steps, batch * heads, -1).transpose(0, 1) for each in parts)
        weights = torch.softmax(q @ k.transpose(1, 2) / (width // heads) ** 0.5, -1)
        y = (weights @ v).transpose(0, 1).reshape(steps, batch, width)
        y = y @ self.attention.out_proj.weight.T + self.attention.out_proj.bias
        x = F.layer_norm(x + y, (width,), self.norm1.weight, self.norm1.bias)
        y = (x @ self.up.weight.T + self.up.bias).clamp(0) @ self.down.weight.T + self.down.bias
        return F.layer_norm(x + y, (width,), self.norm2.weight, self.norm2.bias)
""",
        ("/ (width // heads) ** 0.5", "/ width**0.5"),
        "[width, heads, hidden]",
    ),
}  # fmt: skip
"""The tasks by name."""
