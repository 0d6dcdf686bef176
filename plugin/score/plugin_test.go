package score

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func TestTheServersScoresDecide(t *testing.T) {
	cases := map[string]struct {
		scores string
		want   []int64
	}{
		"the best has 100, times the weight":   {`[10, 40, 20]`, []int64{25 * weight, 100 * weight, 50 * weight}},
		"a node that it does not know is last": {`[10, null, 20]`, []int64{50 * weight, 0, 100 * weight}},
		"a score may be a fraction":            {`[4.96e1, 24.9 , 0.0]`, []int64{100 * weight, 50 * weight, 0}},
		"the ends of the range":                {`[0, 100, 50]`, []int64{0, 100 * weight, 50 * weight}},
		"none is any good":                     {`[0, 0, 0]`, []int64{0, 0, 0}},
		"all are as good, and none is scored":  {`[7, 7, 7]`, []int64{0, 0, 0}},
		"what is not described is passed over": {`[1, 2, 4], "confidence": 0.5`, []int64{25 * weight, 50 * weight, 100 * weight}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			server := newServer(t)
			server.answers(http.StatusOK, `{"items":[{"scores":`+c.scores+`}]}`)
			fromServer := counted(t, scoresTotal, sourceServer)
			got := newBench(t, argsFor(server.URL), makeNodes(3)).schedule(t, makePod("web"))
			if !slices.Equal(got, c.want) {
				t.Errorf("scores %v, want %v", got, c.want)
			}
			if fromServer() != 1 {
				t.Errorf("%d pods counted as scored by the server, want 1", fromServer())
			}
		})
	}
}

func TestOnePreScoreMakesOneRequestOverAKeptConnection(t *testing.T) {
	server := newServer(t)
	bench := newBench(t, argsFor(server.URL), makeNodes(10))
	const pods = 5
	for i := range pods {
		bench.schedule(t, makePod(fmt.Sprint("web-", i)))
		if asked := len(server.requests()); asked != i+1 {
			t.Fatalf("%d requests after %d pods, want one a pod", asked, i+1)
		}
	}
	if connections := server.connections.Load(); connections != 1 {
		t.Errorf("%d connections for %d requests, want 1", connections, pods)
	}
}

func TestARequestIsAsAgreed(t *testing.T) {
	server := newServer(t)
	args := argsFor(server.URL + behind + "/")
	args.Timeout = metav1.Duration{Duration: 5 * time.Second}
	args.Policy = "energy"
	bench := newBench(t, args, makeNodes(3))
	pod := makePod("web")
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	bench.schedule(t, pod)

	asked := server.lastRequest(t)
	if len(asked.Items) != 1 {
		t.Fatalf("%d items, want 1", len(asked.Items))
	}
	item := asked.Items[0]
	if want := []string{"node-1", "node-2", "node-3"}; !slices.Equal(item.Nodes, want) {
		t.Errorf("nodes %v, want %v", item.Nodes, want)
	}
	if item.Pod.Name != "web" || item.Pod.UID != "uid-web" || item.Pod.Kind != "Pod" || item.Pod.APIVersion != "v1" {
		t.Errorf("pod %s/%s %s of kind %s %s", item.Pod.Namespace, item.Pod.Name, item.Pod.UID, item.Pod.APIVersion, item.Pod.Kind)
	}
	if cpu := item.Pod.Spec.Containers[0].Resources.Requests.Cpu().String(); cpu != "1" {
		t.Errorf("the pod asks for %s CPU, want 1", cpu)
	}
	if item.Pod.ManagedFields != nil {
		t.Error("managed fields were sent")
	}
	if pod.ManagedFields == nil || pod.Kind != "" {
		t.Error("the scheduler's own pod was changed")
	}
	if asked.Policy != "energy" || asked.DeadlineMs != 4000 {
		t.Errorf("policy %q and %d ms, want energy and 4000 ms", asked.Policy, asked.DeadlineMs)
	}
	header := server.headers[0]
	if kind := header.Get("Content-Type"); kind != "application/json" {
		t.Errorf("content type %q", kind)
	}
	for _, absent := range []string{"Authorization", "Idempotency-Key"} {
		if _, ok := header[absent]; ok {
			t.Errorf("header %s was sent", absent)
		}
	}
}

