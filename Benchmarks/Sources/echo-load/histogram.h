// Latencies in fixed memory: one bucket per nanosecond up to 256, then 128 buckets per power of two, so a
// reported value is at most 0.8 % above the true one.

#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stdint.h>

enum { histogramBits = 7, histogramOctaves = 40 };

typedef struct {
  uint64_t counts[(histogramOctaves + 2) << histogramBits];
  uint64_t total;
  uint64_t max;
} Histogram;

void histogramAdd(Histogram *histogram, uint64_t nanoseconds);

/// The smallest recorded value that at least `fraction` of all values do not exceed; 0 when empty.
uint64_t histogramValue(const Histogram *histogram, double fraction);

#endif
