package score

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// What a cycle pays for the plugin when the server itself costs nothing: writing the pod and the nodes, the way there and back, reading the
// scores, and looking each of them up. "none" is the same cycle without a server to ask, as the framework alone costs.
func BenchmarkPreScoreAndScore(b *testing.B) {
	for _, count := range []int{500, 5000} {
		scores := strings.TrimSuffix(strings.Repeat("87,", count), ",")
		answer := fmt.Sprintf(`{"items":[{"scores":[%s],"policy":"energy","decidedBy":"model"}]}`, scores)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			buffer := make([]byte, 64<<10)
			for {
				if _, err := r.Body.Read(buffer); err != nil {
					break
				}
			}
			fmt.Fprint(w, answer)
		}))
		for _, name := range []string{"server", "none"} {
			b.Run(fmt.Sprintf("%s/%d", name, count), func(b *testing.B) {
				bench := newBench(b, argsFor(server.URL), makeNodes(count))
				if name == "none" {
					bench.plugin.breaker.failure(maxTimeout)
				}
				pod, ctx := makePod("web"), context.Background()
				for b.Loop() {
					state := framework.NewCycleState()
					if status := bench.framework.RunPreScorePlugins(ctx, state, pod, bench.nodes); !status.IsSuccess() {
						b.Fatal(status)
					}
					if _, status := bench.framework.RunScorePlugins(ctx, state, pod, bench.nodes); !status.IsSuccess() {
						b.Fatal(status)
					}
				}
			})
		}
		server.Close()
	}
}