func TestWhatIsNoAnswerLeavesAllNodesEqualAndIsCounted(t *testing.T) {
	late := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	lateBody := func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"items":[`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	cut := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	says := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/v1/scores")
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	cases := map[string]struct {
		answer http.HandlerFunc
		reason string
	}{
		"late":                   {late, reasonTimeout},
		"late in the middle":     {lateBody, reasonTimeout},
		"504":                    {says(504, `{"error":"deadline"}`), reasonTimeout},
		"cut":                    {cut, reasonRefused},
		"401":                    {says(401, `{"error":"no token"}`), reasonStatus},
		"413":                    {says(413, `{"error":"too large"}`), reasonStatus},
		"422":                    {says(422, `{"error":"no policy of that name"}`), reasonStatus},
		"500 without a word":     {says(500, ``), reasonStatus},
		"a redirection":          {says(307, ``), reasonStatus},
		"an error of the pod":    {says(200, `{"items":[{"error":"the pod asks for -1 CPU"}]}`), reasonStatus},
		"too few scores":         {says(200, `{"items":[{"scores":[1,2]}]}`), reasonMalformed},
		"too many scores":        {says(200, `{"items":[{"scores":[1,2,3,4]}]}`), reasonMalformed},
		"no scores":              {says(200, `{"items":[{}]}`), reasonMalformed},
		"no items":               {says(200, `{"items":[]}`), reasonMalformed},
		"two items":              {says(200, `{"items":[{"scores":[1,2,3]},{"scores":[1,2,3]}]}`), reasonMalformed},
		"a score above 100":      {says(200, `{"items":[{"scores":[1,2,101]}]}`), reasonMalformed},
		"a score below 0":        {says(200, `{"items":[{"scores":[1,2,-1]}]}`), reasonMalformed},
		"a score in words":       {says(200, `{"items":[{"scores":[1,2,"high"]}]}`), reasonMalformed},
		"scores that are a word": {says(200, `{"items":[{"scores":"1,2,3"}]}`), reasonMalformed},
		"scores within scores":   {says(200, `{"items":[{"scores":[[1],2,3]}]}`), reasonMalformed},
		"words with commas":      {says(200, `{"items":[{"scores":["1,2",3]}]}`), reasonMalformed},
		"scores that are null":   {says(200, `{"items":[{"scores":null}]}`), reasonMalformed},
		"an empty list":          {says(200, `{"items":[{"scores":[ ]}]}`), reasonMalformed},
		"no JSON":                {says(200, `<html>`), reasonMalformed},
		"an empty body":          {says(200, ``), reasonMalformed},
		"more than anyone asks":  {says(200, `{"items":[{"scores":[1,2,3]}]}`+strings.Repeat(" ", 1<<20)), reasonMalformed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			server := newServer(t)
			server.answersBy(c.answer)
			args := argsFor(server.URL)
			if c.reason == reasonTimeout {
				args.Timeout.Duration = 20 * time.Millisecond
			}
			bench := newBench(t, args, makeNodes(3))
			failed, neutral := counted(t, errorsTotal, c.reason), counted(t, scoresTotal, sourceNeutral)
			if got := bench.schedule(t, makePod("web")); !allEqual(got) {
				t.Errorf("scores %v, want all equal", got)
			}
			if failed() != 1 || neutral() != 1 {
				t.Errorf("%d errors counted as %s and %d pods as neutral, want 1 and 1", failed(), c.reason, neutral())
			}
		})
	}
}

func TestAServerThatIsNotThereIsCountedAsRefused(t *testing.T) {
	server := newServer(t)
	server.Close()
	bench := newBench(t, argsFor(server.URL), makeNodes(3))
	refused := counted(t, errorsTotal, reasonRefused)
	if got := bench.schedule(t, makePod("web")); !allEqual(got) || refused() != 1 {
		t.Errorf("scores %v and %d refusals, want equal scores and 1", got, refused())
	}
}

func TestAServerThatKnowsNoNodeHasNotFailed(t *testing.T) {
	server := newServer(t)
	server.answers(http.StatusOK, `{"items":[{"scores":[null,null,null]}]}`)
	bench := newBench(t, argsFor(server.URL), makeNodes(3))
	neutral := counted(t, scoresTotal, sourceNeutral)
	const pods = 5
	for range pods {
		if got := bench.schedule(t, makePod("web")); !allEqual(got) {
			t.Errorf("scores %v, want all equal", got)
		}
	}
	if asked := len(server.requests()); asked != pods || neutral() != pods {
		t.Errorf("asked for %d of %d pods, %d neutral: it must be asked for each", asked, pods, neutral())
	}
}

func TestAKeptConnectionThatIsClosedIsNoFailure(t *testing.T) {
	server := newServer(t)
	bench := newBench(t, argsFor(server.URL), makeNodes(3))
	bench.schedule(t, makePod("web-1"))
	server.answersBy(func(http.ResponseWriter, *http.Request) {
		server.answersBy(nil)
		panic(http.ErrAbortHandler)
	})
	fromServer := counted(t, scoresTotal, sourceServer)
	bench.schedule(t, makePod("web-2"))
	if asked := len(server.requests()); fromServer() != 1 || asked != 3 {
		t.Errorf("%d pods scored by the server after %d requests, want 1 after one and two", fromServer(), asked)
	}
}

func TestTheEndOfTheSchedulerIsNotTheServersFault(t *testing.T) {
	server := newServer(t)
	server.answersBy(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	bench := newBench(t, argsFor(server.URL), makeNodes(3))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	refused, late := counted(t, errorsTotal, reasonRefused), counted(t, errorsTotal, reasonTimeout)
	for range 10 {
		status := bench.plugin.PreScore(ctx, framework.NewCycleState(), makePod("web"), bench.nodes)
		if !status.IsSkip() {
			t.Fatalf("PreScore: %v, want Skip", status)
		}
	}
	if refused() != 0 || late() != 0 || !bench.plugin.breaker.allow() {
		t.Errorf("%d refusals, %d timeouts: a cancelled cycle was counted", refused(), late())
	}
}

func TestScoreWithoutPreScoreKeepsNoPodPending(t *testing.T) {
	bench := newBench(t, argsFor("http://127.0.0.1:1"), makeNodes(1))
	score, status := bench.plugin.Score(context.Background(), framework.NewCycleState(), makePod("web"), bench.nodes[0])
	if score != 0 || !status.IsSuccess() {
		t.Errorf("score %d with %v, want 0 and success", score, status)
	}
}

func TestTheProfileHasTheFrameworksExtensionPoints(t *testing.T) {
	bench := newBench(t, argsFor("http://127.0.0.1:1"), makeNodes(1))
	plugins := bench.framework.ListPlugins()
	if got := len(plugins.PreScore.Enabled) + len(plugins.Score.Enabled) + len(plugins.Reserve.Enabled) +
		len(plugins.PreFilter.Enabled); got != 4 {
		t.Errorf("the plugin is enabled at %d points, want 4", got)
	}
	if bench.plugin.Name() != Name || bench.plugin.ScoreExtensions() == nil {
		t.Error("the plugin has no name or no extensions")
	}
	scores := fwk.NodeScoreList{{Name: "a", Score: 5000}, {Name: "b", Score: 10000}}
	if status := bench.plugin.NormalizeScore(context.Background(), nil, nil, scores); !status.IsSuccess() || scores[0].Score != 50 || scores[1].Score != 100 {
		t.Errorf("normalised to %v with %v, want 50 and 100", scores, status)
	}
}
