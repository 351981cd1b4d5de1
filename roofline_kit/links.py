"""How many bytes cross the links between devices? The third roof: what each device has to send in a training step."""

from dataclasses import replace

from .units import itemsize, quantity


def _devices(devices):
    return quantity("devices", devices, least=1, whole=True)


def reduce_scatter(nbytes, devices):
    """Each of n devices holds an array of so many bytes; afterwards each holds the sum of one n-th of it.

    Bytes:   (n - 1) / n nbytes       that a device sends; it receives as many
    Source:  the ring algorithm: n - 1 rounds, in each of which every device passes one n-th to its neighbour.
             Patarasuk and Yuan, J. Parallel Distrib. Comput. 69, 2009, show that none sends less
    """
    devices = _devices(devices)
    return quantity("nbytes", nbytes) * (devices - 1) / devices


def all_gather(nbytes, devices):
    """Each of n devices holds one n-th of an array of so many bytes; afterwards each holds all of it.

    Bytes:   (n - 1) / n nbytes       that a device sends; it receives as many
    """
    return reduce_scatter(nbytes, devices)


def all_reduce(nbytes, devices):
    """Each of n devices holds an array of so many bytes; afterwards each holds the sum of all.

    Bytes:   2 (n - 1) / n nbytes     that a device sends: a reduce-scatter, then an all-gather
    """
    return reduce_scatter(nbytes, devices) + all_gather(nbytes, devices)


def data_parallel(parameters, devices, dtype="bfloat16", sharded=False):
    """One step in which each device has the whole model and texts of its own.

    Bytes:   whole    2 (n - 1) / n b parameters   that a device sends: the gradients are added up
             sharded  3 (n - 1) / n b parameters   each keeps one n-th of the model: the weights are gathered twice,
                                                   forward and backward, the gradients reduced and scattered
    Source:  Rajbhandari et al., ZeRO, arXiv 1910.02054, section 7
    """
    nbytes = itemsize(dtype) * quantity("parameters", parameters)
    return all_reduce(nbytes, devices) + (all_gather(nbytes, devices) if sharded else 0)


def tensor_parallel(tokens, hidden, devices, blocks=1, dtype="bfloat16"):
    """One step in which each device has one n-th of every linear layer of a Transformer's blocks, and all tokens.

    Bytes:   8 (n - 1) / n b tokens hidden blocks   that a device sends: in each block two sums of partial results
                                                    forward, after attention and after feed-forward, and two backward
    Source:  Shoeybi et al., Megatron-LM, arXiv 1909.08053, section 3
    """
    activations = itemsize(dtype) * quantity("tokens", tokens) * quantity("hidden", hidden)
    return 4 * quantity("blocks", blocks) * all_reduce(activations, devices)


def pipeline_parallel(tokens, hidden, dtype="bfloat16"):
    """One step in which each device has some of the blocks, one after the other, and all tokens pass by.

    Bytes:   2 b tokens hidden        that a device inside the line sends: activations forward, gradients backward
    """
    return 2 * itemsize(dtype) * quantity("tokens", tokens) * quantity("hidden", hidden)


def bubble(stages, parts):
    """The share of a pipeline's time in which a stage has nothing to do.

    (stages - 1) / (parts + stages - 1)   a batch goes through in so many parts; each stage waits for the first one to
                                          arrive, and after the last one has left
    Source:  Huang et al., GPipe, arXiv 1811.06965, section 2
    """
    stages, parts = (quantity(name, value, least=1, whole=True) for name, value in (("stages", stages),
                                                                                    ("parts", parts)))
    return (stages - 1) / (parts + stages - 1)


def over_link(roof, bandwidth=None, name=""):
    """The roof of the link: the same arithmetic, and the link's bandwidth in place of the memory's.

    Its ridge point is the FLOPs that a device must have for each byte it sends; `nbytes` of a Work are such bytes then.
    bandwidth:  of the link in one direction [B/s]; None: half of the datasheet's figure, which counts both
    Errors:     ValueError for a roof without a link
    """
    if bandwidth is None and not roof.link:
        raise ValueError(f"{roof.name or 'this roof'} has no figure for its link: give its bandwidth.")
    return replace(roof, bandwidth=roof.link / 2 if bandwidth is None else bandwidth, mixes=(), levels=(), clocks=(),
                   write_allocate=False, overhead=0.0, name=name or f"{roof.name}, link".lstrip(", "))
