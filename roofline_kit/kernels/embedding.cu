// Embedding: out[i] = table[ids[i]], the gather of the rows of a table[.., width] that some ids name.
#ifndef DTYPE
#define DTYPE float
#endif
#ifndef INDEX
#define INDEX int
#endif
#ifndef VECTOR          // elements that one access moves: 16 bytes of them where rows begin on such a boundary
#define VECTOR 1
#endif

struct alignas(VECTOR * sizeof(DTYPE)) Pack { DTYPE at[VECTOR]; };

// One block an id. `packs` are the packs of a row, VECTOR elements each.
extern "C" __global__ void embedding(const Pack *table, const INDEX *ids, Pack *out, int packs)
{
    const Pack *row = table + (size_t)ids[blockIdx.x] * packs;              // reads the id, 4 or 8 bytes
    out += (size_t)blockIdx.x * packs;
    for (int i = threadIdx.x; i < packs; i += blockDim.x) out[i] = row[i];  // reads b width, writes b width
}
