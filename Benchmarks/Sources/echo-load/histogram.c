#include "histogram.h"

static const uint64_t limit = (UINT64_C(1) << (histogramOctaves + histogramBits)) - 1;

static unsigned bucketOf(uint64_t value) {
  if (value >> (histogramBits + 1) == 0) return (unsigned)value;
  unsigned shift = 63 - (unsigned)__builtin_clzll(value) - histogramBits;
  return (shift << histogramBits) + (unsigned)(value >> shift);
}

static uint64_t highestIn(unsigned bucket) {
  if (bucket >> (histogramBits + 1) == 0) return bucket;
  unsigned shift = (bucket >> histogramBits) - 1;
  uint64_t top = bucket - ((uint64_t)shift << histogramBits);
  return ((top + 1) << shift) - 1;
}

void histogramAdd(Histogram *histogram, uint64_t nanoseconds) {
  histogram->counts[bucketOf(nanoseconds < limit ? nanoseconds : limit)]++;
  histogram->total++;
  if (nanoseconds > histogram->max) histogram->max = nanoseconds;
}

uint64_t histogramValue(const Histogram *histogram, double fraction) {
  double wanted = fraction * (double)histogram->total;
  uint64_t seen = 0;
  unsigned buckets = sizeof histogram->counts / sizeof histogram->counts[0];
  for (unsigned bucket = 0; bucket < buckets; bucket++) {
    seen += histogram->counts[bucket];
    if (seen > 0 && (double)seen >= wanted) {
      uint64_t value = highestIn(bucket);
      return value < histogram->max ? value : histogram->max;
    }
  }
  return histogram->max;
}
