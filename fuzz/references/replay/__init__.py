"""The replay: a reference from which no formula is read judges kernels by its own results in float64."""
