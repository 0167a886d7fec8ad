"""Modules as tasks have them, each with a right solution."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc"

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812


class LinearSwishNorm(nn.Module):
    def __init__(self, in_features, out_features, groups):
        super().__init__()
        self.fc = nn.Linear(in_features, out_features)
        self.norm = nn.GroupNorm(groups, out_features)

    def forward(self, x):
        x = self.fc(x)
        x = x * torch.sigmoid(x)
        return self.norm(x)


class LinearSwishNormFused(nn.Module):
    def __init__(self, in_features, out_features, groups):
        super().__init__()
        self.fc = nn.Linear(in_features, out_features)
        self.norm = nn.GroupNorm(groups, out_features)
        self.groups = groups

    def forward(self, x):
        y = torch.addmm(self.fc.bias, x, self.fc.weight.t())
        y = y / (1 + torch.exp(-y))
        g = y.view(y.shape[0], self.groups, -1)
        c = g - g.mean(-1, keepdim=True)
        g = c * torch.rsqrt(c.square().mean(-1, keepdim=True) + self.norm.eps)
        return g.reshape(y.shape) * self.norm.weight + self.norm.bias


class ConvMinTanh(nn.Module):
    def __init__(self, cin, cout, k):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, k)

    def forward(self, x):
        x = torch.min(self.conv(x), dim=1, keepdim=True)[0]
        return torch.tanh(torch.tanh(x))


class ConvMinTanhUnfold(nn.Module):
    def __init__(self, cin, cout, k):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, k)
        self.k = k

    def forward(self, x):
        b, _c, h, w = x.shape
        cols = F.unfold(x, self.k)
        y = self.conv.weight.flatten(1) @ cols + self.conv.bias[:, None]
        y = y.amin(1, keepdim=True).reshape(b, 1, h - self.k + 1, w - self.k + 1)
        return y.tanh().tanh()


class ScaledResidual(nn.Module):
    def __init__(self, features, scaling):
        super().__init__()
        self.matmul = nn.Linear(features, features)
        self.scaling = scaling

    def forward(self, x):
        x = self.matmul(x)
        kept = x.clone()
        return x * self.scaling + kept


class ScaledResidualOnce(nn.Module):
    def __init__(self, features, scaling):
        super().__init__()
        self.matmul = nn.Linear(features, features)
        self.factor = scaling + 1.0

    def forward(self, x):
        return F.linear(x, self.matmul.weight, self.matmul.bias) * self.factor


class PooledLogits(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.up = nn.ConvTranspose2d(cin, cout, 3, stride=2, padding=1, output_padding=1)
        self.bias = nn.Parameter(torch.randn(cout, 1, 1))

    def forward(self, x):
        x = self.up(x).mean(dim=(2, 3), keepdim=True) + self.bias
        return torch.logsumexp(x, dim=1).flatten(1) * 10.0


class PooledLogitsSum(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.up = nn.ConvTranspose2d(cin, cout, 3, stride=2, padding=1, output_padding=1)
        self.bias = nn.Parameter(torch.randn(cout, 1, 1))

    def forward(self, x):
        y = F.conv_transpose2d(x, self.up.weight, self.up.bias, stride=2, padding=1, output_padding=1)
        y = y.sum(-1).sum(-1) / (y.shape[2] * y.shape[3]) + self.bias[:, 0, 0]
        m = y.amax(1, keepdim=True)
        return (m + torch.log(torch.exp(y - m).sum(1, keepdim=True))) * 10.0
