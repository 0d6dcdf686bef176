package score

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

const (
	scoresPath = "v1/scores"
	// The server is told a deadline that leaves a fifth of ours for the way there and back.
	deadlinePercent = 80
	// An answer with a score needs a handful of bytes for each node; more than this is none.
	bytesPerNode, bytesBeside = 32, 64 << 10
	// How much of what a server says about an error is shown.
	maxErrorText = 512
)

// client asks a Plimsoll server for scores, over connections that are kept.
type client struct {
	http    *http.Client
	url     string
	policy  string
	timeout time.Duration
	token   *tokenFile
}

// question is what is asked.
type question struct {
	pod   *v1.Pod
	nodes nodeNames
	// The score of the best; as the server has it, if 0.
	most int64
	told told
}

// answer is what is answered: a score for each of the nodes, in their order.
type answer struct {
	scores []nodeScore
	// Whether other nodes do not count for the score of a node.
	apart bool
}

// nodeNames are names of nodes that can be sent.
type nodeNames interface {
	len() int
	appendJSON(text []byte) []byte
}

// namesOf are the names of these nodes.
type namesOf []fwk.NodeInfo

func (n namesOf) len() int { return len(n) }

func (n namesOf) appendJSON(text []byte) []byte {
	names := make([]string, len(n))
	for at, node := range n {
		names[at] = node.Node().Name
	}
	// Strings can always be written.
	list, _ := json.Marshal(names)
	return append(text, list...)
}

// request is the body of POST /v1/scores.
type request struct {
	Items      []requestItem `json:"items"`
	Policy     string        `json:"policy,omitempty"`
	DeadlineMs int64         `json:"deadlineMs"`
	Most       int64         `json:"most,omitempty"`
	Placed     []placement   `json:"placed,omitempty"`
	Released   []types.UID   `json:"released,omitempty"`
}

type requestItem struct {
	Pod   *v1.Pod  `json:"pod"`
	Nodes []string `json:"nodes"`
}

// response is the body of 200.
type response struct {
	Items []responseItem `json:"items"`
}

type responseItem struct {
	Scores scoreList `json:"scores"`
	Apart  bool      `json:"apart"`
	Error  string    `json:"error"`
}

// nodeScore is what the server says of a node: nothing, if it does not know it.
type nodeScore struct {
	value int64
	known bool
}

// scoreList is an array of numbers and nulls.
type scoreList []nodeScore

// UnmarshalJSON reads the array at once: value by value, reading thousands of scores costs more than all else that the plugin does.
func (l *scoreList) UnmarshalJSON(text []byte) error {
	inner, isArray := bytes.CutPrefix(text, []byte("["))
	inner = bytes.TrimSpace(bytes.TrimSuffix(inner, []byte("]")))
	if !isArray {
		return errors.New("scores are not an array")
	}
	if len(inner) == 0 {
		return nil
	}
	scores := make(scoreList, 0, bytes.Count(inner, []byte(","))+1)
	for element := range bytes.SplitSeq(inner, []byte(",")) {
		element = bytes.TrimSpace(element)
		if string(element) == "null" {
			scores = append(scores, nodeScore{})
			continue
		}
		// Most scores are whole numbers, which are read faster.
		if whole, err := strconv.ParseInt(string(element), 10, 64); err == nil && whole >= fwk.MinNodeScore && whole <= finest {
			scores = append(scores, nodeScore{value: whole, known: true})
			continue
		}
		score, err := strconv.ParseFloat(string(element), 64)
		if err != nil {
			return fmt.Errorf("score %.40s is not a number", element)
		}
		if score < float64(fwk.MinNodeScore) || score > finest {
			return fmt.Errorf("score %v is not between %d and %d", score, fwk.MinNodeScore, finest)
		}
		scores = append(scores, nodeScore{value: int64(math.Round(score)), known: true})
	}
	*l = scores
	return nil
}

// failure is why a request brought no scores.
type failure struct {
	reason     string
	err        error
	retryAfter time.Duration
	// The server works, but cannot score this pod.
	aboutPod bool
}

func (f *failure) Error() string { return f.err.Error() }

func (f *failure) Unwrap() error { return f.err }

