import sys

import pywt

got = {name: pywt.threshold_firm(x, 0.5, 1.5).tolist() for name, x in {"first": [5, 0.1], "second": [0.1, 5]}.items()}
for name, values in got.items():
    print(f"5 as the {name} element: {values}")
sys.exit(got["first"] != got["second"][::-1])
