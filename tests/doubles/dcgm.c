/* A stand-in for libdcgm.so.4 and the host engine behind it, as a scenario file says, and no hardware.
 *
 * OFU_TEST_DCGM_SCENARIO names the file. It is looked at again at every call, so a test changes it
 * while the program runs. It is a log of lines `word value...`: lines are only ever added, each is
 * read once, `#` begins a comment, and a word that is not known here aborts the program.
 *
 *   time SECONDS                 unix time; the host engine samples what is watched up to there.
 *                                Without any such line it runs with the real time
 *   version MAJOR.MINOR          of DCGM, 4.6 by default; fields come with versions
 *   address TEXT                 where a host engine listens; 127.0.0.1:5555 by default
 *   engine 0|1                   whether it runs; when it ends, so does every connection
 *   restart                      it ends and is there again at once
 *   forget                       it has forgotten what is watched, for everybody, and every sample of it
 *   module 0|1                   whether it has the module that profiles GPUs before Hopper
 *   disorder 1                   the next sample of every field is stamped with an earlier time
 *   ahead SECONDS                its clock is ahead by these
 *   late 1                       the next sample of every field is taken and stamped now, but is not
 *                                there before the sample after it is
 *   watch FIELD SECONDS          another client watches it on every GPU, at this interval; 0 = no longer
 *   refresh SECONDS              of GPM's counters, of a curve's clock and of the energy: 0.1
 *   thread LATE FIELD            the thread that samples wakes up to LATE microseconds late, and takes
 *                                FIELD microseconds for each field
 *   hang SECONDS                 each call to it takes that time, or until the file says 0
 *   error CALL CODE              CALL answers CODE; 0 ends that
 *   gpu N                        GPU N is there; every other line of a GPU says so too
 *   gpu N error CALL CODE        the same for a call about this GPU
 *   gpu N uuid|name|bus_id TEXT
 *   gpu N pci_id HEX             device and vendor, eight digits
 *   gpu N max_clock_mhz|memory_mib|device_file NUMBER
 *   gpu N compute MAJOR MINOR
 *   gpu N clock_mhz MHZ...       one per sample, over and over
 *   gpu N tensor|hmma|imma|dmma|dfma|integer|sm|dram|fp32 RATIO
 *                                what it does from here on, 0..1; the SMs and the engine at least what needs them
 *   gpu N graphics RATIO, gpu N power|power_limit WATTS  what else shows of its work
 *   gpu N curve PATH             instead of all these ratios and of clock_mhz: what the file says (curve.h)
 *   gpu N clock_excess RATIO     by which the clock of a curve with tensor work is named too high
 *   gpu N value RATIO            samples of the tensor counter say this instead; `value off` ends that
 *   gpu N gpm|mig|cycles|blank 0|1          blank: profiling fields have no value
 *   gpu N no_field ID            this field never has a value
 *   gpu N mute_field ID          asked for live, this field gets no answer at all
 *   gpu N cycles_before NUMBER   what the cycle counters begin with
 *   gpu N cycles_per NUMBER      the SMs that are summed up in them, 1 by default
 *   gpu N status NUMBER          DcgmEntityStatus_t; 4 = lost
 *   instance G ID PROFILE UUID   GPU G has GPU instance ID, with one compute instance
 *   instance G ID tensor RATIO   what its tensor pipe does
 *   instance G ID compute 0|1    whether it has a compute instance: without one no counter counts
 *   instance G ID gone
 *
 * Misuse that the real library or host engine does not survive ends the program: live values of a
 * profiling field, a watch without an interval or faster than the hardware, a handle that was freed.
 */
#define _POSIX_C_SOURCE 200809L

#include "dcgm_scenario.h"

/* --- what a test may ask ---------------------------------------------------------------------- */

static unsigned locked_count(unsigned (*count)(void)) {
    pthread_mutex_lock(&lock);
    unsigned found = count();
    pthread_mutex_unlock(&lock);
    return found;
}

