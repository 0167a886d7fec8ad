"""Synonyms: names that published functions have for tensors, dimensions and parameters."""

from __future__ import annotations

from collections.abc import Collection, Mapping

_SYNONYMS: Mapping[str, str] = {
    "x": "in inp input inputs src source data hidden_states",
    "y": "out output outputs dst dest result",
    "weight": "weights w gamma g gain scale",
    "bias": "beta b shift",
    "eps": "epsilon e variance_epsilon norm_eps",
    "residual": "resid res skip",
    "mean": "means mu",
    "rstd": "inv_std invstd rsigma invvar inv_rms irms rrms",
    "dy": "grad_output grad_out grad_y gy dout doutput d_out",
    "dx": "grad_input grad_in grad_x gx din dinp dinput d_in",
    "dw": "dweight grad_weight dgamma grad_gamma",
    "db": "dbias grad_bias dbeta grad_beta",
    "a": "lhs left x in inp input",
    "b": "rhs right w weight weights other",
    "c": "out output dst result y",
    "q": "query queries",
    "k": "key keys",
    "v": "value values",
    "o": "out output dst result y",
    "softmax_scale": "scale sm_scale",
    "causal": "is_causal",
    "lse": "logsumexp log_sum_exp",
    "label": "labels target targets",
    "loss": "losses out output y",
    "table": "weight weights embedding embeddings emb wte",
    "index": "indices idx ids input_ids token_ids tokens input inp x",
    "correction": "ddof",
    "axis": "dim",
    "rows": "nrows n_rows num_rows batch batch_size b m n t num_tokens n_tokens outer outer_size",
    "n": "cols ncols n_cols num_cols columns c d dim hidden hidden_size hidden_dim len length size width row_size v",
}
"""For each name that ops use, other words with the same meaning, in small letters. A word may mean several names: the
names in the op, and the other arguments of the function, decide which it is."""

_WORDS = {name: frozenset(others.split()) for name, others in _SYNONYMS.items()}


def alike(word: str, name: str) -> bool:
    """Whether a word may mean the same as an op's `name`: one is a synonym of the other, or both of a third word."""
    word, name = word.lower(), name.lower()
    direct = word == name or word in _WORDS.get(name, ()) or (name not in _WORDS and name in _WORDS.get(word, ()))
    return direct or any(word in others and name in others for others in _WORDS.values())


def likely(words: Mapping[str, Collection[str]]) -> Mapping[str, str]:
    """Return the likely meaning of each word, chosen from the names that are given for it; ambiguous words are left
    out. A word that is among its names means itself. Other words are decided by elimination: if N and D stand for rows
    and n, D can only be n, and so N is rows."""
    found = {word: word for word, names in words.items() if word in names}
    possible = {word: [each for each in names if alike(word, each)] for word, names in words.items()}
    while True:
        left = {
            word: [each for each in names if each not in found.values()]
            for word, names in possible.items()
            if word not in found
        }
        only = {word: names[0] for word, names in left.items() if len(names) == 1}
        plain = {word: each for word, names in left.items() for each in names if word.lower() == each.lower()}
        step = next((each for each in map(_unlike, (only, plain)) if each), {})
        if not step:
            return found
        found |= step


def _unlike(found: Mapping[str, str]) -> dict[str, str]:
    """Return the words with a meaning that no other word has."""
    meanings = [*found.values()]
    return {word: name for word, name in found.items() if meanings.count(name) == 1}
