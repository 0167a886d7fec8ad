import sys

import numpy as np
from scipy import sparse

a, x = np.ones((1, 3)), np.ones(3)
found = {kind.__name__: (kind(a) @ x).shape for kind in (sparse.csr_array, sparse.csc_array, sparse.coo_array)}
for name, shape in found.items():
    print(f"{name} of shape (1, 3) @ vector: shape {shape}")
print(f"NumPy: shape {(a @ x).shape}")
sys.exit(found["coo_array"] != (1,))