static unsigned count_watches(void) {
    unsigned found = 0;
    for (unsigned i = 0; i < cell_count; i++)
        found += interval_of(&cells[i]) > 0;
    return found;
}

static unsigned count_connections(void) {
    unsigned found = 0;
    for (int i = 1; i < MAX_CONNECTIONS; i++)
        found += connections[i].open;
    return found;
}

static unsigned count_groups(void) {
    unsigned found = 0;
    for (int i = 1; i < MAX_GROUPS; i++)
        found += (groups[i].connection != 0) + (field_groups[i].connection != 0);
    return found;
}

unsigned test_watches(void) {
    return locked_count(count_watches);
}

unsigned test_connections(void) {
    return locked_count(count_connections);
}

unsigned test_groups(void) {
    return locked_count(count_groups);
}

/* Whether a field of an entity is watched by anybody. */
unsigned test_is_watched(unsigned group, unsigned number, unsigned field) {
    unsigned found = 0;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < cell_count; i++)
        if (cells[i].entity.group == group && cells[i].entity.number == number &&
            cells[i].field == field)
            found += interval_of(&cells[i]) > 0;
    pthread_mutex_unlock(&lock);
    return found;
}

unsigned test_paused(void) {
    return paused;
}

unsigned test_initialised(void) {
    return initialised;
}

/* As if the library had just been loaded, and the host engine just been started. */
void test_reset(void) {
    pthread_mutex_lock(&lock);
    end_engine();
    for (int i = 0; i < MAX_GPUS; i++)
        drop_curve(&gpus[i].curve);
    memset(&thread, 0, sizeof thread);
    memset(gpus, 0, sizeof gpus);
    memset(instances, 0, sizeof instances);
    memset(connections, 0, sizeof connections);
    initialised = faults.count = 0;
    version = 406;
    set_text(address, sizeof address, "127.0.0.1:5555");
    engine = true;
    module_there = own_time = disorder = late = false;
    ahead = now_micros = 0;
    hang_seconds = worked = 0.0;
    refresh_seconds = 0.1;
    read_path[0] = '\0';
    pthread_mutex_unlock(&lock);
}

/* --- every call begins with enter() or enter_with() and ends with leave() --------------------- */

static int enter(const char *call) {
    pthread_mutex_lock(&lock);
    look();
    int code = fault_of(NO_GPU, call);
    return code != OK ? code : initialised == 0 ? UNINITIALIZED : OK;
}

static bool still_hangs(int64_t begun) {
    pthread_mutex_lock(&lock);
    look();
    double seconds = hang_seconds;
    pthread_mutex_unlock(&lock);
    return (double)(real_micros() - begun) * 1e-6 < seconds;
}

/* Without the lock: who asks another host engine is not held up. */
static void hang(void) {
    const struct timespec nap = {.tv_nsec = 2000000};
    for (int64_t begun = real_micros(); still_hangs(begun);)
        nanosleep(&nap, NULL);
}

static int enter_with(handle_t connection, const char *call) {
    hang();
    int code = enter(call);
    if (connection == 0 || connection >= MAX_CONNECTIONS || !connections[connection].open)
        die("not a connection, or one that was closed", call);
    if (code != OK)
        return code;
    const struct connection *own = &connections[connection];
    return own->embedded || (engine && own->life == life) ? OK : CONNECTION_NOT_VALID;
}

static int leave(int code) {
    pthread_mutex_unlock(&lock);
    return code;
}

static handle_t new_connection(bool embedded) {
    for (handle_t i = 1; i < MAX_CONNECTIONS; i++)
        if (!connections[i].open) {
            connections[i] = (struct connection){.open = true, .embedded = embedded, .life = life};
            return i;
        }
    die("too many connections", "");
    return 0;
}

