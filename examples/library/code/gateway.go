// Package gateway forwards frames from the concentrator to the ingestion service.
//
// Fresh frames go first. Old ones wait in a queue and leave one batch at a time, with
// exponential backoff and full jitter, so that a gateway that returns after an outage does
// not knock the service over.
package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"net/http"
	"sync"
	"time"
)

const (
	maxBatch     = 200
	backoffBase  = 2 * time.Second
	backoffCap   = 5 * time.Minute
	drainSpacing = 3 * time.Second
	splitAfter   = 5
)

// Frame is one received uplink, as the service expects it.
type Frame struct {
	RxEpochMs  int64   `json:"rxEpochMs"`
	RssiDbm    int     `json:"rssiDbm"`
	SnrDb      float64 `json:"snrDb"`
	PayloadHex string  `json:"payloadHex"`
}

type batch struct {
	GatewayID string  `json:"gatewayId"`
	Frames    []Frame `json:"frames"`
}

// errBusy means the service asked us to come back later.
var errBusy = errors.New("service is busy")

// Forwarder owns the queue of one gateway. It is safe for concurrent use.
type Forwarder struct {
	ID     string
	URL    string
	Client *http.Client

	mu    sync.Mutex
	queue []Frame
}

// Enqueue adds a frame; the newest one is sent first.
func (f *Forwarder) Enqueue(fr Frame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = append(f.queue, fr)
}

// takeNewest removes up to n frames from the fresh end of the queue.
func (f *Forwarder) takeNewest(n int) []Frame {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n > len(f.queue) {
		n = len(f.queue)
	}
	cut := len(f.queue) - n
	taken := append([]Frame(nil), f.queue[cut:]...)
	f.queue = f.queue[:cut]
	return taken
}

func (f *Forwarder) putBack(frames []Frame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = append(frames, f.queue...)
}

// nextPause is full jitter: anything between zero and the capped exponential.
func nextPause(attempt int) time.Duration {
	limit := backoffCap
	if attempt < 8 {
		limit = min(backoffCap, backoffBase<<attempt)
	}
	return time.Duration(rand.Int63n(int64(limit)))
}

func (f *Forwarder) post(ctx context.Context, frames []Frame) error {
	body, err := json.Marshal(batch{GatewayID: f.ID, Frames: frames})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := f.Client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusAccepted:
		return nil
	case resp.StatusCode == http.StatusServiceUnavailable:
		return errBusy
	default:
		return fmt.Errorf("service answered %s", resp.Status)
	}
}

// DrainQueue sends until the context ends. After splitAfter failures the batch is halved, so
// that a poisoned frame ends up alone in the end.
func (f *Forwarder) DrainQueue(ctx context.Context) error {
	size, attempt := maxBatch, 0
	for {
		pause := drainSpacing
		if frames := f.takeNewest(size); len(frames) > 0 {
			err := f.post(ctx, frames)
			if err == nil {
				size, attempt = maxBatch, 0
			} else {
				f.putBack(frames)
				attempt++
				pause = nextPause(attempt)
				if attempt%splitAfter == 0 && size > 1 && !errors.Is(err, errBusy) {
					size /= 2
				}
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}
