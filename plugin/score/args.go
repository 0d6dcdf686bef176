package score

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// A scheduling cycle stands still while the server is asked: whoever waits longer for an address has mistyped it.
const maxTimeout = 10 * time.Second

// Args are the `args` of the plugin in a KubeSchedulerConfiguration.
type Args struct {
	// Address is where the Plimsoll server is: http:// or https://, a host, and a path if it is behind one.
	Address string `json:"address"`
	// Timeout is how long a scheduling cycle waits for the server at most; 100ms if absent.
	Timeout metav1.Duration `json:"timeout"`
	// Policy is the policy that ranks, by the name that the server gives it; the server's own choice if absent.
	Policy string `json:"policy"`
	// CAFile holds the certificates by which https addresses are trusted, in PEM; those of the system if absent. It is read at the start.
	CAFile string `json:"caFile"`
	// TokenFile holds the bearer token for the server. It is read again whenever it changes.
	TokenFile string `json:"tokenFile"`
	// Fallback says which nodes are better where load alone decides; least-loaded if absent.
	Fallback Fallback `json:"fallback"`
	// CircuitBreaker says when a server that fails is left alone.
	CircuitBreaker CircuitBreaker `json:"circuitBreaker"`
	// Prometheus says where the load of nodes is known; without it, all nodes are equal while the server does not answer.
	Prometheus *Prometheus `json:"prometheus"`
}

// Fallback is how load ranks nodes.
type Fallback string

const (
	// LeastLoaded spreads pods.
	LeastLoaded Fallback = "least-loaded"
	// MostLoaded packs them, so that other nodes stay empty.
	MostLoaded Fallback = "most-loaded"
)

// CircuitBreaker says when a server that fails is left alone.
type CircuitBreaker struct {
	// Failures in a row after which the server is left alone; 3 if absent.
	Failures int `json:"failures"`
	// Pause is for how long, the first time; each further failure doubles it; 1s if absent.
	Pause metav1.Duration `json:"pause"`
	// MaxPause is the longest pause; 60s if absent.
	MaxPause metav1.Duration `json:"maxPause"`
}

// Prometheus says where the load of nodes is known.
type Prometheus struct {
	// Address is where Prometheus is: http:// or https://, a host, and a path if it is behind one.
	Address string `json:"address"`
	// Interval is how often it is asked; 15s if absent.
	Interval metav1.Duration `json:"interval"`
	// StaleAfter is how long an answer counts; 60s if absent.
	StaleAfter metav1.Duration `json:"staleAfter"`
	// NodeLabel is the label that names a result's node; `node` or else `instance` if absent. A port is left out.
	NodeLabel string `json:"nodeLabel"`
	// Queries are what is asked. Each has a default.
	Queries Queries `json:"queries"`
}

// Queries are what Prometheus is asked about nodes, in PromQL; the result is a vector with a sample for each node.
type Queries struct {
	// CPUPercent is how busy the processors are, 0 to 100.
	CPUPercent string `json:"cpu_percent"`
	// MemoryAvailableGB is the memory that is not in use, in GB of 10^9 bytes.
	MemoryAvailableGB string `json:"memory_available_gb"`
	// DiskUsedPercent is how full the disk is, 0 to 100.
	DiskUsedPercent string `json:"disk_used_percent"`
	// NetworkReceive is how much comes in, in bytes a second.
	NetworkReceive string `json:"network_receive"`
	// TCPEstablished is the number of TCP connections.
	TCPEstablished string `json:"tcp_established"`
	// Pods is the number of pods. A node without a sample has none.
	Pods string `json:"pods"`
}

// decodeArgs gives the arguments with defaults for what is absent, or every mistake in them.
func decodeArgs(configuration runtime.Object) (*Args, error) {
	if configuration == nil {
		return nil, fmt.Errorf("plugin %s has no arguments: give it a pluginConfig with name: %s and args: {address: http://HOST:PORT}", Name, Name)
	}
	unknown, ok := configuration.(*runtime.Unknown)
	if !ok {
		return nil, fmt.Errorf("the arguments of plugin %s are a %T, not plain YAML or JSON", Name, configuration)
	}
	raw := unknown.Raw
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	if unknown.ContentType == runtime.ContentTypeYAML {
		var err error
		if raw, err = yaml.YAMLToJSONStrict(raw); err != nil {
			return nil, fmt.Errorf("the arguments of plugin %s are no YAML: %w", Name, err)
		}
	}
	args := &Args{}
	strict, err := json.UnmarshalStrict(raw, args)
	if err := errors.Join(append(strict, err)...); err != nil {
		return nil, fmt.Errorf("the arguments of plugin %s cannot be read: %w", Name, err)
	}
	args.setDefaults()
	if err := args.validate().ToAggregate(); err != nil {
		return nil, fmt.Errorf("the arguments of plugin %s: %w", Name, err)
	}
	return args, nil
}

func (a *Args) setDefaults() {
	setDefault(&a.Timeout.Duration, 100*time.Millisecond)
	setDefault(&a.Fallback, LeastLoaded)
	setDefault(&a.CircuitBreaker.Failures, 3)
	setDefault(&a.CircuitBreaker.Pause.Duration, time.Second)
	setDefault(&a.CircuitBreaker.MaxPause.Duration, max(time.Minute, a.CircuitBreaker.Pause.Duration))
	if p := a.Prometheus; p != nil {
		setDefault(&p.Interval.Duration, 15*time.Second)
		setDefault(&p.StaleAfter.Duration, max(time.Minute, 4*p.Interval.Duration))
		p.Queries.setDefaults()
	}
}