static void end_connection(handle_t connection) {
    connections[connection].open = false;
    if (connections[connection].life != life)
        return;
    for (unsigned i = 0; i < cell_count; i++)
        for (int k = 0; k < MAX_WATCHERS; k++)
            if (cells[i].watchers[k].connection == connection)
                cells[i].watchers[k] = (struct watcher){0};
    for (int i = 0; i < MAX_GROUPS; i++) {
        if (groups[i].connection == connection)
            groups[i].connection = 0;
        if (field_groups[i].connection == connection)
            field_groups[i].connection = 0;
    }
}

/* --- the library ------------------------------------------------------------------------------ */

int dcgmInit(void) {
    pthread_mutex_lock(&lock);
    look();
    int code = fault_of(NO_GPU, __func__);
    initialised += code == OK;
    return leave(code);
}

int dcgmShutdown(void) {
    int code = enter(__func__);
    if (code == OK)
        initialised--;
    return leave(code);
}

const char *errorString(int code) {
    return code == OK ? "Success" : "An error of the test double";
}

int dcgmConnect_v2(const char *where, struct connect_v2 *parameters, handle_t *handle) {
    int code = enter(__func__);
    char wanted[300];
    snprintf(wanted, sizeof wanted, "%s%s", parameters->is_unix ? "unix:" : "", where);
    if (code == OK && parameters->version != 0x02000010)
        code = VER_MISMATCH;
    if (code == OK && (!engine || strcmp(wanted, address) != 0))
        code = CONNECTION_NOT_VALID;
    if (code == OK && parameters->persist != 0)
        die("what is watched must end with the connection", __func__);
    if (code == OK)
        *handle = new_connection(false);
    return leave(code);
}

int dcgmDisconnect(handle_t handle) {
    int code = enter_with(handle, __func__);
    end_connection(handle);
    return leave(code);
}

int dcgmStartEmbedded_v2(struct embedded_v2 *parameters) {
    int code = enter(__func__);
    if (code == OK && parameters->version != 0x02000050)
        code = VER_MISMATCH;
    if (code == OK && (parameters->mode != 1 || parameters->deny_count > 10))
        code = BADPARAM;
    if (code == OK)
        parameters->handle = new_connection(true);
    return leave(code);
}

int dcgmStopEmbedded(handle_t handle) {
    int code = enter_with(handle, __func__);
    end_connection(handle);
    return leave(code);
}

static int list_gpus(unsigned *numbers, int *count, bool all) {
    *count = 0;
    for (unsigned i = 0; i < MAX_GPUS; i++)
        if (gpus[i].present && (all || gpus[i].status == STATUS_OK))
            numbers[(*count)++] = i;
    return OK;
}

int dcgmGetAllDevices(handle_t handle, unsigned *numbers, int *count) {
    int code = enter_with(handle, __func__);
    return leave(code != OK ? code : list_gpus(numbers, count, true));
}

int dcgmGetAllSupportedDevices(handle_t handle, unsigned *numbers, int *count) {
    int code = enter_with(handle, __func__);
    return leave(code != OK ? code : list_gpus(numbers, count, false));
}

int dcgmGetGpuStatus(handle_t handle, unsigned number, int *status) {
    int code = enter_with(handle, __func__);
    if (code == OK && (number >= MAX_GPUS || !gpus[number].present))
        code = BADPARAM;
    if (code == OK)
        code = fault_of((int)number, __func__);
    if (code == OK)
        *status = (int)gpus[number].status;
    return leave(code);
}

static void add_entry(struct hierarchy_v2 *to, struct pair entity, struct pair parent,
                      const struct instance *instance) {
    struct hierarchy_entry *entry = &to->entries[to->count++];
    memset(entry, 0, sizeof *entry);
    entry->entity = entity;
    entry->parent = parent;
    set_text(entry->uuid, sizeof entry->uuid, gpus[instance->gpu].uuid);
    entry->gpu_index = (unsigned)instance->gpu;
    entry->instance = (unsigned)instance->id;
    entry->compute_instance = entity.group == FE_GPU_CI ? 0 : (unsigned)-1;
    entry->profile = 5;
    entry->slices = (unsigned)strtoul(instance->profile, NULL, 10);
}

