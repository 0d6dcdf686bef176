// Command stock-sim replays arrivals through stock kube-scheduler's framework,
// driven by an in-memory loop on one core: what a simulator costs that is built
// around the stock scheduler.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"plimsoll.dev/conformance/cmd/stock-sim/stock"
)

const usage = `usage: stock-sim -nodes N [flags] < arrivals.csv

Places pods as they arrive and removes them at their end, on a virtual clock
that stops with the last arrival. A pod that fits nowhere waits; whenever pods
end, the waiting ones are tried again, oldest first, until one still fits
nowhere. Departures come before an arrival of the same second.

arrivals.csv has a header and the columns name, arrival_s, lifetime_s,
cpu_milli and memory_bytes, one row a pod, by arrival. An empty lifetime_s is
a pod that does not end.

Prints one JSON line: placements; seconds, of the loop alone; placements_per_s;
active_nodes_mean, the nodes with a pod, averaged from the first to the last
arrival; waiting, the pods that had no node at the end; rss_bytes, the peak of
resident memory (0 where the system does not tell).

Flags:
`

// result is the line that a run prints.
type result struct {
	Placements      int     `json:"placements"`
	Seconds         float64 `json:"seconds"`
	PlacementsPerS  float64 `json:"placements_per_s"`
	ActiveNodesMean float64 `json:"active_nodes_mean"`
	Waiting         int     `json:"waiting"`
	RSSBytes        int64   `json:"rss_bytes"`
}

func main() {
	err := run(os.Args[1:], os.Stdin, os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "stock-sim:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("stock-sim", flag.ContinueOnError)
	nodes := flags.Int("nodes", 1000, "nodes of the cluster")
	cpu := flags.String("cpu", "48", "CPU of a node, as a quantity")
	memory := flags.String("memory", "384Gi", "memory of a node, as a quantity")
	pods := flags.Int64("pods", 110, "pods that a node may run")
	policy := flags.String("policy", "default", "default, or most-allocated: NodeResourcesFit packs instead of spreading")
	sample := flags.Bool("sample", false, "look at the default share of nodes; otherwise at every node")
	limit := flags.Int("limit", 0, "stop after this many arrivals; 0: all")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; arrivals come on standard input", flags.Arg(0))
	}
	options := stock.Options{Sample: *sample}
	switch *policy {
	case "default":
	case "most-allocated":
		options.Strategy = config.MostAllocated
	default:
		return fmt.Errorf("no policy %q; there are default and most-allocated", *policy)
	}
	shape := machine{pods: *pods}
	for _, amount := range []struct {
		name, text string
		into       *resource.Quantity
	}{{"cpu", *cpu, &shape.cpu}, {"memory", *memory, &shape.memory}} {
		quantity, err := resource.ParseQuantity(amount.text)
		if err != nil || quantity.Sign() <= 0 {
			return fmt.Errorf("-%s %q: want a positive quantity, as in 48 or 384Gi", amount.name, amount.text)
		}
		*amount.into = quantity
	}
	if *nodes < 1 || *pods < 1 || *limit < 0 {
		return errors.New("-nodes and -pods are at least 1, -limit at least 0")
	}
	arrivals, err := readArrivals(in, *limit)
	if err != nil {
		return err
	}

	runtime.GOMAXPROCS(1)
	scheduler, err := stock.New(options)
	if err != nil {
		return err
	}
	defer scheduler.Close()
	for i := range *nodes {
		if err := scheduler.SetNode(shape.node(i)); err != nil {
			return err
		}
	}
	figures, err := simulate(scheduler, arrivals)
	if err != nil {
		return err
	}
	figures.RSSBytes = peakResident()
	return json.NewEncoder(out).Encode(figures)
}

// peakResident is read from the process' own status: what getrusage gives can
// be the peak of the program that started this one.
func peakResident() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmHWM:" {
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}
