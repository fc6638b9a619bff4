/*
 * Radio and sleep loop of the buoy, firmware 65 and later.
 *
 * Every quarter of an hour: wake, sample, wait for our slot, send one frame, listen briefly,
 * sleep. All times are seconds of UTC from the RV-3032. Nothing here allocates memory.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define CYCLE_SECONDS 900u
#define FIRST_SLOT_SECONDS 20u
#define SLOT_SECONDS 4u
#define BEACON_LOST_SECONDS (72u * 3600u)
#define RX_WINDOW_MS 300u
#define FRAME_BYTES 34u
#define STATUS_NO_BEACON 0x08u

/* Provided by the board support package. */
extern uint32_t rtcNow(void);
extern void rtcSetAlarm(uint32_t epoch);
extern void rtcAdjustMs(int32_t offsetMs);
extern void mcuEnterStop2(void);
extern uint32_t rngNext(void);
extern void sensorRail(bool on);
extern void sampleAll(uint8_t frame[FRAME_BYTES]);
extern void signFrame(uint8_t frame[FRAME_BYTES]);
extern bool radioSend(const uint8_t *data, uint8_t length);
extern bool radioReceive(uint8_t *data, uint8_t *length, uint32_t timeoutMs);
extern void radioSleep(void);

typedef struct {
    uint8_t buoyId;
    uint16_t seqNo;
    uint32_t lastBeacon;
    int16_t clockOffsetMs;
} LinkState;

/* Start of the quarter hour that follows `now`. */
static uint32_t nextCycleStart(uint32_t now)
{
    return now - now % CYCLE_SECONDS + CYCLE_SECONDS;
}

static bool beaconIsLost(const LinkState *state, uint32_t now)
{
    return now - state->lastBeacon > BEACON_LOST_SECONDS;
}

/*
 * Offset of our slot within the cycle. Without a beacon for three days we do not trust our
 * clock any more: we leave the slot plan and take a random second in the latter half, where no
 * neighbour can be hurt (INC-017).
 */
static uint32_t slotOffsetSeconds(const LinkState *state, uint32_t now)
{
    if (beaconIsLost(state, now)) {
        return CYCLE_SECONDS / 2u + rngNext() % (CYCLE_SECONDS / 2u - SLOT_SECONDS);
    }
    return FIRST_SLOT_SECONDS + (uint32_t)(state->buoyId - 1u) * SLOT_SECONDS;
}

/*
 * Stop 2 until `epoch`. The loop matters: a stray interrupt wakes the core early, and a pending
 * UART interrupt once woke us four hundred times a minute.
 */
static void sleepUntil(uint32_t epoch)
{
    while ((int32_t)(epoch - rtcNow()) > 0) {
        rtcSetAlarm(epoch);
        mcuEnterStop2();
    }
}

/* Puts radio and sensors off, then sleeps to the start of the next sampling window. */
static void sleepUntilNextWindow(void)
{
    radioSleep();
    sensorRail(false);
    sleepUntil(nextCycleStart(rtcNow()));
}

static void applyBeacon(LinkState *state, const uint8_t *data, uint8_t length)
{
    int16_t offset;

    if (length < 3u || data[0] != 0xB0u) {
        return;
    }
    memcpy(&offset, &data[1], sizeof offset);
    rtcAdjustMs(offset);
    state->clockOffsetMs = offset;
    state->lastBeacon = rtcNow();
}

static void sendAndListen(LinkState *state, uint8_t frame[FRAME_BYTES])
{
    uint8_t reply[16];
    uint8_t length = sizeof reply;

    if (!radioSend(frame, FRAME_BYTES)) {
        return;
    }
    state->seqNo++;
    if (radioReceive(reply, &length, RX_WINDOW_MS)) {
        applyBeacon(state, reply, length);
    }
}

void radioLoop(LinkState *state)
{
    uint8_t frame[FRAME_BYTES];

    for (;;) {
        uint32_t start;

        sleepUntilNextWindow();
        start = rtcNow() - rtcNow() % CYCLE_SECONDS;
        sensorRail(true);
        memset(frame, 0, sizeof frame);
        sampleAll(frame);
        sensorRail(false);
        frame[1] = state->buoyId;
        memcpy(&frame[2], &state->seqNo, sizeof state->seqNo);
        memcpy(&frame[28], &state->clockOffsetMs, sizeof state->clockOffsetMs);
        if (beaconIsLost(state, start)) {
            frame[24] |= STATUS_NO_BEACON;
        }
        signFrame(frame);
        sleepUntil(start + slotOffsetSeconds(state, start));
        sendAndListen(state, frame);
    }
}