int dcgmGetGpuInstanceHierarchy(handle_t handle, struct hierarchy_v2 *hierarchy) {
    int code = enter_with(handle, __func__);
    if (code == OK && hierarchy->version != 0x02011f08)
        code = VER_MISMATCH;
    if (code != OK)
        return leave(code);
    hierarchy->count = 0;
    for (unsigned i = 0; i < MAX_INSTANCES; i++) {
        const struct instance *instance = &instances[i];
        if (!instance->present)
            continue;
        struct pair own = {FE_GPU_I, i}, gpu = {FE_GPU, (unsigned)instance->gpu};
        add_entry(hierarchy, own, gpu, instance);
        if (instance->compute)
            add_entry(hierarchy, (struct pair){FE_GPU_CI, i}, own, instance);
    }
    return leave(OK);
}

/* --- groups ----------------------------------------------------------------------------------- */

int dcgmGroupCreate(handle_t handle, int type, const char *name, handle_t *group) {
    int code = enter_with(handle, __func__);
    if (code == OK && (type != 1 || name == NULL))
        code = BADPARAM;
    if (code != OK)
        return leave(code);
    for (handle_t i = 1; i < MAX_GROUPS; i++)
        if (groups[i].connection == 0) {
            groups[i] = (struct group){.connection = handle};
            *group = i;
            return leave(OK);
        }
    return leave(-24);
}

static struct group *own_group(handle_t connection, handle_t group, const char *call) {
    if (group == 0 || group >= MAX_GROUPS || groups[group].connection != connection)
        die("not a group of this connection", call);
    return &groups[group];
}

int dcgmGroupAddEntity(handle_t handle, handle_t id, int kind, unsigned number) {
    int code = enter_with(handle, __func__);
    if (code != OK)
        return leave(code);
    struct group *group = own_group(handle, id, __func__);
    struct pair entity = {(unsigned)kind, number};
    int gpu = gpu_of(entity);
    if (gpu == NO_GPU || group->count == MAX_ENTITIES)
        return leave(BADPARAM);
    if (gpus[gpu].status == STATUS_LOST)
        return leave(GPU_IS_LOST);
    code = fault_of(gpu, __func__);
    for (unsigned i = 0; i < group->count; i++)
        if (memcmp(&group->entities[i], &entity, sizeof entity) == 0)
            code = BADPARAM;
    if (code == OK)
        group->entities[group->count++] = entity;
    return leave(code);
}

int dcgmGroupRemoveEntity(handle_t handle, handle_t id, int kind, unsigned number) {
    int code = enter_with(handle, __func__);
    if (code != OK)
        return leave(code);
    struct group *group = own_group(handle, id, __func__);
    for (unsigned i = 0; i < group->count; i++)
        if (group->entities[i].group == (unsigned)kind && group->entities[i].number == number) {
            memmove(&group->entities[i], &group->entities[i + 1],
                    (--group->count - i) * sizeof *group->entities);
            return leave(OK);
        }
    return leave(BADPARAM);
}

int dcgmGroupDestroy(handle_t handle, handle_t id) {
    int code = enter_with(handle, __func__);
    if (code == OK)
        own_group(handle, id, __func__)->connection = 0;
    return leave(code);
}

static bool is_known(unsigned short field) {
    if (field == GPM_SUPPORT)
        return version >= 400;
    if (field >= CYCLES_ELAPSED && field <= LAST_PROFILING)
        return version >= 406;
    return field != 0 && field < 1200;
}

