"""References: plain functions of torch tensors that say what a kernel computes, read into formulas.

`recording` traces one twice, at two sets of extents; `reading` goes through both graphs in lockstep, by the rules of
`rules`; `text` writes what was read as the Python of a formula, which is run to make the op. `guard` holds that against
the reference itself before any case of it is drawn. torch is imported only where a reference is traced or called.
"""
