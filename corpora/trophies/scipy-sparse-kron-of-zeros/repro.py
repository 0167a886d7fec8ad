import sys

import numpy as np
from scipy import sparse

ones, zeros = (sparse.csr_array(np.full((1, 2), each, np.float32)) for each in (1, 0))
found = {"ones": sparse.kron(ones, ones).dtype, "zeros": sparse.kron(ones, zeros).dtype}
for name, dtype in found.items():
    print(f"kron of float32 with {name} of float32: {dtype}")
sys.exit(found["zeros"] != np.float32)