int dcgmFieldGroupCreate(handle_t handle, int count, unsigned short *fields, const char *name,
                         handle_t *id) {
    int code = enter_with(handle, __func__);
    for (int i = 0; code == OK && i < count; i++)
        code = is_known(fields[i]) ? OK : BADPARAM;
    for (int i = 1; code == OK && i < MAX_GROUPS; i++)
        if (field_groups[i].connection != 0 && strcmp(field_groups[i].name, name) == 0)
            code = DUPLICATE_KEY;
    if (code == OK && (count < 1 || count > MAX_FIELDS))
        code = BADPARAM;
    if (code != OK)
        return leave(code);
    for (handle_t i = 1; i < MAX_GROUPS; i++)
        if (field_groups[i].connection == 0) {
            field_groups[i] = (struct field_group){.connection = handle, .count = (unsigned)count};
            set_text(field_groups[i].name, sizeof field_groups[i].name, name);
            memcpy(field_groups[i].fields, fields, (size_t)count * sizeof *fields);
            *id = i;
            return leave(OK);
        }
    return leave(-24);
}

static struct field_group *own_fields(handle_t connection, handle_t id, const char *call) {
    if (id == 0 || id >= MAX_GROUPS || field_groups[id].connection != connection)
        die("not a group of fields of this connection", call);
    return &field_groups[id];
}

int dcgmFieldGroupDestroy(handle_t handle, handle_t id) {
    int code = enter_with(handle, __func__);
    if (code == OK)
        own_fields(handle, id, __func__)->connection = 0;
    return leave(code);
}

/* --- watches ---------------------------------------------------------------------------------- */

static int may_be_watched(const struct group *group, const struct field_group *fields) {
    const char *model = NULL;
    for (unsigned f = 0; f < fields->count; f++)
        for (unsigned e = 0; e < group->count; e++) {
            int index = gpu_of(group->entities[e]);
            if (!is_profiling(fields->fields[f]) || index == NO_GPU || gpus[index].gpm)
                continue;
            if (!module_there)
                return MODULE_NOT_LOADED;
            if (model != NULL && strcmp(model, gpus[index].name) != 0)
                return GROUP_INCOMPATIBLE;
            model = gpus[index].name;
        }
    return OK;
}

int dcgmWatchFields(handle_t handle, handle_t id, handle_t fields_id, long long interval,
                    double keep_seconds, int most) {
    int code = enter_with(handle, __func__);
    if (code != OK)
        return leave(code);
    const struct group *group = own_group(handle, id, __func__);
    const struct field_group *fields = own_fields(handle, fields_id, __func__);
    if (interval < SHORTEST_MICROS || keep_seconds < 1.0 || most < 1)
        die("a watch that the hardware cannot follow, or that keeps nothing", __func__);
    code = may_be_watched(group, fields);
    for (unsigned e = 0; code == OK && e < group->count; e++)
        code = fault_of(gpu_of(group->entities[e]), __func__);
    for (unsigned e = 0; code == OK && e < group->count; e++)
        for (unsigned f = 0; f < fields->count; f++) {
            struct cell *cell = cell_of(group->entities[e], fields->fields[f], true);
            cell->most = (size_t)most > cell->most ? (size_t)most : cell->most;
            watch(cell, handle, interval);
        }
    return leave(code);
}

int dcgmUnwatchFields(handle_t handle, handle_t id, handle_t fields_id) {
    int code = enter_with(handle, __func__);
    if (code != OK)
        return leave(code);
    const struct group *group = own_group(handle, id, __func__);
    const struct field_group *fields = own_fields(handle, fields_id, __func__);
    for (unsigned e = 0; e < group->count; e++)
        for (unsigned f = 0; f < fields->count; f++) {
            struct cell *cell = cell_of(group->entities[e], fields->fields[f], false);
            for (int i = 0; cell != NULL && i < MAX_WATCHERS; i++)
                if (cell->watchers[i].connection == handle)
                    cell->watchers[i] = (struct watcher){0};
        }
    return leave(OK);
}

static bool is_integer(unsigned short field) {
    return field == SM_CLOCK || field == GPU_UTIL || field == TOTAL_ENERGY || field >= CYCLES_ELAPSED;
}

