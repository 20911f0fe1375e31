#include "measure.h"

#include <stdbool.h>
#include <stdio.h>

#include "common.h"
#include "histogram.h"
#include "options.h"

static uint64_t measureFrom, measureUntil;
static Histogram latencies;
static Histogram delays;
static uint64_t answeredInTime;
static uint64_t unsent;

void measureBetween(uint64_t from, uint64_t until) {
  measureFrom = from;
  measureUntil = until;
}

static bool isMeasured(uint64_t time) {
  return time >= measureFrom && time < measureUntil;
}

void measureAnswer(uint64_t begun, uint64_t answered) {
  if (isMeasured(answered)) answeredInTime++;
  if (isMeasured(options.rate > 0 ? begun : answered)) histogramAdd(&latencies, answered - begun);
}

void measureUnsent(uint64_t due, uint64_t time) {
  if (!isMeasured(due)) return;
  histogramAdd(&latencies, time - due);
  unsent++;
}

void measureDelay(uint64_t due, uint64_t time) {
  if (isMeasured(due)) histogramAdd(&delays, time - due);
}

// MARK: The report

static double microseconds(const Histogram *histogram, double fraction) {
  return (double)histogramValue(histogram, fraction) / 1000;
}

/// Whether 2 % of the messages wanted are missing. One alone is not: it may be on its way at the end.
static bool isBehind(void) {
  return (double)(answeredInTime + 1) < 0.98 * (double)latencies.total;
}

static void reportPace(void) {
  const char *format =
      options.json ? ", \"rate_wanted\": %.10g, \"late_p50_us\": %.1f, \"late_p99_us\": %.1f, "
                     "\"late_max_us\": %.1f, \"unsent\": %llu, \"behind\": %s"
                   : "\nopen loop: %.10g messages/s wanted; our own delay p50 %.1f, p99 %.1f, max %.1f us; "
                     "%llu messages never sent%s";
  const char *no = options.json ? "false" : "";
  const char *yes = options.json ? "true" : "\nbehind: more than 2 % of the rate wanted was not reached";
  printf(format, options.rate, microseconds(&delays, 0.5), microseconds(&delays, 0.99),
         microseconds(&delays, 1), (unsigned long long)unsent, isBehind() ? yes : no);
}

void report(uint64_t answers) {
  if (answeredInTime == 0 || latencies.total == 0) fail("no message was answered in the measured time");
  double messages = (double)answeredInTime / options.seconds;
  const char *format =
      options.json
          ? "{\"messages_per_second\": %.1f, \"megabytes_per_second\": %.3f, \"p50_us\": %.1f, "
            "\"p99_us\": %.1f, \"p999_us\": %.1f, \"max_us\": %.1f, \"messages\": %llu, "
            "\"connections\": %u, \"size\": %u, \"pipeline\": %u, \"seconds\": %g, "
            "\"messages_with_warmup\": %llu"
          : "%.0f messages/s, %.1f MB/s each way; latency p50 %.1f, p99 %.1f, p999 %.1f, max %.1f us "
            "(%llu messages, %u connections x %u B, pipeline %u, %g s; %llu with warm-up)";
  printf(format, messages, messages * options.size / 1e6, microseconds(&latencies, 0.5),
         microseconds(&latencies, 0.99), microseconds(&latencies, 0.999), microseconds(&latencies, 1),
         (unsigned long long)latencies.total, options.connections, options.size, options.pipeline,
         options.seconds, (unsigned long long)answers);
  if (options.rate > 0) reportPace();
  puts(options.json ? "}" : "");
}
