package score

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestAConnectionIsKeptOnlyWhereTheAnswerWasReadToItsEnd(t *testing.T) {
	scores := `{"items":[{"scores":[1,2,3]}]}`
	cases := map[string]struct {
		answer      http.HandlerFunc
		connections int64
	}{
		"one that is short": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, scores) }, 1},
		"one in pieces": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, scores[:10])
			w.(http.Flusher).Flush()
			fmt.Fprint(w, scores[10:])
		}, 1},
		"one that says that it is the last": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			fmt.Fprint(w, scores)
		}, 3},
		"an error without a word": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnprocessableEntity) }, 1},
		"an error with many words": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, strings.Repeat("no", maxErrorText))
		}, 3},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			server := newServer(t)
			server.answersBy(c.answer)
			args := argsFor(server.URL)
			args.CircuitBreaker.Failures = 100
			bench := newBench(t, args, makeNodes(3))
			for i := range 3 {
				bench.schedule(t, makePod(fmt.Sprint("web-", i)))
			}
			if got := server.connections.Load(); got != c.connections || len(server.requests()) != 3 {
				t.Errorf("%d connections for %d requests, want %d for 3", got, len(server.requests()), c.connections)
			}
		})
	}
}