static void fill(struct value_v1 *to, const struct cell *cell, const struct sample *sample) {
    *to = (struct value_v1){.version = 0x01001018, .field = cell->field, .micros = sample->micros};
    to->type = is_integer(cell->field) ? 'i' : 'd';
    if (is_integer(cell->field))
        to->value.i64 = sample->blank ? BLANK_INT64 : (int64_t)sample->number;
    else
        to->value.dbl = sample->blank ? BLANK_FP64 : sample->number;
}

/* One field of one entity to the caller, value by value. What the real library does is in its DcgmApi.cpp,
 * helperGetMultipleValuesForFieldFvBuffer(), and DcgmCacheManager.cpp, GetSamples(). */
static int give(struct pair entity, unsigned short field, int64_t since, int64_t until,
                enumeration give_to, void *data) {
    struct value_v1 value;
    const struct cell *cell = cell_of(entity, field, false);
    if (cell == NULL || (cell->count == 0 && interval_of(cell) == 0))
        return NOT_WATCHED;
    bool any = false;
    for (size_t i = 0; i < cell->count; i++) {
        bool hidden = cell->held && i + 1 == cell->count;
        if (hidden || cell->samples[i].micros < since || cell->samples[i].micros > until)
            continue;
        any = true;
        fill(&value, cell, &cell->samples[i]);
        give_to((int)entity.group, entity.number, &value, 1, data);
    }
    if (!any) {
        value = (struct value_v1){.version = 0x01001018, .field = field, .type = 'd', .status = NO_DATA};
        give_to((int)entity.group, entity.number, &value, 1, data);
    }
    return OK;
}

/* Up to the time at which the host engine was asked, from where the next read goes on: also where a sample
 * with an earlier time comes later. The first error ends the read (DcgmApi.cpp, helperGetValuesSince()). */
int dcgmGetValuesSince_v2(handle_t handle, handle_t id, handle_t fields_id, long long since,
                          long long *next, enumeration give_to, void *data) {
    int code = enter_with(handle, __func__);
    *next = since;
    if (code != OK)
        return leave(code);
    const struct group *group = own_group(handle, id, __func__);
    const struct field_group *fields = own_fields(handle, fields_id, __func__);
    int64_t until = now_micros + ahead;
    for (unsigned e = 0; code == OK && e < group->count; e++) {
        code = fault_of(gpu_of(group->entities[e]), __func__);
        for (unsigned f = 0; code == OK && f < fields->count; f++)
            code = give(group->entities[e], fields->fields[f], since, until, give_to, data);
    }
    if (code == OK)
        *next = until + 1;
    return leave(code);
}

/* --- live values ------------------------------------------------------------------------------ */

static void live_text(struct value_v2 *to, const char *text) {
    to->type = 's';
    set_text(to->value.str, sizeof to->value.str, text);
}

static void live_number(struct value_v2 *to, int64_t number) {
    to->type = 'i';
    to->value.i64 = number;
}

static void live_of_gpu(struct value_v2 *to, struct gpu *gpu, unsigned index) {
    switch (to->field) {
    case DRIVER_VERSION:
        return live_text(to, "595.45.04");
    case NAME:
        return live_text(to, gpu->name);
    case NVML_INDEX:
        return live_number(to, index);
    case UUID:
        return live_text(to, gpu->uuid);
    case MINOR_NUMBER:
        return live_number(to, gpu->device_file);
    case PCI_BUSID:
        return live_text(to, gpu->bus_id);
    case PCI_COMBINED_ID:
        return live_number(to, gpu->pci_id);
    case COMPUTE_CAPABILITY:
        return live_number(to, gpu->major << 16 | gpu->minor);
    case MIG_MODE:
        return live_number(to, gpu->mig);
    case GPM_SUPPORT:
        return live_number(to, gpu->gpm);
    case SM_CLOCK:
        return live_number(to, clock_now(gpu, 0));
    case MAX_SM_CLOCK:
        return live_number(to, gpu->max_clock_mhz);
    case FB_TOTAL:
        return live_number(to, gpu->memory_mib);
    default:
        return live_number(to, BLANK_INT64 + 2);
    }
}

