package generate

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
)

type object = map[string]any

// configure draws a KubeSchedulerConfiguration that changes one thing, or in
// wide cases up to three.
func (g *gen) configure() {
	profile := object{"schedulerName": v1.DefaultSchedulerName}
	plugins, args := object{}, []any{}
	changes := 1
	if g.wide {
		changes = g.between(1, 3)
	}
	seen := map[string]bool{}
	for range changes {
		switch name, value := g.change(plugins); {
		case name == "" || seen[name]:
		default:
			seen[name] = true
			value["apiVersion"], value["kind"] = "kubescheduler.config.k8s.io/v1", name+"Args"
			args = append(args, object{"name": name, "args": value})
		}
	}
	if len(plugins) > 0 {
		profile["plugins"] = plugins
	}
	if len(args) > 0 {
		profile["pluginConfig"] = args
	}
	profiles := []any{profile}
	if g.rarely(0.15) {
		other := object{"schedulerName": "other-scheduler", "plugins": object{"multiPoint": object{"disabled": []any{object{"name": "NodeResourcesFit"}}}}}
		profiles = []any{other, profile}
	}
	g.config = object{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": profiles}
}

// change either edits the lists of plugins or returns a plugin's arguments.
func (g *gen) change(plugins object) (string, object) {
	kinds := 5
	if g.wide {
		kinds = 12
	}
	switch g.IntN(kinds) {
	case 0, 1:
		return "NodeResourcesFit", g.fitArgs()
	case 2:
		return "PodTopologySpread", g.spreadArgs()
	case 3:
		if g.chance(0.5) {
			return "NodeAffinity", g.addedAffinity()
		}
		plugins["multiPoint"] = object{"disabled": []any{object{"name": pick(g, []string{"TaintToleration", "PodTopologySpread", "InterPodAffinity", "ImageLocality", "NodeResourcesFit"})}}}
	case 4:
		plugins["score"] = object{
			"disabled": []any{object{"name": "NodeResourcesBalancedAllocation"}},
			"enabled":  []any{object{"name": "NodeResourcesBalancedAllocation", "weight": g.between(2, 8)}},
		}
	case 5:
		return "InterPodAffinity", object{"hardPodAffinityWeight": g.IntN(101), "ignorePreferredTermsOfExistingPods": g.chance(0.4)}
	case 6:
		return "NodeResourcesBalancedAllocation", object{"resources": g.scoredResources(false)}
	case 7:
		name := pick(g, []string{"TaintToleration", "NodeAffinity", "InterPodAffinity", "ImageLocality", "NodeResourcesFit", "PodTopologySpread"})
		plugins["multiPoint"] = object{"enabled": []any{object{"name": name, "weight": g.between(1, 20)}}}
	case 8:
		plugins["filter"] = object{"disabled": []any{object{"name": pick(g, []string{"NodeResourcesFit", "TaintToleration", "NodeUnschedulable", "NodePorts", "InterPodAffinity"})}}}
	case 9:
		// Named at its extension point, a plugin goes before those of multiPoint.
		first := some(g, []string{"NodeResourcesFit", "TaintToleration", "NodeUnschedulable", "NodePorts", "NodeAffinity", "PodTopologySpread"}, g.between(1, 3))
		g.Shuffle(len(first), func(i, j int) { first[i], first[j] = first[j], first[i] })
		var enabled []any
		for _, name := range first {
			enabled = append(enabled, object{"name": name})
		}
		filter := object{"enabled": enabled}
		if g.chance(0.3) {
			filter["disabled"] = []any{object{"name": "*"}}
		}
		plugins["filter"] = filter
	case 10:
		plugins["postFilter"] = object{"disabled": []any{object{"name": pick(g, []string{"DefaultPreemption", "DynamicResources", "*"})}}}
	default:
		plugins["score"] = object{"disabled": []any{object{"name": "*"}}, "enabled": []any{
			object{"name": "NodeResourcesFit", "weight": g.between(1, 10)}, object{"name": pick(g, []string{"ImageLocality", "TaintToleration", "NodeAffinity"}), "weight": g.between(1, 10)}}}
	}
	return "", nil
}

func (g *gen) scoredResources(extended bool) []any {
	resources := []any{object{"name": "cpu", "weight": 1}, object{"name": "memory", "weight": 1}}
	if extended {
		resources = []any{object{"name": "cpu", "weight": g.between(1, 5)}, object{"name": "memory", "weight": g.between(1, 5)}}
	}
	if g.chance(0.26) {
		weight := 1
		if extended {
			weight = g.between(1, 5)
		}
		resources = append(resources, object{"name": string(gpu), "weight": weight})
	}
	if g.rarely(0.2) {
		resources = append(resources, object{"name": pick(g, []string{"ephemeral-storage", string(hugepages), "example.com/fpga"}), "weight": 1})
	}
	if g.rarely(0.15) {
		resources = resources[1:]
	}
	return resources
}

func (g *gen) fitArgs() object {
	strategy := object{"type": pick(g, []string{"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"}), "resources": g.scoredResources(true)}
	if strategy["type"] == "RequestedToCapacityRatio" {
		middle := g.between(5, 95)
		low, high := 0, 10
		if g.chance(0.5) {
			low, high = 10, 0
		}
		strategy["requestedToCapacityRatio"] = object{"shape": []any{
			object{"utilization": 0, "score": low}, object{"utilization": middle, "score": g.IntN(11)}, object{"utilization": 100, "score": high}}}
		if g.rarely(0.2) {
			strategy["requestedToCapacityRatio"] = object{"shape": []any{object{"utilization": 40, "score": g.IntN(11)}}}
		}
	}
	args := object{"scoringStrategy": strategy}
	if g.rarely(0.4) {
		args["ignoredResources"] = []any{pick(g, []string{string(gpu), "example.com/fpga"})}
	}
	if g.rarely(0.2) {
		args["ignoredResourceGroups"] = []any{"example.com"}
	}
	return args
}

func (g *gen) spreadArgs() object {
	constraint := object{"maxSkew": 1, "topologyKey": zoneKey, "whenUnsatisfiable": pick(g, []string{"ScheduleAnyway", "DoNotSchedule"})}
	constraints := []any{constraint}
	if g.rarely(0.5) {
		constraint["maxSkew"] = g.between(1, 4)
		constraints = append(constraints, object{"maxSkew": g.between(1, 3), "topologyKey": hostnameKey, "whenUnsatisfiable": pick(g, []string{"ScheduleAnyway", "DoNotSchedule"})})
	}
	if g.rarely(0.15) {
		constraints = []any{}
	}
	if g.wide {
		g.services()
	}
	return object{"defaultingType": "List", "defaultConstraints": constraints}
}

func (g *gen) addedAffinity() object {
	term := object{"matchExpressions": []any{object{"key": "disk", "operator": "In", "values": []any{"ssd"}}}}
	affinity := object{"requiredDuringSchedulingIgnoredDuringExecution": object{"nodeSelectorTerms": []any{term}}}
	if g.rarely(0.6) {
		affinity["preferredDuringSchedulingIgnoredDuringExecution"] = []any{object{"weight": g.between(1, 100), "preference": toObject(g.nodeTerm())}}
		if g.chance(0.5) {
			delete(affinity, "requiredDuringSchedulingIgnoredDuringExecution")
		}
	}
	return object{"addedAffinity": affinity}
}

func toObject(value any) object {
	data, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	var result object
	if json.Unmarshal(data, &result) != nil {
		return nil
	}
	return result
}
