import sys

import torch
from torchvision.ops import box_convert

box, wrong = [1e5, 1e5, 0.001, 1.0], False
for old, new in (("xywh", "cxcywh"), ("cxcywh", "xywh")):
    sides = box_convert(torch.tensor([box]), old, new)[0, 2:].tolist()
    print(f"{old} to {new}: sides of 0.001 and 1 become {sides[0]:.6f} and {sides[1]:.6f}")
    wrong |= sides != torch.tensor(box[2:]).tolist()
sys.exit(wrong)