/* DcgmCacheManager.cpp, BufferOrCacheLatestGpuValue() and GenerateCudaVisibleDevicesValue(). */
static void live_of_instance(struct value_v2 *to, const struct instance *instance) {
    char name[160];
    const char *gpu = gpus[instance->gpu].uuid;
    if (to->group == FE_GPU_I && to->field == NAME) {
        live_text(to, instance->profile);
    } else if (to->group == FE_GPU_CI && to->field == UUID) {
        live_text(to, version >= 400 ? instance->uuid : gpu);
    } else if (to->group == FE_GPU_CI && to->field == VISIBLE_DEVICES) {
        snprintf(name, sizeof name, "MIG-%s/%d/0", gpu, instance->id);
        live_text(to, name);
    } else {
        live_text(to, "<<<NOT_SUPPORTED>>>");
    }
}

static bool is_mute(const struct pair *entities, unsigned count, unsigned short field) {
    for (unsigned e = 0; e < count; e++)
        if (gpu_of(entities[e]) != NO_GPU && gpus[gpu_of(entities[e])].mute_field == field)
            return true;
    return false;
}

/* The last sample of a field, also after its watch has ended (seen on DCGM 4.6). */
static void cached(struct value_v2 *to, struct pair entity) {
    const struct cell *cell = cell_of(entity, to->field, false);
    struct value_v1 last = {.status = NOT_WATCHED};
    if (cell != NULL && cell->count > 0)
        fill(&last, cell, &cell->samples[cell->count - 1]);
    to->status = last.status;
    to->type = last.type;
    to->micros = last.micros;
    memcpy(&to->value, &last.value, sizeof to->value);
}

int dcgmEntitiesGetLatestValues(handle_t handle, struct pair *entities, unsigned entity_count,
                                unsigned short *fields, unsigned field_count, unsigned flags,
                                struct value_v2 *values) {
    int code = enter_with(handle, __func__);
    for (unsigned f = 0; f < field_count; f++) {
        if (is_profiling(fields[f]) && flags == 1)
            die("the host engine does not survive live values of a profiling field", __func__);
        if (code == OK && (!is_known(fields[f]) || is_mute(entities, entity_count, fields[f])))
            code = GENERIC_ERROR; /* all or nothing: DcgmApi.cpp, tsapiEntitiesGetLatestValues() */
    }
    for (unsigned e = 0; code == OK && e < entity_count; e++)
        for (unsigned f = 0; f < field_count; f++) {
            struct value_v2 *to = values++;
            *to = (struct value_v2){.version = 0x02001020, .field = fields[f]};
            to->group = entities[e].group;
            to->number = entities[e].number;
            to->micros = now_micros;
            int gpu = gpu_of(entities[e]);
            if (flags == 0)
                cached(to, entities[e]);
            else if (gpu == NO_GPU)
                to->status = BADPARAM;
            else if (gpus[gpu].status == STATUS_LOST)
                live_text(to, "<<<NULL>>>");
            else if (entities[e].group == FE_GPU)
                live_of_gpu(to, &gpus[gpu], entities[e].number);
            else
                live_of_instance(to, instance_of(entities[e].number));
        }
    return leave(code);
}

/* --- pausing ---------------------------------------------------------------------------------- */

static int set_paused(handle_t handle, const char *call, bool value) {
    int code = enter_with(handle, call);
    bool any = false;
    for (int i = 0; i < MAX_GPUS; i++)
        any = any || (gpus[i].present && !gpus[i].gpm);
    if (code == OK && !any)
        code = NOT_SUPPORTED;
    if (code == OK)
        paused = value;
    return leave(code);
}

int dcgmProfPause(handle_t handle) {
    return set_paused(handle, __func__, true);
}

int dcgmProfResume(handle_t handle) {
    return set_paused(handle, __func__, false);
}