// newTransport keeps connections, and trusts the certificates of a file where there is one.
func newTransport(caFile string) (*http.Transport, error) {
	transport := &http.Transport{
		MaxIdleConnsPerHost: 2,
		IdleConnTimeout:     10 * time.Minute,
		DialContext:         (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext,
	}
	if caFile == "" {
		return transport, nil
	}
	text, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read caFile: %w", err)
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("caFile %s holds no certificate in PEM", caFile)
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
	return transport, nil
}

func newClient(args *Args, transport *http.Transport) (*client, error) {
	address, err := url.Parse(args.Address)
	if err != nil {
		return nil, fmt.Errorf("address: %w", err)
	}
	secured := transport.TLSClientConfig
	if secured == nil {
		secured = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	c := &client{
		http: &http.Client{
			Transport: newWire(address, secured),
			// A redirection could carry pods and token elsewhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		url:     address.JoinPath(scoresPath).String(),
		policy:  args.Policy,
		timeout: args.Timeout.Duration,
	}
	if args.TokenFile != "" {
		if c.token, err = newTokenFile(args.TokenFile); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// ask gives what the server makes of nodes.
func (c *client) ask(ctx context.Context, question question) (answer, *failure) {
	body, err := c.encode(question)
	if err != nil {
		pod := question.pod
		return answer{}, &failure{reason: reasonMalformed, err: fmt.Errorf("cannot write pod %s/%s as JSON: %w", pod.Namespace, pod.Name, err), aboutPod: true}
	}
	request, err := c.request(ctx, body)
	if err != nil {
		return answer{}, &failure{reason: reasonRefused, err: err}
	}
	response, err := c.http.Do(request)
	if err != nil {
		return answer{}, transportFailure(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return answer{}, statusFailure(response)
	}
	count := question.nodes.len()
	limit := int64(count*bytesPerNode + bytesBeside)
	text, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err != nil {
		return answer{}, transportFailure(err)
	}
	if int64(len(text)) > limit {
		return answer{}, malformed("the answer has more than %d bytes for %d nodes", limit, count)
	}
	return decode(text, count, max(question.most, fwk.MaxNodeScore))
}

// encode writes the names of nodes as they are kept, which are most of a request.
func (c *client) encode(question question) ([]byte, error) {
	plain, told := *question.pod, question.told
	plain.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	plain.ManagedFields = nil
	released := make([]types.UID, len(told.released))
	for i, release := range told.released {
		released[i] = release.uid
	}
	pod, err := json.Marshal(&plain)
	if err != nil {
		return nil, err
	}
	rest, err := json.Marshal(struct {
		request
		// What is written before.
		Items omitted `json:"items,omitempty"`
	}{request: request{
		Policy:     c.policy,
		DeadlineMs: max(1, (c.timeout * deadlinePercent / 100).Milliseconds()),
		Most:       question.most,
		Placed:     told.placed,
		Released:   released,
	}})
	if err != nil {
		return nil, err
	}
	text := make([]byte, 0, len(pod)+len(rest)+question.nodes.len()*bytesPerNode)
	text = append(append(text, `{"items":[{"pod":`...), pod...)
	text = question.nodes.appendJSON(append(text, `,"nodes":`...))
	return append(append(text, `}],`...), rest[1:]...), nil
}

// omitted is never written.
type omitted []struct{}

func (c *client) request(ctx context.Context, body []byte) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if c.token != nil {
		token, err := c.token.current()
		if err != nil {
			klog.FromContext(ctx).V(2).Info("The last token goes on being used", "err", err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return request, nil
}

func decode(text []byte, nodes int, most int64) (answer, *failure) {
	var response response
	if err := json.Unmarshal(text, &response); err != nil {
		return answer{}, malformed("the answer is not what was asked for: %w", err)
	}
	if len(response.Items) != 1 {
		return answer{}, malformed("the answer has %d items for 1 pod", len(response.Items))
	}
	item := response.Items[0]
	if item.Error != "" {
		return answer{}, &failure{reason: reasonStatus, err: fmt.Errorf("the server cannot score the pod: %s", item.Error), aboutPod: true}
	}
	if len(item.Scores) != nodes {
		return answer{}, malformed("the answer has %d scores for %d nodes", len(item.Scores), nodes)
	}
	for _, score := range item.Scores {
		if score.value > most {
			return answer{}, malformed("score %d is above %d", score.value, most)
		}
	}
	return answer{scores: item.Scores, apart: item.Apart}, nil
}

func malformed(format string, args ...any) *failure {
	return &failure{reason: reasonMalformed, err: fmt.Errorf(format, args...)}
}

func transportFailure(err error) *failure {
	var timeout net.Error
	if errors.Is(err, context.DeadlineExceeded) || (errors.As(err, &timeout) && timeout.Timeout()) {
		return &failure{reason: reasonTimeout, err: err}
	}
	return &failure{reason: reasonRefused, err: err}
}

func statusFailure(answer *http.Response) *failure {
	// What cannot be read is not shown; the status says enough.
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxErrorText))
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(text, &said) != nil || said.Error == "" {
		said.Error = "no reason given"
	}
	failure := &failure{reason: reasonStatus, err: fmt.Errorf("the server answered %s: %s", answer.Status, said.Error)}
	switch answer.StatusCode {
	case http.StatusGatewayTimeout:
		failure.reason = reasonTimeout
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > 0 {
			failure.retryAfter = time.Duration(seconds) * time.Second
		}
	}
	return failure
}
