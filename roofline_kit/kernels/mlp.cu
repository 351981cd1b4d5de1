// out = w2 relu(w1 x + b1) + b2 for one input x, in one launch of one block: the hidden values never leave the chip.
// w1[d_hidden, d_in] and w2[d_out, d_hidden] have a row for each output. One warp a row; any sizes.
//   read      4 (d_in + d_hidden d_in + d_hidden + d_out d_hidden + d_out) B      written   4 d_out B
__device__ float dot(const float *row, const float *v, int n) {     // of a row in global memory and v in shared memory
    const int lane = threadIdx.x % 32;
    float sum = 0;
    int done = 0;
    if ((size_t)row % 16 == 0) {                                    // 16 B a lane: 512 B on their way for each warp
        done = n / 4 * 4;
        #pragma unroll 4
        for (int i = 4 * lane; i < done; i += 4 * 32) {
            const float4 w = *(const float4 *)(row + i);            // 4 n B a row, each weight once
            const float4 u = *(const float4 *)(v + i);
            sum += w.x * u.x + w.y * u.y + w.z * u.z + w.w * u.w;
        }
    }
    for (int i = done + lane; i < n; i += 32) sum += row[i] * v[i];
    for (int far = 16; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffff, sum, far);
    return sum;
}

extern "C" __global__ void __launch_bounds__(1024, 1) mlp(const float *x, const float *w1, const float *b1,
        const float *w2, const float *b2, float *out, int d_in, int d_hidden, int d_out) {
    extern __shared__ float4 room[];                                // float4, so that it begins at a multiple of 16 B
    float *input = (float *)room;                                   // d_in floats, and so many more that
    float *hidden = input + (d_in + 3) / 4 * 4;                     // d_hidden floats begin at such a multiple, too
    const int warp = threadIdx.x / 32, warps = blockDim.x / 32, lane = threadIdx.x % 32;
    for (int i = threadIdx.x; i < d_in; i += blockDim.x) input[i] = x[i];  // 4 d_in B
    __syncthreads();
    for (int row = warp; row < d_hidden; row += warps) {
        const float sum = dot(w1 + (size_t)row * d_in, input, d_in);  // 4 d_hidden d_in B in all
        if (lane == 0) hidden[row] = fmaxf(sum + b1[row], 0);         // 4 d_hidden B
    }
    __syncthreads();
    for (int row = warp; row < d_out; row += warps) {
        const float sum = dot(w2 + (size_t)row * d_hidden, hidden, d_hidden);  // 4 d_out d_hidden B in all
        if (lane == 0) out[row] = sum + b2[row];                               // 4 d_out B read, 4 d_out B written
    }
}
