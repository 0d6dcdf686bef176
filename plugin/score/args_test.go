package score

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
)

func yamlArgs(text string) *runtime.Unknown {
	return &runtime.Unknown{ContentType: runtime.ContentTypeYAML, Raw: []byte(text)}
}

func seconds(count int) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(count) * time.Second}
}

func TestWhatIsAbsentHasADefault(t *testing.T) {
	args, err := decodeArgs(yamlArgs("{address: 'http://plimsoll:8080', prometheus: {address: 'http://prometheus:9090'}}"))
	if err != nil {
		t.Fatal(err)
	}
	want := &Args{
		Address:        "http://plimsoll:8080",
		Timeout:        metav1.Duration{Duration: 100 * time.Millisecond},
		Fallback:       LeastLoaded,
		CircuitBreaker: CircuitBreaker{Failures: 3, Pause: seconds(1), MaxPause: seconds(60)},
		Prometheus: &Prometheus{
			Address:    "http://prometheus:9090",
			Interval:   seconds(15),
			StaleAfter: seconds(60),
			Queries: Queries{
				CPUPercent:        `100 - (avg by (instance) (irate(node_cpu_seconds_total{mode="idle"}[1m])) * 100)`,
				MemoryAvailableGB: `node_memory_MemAvailable_bytes / 1e9`,
				DiskUsedPercent:   `100 - (node_filesystem_avail_bytes{mountpoint="/"} / node_filesystem_size_bytes{mountpoint="/"} * 100)`,
				NetworkReceive:    `sum by (instance) (rate(node_network_receive_bytes_total[5m]))`,
				TCPEstablished:    `node_netstat_Tcp_CurrEstab`,
				Pods:              `count by (node) (kube_pod_info)`,
			},
		},
	}
	if !reflect.DeepEqual(args, want) {
		t.Errorf("%+v\nwant %+v", args, want)
	}
}

