package score

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// breaker keeps a server that fails from being asked in every cycle. After some failures in a row it is left alone for a pause; then one
// request tries it, and each further failure doubles the pause.
type breaker struct {
	clock    clock.PassiveClock
	settings CircuitBreaker

	mu       sync.Mutex
	failures int
	pause    time.Duration
	until    time.Time
	trying   bool
}

func newBreaker(settings CircuitBreaker, clock clock.PassiveClock) *breaker {
	return &breaker{clock: clock, settings: settings, pause: settings.Pause.Duration}
}

// allow says whether the server may be asked now. Whoever may must say how it went: success, failure or undecided.
func (b *breaker) allow() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until.IsZero() {
		return true
	}
	if b.trying || b.clock.Now().Before(b.until) {
		return false
	}
	b.trying = true
	return true
}

// success has the server asked as usual, and says whether that is news.
func (b *breaker) success() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	news := !b.until.IsZero()
	b.failures, b.pause, b.until, b.trying = 0, b.settings.Pause.Duration, time.Time{}, false
	return news
}

// failure gives how long the server is left alone, 0 while it is not. A server that said when to come back is not asked before.
func (b *breaker) failure(retryAfter time.Duration) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures++
	b.trying = false
	var pause time.Duration
	if b.failures >= b.settings.Failures {
		pause = b.pause
		b.pause = min(2*b.pause, b.settings.MaxPause.Duration)
	}
	pause = max(pause, min(retryAfter, b.settings.MaxPause.Duration))
	if pause > 0 {
		b.until = b.clock.Now().Add(pause)
	}
	return pause
}

// undecided leaves everything as it was before allow.
func (b *breaker) undecided() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying = false
}
