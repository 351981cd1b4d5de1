"""What do the tricks of serving gain? Speculative decoding, and a KV cache that is handed out in blocks."""

import math
from collections.abc import Iterable

from .units import quantity


def speculative_speedup(acceptance, drafted, cost=0.0, verify=1.0):
    """Tokens a pass over tokens without drafts, by time: (1 - a^(g + 1)) / (1 - a) / (g cost + verify).

    acceptance:  a, the chance that a drafted token is kept, taken to be the same for each, 0 to 1
    drafted:     g, tokens that the small model proposes before the large one checks them all in one pass
    cost:        a draft's time over that of a decode step of the large model
    verify:      the time of the checking pass over that of a decode step: 1 as long as both only stream the weights
    Source:      Leviathan, Kalman, Matias, arXiv 2211.17192, theorem 3.8 (verify = 1 there)
    """
    acceptance, drafted = quantity("acceptance", acceptance), quantity("drafted", drafted, whole=True)
    if acceptance > 1:
        raise ValueError(f"acceptance is {acceptance!r}, but a share lies between 0 and 1.")
    if not quantity("verify", verify):
        raise ValueError("verify is 0, but a checking pass takes time: give its share of a decode step.")
    kept = sum(acceptance**place for place in range(drafted + 1))          # the first token is never lost
    return kept / (drafted * quantity("cost", cost) + verify)


def paged_waste(lengths, block=16, reserved=None):
    """Share of the KV memory handed out that holds no token: 1 - tokens held / tokens there is room for.

    lengths:   tokens of each sequence, or of one
    block:     tokens a block; the last block of a sequence is partly empty (PagedAttention; 16 is vLLM's default)
    reserved:  room for the longest possible sequence, kept for each instead of blocks
    Source:    Kwon et al., arXiv 2309.06180, figure 2
    Errors:    ValueError for a sequence that is longer than what is reserved
    """
    lengths = list(lengths) if isinstance(lengths, Iterable) else [lengths]
    lengths = [quantity("a length", length, least=1, whole=True) for length in lengths]
    if not lengths:
        raise ValueError("there is no sequence: give the length of at least one.")
    block = quantity("block", block, least=1, whole=True)
    if reserved is None:
        return 1 - sum(lengths) / sum(block * math.ceil(length / block) for length in lengths)
    if max(lengths) > quantity("reserved", reserved, least=1, whole=True):
        raise ValueError(f"a sequence of {max(lengths)} tokens does not fit in the {reserved} that are reserved.")
    return 1 - sum(lengths) / (len(lengths) * reserved)
