/* The stand-in for NVML with what is asked of it only on a card: tests/hardware/card_state.py, and a real host engine. */
#include "nvml.c"

/* NVML_FI_DEV_... of nvml.h. Those from the power cap on are counters of what held the clock. */
enum { TOTAL_ENERGY = 83, POWER_AVERAGE = 185, POWER_INSTANT = 186, POWER_LIMIT = 190 };
enum { POWER_CAP = 74, APP_CLOCKS = 80, BASE_CLOCKS = 81, SW_THERMAL = 269, HW_BRAKE = 271 };
enum { UNSIGNED_INT = 1, UNSIGNED_LONG_LONG = 3 };

/* nvmlFieldValue_t */
struct field_value {
    unsigned field, scope;
    long long timestamp, latency;
    unsigned type, code;
    unsigned long long value;
};

/* An H200 renewed the fields every 0.1 s, and counted the violation time on (docs/hardware.md). */
static unsigned long long held_ns(struct totals (*of)[ENGINES], const device *handle) {
    return (unsigned long long)(1e9 * of[handle->index][WHOLE].held);
}

/* The host engine asks for the energy counter so. An H200 had all of these fields (tests/measured/h200-clock.json); what
 * counts application and base clocks grew with the power cap, and nothing else ever held the clock. */
static unsigned field(device *handle, struct field_value *asked) {
    unsigned milliwatts = 0;
    asked->type = UNSIGNED_LONG_LONG;
    asked->timestamp = (long long)(1e6 * integrated_until);
    if (asked->field == TOTAL_ENERGY)
        return nvmlDeviceGetTotalEnergyConsumption(handle, &asked->value);
    if (asked->field == POWER_AVERAGE || asked->field == POWER_INSTANT || asked->field == POWER_LIMIT) {
        unsigned code = asked->field == POWER_LIMIT ? nvmlDeviceGetEnforcedPowerLimit(handle, &milliwatts)
                                                    : nvmlDeviceGetPowerUsage(handle, &milliwatts);
        asked->type = UNSIGNED_INT;
        asked->value = milliwatts;
        return code;
    }
    unsigned code = enter_gpu(handle, __func__);
    bool grows = asked->field == POWER_CAP || asked->field == APP_CLOCKS || asked->field == BASE_CLOCKS;
    asked->value = grows ? held_ns(renewed_totals, handle) : 0;
    bool counter = asked->field >= SW_THERMAL && asked->field <= HW_BRAKE;
    counter |= asked->field >= POWER_CAP && asked->field <= BASE_CLOCKS;
    return leave(code != SUCCESS ? code : counter ? SUCCESS : NOT_SUPPORTED);
}

unsigned nvmlDeviceGetFieldValues(device *handle, int count, struct field_value *values) {
    for (int i = 0; i < count; i++)
        values[i].code = field(handle, &values[i]);
    return SUCCESS;
}

enum { POLICY_APP_CLOCKS = 10, POLICY_BASE_CLOCKS = 11, RELIABILITY = 5 };

/* nvmlViolationTime_t: "referenceTime represents CPU timestamp in microseconds", violation in nanoseconds (nvml.h). */
unsigned nvmlDeviceGetViolationStatus(device *handle, unsigned policy, unsigned long long *times) {
    unsigned code = enter_gpu(handle, __func__);
    times[0] = (unsigned long long)(1e6 * integrated_until);
    bool grows = policy == 0 || policy == POLICY_APP_CLOCKS || policy == POLICY_BASE_CLOCKS;
    times[1] = grows ? held_ns(totals, handle) : 0;
    return leave(code != SUCCESS || grows || policy <= RELIABILITY ? code : NOT_SUPPORTED);
}

/* NVML_CLOCK_ID_CURRENT is what nvmlDeviceGetClockInfo gives. */
unsigned nvmlDeviceGetClock(device *handle, unsigned type, unsigned id, unsigned *mhz) {
    return id == 0 ? nvmlDeviceGetClockInfo(handle, type, mhz) : NOT_SUPPORTED;
}

unsigned nvmlDeviceGetTemperature(device *handle, unsigned sensor, unsigned *celsius) {
    unsigned code = enter_gpu(handle, __func__);
    *celsius = 55; /* 34 to 58 */
    return leave(code != SUCCESS || sensor == 0 ? code : INVALID_ARGUMENT);
}

/* P0 of an H200, idle too. */
unsigned nvmlDeviceGetPerformanceState(device *handle, unsigned *state) {
    unsigned code = enter_gpu(handle, __func__);
    *state = 0;
    return leave(code);
}