func TestWhatIsGivenCounts(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := `{"address": "https://plimsoll:8443/v2/", "timeout": "50ms", "policy": "energy", "caFile": "` + token + `", "tokenFile": "` + token + `",
		"fallback": "most-loaded", "circuitBreaker": {"failures": 1, "pause": "2m", "maxPause": "3m"},
		"prometheus": {"address": "http://prometheus", "interval": "30s", "staleAfter": "31s", "nodeLabel": "nodename", "queries": {"pods": "mine"}}}`
	args, err := decodeArgs(&runtime.Unknown{ContentType: runtime.ContentTypeJSON, Raw: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	wantBreaker := CircuitBreaker{Failures: 1, Pause: seconds(120), MaxPause: seconds(180)}
	if args.Timeout.Duration != 50*time.Millisecond || args.Policy != "energy" || args.Fallback != MostLoaded || args.CircuitBreaker != wantBreaker {
		t.Errorf("%+v", args)
	}
	if p := args.Prometheus; p.NodeLabel != "nodename" || p.Interval != seconds(30) || p.StaleAfter != seconds(31) || p.Queries.Pods != "mine" || p.Queries.TCPEstablished == "" {
		t.Errorf("%+v", p)
	}
}

func TestMistakesInArgumentsAreNamed(t *testing.T) {
	const address = "address: http://plimsoll:8080\n"
	cases := map[string]struct{ text, says string }{
		"no address":                        {"{}", "address: Required value: as in http://"},
		"nothing at all":                    {"", "address: Required value"},
		"another scheme":                    {"address: plimsoll:8080", `address: Invalid value: "plimsoll:8080": must begin with http:// or https://`},
		"no host":                           {"address: http:///scores", "names no host"},
		"a password in the address":         {"address: http://me:hidden@plimsoll", "must hold no password"},
		"a query in the address":            {"address: http://plimsoll?policy=x", "must end with the path"},
		"no URL":                            {"address: 'http://[::1'", "address: Invalid value"},
		"an unknown field":                  {address + "adress: x", `unknown field "adress"`},
		"an unknown field within":           {address + "circuitBreaker: {retries: 1}", `unknown field "circuitBreaker.retries"`},
		"an unknown query":                  {address + "prometheus: {address: 'http://p', queries: {ram: x}}", `unknown field "prometheus.queries.ram"`},
		"a check that is not to be skipped": {address + "insecureSkipVerify: true", `unknown field "insecureSkipVerify"`},
		"a field twice":                     {address + address, `"address" already set`},
		"another case":                      {"Address: http://plimsoll", `unknown field "Address"`},
		"no duration":                       {address + "timeout: soon", `invalid duration "soon"`},
		"a number as duration":              {address + "timeout: 100", "cannot unmarshal number"},
		"a negative timeout":                {address + "timeout: -1s", `timeout: Invalid value: "-1s": must be from 1ms to 10s`},
		"an endless timeout":                {address + "timeout: 1m", "timeout: Invalid value"},
		"another fallback":                  {address + "fallback: random", `fallback: Unsupported value: "random": supported values: "least-loaded", "most-loaded"`},
		"negative failures":                 {address + "circuitBreaker: {failures: -1}", "circuitBreaker.failures: Invalid value: -1: must be 1 or more"},
		"a negative pause":                  {address + "circuitBreaker: {pause: -1s}", "circuitBreaker.pause: Invalid value"},
		"a longest pause too short":         {address + "circuitBreaker: {pause: 5s, maxPause: 1s}", `circuitBreaker.maxPause: Invalid value: "1s": must not be less than pause, 5s`},
		"no file of certificates":           {"{address: 'https://plimsoll', caFile: /nowhere/ca.pem}", `caFile: Invalid value: "/nowhere/ca.pem": open /nowhere/ca.pem: no such file`},
		"no file of a token":                {address + "tokenFile: /nowhere/token", "tokenFile: Invalid value"},
		"certificates without TLS":          {address + "caFile: /dev/null", "no address begins with https://"},
		"no address of Prometheus":          {address + "prometheus: {}", "prometheus.address: Required value"},
		"Prometheus asked too often":        {address + "prometheus: {address: 'http://p', interval: 10ms}", "prometheus.interval: Invalid value"},
		"stale before the next":             {address + "prometheus: {address: 'http://p', staleAfter: 15s}", "prometheus.staleAfter: Invalid value"},
		"no YAML":                           {"{", "are no YAML"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := decodeArgs(yamlArgs(c.text))
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("error %v, want one that says %s", err, c.says)
			}
			if !strings.Contains(err.Error(), "plugin Plimsoll") || strings.Contains(err.Error(), "hidden") {
				t.Errorf("error %q must name the plugin and no password", err)
			}
		})
	}
}

func TestAllMistakesAreNamedAtOnce(t *testing.T) {
	_, err := decodeArgs(yamlArgs("{timeout: 1m, fallback: random}"))
	for _, part := range []string{"address", "timeout", "fallback"} {
		if err == nil || !strings.Contains(err.Error(), part+":") {
			t.Errorf("error %v does not name %s", err, part)
		}
	}
}

func TestAPluginWithoutArgumentsSaysWhatItNeeds(t *testing.T) {
	_, err := New(context.Background(), nil, nil)
	if err == nil || !strings.Contains(err.Error(), "pluginConfig") {
		t.Errorf("error %v, want one that says what to give", err)
	}
	if _, err := New(context.Background(), &config.NodeAffinityArgs{}, nil); err == nil {
		t.Error("the arguments of another plugin were taken")
	}
}

func TestTheExampleIsTakenByTheSchedulerAndThePlugin(t *testing.T) {
	configuration, err := options.LoadConfigFromFile(klog.Background(), "../../examples/plugin/scheduler-config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	profile := configuration.Profiles[0]
	enabled := profile.Plugins.MultiPoint.Enabled
	if last := enabled[len(enabled)-1]; last.Name != Name || last.Weight < 1 {
		t.Errorf("%+v is enabled last, want %s with a weight", last, Name)
	}
	for _, plugin := range profile.PluginConfig {
		if plugin.Name != Name {
			continue
		}
		made, err := New(context.Background(), plugin.Args, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := made.(*Plugin).Close(); err != nil {
			t.Error(err)
		}
		return
	}
	t.Errorf("the example has no pluginConfig of %s", Name)
}
