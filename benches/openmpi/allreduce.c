/* Times MPI_Allreduce (float, sum, out of place) over a range of sizes, and prints "bytes microseconds" per size.
 *
 * Usage: mpirun -np 4 ./allreduce MIN_BYTES MAX_BYTES [BUDGET_MS]
 * Per size: a warm-up, a barrier, then N calls back to back; N is chosen so that a size takes about BUDGET_MS.
 * The time is rank 0's wall time over N. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static double time_batch(const float *in, float *out, int count, int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  for (int i = 0; i < calls; i++) MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  return (MPI_Wtime() - start) / calls;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, world;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world);
  size_t low = argc > 1 ? strtoull(argv[1], NULL, 10) : 1024;
  size_t high = argc > 2 ? strtoull(argv[2], NULL, 10) : 64u << 20;
  double budget = (argc > 3 ? atof(argv[3]) : 200.0) / 1e3;
  float *in = malloc(high), *out = malloc(high);
  if (low == 0 || in == NULL || out == NULL) {
    fprintf(stderr, "sizes must be above 0 and fit the memory\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  for (size_t i = 0; i < high / sizeof(float); i++) in[i] = (float)(rank + i % 7), out[i] = 0;

  for (size_t bytes = low; bytes <= high; bytes *= 4) {
    int count = (int)(bytes / sizeof(float));
    double once = time_batch(in, out, count, 3);
    int calls = (int)(budget / (once > 0 ? once : 1e-6));
    calls = calls < 5 ? 5 : calls > 20000 ? 20000 : calls;
    MPI_Bcast(&calls, 1, MPI_INT, 0, MPI_COMM_WORLD); /* every rank must make as many calls */
    time_batch(in, out, count, calls / 10 + 1);
    double mean = time_batch(in, out, count, calls);
    for (int i = 0; i < count; i++) {
      double expected = world * (i % 7) + world * (world - 1) / 2.0;
      if (out[i] != (float)expected) {
        fprintf(stderr, "wrong result at %d of %zu bytes\n", i, bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
      }
    }
    if (rank == 0) printf("%zu %.2f\n", bytes, mean * 1e6), fflush(stdout);
  }
  free(in);
  free(out);
  MPI_Finalize();
  return 0;
}
