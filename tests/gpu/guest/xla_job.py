"""One process, all GPUs: a JAX program whose collectives are counted. Prints what it called, what
NCCL libraries are in the process, and the sums' correctness."""
import json
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

CALLS = {"psum 64 KiB": 20, "psum 4 MiB": 30, "psum 64 MiB": 10, "all_gather": 15, "ppermute": 12}
ROWS = {"psum 64 KiB": 16, "psum 4 MiB": 1024, "psum 64 MiB": 16384, "all_gather": 64,
        "ppermute": 64}


def main():
    devices = jax.devices()
    mesh = Mesh(np.array(devices), ("d",))
    shard = partial(jax.shard_map, mesh=mesh, in_specs=PartitionSpec("d", None), check_vma=False)
    around = [(i, (i + 1) % len(devices)) for i in range(len(devices))]
    programs = {
        "psum": shard(lambda a: jax.lax.psum(a * 2, "d"), out_specs=PartitionSpec(None, None)),
        "all_gather": shard(lambda a: jax.lax.all_gather(a * 2, "d", tiled=True),
                            out_specs=PartitionSpec(None, None)),
        "ppermute": shard(lambda a: jax.lax.ppermute(a * 2, "d", around),
                          out_specs=PartitionSpec("d", None)),
    }
    right = True
    for name, n in CALLS.items():
        program = jax.jit(programs[name.split()[0]])
        x = jax.device_put(jnp.ones((len(devices) * ROWS[name], 1024)),
                           NamedSharding(mesh, PartitionSpec("d", None)))
        for _ in range(n):
            y = program(x)
        y.block_until_ready()
        right &= float(y[0, 0]) == (2.0 * len(devices) if "psum" in name else 2.0)
    with open("/proc/self/maps") as maps:
        loaded = sorted({line.split()[-1] for line in maps if "nccl" in line.split()[-1]})
    print(json.dumps({"devices": len(devices), "jax": jax.__version__, "right": right,
                      "called": {name: n * len(devices) for name, n in CALLS.items()},
                      "loaded": loaded}), flush=True)


if __name__ == "__main__":
    main()
