"""What will this language model do on that chip? Memory, prefill, decode and the best batch, on one page."""

from dataclasses import dataclass, replace

from .datasheets import datasheet, table
from .transformer import Model
from .units import quantity, si


@dataclass(frozen=True, repr=False)
class Sheet:
    """A model on one or more equal chips; printed, it is a page; `data` is the same in SI base units."""

    data: dict
    model: Model
    roof: object
    prefill: object
    decode: object

    def __repr__(self):
        d = self.data
        fits = f"{d['max_batch']} sequences fit" if d["max_batch"] else "the weights do not fit, or no sequence does"
        full = "" if d["fits"] or not d["max_batch"] else f": fewer than the {d['batch']} asked for"
        critical = f"from batch {d['critical_batch']} on" if d["critical_batch"] else "at no batch"
        memory = (f"memory   weights {si(d['weight_bytes'], 'B')}, KV {si(d['kv_bytes'], 'B')} for {d['batch']} x "
                  f"{d['context']} tokens, of {si(d['memory'], 'B')}; {fits}{full}")
        prefill = (f"prefill  {si(d['prefill']['seconds'], 's')} for the {d['context']} tokens of one sequence, "
                   f"{si(d['prefill']['tokens_per_s'])} tokens/s")
        decode = (f"decode   {si(d['decode']['seconds'], 's')} a step of {d['batch']}, "
                  f"{si(d['decode']['tokens_per_s'])} tokens/s; its products with weights are compute-bound {critical}")
        head = (repr(self.model), repr(self.roof), memory, prefill, decode)
        return "\n".join([*head, "", repr(self.prefill), "", repr(self.decode), "", d["note"]])


def sheet(config, chip, context=8192, batch=1, weights="bfloat16", kv="bfloat16", dtype="bfloat16", chips=1):
    """A model on `chips` chips: what it takes, and how fast prefill and decode can be at best.

    config:  a config.json, its folder, a dict, or a Model
    chip:    a name of `rk.chips()`; dtype: of the arithmetic
    chips:   share all weights, KV cache and work evenly; what their links cost is left out
    """
    model = config if isinstance(config, Model) else Model.from_config(config)
    context = quantity("context", context, least=1, whole=True)
    one, chips = datasheet(chip, dtype), quantity("chips", chips, least=1, whole=True)
    roof = replace(one, peak=chips * one.peak, bandwidth=chips * one.bandwidth,
                   vector_peak=chips * one.vector_peak if one.vector_peak else None,
                   name=f"{chips} x {one.name}" if chips > 1 else one.name)
    how = {"roof": roof, "weights": weights, "kv": kv, "dtype": dtype}
    prefill, decode = model.breakdown(context, **how), model.breakdown(1, context, batch, **how)
    memory = chips * float(table()[one.name]["memory"]) * 1e9
    most, critical = model.max_batch(memory, context, weights, kv), model.critical_batch(roof, weights=weights, kv=kv)
    left_out = "launches, links between chips, and what no program reaches of a datasheet's rates, are left out"
    data = {
        "model": model.name, "chip": one.name, "chips": chips, "context": context, "batch": batch,
        "weights": weights, "kv": kv, "dtype": dtype, "params": model.params, "active_params": model.active_params,
        "weight_bytes": model.weight_bytes(weights), "kv_bytes": model.kv_bytes(context, batch, kv), "memory": memory,
        "max_batch": most, "fits": batch <= most, "critical_batch": critical if critical < float("inf") else None,
        "prefill": _timed(prefill, context), "decode": _timed(decode, batch),
        "note": f"Lower bounds of time, one operation after the other: {left_out}.",
    }
    return Sheet(data, model, roof, prefill, decode)


def _timed(found, tokens):
    """A pass as plain numbers: its time, and each operation with the counts of all its calls."""
    rows = [{"name": part.name, "calls": part.calls, "flops": part.total.flops, "bytes": part.total.nbytes,
             "intensity": part.work.intensity, "bound": found.roof.bound(part.work),
             "seconds": part.calls * found.roof.seconds(part.work)} for part in found.parts]
    return {"seconds": found.seconds, "tokens_per_s": tokens / found.seconds, "flops": found.total.flops,
            "bytes": found.total.nbytes, "weight_bytes": found.weights, "kv_bytes": found.kv, "operations": rows}
