import sys

import numpy as np
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.preprocessing import normalize

x = np.array([[3e-7, 4e-7]], np.float32)
got, similarity = normalize(x)[0], float(cosine_similarity(x)[0, 0])
print("normalize of [3e-7, 4e-7] in float32:", got.tolist(), "right: [0.6, 0.8]")
print("cosine_similarity with itself:", similarity, "right: 1")
sys.exit(not np.allclose(got, [0.6, 0.8]))
