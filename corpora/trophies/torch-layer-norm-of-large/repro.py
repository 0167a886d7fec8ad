import torch

x = torch.full((1, 7), 2e19)
print("got  ", torch.nn.functional.layer_norm(x, (7,))[0].tolist())
print("right", [0.0] * 7)
