/* The stand-in for NVML with what is asked of it only on a card: tests/hardware/card_state.py, and a real host engine. */
#include "nvml.c"

enum { TOTAL_ENERGY = 83, POWER_CAP = 74, SYNC_BOOST = 76, SW_THERMAL = 269, HW_BRAKE = 271, POWER_INSTANT = 186 };
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

/* NVML_FI_DEV_...: the host engine asks for the energy counter so. Nothing but the power cap ever holds the clock. */
static unsigned field(device *handle, struct field_value *asked) {
    unsigned milliwatts = 0;
    asked->type = UNSIGNED_LONG_LONG;
    asked->timestamp = (long long)(1e6 * integrated_until);
    if (asked->field == TOTAL_ENERGY)
        return nvmlDeviceGetTotalEnergyConsumption(handle, &asked->value);
    if (asked->field == POWER_INSTANT) {
        unsigned code = nvmlDeviceGetPowerUsage(handle, &milliwatts);
        asked->type = UNSIGNED_INT;
        asked->value = milliwatts;
        return code;
    }
    unsigned code = enter_gpu(handle, __func__);
    asked->value = asked->field == POWER_CAP ? held_ns(renewed_totals, handle) : 0;
    bool counter = asked->field >= SW_THERMAL && asked->field <= HW_BRAKE;
    counter |= asked->field == POWER_CAP || asked->field == SYNC_BOOST;
    return leave(code != SUCCESS ? code : counter ? SUCCESS : NOT_SUPPORTED);
}

unsigned nvmlDeviceGetFieldValues(device *handle, int count, struct field_value *values) {
    for (int i = 0; i < count; i++)
        values[i].code = field(handle, &values[i]);
    return SUCCESS;
}

/* nvmlViolationTime_t: "referenceTime represents CPU timestamp in microseconds", violation in nanoseconds (nvml.h). */
unsigned nvmlDeviceGetViolationStatus(device *handle, unsigned policy, unsigned long long *times) {
    unsigned code = enter_gpu(handle, __func__);
    times[0] = (unsigned long long)(1e6 * integrated_until);
    times[1] = policy == 0 ? held_ns(totals, handle) : 0;
    return leave(code != SUCCESS || policy <= 2 ? code : NOT_SUPPORTED);
}

/* NVML_CLOCK_ID_CURRENT is what nvmlDeviceGetClockInfo gives. */
unsigned nvmlDeviceGetClock(device *handle, unsigned type, unsigned id, unsigned *mhz) {
    return id == 0 ? nvmlDeviceGetClockInfo(handle, type, mhz) : NOT_SUPPORTED;
}

unsigned nvmlDeviceGetTemperature(device *handle, unsigned sensor, unsigned *celsius) {
    unsigned code = enter_gpu(handle, __func__);
    *celsius = 60;
    return leave(code != SUCCESS || sensor == 0 ? code : INVALID_ARGUMENT);
}
