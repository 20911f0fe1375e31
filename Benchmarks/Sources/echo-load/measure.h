// What is measured, and the report of it.

#ifndef MEASURE_H
#define MEASURE_H

#include <stdint.h>

/// What counts: in a closed loop the messages answered in this time. In an open loop those due in it,
/// whenever they are answered, or else a stall would hide the messages it holds up past the end.
void measureBetween(uint64_t from, uint64_t until);

void measureAnswer(uint64_t begun, uint64_t answered);

/// For a message that was due and will not be sent any more: it counts with the time it has waited.
void measureUnsent(uint64_t due, uint64_t time);

/// How late we looked at a message that was due, which is our doing and not the server's.
void measureDelay(uint64_t due, uint64_t time);

/// Fails when there is nothing to report. `answers` counts those before the measured time and after it too.
void report(uint64_t answers);

#endif
