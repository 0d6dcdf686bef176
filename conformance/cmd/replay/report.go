package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// shownNodes is how many nodes a difference lists.
const shownNodes = 5

// report counts the verdicts and prints the first differences.
type report struct {
	out                            io.Writer
	show                           int
	placements, waits, preemptions int
	differences                    int
}

// close prints the totals and says whether there were differences.
func (r *report) close() error {
	if r.waits+r.preemptions > 0 {
		fmt.Fprintf(r.out, "%d waits and %d preemptions agree\n", r.waits, r.preemptions)
	}
	if _, err := fmt.Fprintf(r.out, "%d placements agree, %d differ\n", r.placements, r.differences); err != nil {
		return err
	}
	if r.differences > 0 {
		return errDiffers
	}
	return nil
}

// differ counts a difference; node is the one the timeline chose, if any.
func (r *report) differ(where string, c *cycle, ours, stocks, node string) {
	if r.differences++; r.differences > r.show {
		return
	}
	fmt.Fprintf(r.out, "%s: pod %s\n  timeline: %s\n  stock:    %s\n", where, describe(c.pod), ours, stocks)
	for i, scored := range c.scores {
		if i < shownNodes || scored.Name == node {
			fmt.Fprintf(r.out, "    %s total %d:%s\n", scored.Name, scored.TotalScore, plugins(scored))
		}
	}
	for _, line := range c.refusals(node) {
		fmt.Fprintf(r.out, "    %s\n", line)
	}
}

// choice says what kube-scheduler makes of the pod before any preemption.
func (c *cycle) choice() string {
	if len(c.scores) == 0 {
		return "no node is feasible"
	}
	best := c.best()
	shown := best[:min(len(best), shownNodes)]
	more := ""
	if len(shown) < len(best) {
		more = ", ..."
	}
	return fmt.Sprintf("node %s%s; %d feasible, %d share the highest total", strings.Join(shown, ", "), more, len(c.feasible), len(best))
}

// refusals count the nodes that are not feasible by plugin and reason; the node
// of the timeline has a line of its own.
func (c *cycle) refusals(node string) []string {
	var lines []string
	counts := map[string]int{}
	c.statuses.ForEachExplicitNode(func(name string, status *fwk.Status) {
		reason := fmt.Sprintf("%s: %s", status.Plugin(), strings.Join(status.Reasons(), ", "))
		counts[reason]++
		if name == node {
			lines = append(lines, fmt.Sprintf("%s is refused by %s", name, reason))
		}
	})
	var reasons []string
	for reason, count := range counts {
		reasons = append(reasons, fmt.Sprintf("%d nodes refused by %s", count, reason))
	}
	if len(reasons) == 0 && len(c.feasible) == 0 {
		status := c.statuses.AbsentNodesStatus()
		reasons = append(reasons, fmt.Sprintf("every node refused by %s: %s", status.Plugin(), strings.Join(status.Reasons(), ", ")))
	}
	slices.Sort(reasons)
	return append(lines, reasons...)
}

func plugins(node fwk.NodePluginScores) string {
	scores := slices.Clone(node.Scores)
	slices.SortFunc(scores, func(a, b fwk.PluginScore) int { return compare(a.Name, b.Name) })
	var text strings.Builder
	for _, score := range scores {
		if score.Score != 0 {
			fmt.Fprintf(&text, " %s %d", score.Name, score.Score)
		}
	}
	return text.String()
}

func describe(pod *v1.Pod) string { return fmt.Sprintf("%s/%s (%s)", pod.Namespace, pod.Name, pod.UID) }