func (q *Queries) setDefaults() {
	setDefault(&q.CPUPercent, `100 - (avg by (instance) (irate(node_cpu_seconds_total{mode="idle"}[1m])) * 100)`)
	setDefault(&q.MemoryAvailableGB, `node_memory_MemAvailable_bytes / 1e9`)
	setDefault(&q.DiskUsedPercent, `100 - (node_filesystem_avail_bytes{mountpoint="/"} / node_filesystem_size_bytes{mountpoint="/"} * 100)`)
	setDefault(&q.NetworkReceive, `sum by (instance) (rate(node_network_receive_bytes_total[5m]))`)
	setDefault(&q.TCPEstablished, `node_netstat_Tcp_CurrEstab`)
	setDefault(&q.Pods, `count by (node) (kube_pod_info)`)
}

func setDefault[T comparable](value *T, instead T) {
	var absent T
	if *value == absent {
		*value = instead
	}
}

func (a *Args) validate() field.ErrorList {
	var found field.ErrorList
	found = append(found, validateAddress(field.NewPath("address"), a.Address)...)
	if timeout := a.Timeout.Duration; timeout < time.Millisecond || timeout > maxTimeout {
		found = append(found, field.Invalid(field.NewPath("timeout"), timeout.String(), fmt.Sprintf("must be from 1ms to %s: scheduling stands still that long when the server does not answer", maxTimeout)))
	}
	if a.Fallback != LeastLoaded && a.Fallback != MostLoaded {
		found = append(found, field.NotSupported(field.NewPath("fallback"), a.Fallback, []Fallback{LeastLoaded, MostLoaded}))
	}
	found = append(found, validateFile(field.NewPath("caFile"), a.CAFile)...)
	found = append(found, validateFile(field.NewPath("tokenFile"), a.TokenFile)...)
	found = append(found, a.CircuitBreaker.validate(field.NewPath("circuitBreaker"))...)
	if a.Prometheus != nil {
		found = append(found, a.Prometheus.validate(field.NewPath("prometheus"))...)
	}
	if a.CAFile != "" && !a.usesTLS() {
		found = append(found, field.Invalid(field.NewPath("caFile"), a.CAFile, "no address begins with https://, so that no certificate is ever checked"))
	}
	return found
}

func (a *Args) usesTLS() bool {
	addresses := []string{a.Address}
	if a.Prometheus != nil {
		addresses = append(addresses, a.Prometheus.Address)
	}
	for _, address := range addresses {
		if parsed, err := url.Parse(address); err == nil && parsed.Scheme == "https" {
			return true
		}
	}
	return false
}

func (c CircuitBreaker) validate(path *field.Path) field.ErrorList {
	var found field.ErrorList
	if c.Failures < 1 {
		found = append(found, field.Invalid(path.Child("failures"), c.Failures, "must be 1 or more"))
	}
	if c.Pause.Duration <= 0 {
		found = append(found, field.Invalid(path.Child("pause"), c.Pause.Duration.String(), "must be more than 0s"))
	}
	if c.MaxPause.Duration < c.Pause.Duration {
		found = append(found, field.Invalid(path.Child("maxPause"), c.MaxPause.Duration.String(), fmt.Sprintf("must not be less than pause, %s", c.Pause.Duration)))
	}
	return found
}

func (p *Prometheus) validate(path *field.Path) field.ErrorList {
	found := validateAddress(path.Child("address"), p.Address)
	if p.Interval.Duration < time.Second {
		found = append(found, field.Invalid(path.Child("interval"), p.Interval.Duration.String(), "must be 1s or more"))
	}
	if p.StaleAfter.Duration <= p.Interval.Duration {
		found = append(found, field.Invalid(path.Child("staleAfter"), p.StaleAfter.Duration.String(), fmt.Sprintf("must be more than interval, %s: answers would be stale before the next ones come", p.Interval.Duration)))
	}
	return found
}

func validateAddress(path *field.Path, address string) field.ErrorList {
	if address == "" {
		return field.ErrorList{field.Required(path, "as in http://plimsoll.kube-system:8080")}
	}
	parsed, err := url.Parse(address)
	if err != nil {
		return field.ErrorList{field.Invalid(path, "", "is not a URL")}
	}
	refuse := func(why string) field.ErrorList {
		return field.ErrorList{field.Invalid(path, parsed.Redacted(), why)}
	}
	switch {
	case parsed.Scheme != "http" && parsed.Scheme != "https":
		return refuse("must begin with http:// or https://")
	case parsed.Hostname() == "":
		return refuse("names no host")
	case parsed.User != nil:
		return refuse("must hold no password: the configuration is no place for it; tokenFile is")
	case parsed.RawQuery != "" || parsed.Fragment != "":
		return refuse("must end with the path")
	}
	return nil
}

func validateFile(path *field.Path, name string) field.ErrorList {
	if name == "" {
		return nil
	}
	file, err := os.Open(name)
	if err != nil {
		return field.ErrorList{field.Invalid(path, name, err.Error())}
	}
	if err := file.Close(); err != nil {
		return field.ErrorList{field.Invalid(path, name, err.Error())}
	}
	return nil
}
