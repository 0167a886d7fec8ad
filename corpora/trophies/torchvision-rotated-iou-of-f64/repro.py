import sys

import torch
from torchvision import ops

dtypes = {}
for fmt, box in (("xyxy", [[0, 0, 1, 1]]), ("cxcywhr", [[0, 0, 1, 1, 0]])):
    a = torch.tensor(box, dtype=torch.float64)
    dtypes[fmt] = ops.box_iou(a, a, fmt=fmt).dtype
    print(f"box_iou of {fmt} boxes of {a.dtype} is of {dtypes[fmt]}")
sys.exit(len({*dtypes.values()}) > 1)
