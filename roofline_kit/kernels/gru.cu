// One step of a gated recurrent unit for one input x[d] and one state h[width], in one launch:
//   r = sigmoid(w_r x + b_r + u_r h + c_r)     z = sigmoid(w_z x + b_z + u_z h + c_z)
//   n = tanh(w_n x + b_n + r (u_n h + c_n))    out = (1 - z) n + z h
// w[3 width, d] and u[3 width, width] hold the rows of r, z, n in that order; b[2, 3 width] holds b, then c.
// One warp a hidden unit, any sizes; out must not be h, which other warps still read.
//   read  4 (d + width + 3 width (d + width) + 6 width) B      written  4 width B
// The dot products of v with three rows of m, those of one unit, added to sum.
__device__ void dots(float *sum, const float *m, const float *v, int unit, int width, int n) {
    const int lane = threadIdx.x % 32;
    const size_t gate = (size_t)width * n;                          // from a row of one gate to that of the next
    m += (size_t)unit * n;
    const int fours = n % 4 == 0 && (size_t)m % 16 == 0 && (size_t)v % 16 == 0 ? n / 4 : 0;
    #pragma unroll 2
    for (int i = lane; i < fours; i += 32) {                        // 16 B a lane: 3 x 512 B on their way a warp
        const float4 four = ((const float4 *)v)[i];                 // 4 n B, from a cache for all warps but the first
        for (int g = 0; g < 3; ++g) {
            const float4 w = ((const float4 *)(m + g * gate))[i];   // 3 x 4 n B of weights, each once
            sum[g] += w.x * four.x + w.y * four.y + w.z * four.z + w.w * four.w;
        }
    }
    for (int i = 4 * fours + lane; i < n; i += 32) {
        const float one = v[i];
        for (int g = 0; g < 3; ++g) sum[g] += m[g * gate + i] * one;
    }
    for (int far = 16; far > 0; far /= 2)
        for (int g = 0; g < 3; ++g) sum[g] += __shfl_xor_sync(0xffffffff, sum[g], far);
}

extern "C" __global__ void gru(const float *x, const float *h, const float *w, const float *u, const float *b,
                               float *out, int d, int width) {
    const int unit = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (unit >= width) return;
    float from_x[3] = {0, 0, 0}, from_h[3] = {0, 0, 0};
    dots(from_x, w, x, unit, width, d);
    dots(from_h, u, h, unit, width, width);
    if (threadIdx.x % 32) return;
    for (int g = 0; g < 3; ++g) {
        from_x[g] += b[g * width + unit];                           // 12 B a unit
        from_h[g] += b[(3 + g) * width + unit];                     // 12 B a unit
    }
    const float r = 1 / (1 + expf(-from_x[0] - from_h[0])), z = 1 / (1 + expf(-from_x[1] - from_h[1]));
    out[unit] = (1 - z) * tanhf(from_x[2] + r * from_h[2]) + z * h[unit];  // 4 B read, 4 B written
}
