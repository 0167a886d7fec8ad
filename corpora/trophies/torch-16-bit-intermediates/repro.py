import sys

import torch
from torch.nn.functional import huber_loss, mse_loss

wrong = False
for name, function, *values in (
    ("xlogy", torch.xlogy, [1.828125], [1.7109375]),
    ("special.xlog1py", torch.special.xlog1py, [1.75], [1.859375]),
    ("special.entr", torch.special.entr, [1.7109375]),
    ("binary_cross_entropy", torch.nn.functional.binary_cross_entropy, [0.306640625], [0.75]),
    ("mse_loss", mse_loss, [0.65625], [-0.73046875]),
    ("huber_loss", huber_loss, [0.21484375], [0.04150390625]),
    ("renorm", lambda x: torch.renorm(x, 2, 0, 0.7), [[5, 3, 4]]),
):
    inputs = [torch.tensor(each, dtype=torch.bfloat16) for each in values]
    got, right = (function(*some).flatten()[0] for some in (inputs, [x.double() for x in inputs]))
    wrong |= got.item() != right.to(got.dtype).item()
    print(f"{name}: got {got.item()}, rounded once {right.to(got.dtype).item()}, right {right.item():.9f}")
sys.exit(wrong)
