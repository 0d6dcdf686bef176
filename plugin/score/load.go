package score

import (
	"math"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

const (
	// CPU, memory and pods decide; disk, network and connections together count a third of any of them.
	mainWeight, sideWeight = 9, 1
	// Scores by load have this many steps, so that NormalizeScore loses nothing.
	loadSteps = 10_000
)

// rankByLoad gives the nodes scores by their load; false where nothing is known of any of them. A node of which nothing is known comes last.
func rankByLoad(readings *readings, nodes []fwk.NodeInfo, fallback Fallback) (ranking, bool) {
	loads := make([]nodeLoad, len(nodes))
	var most nodeLoad
	for i, node := range nodes {
		loads[i] = loadOf(readings, node.Node())
		for metric, value := range loads[i].value {
			most.value[metric] = max(most.value[metric], value)
		}
	}
	// Where only pods are counted, a node without a sample has none; where there is more to know, it is one that nobody has looked at yet.
	onlyPods := true
	for metric := range pods {
		onlyPods = onlyPods && len(readings[metric].values) == 0
	}
	ranking := newRanking(len(nodes))
	known := false
	for i, node := range nodes {
		score := int32(0)
		if loads[i].measured || (onlyPods && loads[i].has[pods]) {
			if share, ok := loads[i].share(node.GetAllocatable(), &most); ok {
				known = true
				if fallback == LeastLoaded {
					share = 1 - share
				}
				score = int32(math.Round(share * loadSteps))
			}
		}
		ranking.set(i, node, score)
	}
	return ranking, known
}

// nodeLoad is what Prometheus knows of a node.
type nodeLoad struct {
	value    [metricCount]float64
	has      [metricCount]bool
	measured bool
}

func loadOf(readings *readings, node *v1.Node) nodeLoad {
	var load nodeLoad
	for metric, reading := range readings {
		if reading.values == nil {
			continue
		}
		value, ok := find(reading.values, node)
		load.measured = load.measured || (ok && metric != int(pods))
		if ok || metric == int(pods) {
			load.value[metric], load.has[metric] = value, true
		}
	}
	return load
}

// find looks for the node by its name, or by an address: exporters are often known by theirs.
func find(values map[string]float64, node *v1.Node) (float64, bool) {
	if value, ok := values[node.Name]; ok {
		return value, true
	}
	for _, address := range node.Status.Addresses {
		if value, ok := values[address.Address]; ok {
			return value, true
		}
	}
	return 0, false
}

// share gives how loaded a node is, 0 to 1, by all that is known of it.
func (l *nodeLoad) share(allocatable fwk.Resource, most *nodeLoad) (float64, bool) {
	var sum, weights float64
	add := func(metric metric, weight, value, whole float64) {
		if l.has[metric] && whole > 0 {
			sum += weight * min(max(value/whole, 0), 1)
			weights += weight
		}
	}
	memory := float64(allocatable.GetMemory())
	add(cpuPercent, mainWeight, l.value[cpuPercent], 100)
	add(memoryAvailableGB, mainWeight, memory-l.value[memoryAvailableGB]*1e9, memory)
	add(pods, mainWeight, l.value[pods], float64(allocatable.GetAllowedPodNumber()))
	add(diskUsedPercent, sideWeight, l.value[diskUsedPercent], 100)
	add(networkReceive, sideWeight, l.value[networkReceive], most.value[networkReceive])
	add(tcpEstablished, sideWeight, l.value[tcpEstablished], most.value[tcpEstablished])
	return sum / weights, weights > 0
}
