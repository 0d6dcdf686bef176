// Package generate makes random scheduling cases. A case depends only on its
// family and its seed, so that any case can be made again alone.
package generate

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"plimsoll.dev/conformance/oracle"
)

const (
	zoneKey     = "topology.kubernetes.io/zone"
	regionKey   = "topology.kubernetes.io/region"
	hostnameKey = "kubernetes.io/hostname"
	gpu         = v1.ResourceName("example.com/gpu")
	hugepages   = v1.ResourceName("hugepages-2Mi")
)

var (
	apps       = []string{"web", "db", "cache", "batch"}
	tiers      = []string{"front", "back"}
	zones      = []string{"z1", "z2", "z3"}
	namespaces = []string{"default", "team-a", "team-b"}
)

// gen holds one case while it grows.
type gen struct {
	*rand.Rand
	// wide cases hold content beyond the everyday: half of all cases.
	wide    bool
	objects oracle.Objects
	config  map[string]any
}

func newGen(family string, seed uint64) *gen {
	hash := fnv.New64a()
	hash.Write([]byte(family))
	g := &gen{Rand: rand.New(rand.NewPCG(seed, hash.Sum64()))}
	g.wide = g.chance(0.5)
	g.objects.Pods = []*v1.Pod{}
	return g
}

func (g *gen) chance(p float64) bool { return g.Float64() < p }

// rarely is true in wide cases only, and there with probability p.
func (g *gen) rarely(p float64) bool { return g.wide && g.chance(p) }

// between draws from low to high, both included.
func (g *gen) between(low, high int) int { return low + g.IntN(high-low+1) }

func pick[T any](g *gen, from []T) T { return from[g.IntN(len(from))] }

// some draws n different elements, in their order.
func some[T any](g *gen, from []T, n int) []T {
	n = min(n, len(from))
	chosen := g.Perm(len(from))[:n]
	keep := make([]bool, len(from))
	for _, i := range chosen {
		keep[i] = true
	}
	var result []T
	for i, element := range from {
		if keep[i] {
			result = append(result, element)
		}
	}
	return result
}

func quantity(format string, args ...any) resource.Quantity {
	return resource.MustParse(fmt.Sprintf(format, args...))
}

func ptr[T any](value T) *T { return &value }

func (g *gen) nodeName() string { return pick(g, g.objects.Nodes).Name }
