package score

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Where scores come from.
const (
	sourceServer     = "server"
	sourcePrometheus = "prometheus"
	sourceNeutral    = "neutral"
)

// Why the server gave no scores.
const (
	reasonTimeout     = "timeout"
	reasonRefused     = "refused"
	reasonStatus      = "status"
	reasonMalformed   = "malformed"
	reasonCircuitOpen = "circuit_open"
)

var (
	scoresTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "plimsoll_plugin_scores_total",
		Help:           "Pods whose nodes were scored, by where the scores came from; neutral: all nodes were equal.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"source"})
	errorsTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "plimsoll_plugin_errors_total",
		Help:           "Pods for which the Plimsoll server gave no scores, by reason.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"reason"})
	requestDuration = metrics.NewHistogram(&metrics.HistogramOpts{
		Name: "plimsoll_plugin_request_duration_seconds",
		Help: "How long requests to the Plimsoll server took, whether they succeeded or not.",
		// From a quarter of a millisecond, a server beside the scheduler, to one second, more than anybody should wait.
		Buckets:        metrics.ExponentialBuckets(0.00025, 2, 13),
		StabilityLevel: metrics.ALPHA,
	})
	pollsTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "plimsoll_plugin_prometheus_queries_total",
		Help:           "Queries that Prometheus was asked in the background, by result.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"result"})
	registerOnce sync.Once
)

// registerMetrics puts them on the scheduler's /metrics, with every label at 0: a rate needs a beginning.
func registerMetrics() {
	registerOnce.Do(func() {
		legacyregistry.MustRegister(scoresTotal, errorsTotal, requestDuration, pollsTotal)
		for _, source := range []string{sourceServer, sourcePrometheus, sourceNeutral} {
			scoresTotal.WithLabelValues(source)
		}
		for _, reason := range []string{reasonTimeout, reasonRefused, reasonStatus, reasonMalformed, reasonCircuitOpen} {
			errorsTotal.WithLabelValues(reason)
		}
		for _, result := range []string{"success", "error"} {
			pollsTotal.WithLabelValues(result)
		}
	})
}
